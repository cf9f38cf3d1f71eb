"""The final plan of an application: made, as tables for C, and in the form of all plans."""
