"""Runs a network in numpy: whole, or by parts in buffers of exactly the planned sizes."""
