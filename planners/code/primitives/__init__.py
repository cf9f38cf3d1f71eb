"""The C functions that a library calls for its layers, and the numbers that they take."""
