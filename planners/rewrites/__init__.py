"""Rewrites from network to network: copies of layers, and the proof that they compute the same."""
