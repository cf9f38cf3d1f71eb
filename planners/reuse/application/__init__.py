"""What an application is, and where applications come from."""
