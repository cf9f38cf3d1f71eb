"""`csdf plan fusion`: its options, its answer in words, and its pictures."""
