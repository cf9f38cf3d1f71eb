"""The work of the commands on networks here, loaded when their words have been understood."""
