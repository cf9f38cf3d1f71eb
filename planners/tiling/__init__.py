"""Regions of maps, and how they are computed, for all planners of tiles."""
