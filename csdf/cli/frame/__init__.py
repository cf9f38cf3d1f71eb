"""What surrounds every command: how it is found, what it prints on, refusals and the exit code."""
