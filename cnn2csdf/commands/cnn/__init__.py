"""The commands of `csdf cnn`."""
