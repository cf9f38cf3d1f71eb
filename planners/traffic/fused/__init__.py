"""Two and more layers that share a buffer: what stays between them, and what DRAM moves."""
