"""Schedules of a fused group: tiling, treatment of halos, maps per pass, stationary weights.

The results of the group are cut into even tiles along rows and columns: 2x3 tiles are two ranges of
rows by three ranges of columns. The tiles are executed one after another along the inner axis, and
along the outer axis when a range of it is complete. Within a tile the layers are executed one after
another. Of each map a tile computes the rectangle that the layers reading it need, and leaves it in
the buffer. The rectangles of adjacent tiles overlap in a halo: with 3x3 windows and a padding of 1,
2 tiles of 8 rows need rows 0 to 8 and 7 to 15 of the map before, so rows 7 and 8 are the halo. A halo
is cached in the buffer for the next tile, spilled to DRAM and read back, or recomputed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from csdf.errors import InvalidPlan, counted
from planners.traffic.fused.group import FusedGroup
from planners.traffic.nest import Halo

Halos = tuple[Halo, Halo]  # treatment of halos along the outer axis, along the inner axis

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


class MapsPerPass(Enum):
    """How many feature maps pass through the layers of a tile at a time."""

    ALL = "all maps"  # layer by layer, all feature maps of a layer
    ONE = "one map"  # all layers for one feature map, then the next; input and output stay


@dataclass(frozen=True, slots=True, kw_only=True)
class FusedSchedule:
    """Schedule of a fused group.

    group: the layers.
    tiles: numbers of tiles along rows, along columns.
    columns_first: whether tiles run from left to right first (columns are then the inner axis).
    halo: treatment of halos of computed maps, along the outer and the inner axis.
    input_halo: treatment of halos of the input, likewise.
    stationary_bytes: for each layer, the bytes of weights that stay in the buffer for all tiles; the
    remaining weights are loaded once per tile. By default none stay.
    """

    group: FusedGroup
    tiles: tuple[int, int] = (1, 1)
    columns_first: bool = True
    halo: Halos = (CACHED, CACHED)
    input_halo: Halos = (CACHED, CACHED)
    maps_per_pass: MapsPerPass = MapsPerPass.ALL
    stationary_bytes: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        _, rows, columns = self.group.dims(self.group.length)
        if not (1 <= self.tiles[0] <= rows and 1 <= self.tiles[1] <= columns):
            raise InvalidPlan(
                f"{self.tiles} tiles of {counted(rows, 'row')} and {counted(columns, 'column')}"
            )
        if self.halo not in MAP_HALOS or self.input_halo not in INPUT_HALOS:
            raise InvalidPlan(f"no schedule has halo {self.halo}, {self.input_halo}")
        if self.maps_per_pass is MapsPerPass.ONE and not can_hold_one_map(self.group):
            raise InvalidPlan("one map at a time: all layers between first and last keep to a map")
        if self.stationary_bytes and len(self.stationary_bytes) != self.group.length:
            raise InvalidPlan(
                f"kept weights of {counted(len(self.stationary_bytes), 'layer')}, of a group of "
                f"{self.group.length}"
            )

    @property
    def stationary_elements(self) -> tuple[int, ...]:
        """For each layer, the number of weights that stay in the buffer for all tiles."""
        layers = zip(self.stationary_bytes, self.group.layers, strict=False)
        return tuple(kept_bytes // layer.weight_bytes for kept_bytes, layer in layers)

    @property
    def count(self) -> int:
        """The number of tiles."""
        return self.tiles[0] * self.tiles[1]


def can_hold_one_map(group: FusedGroup) -> bool:
    """Whether a feature map of the first layer can pass through all layers on its own."""
    is_channelwise_chain = group.is_chain and all(
        layer.is_channelwise for layer in group.layers[1:-1]
    )
    only_input_skips = all(skip == (0, group.length) for skip in group.skips)
    return (
        is_channelwise_chain
        and only_input_skips
        and not any(layer.dram_operands for layer in group.layers[:-1])
    )
