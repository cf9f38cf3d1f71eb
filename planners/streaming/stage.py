"""A stage of a plan: which layers work together, and how they go through their work."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Manner(Enum):
    """How a stage goes through its work.

    ROWS: a firing makes some result rows, along their columns where there are several layers.
    SUMS: a firing adds a row of the input to the sums of its one layer; the last makes the result.
    CHANNELS: one firing; for each feature map of the result, the first of two layers computes what
    the second sums up at once. Its input has to lie whole. TILES: one firing; the result is made
    rectangle by rectangle, each from the rectangles that it needs of the tensors before it. What the
    stage reads and its result lie whole.
    """

    ROWS = "rows"
    SUMS = "sums"
    CHANNELS = "channels"
    TILES = "tiles"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiles:
    """The tiles of a result, by where they end.

    keeps: whether a tile takes over what those before it made.
    """

    rows: tuple[int, ...]
    columns: tuple[int, ...]
    keeps: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Layers in their order, the last of which writes the result, and result rows a firing.

    parts: how often a firing goes along the columns, with a part of the channels of the layers
    before the summing layer each time; that layer keeps sums of its rows meanwhile. tiles: of a stage
    that works tile by tile.
    """

    layers: tuple[str, ...]
    rows: int = 1
    manner: Manner = Manner.ROWS
    parts: int = 1
    summing: str | None = None  # the layer that sums over the parts
    tiles: Tiles | None = None

    @property
    def result(self) -> str:
        """The layer whose tensor the stage makes."""
        return self.layers[-1]
