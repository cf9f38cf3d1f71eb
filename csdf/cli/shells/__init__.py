"""Completion of command lines in the shells of users."""
