"""Offsets for the buffers of streaming plans."""
