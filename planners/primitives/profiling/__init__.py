"""Times of all ways to run all layers of a network, measured, kept and read as tables."""
