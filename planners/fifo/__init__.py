"""FIFO depths of streaming designs."""
