"""Joint memory of several networks: buffers that are shared, and layers that work by parts."""
