"""Texts in the formats of other tools, read into networks."""
