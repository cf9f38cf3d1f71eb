"""Schedules of a fused group: tiling, treatment of halos, maps per pass, stationary weights.

The results of the group are cut into even tiles along rows and columns. The tiles are executed
sequentially, and within a tile the layers. Of each map a tile computes the rectangle that the layers
reading it need, in all feature maps, and leaves it in the buffer. The windows of adjacent tiles overlap
in a halo: it is cached in the buffer, spilled to DRAM and read back, or recomputed.
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


class Hold(Enum):
    """Granularity of execution within a tile."""

    ALL_MAPS = "all maps"  # layer by layer, all feature maps of a layer at a time
    ONE_MAP = "one map"  # all layers for one feature map, then the next; input and output stay


@dataclass(frozen=True, slots=True, kw_only=True)
class FusedSchedule:
    """Schedule of a fused group.

    group: the layers.
    tiles: numbers of tiles along rows, along columns.
    columns_first: whether tiles run from left to right first (rows are then the outer axis).
    halo: treatment of halos of computed maps.
    input_halo: treatment of halos of the input.
    hold: all feature maps at a time, or one.
    kept_weights: for each layer, the bytes of weights that stay in the buffer for all tiles; the
    remaining weights are loaded once per tile. By default none stay.
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
        """For each layer, the number of weights that stay in the buffer for all tiles."""
        layers = zip(self.kept_weights, self.group.layers, strict=False)
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
