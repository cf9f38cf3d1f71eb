"""One partition of an application: its rates, its smallest buffers, its schedule."""
