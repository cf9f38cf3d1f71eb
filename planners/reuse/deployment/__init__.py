"""The final plan of an application: made, written down, and executed in its one arena."""
