"""`csdf plan traffic`: its options, its answer in words, and its pictures."""
