"""`csdf deploy`: its options and its answer."""
