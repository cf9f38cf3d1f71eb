"""Options and answers that all planners have in common as commands."""
