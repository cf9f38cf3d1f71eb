"""The names of all rewrites of a network, in the order in which they are done."""

STEPS = ("drop", "turn", "pad", "fold", "absorb", "fuse")
