"""What a report says about a network."""
