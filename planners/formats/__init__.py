"""Memory problems and plans as text: readers and writers."""
