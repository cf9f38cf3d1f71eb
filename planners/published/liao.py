"""DRAM traffic of convolutions by the printed formulas of Liao et al., layer by layer and in pairs.

In bytes, with input I, weights W, output O and the feature map I2 between two layers:

    one layer   T = T_I + T_W + 2 T_O
    a pair      T1 + T2 + halo, with T1 = T_I + T_W and T2 = T_W + 2 T_O

T_O counts twice because every partial result is read and written, including the first read. Example:
two 3x3 layers with 56x56x64 inputs and outputs of one byte (200,704 bytes of each feature map and
36,864 bytes of weights of each layer), I2 uncut. The pair moves 200,704 + 2 * 36,864 + 2 * 200,704 =
675,840 bytes.

A layer alone is executed by the best of the loop nests here, with the input halo reloaded. Layers
without weights, which the slides do not have, read and write once.

I2 is stored in the buffer, whole or one tile at a time: for each tile the nest of the first layer runs,
then the nest of the second. The part of I2 for later tiles is spilled to DRAM after the first nest, and
read back before the second nest of those tiles. Weights are read once for each tile. The input halo is
reloaded. The buffer holds the tile of I2, one map of the input or of the output, and the weights of the
innermost loop: all filters of the first layer at one position of one channel, or all channels of a
filter of the second layer at one position.

The slides have convolutions in a chain. Their gaps are filled as follows:

    pairs                     with the minimum sum
    fully connected           a window over the whole input, which is not cut: a pair has one tile
    no weights                poolings and others read and write once, and are in no pair
    a branch at I2            I2 is written once, when its sums are complete; DRAM then holds its
                              spilled halos already
    additions                 an operand is read an element at a time, or is in the buffer as I2; the
                              sum is computed by the layer before the addition
    concatenations, groups    nothing is copied; a filter reads the maps of its group alone
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import Any, NamedTuple

from cnn2csdf.geometry import PositionSet
from cnn2csdf.network import Network
from csdf.errors import counted
from csdf.status import Why
from csdf.time_limit import Stop
from planners.plan.regions import COLUMNS, ROWS
from planners.traffic.fused.accounting import CutTables, moved
from planners.traffic.fused.bounds import group_traffic_bound
from planners.traffic.fused.group import FusedGroup, FusedLayer
from planners.traffic.fused.schedule import RELOADED, SPILLED, FusedSchedule
from planners.traffic.fused.search import grids
from planners.traffic.fused.stages import TrafficStage, groups_of
from planners.traffic.nest import Halo
from planners.traffic.network_traffic import GroupTraffic, NetworkSearch, stage_alone


class Tile(NamedTuple):
    """Positions of one tile along one axis, as bit sets."""

    read: PositionSet  # of the input
    intermediate: PositionSet  # of I2, computed by the first nest
    output: PositionSet  # of the output, computed by the second nest
    needed: PositionSet  # of I2, read by the second nest; some were computed for earlier tiles


@dataclass(frozen=True, slots=True, kw_only=True)
class PairTraffic:
    """The bytes that a pair moves by the printed formula, and its bytes in the buffer.

    tiles: along rows, along columns. halo: written, and read back. output: moved twice, as printed;
    I2 once if it has more consumers. held: the maximum in the first and in the second nest.
    """

    group: FusedGroup
    tiles: tuple[int, int]
    input: int
    weights: int
    halo: int
    output: int
    held: tuple[int, int]

    @property
    def total(self) -> int:
        """T1 + T2 and the halo."""
        return self.input + self.weights + self.halo + self.output

    @property
    def count(self) -> int:
        """Tiles."""
        return self.tiles[0] * self.tiles[1]

    def in_short(self) -> str:
        """Return the tiling, and what it means for weights and halos."""
        tiling = (
            f"{self.tiles[0]}x{self.tiles[1]} tiles, halo spilled, input halo reloaded, "
            "all weights for each tile"
        )
        whole = "the map between stays whole"
        written = ", the map between written once" if self.group.written else ""
        held = f"{max(self.held)} bytes in the buffer"
        return f"{whole if self.count == 1 else tiling}{written}, {held}"

    def listing(self, names: Sequence[str]) -> str:
        """Return the nests of both layers."""
        return nests(self, names)

    def to_json(self) -> dict[str, Any]:
        """Return how the pair runs as a JSON value."""
        return {
            "tiles": list(self.tiles),
            "halo": [SPILLED.value] * 2,
            "input_halo": [RELOADED.value] * 2,
        }


def least_pair_traffic(group: FusedGroup, room: int) -> PairTraffic | None:
    """Return the tiling with minimum traffic in a buffer of `room` bytes; None if no tiling fits.

    Of the uniform tilings of `fused.search`; ties go to fewer tiles, and to tiles of columns.
    """
    tables, best = CutTables(group), None
    weights, outputs = sum(tables.weights), _outputs(tables)
    for tiles in sorted(grids(group), key=lambda grid: (grid[0] * grid[1], grid)):
        if best is not None and tiles[0] * tiles[1] * weights + outputs >= best.total:
            break
        pair = pair_traffic(tables, tiles)
        if max(pair.held) <= room and (best is None or pair.total < best.total):
            best = pair
    return best


def pair_traffic(tables: CutTables, tiles: tuple[int, int]) -> PairTraffic:
    """Return the traffic and the buffer bytes of a pair in this many tiles."""
    schedule = FusedSchedule(
        group=tables.group, tiles=tiles, halo=(SPILLED, SPILLED), input_halo=(RELOADED, RELOADED)
    )
    moved_bytes = moved(schedule, tables)
    return PairTraffic(
        group=tables.group,
        tiles=tiles,
        input=moved_bytes.input,
        weights=moved_bytes.weights,
        halo=moved_bytes.halo_read + (0 if tables.group.written else moved_bytes.halo_written),
        output=_outputs(tables),
        held=_held(tables, tiles),
    )


def _outputs(tables: CutTables) -> int:
    """Bytes of results in DRAM: the last one twice; I2, if written, once, as its sums are complete."""
    group = tables.group
    return 2 * tables.outputs - sum(map(group.bytes, group.written))


def _held(tables: CutTables, tiles: tuple[int, int]) -> tuple[int, int]:
    """Maximum over the tiles of the bytes in the buffer, in the first and in the second nest."""
    first, second = tables.group.layers
    position_bytes = tables.position_bytes[1]  # of I2
    # Bytes of the weights of the innermost loop, and of operands of additions.
    first_bytes = first.filters // first.groups * first.weight_bytes + sum(first.bytes_by_operand)
    second_bytes = second.channels // second.groups * second.weight_bytes
    second_bytes += sum(second.bytes_by_operand)
    first_held = second_held = 0
    for rows, columns in product(*map(set, axis_tiles(tables, tiles))):
        # Positions of the tile's rectangle in each map.
        read, intermediate, output, needed = (
            row.bit_count() * column.bit_count() for row, column in zip(rows, columns, strict=True)
        )
        input_bytes = read * tables.group.input_bytes
        output_bytes = output * second.output_bytes
        first_held = max(first_held, position_bytes * intermediate + input_bytes + first_bytes)
        second_held = max(second_held, position_bytes * needed + output_bytes + second_bytes)
    return first_held, second_held


def axis_tiles(tables: CutTables, tiles: tuple[int, int]) -> Iterator[list[Tile]]:
    """Yield the tiles along rows, then along columns."""
    for axis in (ROWS, COLUMNS):
        cut = tables.cut(axis, tiles[axis], SPILLED, RELOADED)
        yield [Tile(*sets) for sets in zip(*cut.computed, cut.needed[1], strict=True)]


PAIR = 2  # stages


class PublishedWhy(Why):
    """Reasons for the answer about traffic as printed."""

    LEAST = (
        "no loop nest of a layer with up to two levels of tiles and no uniform tiling of a pair moves "
        "less by the printed formulas; the bound holds for any schedule, with outputs once"
    )


class PublishedSearch(NetworkSearch):
    """Finds the minimum traffic by the printed formulas, for a sequence of buffer sizes."""

    proof = PublishedWhy.LEAST

    def __init__(self, network: Network, element_bytes: int | None) -> None:
        super().__init__(network, element_bytes)
        self._least_pair_traffic = cache(least_pair_traffic)

    def _alone(self, stage: TrafficStage, buffer_bytes: int, stop: Stop) -> GroupTraffic:
        alone = stage_alone(stage, buffer_bytes, stop, halo=Halo.RELOADED, searches=self._nests)
        if alone.layer is None:
            return alone
        once = alone.layer.convolution.output_elements * stage.element_bytes
        return replace(alone, output_bytes=alone.output_bytes + once)

    def _starts(self, end: int, longest: int | None, buffer_bytes: int) -> Iterator[int]:
        """Yield the only stage that a pair could start with."""
        is_allowed = longest is None or longest >= PAIR
        if is_allowed and end >= PAIR and self._best_pair(end, buffer_bytes) is not None:
            yield end - PAIR

    def _best_pair(self, end: int, buffer_bytes: int) -> PairTraffic | None:
        """The best tiling of the last two stages; None if they are no pair, or no tiling fits."""
        group = self._pair(end)
        return None if group is None else self._least_pair_traffic(group, buffer_bytes)

    def _pair(self, end: int) -> FusedGroup | None:
        """The last two stages as a pair; None if they are not two layers with weights in a chain."""
        first, second = self.stages[end - PAIR : end]
        if first.convolution is None or second.convolution is None:
            return None
        for group in groups_of(self.stages, end - PAIR, end):
            if group.is_chain and not group.input_waits:
                return group
        return None

    def _fused(
        self, first: int, end: int, buffer_bytes: int, below: int, stop: Stop
    ) -> GroupTraffic | None:
        """The best tiling of a pair, if its traffic is below this many bytes."""
        stop.look()
        best_pair = self._best_pair(end, buffer_bytes)
        if best_pair is None or best_pair.total >= below:
            return None
        return GroupTraffic(
            stages=tuple(self.stages[first:end]),
            input_bytes=best_pair.input,
            weight_bytes=best_pair.weights,
            output_bytes=best_pair.output,
            halo_bytes=best_pair.halo,
            held_bytes=max(best_pair.held),
            bound_bytes=group_traffic_bound(best_pair.group),
            fused=best_pair,
        )


# Above this number of tiles, only the nests of the first two tiles and of the last one are listed.
SHOWN_TILES = 4


def nests(pair: PairTraffic, names: Sequence[str] = ("layer 1", "layer 2")) -> str:
    """Return the nests of a pair: two for each tile, and the spills between tiles."""
    tiles = list(product(*axis_tiles(CutTables(pair.group), pair.tiles)))
    lines: list[str] = []
    for number, (rows, columns) in enumerate(tiles):
        if len(tiles) > SHOWN_TILES and 2 <= number < len(tiles) - 1:
            lines += ["..."] if number == 2 else []
            continue
        lines += _nests_of_tile(pair.group, names, number, rows, columns)
        if number + 1 < len(tiles):
            lines.append(
                "what later tiles need of I2 is spilled to DRAM, and read back before their nest 2"
            )
    return "\n".join(lines)


def _nests_of_tile(
    group: FusedGroup, names: Sequence[str], number: int, rows: Tile, columns: Tile
) -> Iterator[str]:
    """The nests of the first and of the second layer for a tile. number: of the tile, from 0."""
    first, second = group.layers
    channels = second.channels // second.groups
    yield f"nest {2 * number + 1}, {names[0]}, into the buffer"
    yield from _nest(
        first, rows.intermediate, columns.intermediate, steps=(first.filters, 1), held="I"
    )
    yield f"nest {2 * number + 2}, {names[1]}"
    yield from _nest(second, rows.output, columns.output, steps=(1, channels), held="O")


def _nest(
    layer: FusedLayer, rows: PositionSet, columns: PositionSet, *, steps: tuple[int, int], held: str
) -> Iterator[str]:
    """The loops of one nest.

    steps: of filters and of channels in the tile loops. held: the map whose tile is in the buffer.
    """
    statement = "I2 += I1 * W1" if held == "I" else "O += I2 * W2"
    loops = (
        f"mm = 1, {layer.filters + 1}, step {steps[0]}",
        f"cc = 1, {layer.channels // layer.groups + 1}, step {steps[1]}",
        f"oxx = {_range(columns)}  # {counted(columns.bit_count(), 'column')}",
        f"oyy = {_range(rows)}  # {counted(rows.bit_count(), 'row')}",
        f"[{held}]",
        f"fy = 1, {layer.rows.kernel + 1}",
        f"fx = 1, {layer.columns.kernel + 1}",
        "[W]",
        "oy, ox, c, m",
    )
    for depth, loop in enumerate(loops, 1):
        yield "  " * depth + (loop if loop.startswith("[") else f"for {loop}")
    yield "  " * (len(loops) + 1) + statement


def _range(indices: PositionSet) -> str:
    """The half-open range of contiguous positions, counted from 1."""
    first = (indices & -indices).bit_length()
    return f"{first}, {indices.bit_length() + 1}" if indices else "1, 1"
