"""`csdf codegen`: its options and its answer."""
