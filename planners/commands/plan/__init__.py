"""What all planners have in common as commands."""
