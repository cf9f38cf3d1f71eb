"""Offsets for buffers with lifetimes: bounds, greedy orders, exact search."""
