"""Moves of a label-setting search: stages of a group between two separators, and their costs.

A separator is a position of the execution order at which a single tensor connects earlier and later
layers. A move extends a partial group from a separator to a later separator.

Example: layers (conv, relu, pool), with separator 0 at the input and a separator at each layer. A
move from separator 1 to 3 is the single stage (relu, pool), or the two stages (relu) and (pool).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from cnn2csdf.weights import Array
from planners.kernels import ranges
from planners.memory.line_buffers import Keeping, Pace, firings_before_last, pace_of
from planners.memory.order import TopologicalOrder
from planners.memory.partitions import MOST_PARTITIONS, stage_partitions, stages_of_one_run
from planners.memory.stages import GroupGeometry, StageTable
from planners.plan.accumulators import takes_rows
from planners.plan.aliases import most_bytes, without_costly_aliases
from planners.plan.plan import Mode, Span, Stage

LONGEST_STAGE = 10  # layers


WHOLE = 0  # rows of a batch of a tensor that is stored whole


class GroupMove(NamedTuple):
    """Stages from the layer after a separator to the layer at a later separator.

    begin, end: indices of the separators.
    stages: stages of the move, in execution order.
    span: span of recomputed layers, whose copies the stages include; None without recomputation.
    in_turn: number of stages of each group of the plan, if the stages form several groups, which are
        executed sequentially.
    """

    begin: int
    end: int
    stages: tuple[Stage, ...]
    span: Span | None = None
    in_turn: tuple[int, ...] = ()

    @property
    def is_rematerialised(self) -> bool:
        """Whether the stages include copies of layers for recomputation."""
        return self.span is not None

    @property
    def rows(self) -> int:
        """Result rows of the last stage in each firing."""
        return self.stages[-1].rows


JoinedMoves = tuple[GroupMove, ...]
"""Consecutive moves that form a group; empty for the group that collects an input until it is whole."""


class MoveCost(NamedTuple):
    """Memory and MACs of a move.

    lines: bytes that stay allocated for the whole group: line buffers and accumulators.
    passing: maximum staging bytes in a firing of any stage but the last.
    last: staging bytes in a firing of the last stage, without its result batch.
    work: MACs of a frame.
    """

    lines: int
    passing: int
    last: int
    work: int


class MoveArrays(NamedTuple):
    """Moves from a separator as parallel arrays, sorted by the state that each move reaches.

    A state is a separator and the rows of a batch of its tensor. The arrays have one element for
    each move.

    moves: the moves.
    keys: states, as pairs (separator, rows).
    key: index of the reached state in `keys`.
    end: separator of the reached state.
    lines, work: as in MoveCost.
    staging: staging bytes if the group ends with the move, whose result is stored whole.
    staging_onward: staging bytes if the group continues, with a batch of rows of the result.
    result: bytes of the tensor at the end.
    left: lower bound on the MACs after the end.
    """

    moves: tuple[GroupMove, ...]
    keys: tuple[tuple[int, int], ...]
    key: Array
    end: Array
    lines: Array
    work: Array
    staging: Array
    staging_onward: Array
    result: Array
    left: Array


class GroupMoves:
    """Generator of all moves of an execution order, with cached costs."""

    longest_stage = LONGEST_STAGE
    most_partitions = MOST_PARTITIONS

    def __init__(
        self, layer_order: TopologicalOrder, table: StageTable, parts: Sequence[int] = ()
    ) -> None:
        """Set the execution order and the table of stage geometries.

        parts: numbers of channel blocks, in addition to 1, into which a stage may be divided.
        """
        self.layer_order = layer_order
        self.table = table
        self._parts = parts
        self.computed = 0  # moves whose costs were computed, for the effort of a search
        works = list(map(table.work_of, layer_order.layers))
        # MACs after each separator without recomputation: a lower bound for the search.
        self._left = tuple(sum(works[place + 1 :]) for place in layer_order.separators)
        self._whole_bytes = [
            table.arena_bytes(layer_order.at(cut)) for cut in range(len(layer_order.separators))
        ]
        self._all_bytes = sum(map(table.tensor_bytes, layer_order.layers))
        self._arrays: dict[tuple[int, int], MoveArrays] = {}
        self._paces: dict[int, tuple[GroupMove, Pace | None]] = {}  # by identity
        self._sections: dict[int, tuple[GroupMove, int]] = {}

    def moves_from(self, begin: int, entry: int) -> Iterator[GroupMove]:
        """Yield the moves from a separator. entry: rows of a batch of its tensor, or WHOLE."""
        layer_order = self.layer_order
        first = layer_order.separators[begin] + 1
        for end in range(begin + 1, len(layer_order.separators)):
            if entry != WHOLE and layer_order.carried[end] == layer_order.at(begin):
                continue  # a tensor carried past the move has to be stored whole
            layers = layer_order.layers[first : layer_order.separators[end] + 1]
            # A long section between neighbouring separators has moves of several stages.
            if len(layers) > self.longest_stage and end > begin + 1:
                return
            if len(layers) == 1 and takes_rows(
                layer_order.network, layer_order.network.layer(layers[0])
            ):
                yield GroupMove(begin, end, (Stage(layers=layers, mode=Mode.ACCUMULATING),))
            if self.table.can_go_by_channels(layers):
                # A kernel for a few channels at a time is slower, as channel blocks are.
                if self._parts:
                    yield GroupMove(begin, end, (Stage(layers=layers, mode=Mode.ACCUMULATING),))
                if entry == WHOLE:
                    yield GroupMove(begin, end, (Stage(layers=layers, mode=Mode.CHANNELS),))
            if len(layers) <= self.longest_stage and self.table.can_be_stage(layers):
                for stage in stages_of_one_run(self.table, layers, self._parts):
                    yield GroupMove(begin, end, (stage,))
            if end == begin + 1 and len(layers) > 1:
                yield from self.partitioned(begin, end, layers, self.table)

    def partitioned(
        self,
        begin: int,
        end: int,
        layers: tuple[str, ...],
        table: StageTable,
        span: Span | None = None,
    ) -> Iterator[GroupMove]:
        """Yield the moves that divide the layers between two separators into several stages.

        table: with the stages of the layers. span: span of recomputed layers, whose copies are among
        the layers.
        """
        most = self.most_partitions
        for stages in stage_partitions(table, layers, parts=self._parts, most=most):
            yield GroupMove(begin, end, stages, span)

    def table_of(self, move: GroupMove) -> StageTable:  # noqa: ARG002 - RecomputingMoves looks at it
        """Return the table with the geometry of the stages of a move."""
        return self.table

    def carried_bytes(self, cut: int) -> int:
        """Return the arena bytes of the tensor carried past a separator and of later inputs."""
        around = [tensor for tensor in (self.layer_order.carried[cut],) if tensor is not None]
        return sum(map(self.table.arena_bytes, (*around, *self.layer_order.others_behind(cut))))

    def whole_bytes(self, cut: int) -> int:
        """Return the arena bytes of the tensor at a separator if the tensor is stored whole."""
        return self._whole_bytes[cut]

    def arrays(self, begin: int, entry: int) -> MoveArrays:
        """Return the undominated moves after a separator as arrays.

        begin: index of the separator.
        entry: rows of a batch of the tensor at the separator, or WHOLE.
        """
        if (begin, entry) not in self._arrays:
            by_state = defaultdict(list)
            for move in self.moves_from(begin, entry):
                by_state[move.end, move.rows].append((self.cost(move, entry), move))
                self.computed += len(move.stages)
            fronts = {state: _pareto_front(moves) for state, moves in by_state.items()}
            self._arrays[begin, entry] = self._as_arrays(fronts)
        return self._arrays[begin, entry]

    def _as_arrays(
        self, fronts: dict[tuple[int, int], list[tuple[MoveCost, GroupMove]]]
    ) -> MoveArrays:
        """Return moves as arrays. fronts: moves with their costs, by the state that they reach."""
        keys = tuple(sorted(fronts))
        moves = [(key, *move) for key, state in enumerate(keys) for move in fronts[state]]
        rows = []
        for key, cost, move in moves:
            last = self.table.network.layer(self.layer_order.at(move.end))
            batch = move.rows * self.table.row_bytes(last.name)
            staging = max(cost.passing, cost.last)
            staging_onward = max(cost.passing, cost.last + batch)
            if last.operator.scatters_rows and move.stages[-1].mode is Mode.ACCUMULATING:
                staging_onward = self._all_bytes  # more than any plan has: the group ends
            whole, left = self.whole_bytes(move.end), self._left[move.end]
            rows.append(
                (key, move.end, cost.lines, cost.work, staging, staging_onward, whole, left)
            )
        largest = max((number for row in rows for number in row), default=0)
        # A label sums one row for each separator, and its numbers are added as well.
        kind = ranges.number_type(4 * largest * (len(self.layer_order.separators) + 1))
        columns = np.array(rows, kind).reshape(-1, 8).T
        return MoveArrays(tuple(move for _, _, move in moves), keys, *columns)

    def cost(self, move: GroupMove, entry: int, table: StageTable | None = None) -> MoveCost:
        """Return the cost of a move: the tensor at its begin and all tensors up to its result.

        entry: rows of a batch of the tensor at the begin, or WHOLE.
        table: table with the stages, if it is not a table of these moves.
        """
        table = table or self.table_of(move)
        if len(move.stages) == 1:
            return self._single(move, entry, table)
        geometries = [table.geometry(stage) for stage in move.stages]
        source = self.layer_order.at(move.begin)
        group = GroupGeometry(table, geometries, None if entry == WHOLE else source, entry)
        kept = {stage.result: Keeping.LINE for stage in move.stages}
        kept |= dict.fromkeys(self.layer_order.results & kept.keys(), Keeping.WHOLE)
        result = move.stages[-1].result
        kept[result] = Keeping.WHOLE
        if entry != WHOLE:
            kept[source] = Keeping.WHOLE if source in self.layer_order.results else Keeping.LINE
        rows, passing = group.kept(kept)
        return MoveCost(
            sum(count * group.row_bytes[name] for name, count in rows.items())
            + sum(geometry.accumulator for geometry in geometries)
            + self._whole_results_inside(move, entry),
            max(passing[:-1]),
            passing[-1],
            sum(geometry.work for geometry in geometries),
        )

    def _single(self, move: GroupMove, entry: int, table: StageTable) -> MoveCost:
        """Return the cost of a move of a single stage, from the stage's row needs.

        A firing that needs further rows of the source stages batches until the rows are computed.
        After the firing, its line buffer keeps the rows from the first row of the next firing on.
        """
        geometry = table.geometry(move.stages[0])
        source = self.layer_order.at(move.begin)
        allocated = geometry.accumulator + self._whole_results_inside(move, entry)
        if entry == WHOLE or source in self.layer_order.results:
            return MoveCost(allocated, 0, geometry.strip_bytes, geometry.work)
        row_bytes, height = self.table.row_bytes(source), self.table.height(source)
        reading = geometry.firings.readings[0]
        line_rows = staged_rows = available = 0
        for upto, first, next_first in zip(
            reading.upto, reading.first, reading.first[1:], strict=False
        ):
            if upto > available:
                available = min(-(-upto // entry) * entry, height)
                last_batch = available - (available - 1) // entry * entry
                # During the firing the last batch is staged, and earlier rows are in the line buffer.
                line_rows = max(line_rows, available - last_batch - first)
                staged_rows = max(staged_rows, last_batch)
            line_rows = max(line_rows, available - next_first)
        staged = staged_rows * row_bytes
        return MoveCost(
            line_rows * row_bytes + allocated, staged, geometry.strip_bytes + staged, geometry.work
        )

    def _whole_results_inside(self, move: GroupMove, entry: int) -> int:
        """Return the bytes of whole tensors inside a move, without those at both ends of the group.

        Results of the network are stored whole even where the group continues with their rows.
        """
        inside = {stage.result for stage in move.stages[:-1]}
        if entry != WHOLE:
            inside.add(self.layer_order.at(move.begin))
        return sum(map(self.table.arena_bytes, sorted(self.layer_order.results & inside)))

    def layer_by_layer(self, section: int) -> tuple[GroupMove, int]:
        """Return the layer-by-layer move between a separator and the next one, and its peak bytes."""
        if section not in self._sections:
            self._sections[section] = self._layer_by_layer(section)
        return self._sections[section]

    def _layer_by_layer(self, section: int) -> tuple[GroupMove, int]:
        """Return the move that executes each layer between two separators in one firing, and its peak.

        The peak is the maximum of live bytes over the layers, including the tensors at both
        separators. Concatenations between the separators are in place where this lowers the peak.
        """
        layer_order, table = self.layer_order, self.table
        first, upto = layer_order.separators[section] + 1, layer_order.separators[section + 1] + 1
        layers = layer_order.layers[first:upto]
        before, carried = layer_order.at(section), layer_order.carried[section]
        number_of = {name: number for number, name in enumerate(layers)}
        is_read_later = before in layer_order.results or layer_order.carried[section + 1] == before
        last_read = {before: len(layers) if is_read_later else 0}
        for name, number in number_of.items():
            last_read[name] = len(layers) if name in layer_order.results else number
            for source in layer_order.network.layer(name).inputs:
                last_read[source] = max(last_read.get(source, 0), number)
        lifetimes = {name: (number_of.get(name, 0), end + 1) for name, end in last_read.items()}
        for name in (*layer_order.others_behind(section + 1), *((carried,) if carried else ())):
            lifetimes[name] = (0, len(layers))
        sizes = {name: table.arena_bytes(name) for name in lifetimes}
        aliases = {
            name: alias
            for name, alias in table.aliases.items()
            if {name, alias.host} <= number_of.keys()
        }
        peak = most_bytes(without_costly_aliases(aliases, lifetimes, sizes), lifetimes, sizes)
        stages = tuple(Stage(layers=(name,), rows=table.height(name)) for name in layers)
        in_turn = (1,) * len(stages)
        return GroupMove(section, section + 1, stages, in_turn=in_turn), peak

    def pace(self, move: GroupMove) -> Pace | None:
        """Return the rows of its first tensor that a move has read after each firing of its result.

        None if the move does not read this tensor, as with an input among several.
        """
        if id(move) not in self._paces:  # whose hash would cost more than the search of a pace
            table = self.table_of(move)
            firings = [table.geometry(stage).firings for stage in move.stages]
            source = self.layer_order.at(move.begin)
            is_read = any(
                reading.tensor == source for stage in firings for reading in stage.readings
            )
            pace = pace_of(firings, source, firings_before_last(firings)) if is_read else None
            self._paces[id(move)] = move, pace
        return self._paces[id(move)][1]


def _pareto_front(candidates: list[tuple[MoveCost, GroupMove]]) -> list[tuple[MoveCost, GroupMove]]:
    """Return the Pareto front of moves by cost."""
    kept: list[tuple[MoveCost, GroupMove]] = []
    for cost, move in sorted(candidates, key=lambda pair: (pair[0], len(pair[1].stages))):
        if not any(all(a <= b for a, b in zip(lower, cost, strict=True)) for lower, _ in kept):
            kept.append((cost, move))
    return kept
