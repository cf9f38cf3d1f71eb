"""Planners inside the tools of others: each module is called by one tool, by its own mechanism."""
