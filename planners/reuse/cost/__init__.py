"""Costs of a chromosome: memory, time, and bounds for all chromosomes."""
