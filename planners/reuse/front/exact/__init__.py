"""The exact front of what is in use at once, which a search begins with."""
