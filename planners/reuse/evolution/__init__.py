"""A search over chromosomes with several objectives, and the places where evaluations run."""
