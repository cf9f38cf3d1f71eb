"""Fusion of two and more layers in one on-chip buffer: resident tensors, and DRAM traffic."""
