"""What surrounds every command: what it prints on, Ctrl-C, refusals and the exit code."""
