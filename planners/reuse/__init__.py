"""Joint memory of several networks: shared buffers, and layers that run row by row."""
