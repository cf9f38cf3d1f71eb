"""Partitions of an application: their rates, smallest buffers and schedules."""
