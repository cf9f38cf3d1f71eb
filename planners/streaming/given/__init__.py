"""Plans that were made before: read back, judged, and taken as an answer."""
