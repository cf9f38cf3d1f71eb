"""Rewrites of networks that need more than a pair of layers."""
