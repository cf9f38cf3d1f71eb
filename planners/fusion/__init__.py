"""Fused tiles: groups of layers that work on one piece of the maps after another."""
