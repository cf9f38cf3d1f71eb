"""Stages that work tile by tile: what each tile holds, and how the machine carries it out."""
