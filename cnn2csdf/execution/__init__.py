"""Runs a network in numpy: whole, or row by row in buffers of exactly the planned sizes."""
