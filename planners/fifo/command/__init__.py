"""The commands on FIFO depths."""
