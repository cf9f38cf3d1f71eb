"""Quantised integers, bit by bit as TensorFlow Lite Micro computes them, or in single precision."""
