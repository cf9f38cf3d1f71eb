"""Convolution primitives: a library, its times on a machine, and networks run with a selection."""
