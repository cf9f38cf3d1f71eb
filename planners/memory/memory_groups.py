"""Groups of layers that a search in fast and slow memory may execute together.

For each index of the execution order these groups begin there:

- runs of layers that are executed row by row, each layer a stage;
- stages of several layers, with column strips or feature map by feature map;
- stages that planners.memory.labels finds between two separators, with and without channel blocks;
- column tiles of layers whose rows are too long for the fast memory.

A group has the exact bytes of its ring buffers. Groups that exceed the fast memory are left out, and so
are dominated groups: another group of the same layers needs at most their bytes, their cost, their
write buffers and their reads of slow memory.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain, starmap
from operator import le

from cnn2csdf.parameters import multiply_accumulates
from cnn2csdf.weights import Array
from csdf.search.pareto import improving
from csdf.time_limit import Stop
from planners.memory.labels import ANY_WORK, LINES, MACS, GroupLabels
from planners.memory.memory_plans import MemoryGroup, Names, ring_buffers
from planners.memory.moved_weights import (
    Copies,
    MoveCosts,
    can_be_copied,
    copies_of,
    movable_weights,
)
from planners.memory.moves import LONGEST_STAGE, GroupMoves
from planners.memory.order import TopologicalOrder
from planners.memory.partitions import PARTS, candidate_rows
from planners.memory.slow_bounds import MOST_CHOSEN
from planners.memory.stages import Geometry, GroupGeometry, StageTable
from planners.plan.accumulators import sums_over_rows
from planners.plan.plan import Mode, Stage
from planners.plan.running_stage import block_bytes, smallest_block
from planners.rewrites.column_tiles import ColumnTile, in_columns, part_of, stages_of_tile

MOST_VARIANTS = 3  # from fewest bytes to fewest MACs, of stages between two separators
WIDTH = 12  # labels inside a group, as the first search of csdf fit has
LONGEST_RUN = 32  # layers of a group that is not between separators
ROW_BLOCKS = (2, 4, 8)  # rows per firing, in addition to 1, if a firing has a start-up cost
MOST_TILES = 12  # of columns
ENOUGH_GROUPS = 2  # groups of different tile counts that fit, after which the search ends
MOST_MISSES = 3  # consecutive ends of groups for which no tile count fits
LONGEST_SPAN = 48  # layers of a group in column tiles

# Effort of the search, in microseconds of a usual machine.
GROUP_EFFORT = 35  # to size the rings of a group, for each of its stages
TILE_EFFORT = 100  # to cut a tile out of the network, for each of its layers


class GroupCandidates:
    """Generator of the groups that begin at each index of the layer order and fit into fast memory."""

    def __init__(
        self,
        layer_order: TopologicalOrder,
        table: StageTable,
        *,
        fast: int,
        costs: MoveCosts,
        arriving: str | None,
        stop: Stop,
        longest: int | None = None,
        untiled: GroupCandidates | None = None,
    ) -> None:
        """Set the execution order, its stages and the fast memory.

        fast: bytes of fast memory.
        costs: cost of slow-memory traffic, and of weights.
        arriving: input that arrives row by row; None if no input does.
        stop: effort limit of the search.
        longest: limit on the layers of a group.
        untiled: groups to which tiles of columns are added.
        """
        self._untiled, self.has_tiles = untiled, untiled is not None
        self.layer_order, self.table, self._fast = layer_order, table, fast
        self.costs, self.arriving, self.stop = costs, arriving, stop
        self.layers = layer_order.layers[1:]
        self._longest = longest
        self.last_read = dict.fromkeys((*layer_order.layers, *layer_order.others), -1)
        for number, name in enumerate(self.layers):
            for source in layer_order.network.layer(name).inputs:
                self.last_read[source] = number
        self.last_read |= dict.fromkeys(layer_order.results, len(self.layers))
        separators = layer_order.separators
        outside = frozenset(layer_order.at(number) for number in range(len(separators)))
        inner = StageTable(layer_order.network, element_bytes=table.element_bytes, outside=outside)
        self._moves = GroupMoves(layer_order, inner, PARTS)
        self._boundaries = self._tiling_boundaries()
        self._separator_at = {index: number for number, index in enumerate(separators)}
        self._groups_from: dict[int, list[MemoryGroup]] = {}

    def at(self, begin: int) -> list[MemoryGroup]:
        """Return the groups whose first layer has this index."""
        if begin not in self._groups_from:
            self.stop.look()
            if self._untiled is not None:
                groups = [*self._untiled.at(begin), *self._column_tiled_groups(begin)]
            else:
                groups = list(self._row_by_row_groups(begin))
            if self._longest is None and self._untiled is None:
                groups += self._single_stages(begin)
                for end, stages in self._stages_between(begin, self._fast, (True, False)):
                    groups += self._variants(begin, end, stages)
            kept: dict[tuple[int, str | None, Names], list[MemoryGroup]] = {}
            for group in sorted(groups, key=lambda group: (group.fast, group.costs)):
                key = group.end, group.geometry.streamed_input, group.in_place
                if not any(
                    all(map(le, cheaper.costs, group.costs))
                    and all(cheaper.blocks[name] <= size for name, size in group.blocks.items())
                    and all(cheaper.read[name] <= size for name, size in group.read.items())
                    for cheaper in kept.setdefault(key, [])
                ):
                    kept[key].append(group)
            self._groups_from[begin] = [
                group for groups_of_key in kept.values() for group in groups_of_key
            ]
        return self._groups_from[begin]

    def _row_by_row_groups(self, begin: int) -> Iterator[MemoryGroup]:
        """Groups of layers that are executed row by row, and the first layer alone in one firing.

        Each layer is a stage. A run is extended layer by layer until it exceeds the fast memory.
        """
        first = self.layers[begin]
        whole = Stage(layers=(first,), rows=self.table.height(first))
        yield from self._variants(begin, begin + 1, (whole,))
        blocks = [(1, 1)]
        # More rows per firing amortise its start-up cost.
        if self.costs.scale:
            blocks += [(rows, weightless) for rows in ROW_BLOCKS for weightless in (1, rows)]
        for rows, rows_without_weights in blocks:
            yield from self._row_by_row_run(begin, rows, rows_without_weights)

    def _row_by_row_run(
        self, begin: int, rows: int, rows_without_weights: int
    ) -> Iterator[MemoryGroup]:
        """Groups of layers row by row, with the same rows in each firing.

        rows: of a firing of a layer with weights; rows_without_weights: of a firing of another layer.
        """
        network = self.layer_order.network
        stages: list[Stage] = []
        last = min(len(self.layers), begin + (self._longest or LONGEST_RUN))
        for end in range(begin + 1, last + 1):
            layer = network.layer(self.layers[end - 1])
            is_summed = sums_over_rows(network, layer) and not layer.operator.scatters_rows
            mode = Mode.ACCUMULATING if is_summed else Mode.ROWS
            rows_each = min(
                rows if layer.name in self.costs.sizes else rows_without_weights, layer.shape.rows
            )
            rows_each = 1 if is_summed else rows_each
            stages.append(Stage(layers=(layer.name,), rows=rows_each, mode=mode))
            groups = list(self._variants(begin, end, stages))
            yield from groups
            if not groups:
                return

    def _single_stages(self, begin: int) -> Iterator[MemoryGroup]:
        """Several layers as one stage, with column strips or feature map by feature map."""
        for end in range(begin + 2, min(len(self.layers), begin + LONGEST_STAGE) + 1):
            layers = self.layers[begin:end]
            if self.table.can_go_by_channels(layers):
                for mode in (Mode.CHANNELS, Mode.ACCUMULATING):
                    yield from self._variants(begin, end, (Stage(layers=layers, mode=mode),))
            if self.table.can_be_stage(layers):
                for rows in candidate_rows(layers, self.table):
                    yield from self._variants(begin, end, (Stage(layers=layers, rows=rows),))

    def _stages_between(
        self, begin: int, limit: int, streamed: Sequence[bool]
    ) -> Iterator[tuple[int, list[Stage]]]:
        """Yield later separators, with the stages of groups up to there that fit into `limit` bytes."""
        separator = self._separator_at.get(begin)
        if separator is None or begin == len(self.layers):
            return
        limits = limit, ANY_WORK, WIDTH
        for is_streamed in streamed:
            search = GroupLabels(self._moves, separator, limits, self.stop, is_streamed=is_streamed)
            labels_by_end = defaultdict[int, list[tuple[int, int, Array, int]]](list)
            for end, labels in search.ends():
                numbers = zip(labels[LINES].tolist(), labels[MACS].tolist(), strict=True)
                labels_by_end[end] += [(*both, labels, place) for place, both in enumerate(numbers)]
            for end, labels_of_end in labels_by_end.items():
                best = improving(labels_of_end, lambda label: label[:2])
                for _, _, labels, number in best[:: -(-len(best) // MOST_VARIANTS)]:
                    joined_moves = search.moves_of(labels, number)
                    stages = [stage for move in joined_moves for stage in move.stages]
                    yield self.layer_order.separators[end], stages

    def _column_tiled_groups(self, begin: int) -> Iterator[MemoryGroup]:
        """Yield groups of layers in column tiles, for rows that are too long; slices are read in place.

        Tiling begins and ends where few bytes are live: a slice is read, and a result written, at each
        boundary. A single tile is a candidate for groups that read several tensors or their own
        results.
        """
        ends = {begin + 1}
        if not begin or begin in self._boundaries:
            ends |= {
                position
                for position in self._boundaries
                if begin < position <= begin + LONGEST_SPAN
            }
        rows = [(end, [Stage(layers=(layer,)) for layer in self.layers[begin:end]]) for end in ends]
        # Tiles overlap: each of MOST_TILES tiles may need up to twice its share of the bytes.
        limit = MOST_TILES // 2 * self._fast
        by_end = defaultdict[int, dict[tuple[Stage, ...], None]](dict)
        # A single layer has no other stages than its rows.
        longer = self._stages_between(begin, limit, (True,)) if len(ends) > 1 else ()
        for end, stages in chain(longer, rows):
            by_end[end][tuple(stages)] = None
        misses = 0
        for end in sorted(ends):
            self.stop.look()
            tiles = _SingleTiles(self, self.layers[begin:end])
            tiled = [self._groups_by_tile_count(begin, tiles, stages) for stages in by_end[end]]
            yield from (group for groups_of_tiles in tiled for group in groups_of_tiles or ())
            misses = misses + 1 if all(groups_of_tiles is None for groups_of_tiles in tiled) else 0
            if misses == MOST_MISSES and len(self.layers) > MOST_CHOSEN:
                return

    def _tiling_boundaries(self) -> set[int]:
        """Return the indices of the order at which the live bytes have a local minimum.

        For a small network, all indices are returned.
        """
        change = [0] * (len(self.layers) + 2)
        for name, last in self.last_read.items():
            made = self.layers.index(name) + 1 if name in self.layers else 0
            change[made] += self.table.tensor_bytes(name)
            change[max(last, made) + 1] -= self.table.tensor_bytes(name)
        live = list(accumulate(change))[: len(self.layers) + 1]
        inner = range(1, len(self.layers))
        if len(self.layers) <= MOST_CHOSEN:
            return {*inner, len(self.layers)}
        minima = {
            position
            for position in inner
            if live[position] <= min(live[position - 1], live[position + 1])
        }
        return minima | {len(self.layers)}

    def _results(self, begin: int, end: int) -> tuple[str, ...]:
        """The tensors of a group that later layers need, and the last."""
        return tuple(
            name
            for name in self.layers[begin:end]
            if self.last_read[name] >= end or name == self.layers[end - 1]
        )

    def _groups_by_tile_count(
        self, begin: int, single_tiles: _SingleTiles, stages: Sequence[Stage]
    ) -> list[MemoryGroup] | None:
        """Groups with the fewest tiles that fit, and with more tiles and fewer bytes.

        None if no tile count fits; an empty list if a group without tiles makes tiles unnecessary.
        """
        section, end = single_tiles.section, begin + len(single_tiles.inside)
        results = self._results(begin, end)
        if not {stage.result for stage in stages}.issuperset(results):
            return None
        geometry = self.table.group(stages)
        untiled = self._sized_group(end, geometry, results, self._fast_bytes(geometry, results), {})
        bytes_untiled = untiled.fast
        # A single tile of a group with one source is the same as the group without tiles.
        fewest = 1 if len(section.inputs) > 1 or untiled.fixed else 2
        if fewest == 2:
            # The group without tiles copies the rows of its one source: its bytes include them.
            streaming = self.table.group(stages, section.inputs[0].name)
            bytes_untiled = self._fast_bytes(streaming, results)
        # n tiles need about 1/n of the bytes: begin at half the number of tiles that should fit.
        tiles, wanted_groups = max(fewest, bytes_untiled // (2 * self._fast)), ENOUGH_GROUPS
        # A group that fits twice gains nothing from tiles, except by the single tile.
        if 2 * bytes_untiled <= self._fast:
            wanted_groups = 2 - fewest
        # A small network has few groups: all tile counts from the first that fits are tried.
        if len(self.layers) <= MOST_CHOSEN:
            tiles, wanted_groups = 1, MOST_TILES
        limit, groups = self._fast + 1, list[MemoryGroup]()
        while tiles <= MOST_TILES and len(groups) < wanted_groups:
            of_tiles = self._group_of_each_tile(end, single_tiles, tiles, stages)
            if of_tiles is None:
                return groups or None
            fast = max(tile.fast for tile in of_tiles)
            if len(of_tiles) == tiles and fast < limit:
                limit = fast
                groups.append(_tiled(untiled, of_tiles))
            # Until a tile count fits, jump to one less than the count at which the largest tile should.
            tiles += 1 if groups else max(1, tiles * fast // self._fast - tiles - 1)
        return groups if groups or not wanted_groups else None

    def _group_of_each_tile(
        self, end: int, single_tiles: _SingleTiles, count: int, stages: Sequence[Stage]
    ) -> tuple[MemoryGroup, ...] | None:
        """The groups of the tiles, up to the first that does not fit; None if tiles are impossible.

        count: number of tiles.
        """
        groups = dict[int, MemoryGroup]()
        # From the middle, where tiles have most columns: these exceed the memory first.
        for number in sorted(range(count), key=lambda index: abs(2 * index + 1 - count)):
            single = single_tiles.tile(count, number)
            if single is None:
                return None
            tile, table, costs = single
            network = table.network
            stages_tiled = stages_of_tile(network, tile, single_tiles.inside, stages)
            if stages_tiled is None:
                return None
            group = GroupGeometry(table, list(map(table.geometry, stages_tiled)))
            fast = self._fast_bytes(group, tile.results)
            read = Counter[str]()
            for name in tile.slices:
                read[network.layer(name).inputs[0]] += table.tensor_bytes(name)
            groups[number] = self._sized_group(
                end, group, tile.results, fast, dict(read), costs=costs
            )
            if fast > self._fast:
                break
        return tuple(groups[number] for number in sorted(groups))

    def _variants(self, begin: int, end: int, stages: Sequence[Stage]) -> Iterator[MemoryGroup]:
        """Variants of a group that fit: no tensor copied, or one source copied row by row."""
        table = self.table
        geometries = tuple(map(table.geometry, stages))
        inside = set(self.layers[begin:end])
        read: dict[str, int] = defaultdict(int)
        in_place = set(self.last_read)
        for geometry in geometries:
            for name in geometry.stage.layers:
                for index, source in enumerate(table.network.layer(name).inputs):
                    if source not in inside:
                        rows = self._rows_read_once(geometry, name, index)
                        read[source] += (rows or 0) * table.row_bytes_read(name, source)
                        in_place -= {source} if rows is None else set()
        results = self._results(begin, end)
        produced = {geometry.stage.result: geometry.stage for geometry in geometries}
        # A stage that scatters rows writes pixels of a whole result.
        if not produced.keys() >= set(results) or any(
            stage.mode is Mode.ACCUMULATING and table.network.layer(name).operator.scatters_rows
            for name, stage in produced.items()
        ):
            return
        pinned = self.costs.pinned.intersection(inside)
        for streamed in (None, *read) if pinned <= can_be_copied(geometries) else ():
            group = GroupGeometry(table, geometries, streamed)
            fast = self._fast_bytes(group, results)
            if fast <= self._fast:
                sizes = dict(read)
                if streamed is not None:
                    sizes[streamed] = table.tensor_bytes(streamed)
                allowed = frozenset(in_place.intersection(read) - {streamed})
                yield self._sized_group(end, group, results, fast, sizes, allowed)

    def _rows_read_once(self, geometry: Geometry, name: str, index: int) -> int | None:
        """Number of input rows that a stage reads, if it reads each byte once; otherwise None."""
        layer = self.table.network.layer(name)
        needs = self.table.row_needs(layer, index)
        if geometry.stage.mode is Mode.ACCUMULATING:
            is_once = not multiply_accumulates(layer, self.table.network.input_shapes(layer))
            return needs[-1][1] - needs[0][0] if is_once else None
        if len(geometry.stage.layers) > 1 or not layer.operator.reads_once:
            return None
        alike = (
            position for position, name in enumerate(layer.inputs) if name == layer.inputs[index]
        )
        if len({self.table.row_needs(layer, position) for position in alike}) > 1:
            return None  # a tensor is read by two inputs, in different rows
        height = self.table.height(layer.inputs[index])
        return height if sum(end - first for first, end in needs) == height else None

    def _fast_bytes(self, group: GroupGeometry, results: tuple[str, ...]) -> int:
        """Exact bytes of ring buffers, accumulators and staging buffer of a group."""
        self.stop.spend(GROUP_EFFORT * len(group.stages))
        rings, staging, _ = ring_buffers(group, results)
        lines = sum(rows * group.row_bytes[name] for name, rows in rings.items())
        return lines + sum(stage.accumulator for stage in group.stages) + staging

    def _sized_group(
        self,
        end: int,
        geometry: GroupGeometry,
        results: tuple[str, ...],
        fast: int,
        read: dict[str, int],
        in_place: Names = frozenset(),
        costs: MoveCosts | None = None,
    ) -> MemoryGroup:
        """The bytes, the cost and the traffic of a group. costs: of copies of layers."""
        table, stages, costs = geometry.table, geometry.stages, costs or self.costs
        weights = movable_weights(stages, costs, table)
        inside = {reading.tensor for firing in geometry.firings for reading in firing.readings}
        blocks = {}
        for stage in (sized.stage for sized in stages if sized.stage.result in results):
            rows, columns = smallest_block(table.network, stage)
            unit = table.bytes_of(stage.result)
            blocks[stage.result] = block_bytes(table.network, stage, rows * columns, unit)
        return MemoryGroup(
            geometry=geometry,
            end=end,
            fast=fast,
            work=sum(stage.work for stage in stages),
            extra_blocks=sum(_extra_blocks(stage.stage) for stage in stages),
            busy=costs.of_stages(stages) + sum(starmap(costs.in_place, weights.items())),
            copies=copies_of(stages, costs, table),
            read=read,
            in_place=in_place,
            blocks={name: blocks[name] for name in results},
            fixed=frozenset(inside.intersection(results)),
        )

    def pinning(self, layers: Names) -> GroupCandidates:
        """Return the groups without tiles where weights of some layers are resident in fast memory."""
        return GroupCandidates(
            self.layer_order,
            self.table,
            fast=self._fast,
            costs=self.costs.pinning(layers),
            arriving=self.arriving,
            stop=self.stop,
            longest=self._longest,
        )


class _SingleTiles:
    """The column tiles of a run of layers, each with its own network, geometries and costs.

    section: the layers as a network. inside: their names.
    """

    def __init__(self, groups: GroupCandidates, inside: Sequence[str]) -> None:
        """Set the layers."""
        self.section, self.inside = part_of(groups.layer_order.network, inside), inside
        self._groups = groups
        self._built: dict[tuple[int, int], tuple[ColumnTile, StageTable, MoveCosts] | None] = {}

    def tile(self, count: int, number: int) -> tuple[ColumnTile, StageTable, MoveCosts] | None:
        """Return a tile, and the table and costs of its copies of layers; None if it is impossible.

        count: number of tiles. number: index of the tile.
        """
        if (count, number) not in self._built:
            self._groups.stop.spend(TILE_EFFORT * len(self.inside))
            columns = in_columns(self.section, self.inside, count, only=number)
            if columns is None:
                self._built[count, number] = None
            else:
                (tile,), table = columns.parts, self._groups.table.of(columns.network)
                self._built[count, number] = (
                    tile,
                    table,
                    self._groups.costs.of_copies(table, columns.copies),
                )
        return self._built[count, number]


def _extra_blocks(stage: Stage) -> int:
    """Channel blocks of a stage beyond one; 1 for a sum of rows that are computed in blocks."""
    return len(stage.layers) - 1 if stage.mode is Mode.ACCUMULATING else stage.channel_blocks - 1


def _copies_in_tiles(tiles: Sequence[MemoryGroup]) -> tuple[Copies, ...]:
    """Return sets of weights to copy in tiles: within the same bytes, the best set of each tile."""
    chosen = []
    for size in sorted({copies.size for tile in tiles for copies in tile.copies}):
        best = [
            max((c for c in tile.copies if c.size <= size), key=lambda copies: copies.size)
            for tile in tiles
        ]
        layers = tuple(name for copies in best for name in copies.layers)
        chosen.append(Copies(size, sum(copies.saved for copies in best), layers))
    return tuple(chosen)


def _tiled(untiled: MemoryGroup, tiles: tuple[MemoryGroup, ...]) -> MemoryGroup:
    """Return the group that executes these tiles sequentially, reading slices in place."""
    read = sum((Counter(tile.read) for tile in tiles), Counter[str]())
    blocks = zip(*(tile.blocks.values() for tile in tiles), strict=True)
    return untiled._replace(
        fast=max(tile.fast for tile in tiles),
        work=sum(tile.work for tile in tiles),
        busy=sum(tile.busy for tile in tiles),
        copies=_copies_in_tiles(tiles),
        read=dict(read),
        in_place=frozenset(read),
        blocks=dict(zip(untiled.blocks, map(max, blocks), strict=True)),
        fixed=frozenset(),
        tiles=tiles,
    )
