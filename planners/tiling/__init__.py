"""What all planners of tiles share: regions of maps, and how they are computed."""
