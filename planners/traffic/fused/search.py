"""Minimum DRAM traffic of a fused group for a buffer size: exhaustive search with pruning.

Takes a group and a buffer in bytes; gives the schedule (tiles, halos, one or all maps, stationary
weights) that moves the fewest bytes. Along one axis all even tilings are tried. Along both axes
there are too many: of the tilings whose largest tile has equal lengths only the one with the
fewest tiles is tried. Candidates are sorted by their traffic without weights, which is cheap to
compute; buffer bytes are computed only for a candidate that could still improve on the best
schedule.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import Any

from csdf.time_limit import Budget, stop_of
from planners.plan.regions import COLUMNS, ROWS
from planners.traffic.footprints import tile_sizes
from planners.traffic.fused.accounting import (
    CutTables,
    DramTraffic,
    WorkingBytes,
    axes_of,
    minimum_working_bytes,
    moved,
    operations,
    peak_bytes_by_layer,
)
from planners.traffic.fused.axis_cuts import weights_of
from planners.traffic.fused.bounds import group_traffic_bound
from planners.traffic.fused.group import FusedGroup
from planners.traffic.fused.schedule import (
    CACHED,
    INPUT_HALOS,
    MAP_HALOS,
    RELOADED,
    FusedSchedule,
    Halos,
    MapsPerPass,
    can_hold_one_map,
)

Tiles = tuple[int, int]  # along rows, along columns

# Work units charged for the schedules of one tiling: about 80 microseconds on a common machine.
CUT_EFFORT = 80


def stationary_weights(
    working_bytes: tuple[WorkingBytes, ...],
    weights: tuple[int, ...],
    buffer: int,
    tiles: int,
    sizes: tuple[int, ...] = (),
) -> tuple[int, ...] | None:
    """Return the bytes of stationary weights of each layer that save the most traffic.

    None if the schedule does not fit.

    working_bytes: of each layer.
    weights: bytes of the weights of each layer.
    buffer: bytes of the buffer.
    tiles: number of tiles of the schedule.
    sizes: bytes per weight of each layer, each a divisor of the larger ones; by default 1.

    The buffer holds the stationary weights and the working bytes of the layer that executes: `full` if
    all its weights are stationary, else `streamed`, with room for the weights that each tile loads. The
    maximum of these working bytes is the level. At a level, each layer whose `streamed` bytes are above
    the level has all weights stationary; the weights of other layers fill the rest of the buffer. A
    stationary byte saves the same traffic in every layer, so the lowest level that fits is best. With
    weights of several sizes a higher level may leave a smaller remainder; then all levels are searched.
    """
    sizes = sizes or (1,) * len(weights)
    lowest = max(layer.full for layer in working_bytes)
    best: tuple[int, ...] | None = None
    for level in sorted({lowest, *(max(lowest, layer.streamed) for layer in working_bytes)}):
        stationary = [
            weight if layer.streamed > level else 0
            for weight, layer in zip(weights, working_bytes, strict=True)
        ]
        free = buffer - level - sum(stationary)
        if free < 0:
            continue
        _fill(stationary, free, weights if tiles > 1 else (), sizes)
        if best is None or sum(stationary) > sum(best):
            best = tuple(stationary)
        if len(set(sizes)) == 1:
            break
    return best


def _fill(
    stationary: list[int], free: int, weights: tuple[int, ...], sizes: tuple[int, ...]
) -> None:
    """Fill the free bytes with further weights, wide weights first: narrow ones fit the remainder."""
    for number in sorted(range(len(weights)), key=lambda number: -sizes[number]):
        extra = min(free, weights[number] - stationary[number])
        extra -= extra % sizes[number]
        stationary[number] += extra
        free -= extra


class _ScheduleCandidate:
    """A schedule without stationary weights; maps_moved: its traffic without weights, in bytes."""

    def __init__(self, schedule: FusedSchedule, maps_moved: int) -> None:
        self.schedule = schedule
        self.maps_moved = maps_moved
        self._working_bytes: tuple[WorkingBytes, ...] | None = None  # computed on first use
        self._lower_bound = 0  # on the buffer bytes

    def working_bytes(self, tables: CutTables, limit: int) -> tuple[WorkingBytes, ...] | None:
        """Return the working bytes of each layer; None if they exceed the limit."""
        if self._working_bytes is None and self._lower_bound <= limit:
            peaks = peak_bytes_by_layer(self.schedule, tables, limit)
            self._lower_bound = max(layer.full for layer in peaks)
            if self._lower_bound <= limit:
                self._working_bytes = peaks
        return self._working_bytes


class GroupSearch:
    """Search for the best schedule of one group, for any number of buffer sizes."""

    def __init__(self, group: FusedGroup) -> None:
        self.group = group
        self.bound = group_traffic_bound(group)
        self._tables = CutTables(group)
        self._weights = sum(self._tables.weights)  # bytes
        self._sizes = tuple(layer.weight_bytes for layer in group.layers)
        self._grids = sorted(grids(group), key=lambda tiles: (tiles[0] * tiles[1], tiles))
        self._finest: Tiles = group.dims(group.length)[1:]
        self._candidates_with = cache(self._sorted_candidates)
        self._minimum_bytes = cache(self._minimum_inner_bytes)

    def best(
        self, buffer: int, below: int | None = None, budget: Budget = None
    ) -> FusedTraffic | None:
        """Return the schedule with the least traffic in a buffer of this many bytes.

        None if no schedule fits, or none moves fewer than `below` bytes. budget: a limit in
        seconds, or a Stop; the search ends with GaveUp.
        """
        stop = stop_of(budget)
        least_traffic, schedule = below, None
        # Room for weights. The room of the finest tiling is cheap, and an upper bound for any tiling.
        largest_room = buffer - self._minimum_bytes(self._finest)
        for tiles in self._grids:
            stop.look()
            stop.spend(CUT_EFFORT)
            if not self._could_be_less(tiles, largest_room, least_traffic):
                continue
            room = buffer - self._minimum_bytes(tiles)
            if not self._could_be_less(tiles, room, least_traffic):
                continue
            weights = self._least_weights(tiles, room)
            for candidate in self._candidates_with(tiles):
                if least_traffic is not None and candidate.maps_moved + weights >= least_traffic:
                    break
                stationary = self._stationary(candidate, buffer, least_traffic)
                if stationary is None:
                    continue
                streamed_weights = self._weights - sum(stationary)
                reloads = candidate.schedule.count - 1
                total = candidate.maps_moved + self._weights + reloads * streamed_weights
                if least_traffic is None or total < least_traffic:
                    least_traffic = total
                    schedule = replace(candidate.schedule, stationary_bytes=stationary)
        return None if schedule is None else answer_of(schedule, self._tables, self.bound)

    def could_fit(self, buffer: int) -> bool:
        """Whether the maps fit with the finest tiling; if not, no longer group fits either."""
        return self._minimum_bytes(self._finest) <= buffer

    def _stationary(
        self, candidate: _ScheduleCandidate, buffer: int, least_traffic: int | None
    ) -> tuple[int, ...] | None:
        """The stationary weights; None if the schedule does not fit, or cannot move less."""
        tiles = candidate.schedule.count
        limit, reloads = buffer, tiles - 1
        if least_traffic is not None and reloads:
            # The schedule moves maps_moved + tiles * weights - reloads * stationary. To be less than
            # the best schedule, stationary > excess / reloads; the rest of the buffer is the limit.
            excess = candidate.maps_moved + tiles * self._weights - least_traffic
            limit -= max(0, excess // reloads + 1)
        working_bytes = candidate.working_bytes(self._tables, limit)
        if working_bytes is None:
            return None
        return stationary_weights(working_bytes, self._tables.weights, buffer, tiles, self._sizes)

    def _could_be_less(self, tiles: Tiles, room: int, traffic: int | None) -> bool:
        """Whether a schedule with these tiles and this room for weights could move fewer bytes."""
        if room < 0:
            return False
        least_traffic = self.bound - self._weights + self._least_weights(tiles, room)
        return traffic is None or least_traffic < traffic

    def _least_weights(self, tiles: Tiles, room: int) -> int:
        """Minimum traffic of weights with these tiles and this room for stationary weights."""
        streamed_weights = self._weights - min(room, self._weights)
        return self._weights + (tiles[0] * tiles[1] - 1) * streamed_weights

    def _minimum_inner_bytes(self, tiles: Tiles) -> int:
        """Lower bound on the buffer bytes of the inner maps with these tiles."""
        return 0 if can_hold_one_map(self.group) else minimum_working_bytes(tiles, self._tables)

    def _sorted_candidates(self, tiles: Tiles) -> list[_ScheduleCandidate]:
        """All schedules with these tiles, by their traffic without weights."""
        candidates = [
            _ScheduleCandidate(
                schedule, moved(schedule, self._tables).total - self._weights * schedule.count
            )
            for schedule in _schedules(self.group, tiles)
        ]
        return sorted(candidates, key=lambda candidate: candidate.maps_moved)


def answer_of(
    schedule: FusedSchedule, tables: CutTables | None = None, bound: int | None = None
) -> FusedTraffic:
    """Return the traffic and buffer bytes of a schedule with its stationary weights.

    tables, bound: `CutTables` and `group_traffic_bound` of the group, if known.
    """
    tables = CutTables(schedule.group) if tables is None else tables
    stationary = schedule.stationary_bytes or (0,) * schedule.group.length
    peak = max(
        working_bytes.full if weight >= weights else working_bytes.streamed
        for working_bytes, weight, weights in zip(
            peak_bytes_by_layer(schedule, tables), stationary, tables.weights, strict=True
        )
    )
    return FusedTraffic(
        schedule=schedule,
        moved=moved(schedule, tables),
        held=peak + sum(stationary),
        bound=group_traffic_bound(schedule.group) if bound is None else bound,
        operations=operations(schedule, tables),
        necessary=sum(layer.outputs * layer.operations for layer in schedule.group.layers),
    )


def grids(group: FusedGroup) -> set[Tiles]:
    """Return the tilings to try: all along one axis; along both the fewest tiles of each length.

    The numbers of `tile_sizes` are the fewest tiles for each length of the largest even tile, too: for
    a length of 8 they are 1, 2, 3, 4 and 8 tiles, whose largest have lengths 8, 4, 3, 2 and 1.
    """
    _, rows, columns = group.dims(group.length)
    both_axes = set(product(tile_sizes(rows), tile_sizes(columns)))
    rows_only = {(tiles, 1) for tiles in range(1, rows + 1)}
    return both_axes | rows_only | {(1, tiles) for tiles in range(1, columns + 1)}


def _schedules(group: FusedGroup, tiles: Tiles) -> Iterator[FusedSchedule]:
    """All schedules with these tiles that differ in traffic or buffer bytes."""
    is_cut = [count > 1 for count in tiles]
    cuts_both = all(is_cut)
    # An axis that is not cut is the outer axis, where its halo does not matter.
    orders = (True, False) if cuts_both else (is_cut[COLUMNS] or not is_cut[ROWS],)
    passes = tuple(MapsPerPass) if can_hold_one_map(group) else (MapsPerPass.ALL,)
    halos = [halo for halo in MAP_HALOS if cuts_both or halo[0] is halo[1]]
    input_halos = [halo for halo in INPUT_HALOS if cuts_both or halo[0] is halo[1]]
    if not any(is_cut):
        halos, input_halos = halos[:1], [(CACHED, CACHED), (RELOADED, RELOADED)]
    for columns_first, halo, input_halo, maps_per_pass in product(
        orders, halos, input_halos, passes
    ):
        yield FusedSchedule(
            group=group,
            tiles=tiles,
            columns_first=columns_first,
            halo=halo,
            input_halo=input_halo,
            maps_per_pass=maps_per_pass,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FusedTraffic:
    """A schedule of a group with its traffic and buffer bytes.

    schedule: tiling, halos and stationary weights.
    moved: bytes between buffer and DRAM.
    held: peak bytes in the buffer.
    bound: lower bound on the traffic of the layers, fused or not, with a buffer of any size.
    operations: MACs of the schedule, including recomputed halos.
    necessary: MACs without recomputation.
    """

    schedule: FusedSchedule
    moved: DramTraffic
    held: int
    bound: int
    operations: int
    necessary: int

    @property
    def total(self) -> int:
        """Bytes between buffer and DRAM."""
        return self.moved.total

    def to_json(self) -> dict[str, Any]:
        """Return the schedule and its recomputed MACs as a JSON value."""
        schedule = self.schedule
        return {
            "tiles": list(schedule.tiles),
            "columns_first": schedule.columns_first,
            "halo": [halo.value for halo in schedule.halo],
            "input_halo": [halo.value for halo in schedule.input_halo],
            "hold": schedule.maps_per_pass.value,
            "kept_weights": list(schedule.stationary_elements),
            "multiply_accumulates": self.operations,
            "redundant_multiply_accumulates": self.operations - self.necessary,
        }

    def in_short(self) -> str:
        """Return the tiling, the treatment of halos and share of stationary weights, on one line."""
        schedule, weights = self.schedule, sum(weights_of(self.schedule.group))
        by_map = ", map by map" if schedule.maps_per_pass is MapsPerPass.ONE else ""
        if schedule.count == 1:
            return f"one tile{by_map}"
        stationary = sum(schedule.stationary_bytes)
        share = (
            "all"
            if stationary == weights
            else f"{stationary / weights:.0%} of the"
            if stationary
            else "no"
        )
        return (
            f"{schedule.tiles[0]}x{schedule.tiles[1]} tiles, halo {_halos_in_words(schedule.halo)}, "
            f"input halo {_halos_in_words(schedule.input_halo)}, {share} weights stationary{by_map}"
        )

    def listing(self, names: Sequence[str]) -> str:
        """Return the loops of the schedule, a line a layer; sizes are those of the largest tile.

        names: of the layers.
        """
        schedule = self.schedule
        group, tables = schedule.group, CutTables(schedule.group)
        rows, columns = schedule.tiles
        lines = [
            f"{stationary} of {weights // layer.weight_bytes} weights of {name} stationary"
            for stationary, weights, layer, name in zip(
                schedule.stationary_elements, tables.weights, group.layers, names, strict=False
            )
            if stationary
        ]
        order = "row by row" if schedule.columns_first else "column by column"
        is_cut = schedule.count > 1
        lines.append(
            f"for each of {rows}x{columns} tiles of the output, {order}" if is_cut else "one tile"
        )
        sizes, outputs = list(_largest_tiles(schedule, tables)), group.outputs
        if schedule.maps_per_pass is MapsPerPass.ONE:
            lines += [f"  load the input {sizes[0]}", f"  for each map of {names[0]}"]
            lines += [
                f"    {name}: one map of {size}"
                for name, size in zip(names, sizes[1:-1], strict=False)
            ]
            lines += [f"    {names[-1]}: add it to all of {sizes[-1]}", "  write them"]
            return "\n".join(lines)
        lines += [
            f"  {name}: {_source_in_words(group, number, names)}"
            f"{'makes and writes' if number in outputs else 'makes'} {size}"
            for number, (name, size) in enumerate(zip(names, sizes[1:], strict=True), 1)
        ]
        return "\n".join(lines)


def _halos_in_words(halos: Halos) -> str:
    """The treatment of halos along both axes; one word if it is the same."""
    return " and ".join(dict.fromkeys(halo.value for halo in halos))


def _source_in_words(group: FusedGroup, number: int, names: Sequence[str]) -> str:
    """Words for where a layer reads its input; empty if that is the preceding layer's result."""
    source_maps = group.read_by(number)
    if number == 1:
        waits = group.input_waits
        return "from the input, which waits, " if waits else "from the input, map by map, "
    if source_maps == (number - 1,):
        return ""
    sources = (names[map_number - 1] if map_number else "the input" for map_number in source_maps)
    return f"from {' and '.join(sources)}, "


def _largest_tiles(schedule: FusedSchedule, tables: CutTables) -> Iterator[str]:
    """The largest tile's feature maps x rows x columns, for each map."""
    cuts = {axis[0]: tables.cut(*axis) for axis in axes_of(schedule)}
    for number in range(tables.group.length + 1):
        rows, columns = (
            max(positions.bit_count() for positions in cuts[axis].computed[number])
            for axis in sorted(cuts)
        )
        yield f"{tables.group.dims(number)[0]}x{rows}x{columns}"
