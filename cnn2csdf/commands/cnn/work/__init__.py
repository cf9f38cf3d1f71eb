"""The work of the commands on networks, loaded when their words have been understood."""
