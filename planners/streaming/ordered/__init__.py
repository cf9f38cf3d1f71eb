"""Plans whose stages fire in a given order, and plans that need no search."""
