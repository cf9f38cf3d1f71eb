"""How a group of layers runs: cut into parts, part after part, layer after layer in each.

The ends of the group are cut into even parts along rows and columns. A part makes of each map what
the layers that read it need, all feature maps of it, and leaves it in the buffer. What one of them
needs and what another does are one rectangle. Where the windows of two parts overlap, the border is
kept in the buffer, sent to DRAM and read back, or computed again.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from csdf.errors import InvalidPlan, counted
from planners.traffic.fused.group import FusedGroup


class Border(Enum):
    """The treatment of elements that several parts need."""

    KEPT = "kept"
    SENT = "sent"
    RECOMPUTED = "recomputed"  # of the input: read again

    @property
    def is_made_once(self) -> bool:
        """Whether no element is made twice."""
        return self is not Border.RECOMPUTED


Borders = tuple[Border, Border]  # between parts along the outer axis, along the inner axis

KEPT, SENT, AGAIN = Border.KEPT, Border.SENT, Border.RECOMPUTED
MAP_BORDERS: tuple[Borders, ...] = (
    (KEPT, KEPT),
    (AGAIN, KEPT),
    (SENT, KEPT),
    (AGAIN, AGAIN),
    (SENT, SENT),
)
INPUT_BORDERS: tuple[Borders, ...] = ((KEPT, KEPT), (AGAIN, KEPT), (AGAIN, AGAIN))


class Hold(Enum):
    """The maps between the layers that a part holds at a time."""

    ALL_MAPS = "all maps"  # each layer in turn
    ONE_MAP = "one map"  # all layers for one feature map, then the next; input and output wait


@dataclass(frozen=True, slots=True, kw_only=True)
class FusedSchedule:
    """How a group runs.

    parts: along rows, along columns. columns_first: whether the next part is that to the right
    (the rows are the outer axis). kept_weights: of each layer, the bytes that stay from part to
    part; the others come once a part.
    """

    group: FusedGroup
    parts: tuple[int, int] = (1, 1)
    columns_first: bool = True
    borders: Borders = (KEPT, KEPT)
    input_borders: Borders = (KEPT, KEPT)
    hold: Hold = Hold.ALL_MAPS
    kept_weights: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        _, rows, columns = self.group.dims(self.group.length)
        if not (1 <= self.parts[0] <= rows and 1 <= self.parts[1] <= columns):
            raise InvalidPlan(
                f"{self.parts} parts of {counted(rows, 'row')} and {counted(columns, 'column')}"
            )
        if self.borders not in MAP_BORDERS or self.input_borders not in INPUT_BORDERS:
            raise InvalidPlan(f"no schedule has borders {self.borders}, {self.input_borders}")
        if self.hold is Hold.ONE_MAP and not can_hold_one_map(self.group):
            raise InvalidPlan("one map at a time: all layers between first and last keep to a map")
        if self.kept_weights and len(self.kept_weights) != self.group.length:
            raise InvalidPlan(
                f"kept weights of {counted(len(self.kept_weights), 'layer')}, of a group of "
                f"{self.group.length}"
            )

    @property
    def kept_elements(self) -> tuple[int, ...]:
        """Of each layer, the weights that stay from part to part, in numbers."""
        pairs = zip(self.kept_weights, self.group.layers, strict=False)
        return tuple(kept // layer.weight_bytes for kept, layer in pairs)

    @property
    def count(self) -> int:
        """Parts."""
        return self.parts[0] * self.parts[1]


def can_hold_one_map(group: FusedGroup) -> bool:
    """Whether a feature map of the first layer can go through all layers on its own."""
    between = group.is_chain and all(layer.is_channelwise for layer in group.layers[1:-1])
    skips = all(skip == (0, group.length) for skip in group.skips)
    return between and skips and not any(layer.beside for layer in group.layers[:-1])
