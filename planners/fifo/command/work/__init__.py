"""The work of the commands on FIFOs, loaded when their words have been understood."""
