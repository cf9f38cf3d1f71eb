"""DRAM traffic of convolutions with a buffer on the chip: loop nests, least traffic, bounds, checker."""
