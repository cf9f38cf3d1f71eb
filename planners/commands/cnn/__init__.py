"""Commands of `csdf cnn` that plan memory."""
