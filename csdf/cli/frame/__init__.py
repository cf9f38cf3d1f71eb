"""The frame of every command: how it is found, what it prints on, Ctrl-C, refusals, exit code."""
