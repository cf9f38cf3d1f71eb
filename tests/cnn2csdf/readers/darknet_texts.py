"""Configurations that the tests of the Darknet reader start from."""

TINY = """
# a comment
[net]
batch=1
height = 8
width = 6
channels=3
learning_rate=0.001

[convolutional]
batch_normalize=1
filters=16
size=3
pad=1            ; half the kernel
activation=leaky

[maxpool]
size=2
stride=2

[convolutional]
filters=10
activation=linear
"""
NET = "[net]\nheight=8\nwidth=6\nchannels=4\n"
