"""The smallest period of a strongly connected graph, by the K-periodic method."""
