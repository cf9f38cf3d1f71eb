"""Plans at work: what is handed over, what has to stay, and networks in turn in one array."""
