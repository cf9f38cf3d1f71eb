"""DRAM traffic of convolutions with an on-chip buffer: loop nests, least traffic, bounds."""
