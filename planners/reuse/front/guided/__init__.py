"""The search from exact seeds, by a descent and walks around the front."""
