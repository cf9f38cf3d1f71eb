"""`csdf plan arena`: its options, its answer in words, and its pictures."""
