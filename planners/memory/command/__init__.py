"""`csdf fit`, from its options to its answer."""
