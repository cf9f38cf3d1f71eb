"""Quantised integers computed in fixed point, bit by bit as TensorFlow Lite Micro does."""
