"""Networks run with a primitive and layouts for each layer."""
