"""How a group of layers works, and what memory its convolutions count: choices of a user."""

from __future__ import annotations

from enum import Enum


class Way(Enum):
    """How a group works.

    WHOLE: layer by layer, on whole maps. RECOMPUTE: tile by tile, each computing all it needs, as
    in MAFAT. KEEP: tile by tile, each keeping what the tiles after it need. ROWS: row by row, as a
    dataflow graph.
    """

    WHOLE = "whole"
    RECOMPUTE = "recompute"
    KEEP = "keep"
    ROWS = "rows"


class Scratch(Enum):
    """The way to count the memory that a convolution needs besides its operands.

    IM2COL: all that its windows see, as a matrix, for one group of filters at a time, as Darknet
    does; with it Farley and Gerstlauer count. NONE: nothing, as a direct convolution.
    """

    IM2COL = "im2col"
    NONE = "none"
