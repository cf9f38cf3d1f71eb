"""The commands of `csdf plan`."""
