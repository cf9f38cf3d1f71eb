"""What a chromosome costs: memory, time, and bounds for all chromosomes."""
