"""What surrounds every command: how it is found, what it prints on, Ctrl-C, refusals, exit code."""
