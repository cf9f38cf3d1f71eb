"""Applications: networks that share a device, and where they are read from."""
