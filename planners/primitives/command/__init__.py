"""`csdf plan primitives`: its options, its answer in words, and its pictures."""
