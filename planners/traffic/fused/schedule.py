"""How a group of layers runs: cut into tiles, tile after tile, layer after layer in each.

The ends of the group are cut into uniform tiles along rows and columns. A tile makes of each map what
the layers that read it need, all feature maps of it, and leaves it in the buffer. What one of them
needs and what another does are one rectangle. Where the windows of two tiles overlap, the halo is
cached in the buffer, spilled to DRAM and read back, or recomputed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from csdf.errors import InvalidPlan, counted
from planners.traffic.fused.group import FusedGroup
from planners.traffic.nest import Halo

Halos = tuple[Halo, Halo]  # between tiles along the outer axis, along the inner axis

CACHED, SPILLED = Halo.CACHED, Halo.SPILLED
RECOMPUTED, RELOADED = Halo.RECOMPUTED, Halo.RELOADED
MAP_HALOS: tuple[Halos, ...] = (
    (CACHED, CACHED),
    (RECOMPUTED, CACHED),
    (SPILLED, CACHED),
    (RECOMPUTED, RECOMPUTED),
    (SPILLED, SPILLED),
)
INPUT_HALOS: tuple[Halos, ...] = ((CACHED, CACHED), (RELOADED, CACHED), (RELOADED, RELOADED))


class Hold(Enum):
    """The maps between the layers that a tile holds at a time."""

    ALL_MAPS = "all maps"  # each layer in turn
    ONE_MAP = "one map"  # all layers for one feature map, then the next; input and output wait


@dataclass(frozen=True, slots=True, kw_only=True)
class FusedSchedule:
    """How a group runs.

    tiles: along rows, along columns. columns_first: whether the next tile is that to the right
    (the rows are the outer axis). kept_weights: of each layer, the bytes that stay from tile to
    tile; the others come once a tile.
    """

    group: FusedGroup
    tiles: tuple[int, int] = (1, 1)
    columns_first: bool = True
    halo: Halos = (CACHED, CACHED)
    input_halo: Halos = (CACHED, CACHED)
    hold: Hold = Hold.ALL_MAPS
    kept_weights: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        _, rows, columns = self.group.dims(self.group.length)
        if not (1 <= self.tiles[0] <= rows and 1 <= self.tiles[1] <= columns):
            raise InvalidPlan(
                f"{self.tiles} tiles of {counted(rows, 'row')} and {counted(columns, 'column')}"
            )
        if self.halo not in MAP_HALOS or self.input_halo not in INPUT_HALOS:
            raise InvalidPlan(f"no schedule has halo {self.halo}, {self.input_halo}")
        if self.hold is Hold.ONE_MAP and not can_hold_one_map(self.group):
            raise InvalidPlan("one map at a time: all layers between first and last keep to a map")
        if self.kept_weights and len(self.kept_weights) != self.group.length:
            raise InvalidPlan(
                f"kept weights of {counted(len(self.kept_weights), 'layer')}, of a group of "
                f"{self.group.length}"
            )

    @property
    def kept_elements(self) -> tuple[int, ...]:
        """Of each layer, the weights that stay from tile to tile, in numbers."""
        pairs = zip(self.kept_weights, self.group.layers, strict=False)
        return tuple(kept // layer.weight_bytes for kept, layer in pairs)

    @property
    def count(self) -> int:
        """Tiles."""
        return self.tiles[0] * self.tiles[1]


def can_hold_one_map(group: FusedGroup) -> bool:
    """Whether a feature map of the first layer can go through all layers on its own."""
    between = group.is_chain and all(layer.is_channelwise for layer in group.layers[1:-1])
    skips = all(skip == (0, group.length) for skip in group.skips)
    return between and skips and not any(layer.beside for layer in group.layers[:-1])
