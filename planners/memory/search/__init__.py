"""The search for plans of lines and strips: moves, spaces of moves, labels, fronts."""
