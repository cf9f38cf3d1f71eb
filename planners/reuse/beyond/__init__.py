"""A search for parts that goes beyond the published one, and what is gained behind it."""
