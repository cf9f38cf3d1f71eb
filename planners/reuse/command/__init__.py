"""`csdf plan reuse`: its options, its answer in words, and its pictures."""
