"""Algorithms as published, thin, over the rooms of the planners: they give the printed answers."""
