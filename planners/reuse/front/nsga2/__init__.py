"""The published evolution: NSGA-II with an archive, and its state in a file."""
