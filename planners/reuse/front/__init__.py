"""Chromosomes with several objectives: the searches for their front, and the choice from it."""
