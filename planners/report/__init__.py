"""Sections of a report about a network."""
