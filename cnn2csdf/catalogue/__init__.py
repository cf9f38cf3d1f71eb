"""The networks of the literature, with the shapes of their papers."""
