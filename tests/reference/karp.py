"""Karp's largest mean of a cycle, the slow way: another method than the one of csdf.analysis."""

from fractions import Fraction


def largest_mean(nodes, edges):
    """The largest mean weight of a cycle of (source, target, weight) edges; None without one.

    Source: Karp, A characterization of the minimum cycle mean in a digraph, Discrete Math. 23, 1978.
    """
    walks = [[0] * nodes]  # the longest walk of so many edges that ends in each node
    for _ in range(nodes):
        longest = [None] * nodes
        for source, target, weight in edges:
            before = walks[-1][source]
            if before is not None and (
                longest[target] is None or before + weight > longest[target]
            ):
                longest[target] = before + weight
        walks.append(longest)
    means = [
        min(
            Fraction(walks[nodes][node] - walks[length][node], nodes - length)
            for length in range(nodes)
            if walks[length][node] is not None
        )
        for node in range(nodes)
        if walks[nodes][node] is not None
    ]
    return max(means, default=None)
