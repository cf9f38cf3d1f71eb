"""Pareto front of arena bytes and MACs over fused groups, by label-setting dynamic programming.

A plan executes its groups sequentially; a tensor between two groups is stored whole. The peak of a
group is the sum of the whole tensors live during it, its line buffers, and its largest staging buffer;
the peak of a plan is the maximum over its groups. Within a group, line buffers and MACs add up; of the
staging buffers only the largest counts.

There are two levels. From each separator (a position of the execution order at which a single tensor
connects earlier and later layers), GroupLabels searches the groups that begin there; PlanFront chains
these groups to plans.

A label is a partial group from one separator: bytes of line buffers, staging bytes, MACs. A move
extends a label by the stages up to a later separator. A label is in a state: the separator reached, and
the rows of that tensor that each firing produces. Of the labels of a state, the search prunes labels
that another label dominates in all three numbers. Example: of (lines 400, staging 100, MACs 9000),
(300, 200, 9000) and (400, 150, 9500) in one state, the third is dominated by the first; the first two
remain. Labels are stored as arrays, and all moves of a state extend all its labels in one operation.

If the input arrives row by row, the first group either consumes its rows as they arrive, or the input
is collected first; in the second case all plans of a resident input follow. The search is exact over
the moves of moves.GroupMoves, unless the number of labels for each state is limited.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np

from cnn2csdf.weights import Array
from csdf.kernels import compile as compiler
from csdf.search.pareto import ChainLabels
from csdf.time_limit import Budget, Stop, stop_of
from planners.kernels import dominance, ranges
from planners.memory.line_buffers import least_lead
from planners.memory.moves import (
    WHOLE,
    GroupMove,
    GroupMoves,
    JoinedMoves,
    MoveArrays,
)
from planners.memory.placed_chains import Candidate, PlacedChains

ALL = 10**9  # a limit on the labels of a state that no search reaches
WIDTHS = (12, 100, ALL)  # limits on the labels of a state, for successive searches
ANY_WORK = 2**60  # a limit on MACs that no plan reaches

# Effort of the search in microseconds of a typical machine, by least squares over the built-in models.
STATE_EFFORT = 20  # to extend the labels of a state
STAGE_EFFORT = 30  # to compute the bytes that a move retains, for each of its stages
PLANS_EFFORT = 22  # to append a group to a plan, and to compare the plan with other plans
LABELS = 3  # labels compared in a microsecond
EXTENSIONS = 270  # pairs of a label and a move that are computed in a microsecond


class PlanFront:
    """Pareto front of plans in memory and MACs: chains of groups from the input to the last separator.

    plans: in order of memory, each as its peak bytes, its MACs, and its groups in execution order. If
        the input arrives row by row, plans that collect it first follow the other plans, again in order
        of memory: the comparison of both kinds depends on their offsets.
    is_complete: whether the front is complete within the limits.
    chains: the same groups, for a search of chains whose offsets fit into a given arena.
    """

    def __init__(
        self,
        moves: GroupMoves,
        limit: int,
        *,
        is_streamed: bool,
        most_work: int = ANY_WORK,
        labels: int = ALL,
        others: Mapping[int, Mapping[int, Sequence[Candidate]]] | None = None,
        budget: Budget = None,
    ) -> None:
        """Search the undominated plans of at most `limit` bytes.

        is_streamed: whether the input arrives row by row.
        most_work: limit on the MACs of a plan.
        labels: limit on the labels of a state.
        others: further groups, which are not built from moves, by the separators of begin and end.
        budget: ends the search with GaveUp.
        """
        self._moves, self._others = moves, others or {}
        self._memory, self._most_work, self._most_labels = limit, most_work, labels
        self._is_streamed = is_streamed
        self._stop = stop_of(budget)
        separators = range(len(moves.layer_order.separators))
        self.is_complete = True
        self.chains = PlacedChains(tuple(map(moves.whole_bytes, separators)), {})
        self.plans = self._search(separators[-1])

    def _search(self, last: int) -> list[tuple[int, int, tuple[JoinedMoves, ...]]]:
        """Return the plans from the first separator to the last."""
        chains = self._initial_chains()
        for cut in range(last):
            self._stop.look()
            for is_streamed, extended_chains in self._to_extend(chains, cut):
                least_work = min(
                    work for labels in extended_chains for _, (work,), _ in labels.at(cut)
                )
                groups = self._groups(cut, self._most_work - least_work, is_streamed=is_streamed)
                self.chains.groups[cut, is_streamed] = groups
                for end, end_groups in groups.items():
                    links = [(memory, (work,), moves) for (memory, work, *_), moves in end_groups]
                    for labels in extended_chains:
                        self._stop.spend(PLANS_EFFORT * len(labels.at(cut)) * len(links))
                        labels.extend(cut, end, links)
        return [
            (memory, work, groups)
            for labels in chains
            for memory, (work,), groups in labels.at(last)
        ]

    def _initial_chains(self) -> list[ChainLabels[JoinedMoves]]:
        """The plans to the first separator: the empty plan, and a plan that collects the input.

        Each is extended to a Pareto front of its own.
        """
        chains = [ChainLabels[JoinedMoves]((0, (0,), ()))]
        collected = self._moves.whole_bytes(0)
        if self._is_streamed and collected <= self._memory:
            chains.append(ChainLabels((collected, (0,), ((),))))
        return chains

    def _to_extend(
        self, chains: Sequence[ChainLabels[JoinedMoves]], cut: int
    ) -> Iterator[tuple[bool, Sequence[ChainLabels[JoinedMoves]]]]:
        """The chains that have reached a separator, by whether its tensor arrives row by row."""
        if cut == 0 and self._is_streamed:
            yield True, chains[:1]
            chains = chains[1:]
        reached = [labels for labels in chains if labels.at(cut)]
        if reached:
            yield False, reached

    def _groups(
        self, begin: int, most_work: int, *, is_streamed: bool
    ) -> dict[int, list[Candidate]]:
        """The undominated groups after a separator, by their end.

        most_work: limit on the MACs from the begin of the group to the end of the network.
        """
        limits = self._memory, most_work, self._most_labels
        search = GroupLabels(self._moves, begin, limits, self._stop, is_streamed=is_streamed)
        labels_by_end: dict[int, list[Array]] = defaultdict(list)
        for end, labels in search.ends():
            labels_by_end[end].append(labels)
        self.is_complete &= not search.has_left_out
        groups = {
            end: self._undominated_groups(
                search, (begin, end), np.concatenate(labels, axis=1), is_streamed=is_streamed
            )
            for end, labels in labels_by_end.items()
        }
        if not is_streamed:
            groups.setdefault(begin + 1, []).extend(self._layer_by_layer(begin))
            for end, end_groups in self._others.get(begin, {}).items():
                fitting = [group for group in end_groups if group[0][0] <= self._memory]
                groups.setdefault(end, []).extend(fitting)
        return groups

    def _layer_by_layer(self, begin: int) -> list[Candidate]:
        """The layers up to the next separator, layer by layer, if there are several and they fit."""
        move, peak = self._moves.layer_by_layer(begin)
        if len(move.stages) == 1 or peak > self._memory:
            return []
        work = sum(self._moves.table.geometry(stage).work for stage in move.stages)
        return [((peak, work, 0, 0, 0), (move,))]

    def _undominated_groups(
        self, search: GroupLabels, ends: tuple[int, int], labels: Array, *, is_streamed: bool
    ) -> list[Candidate]:
        """The undominated groups between two separators, each with its exact bytes.

        The bytes of a label count the tensors at both ends as if they overlapped completely, so they
        are a lower bound on the exact bytes, which follow from the moves. In order of MACs, only labels
        whose lower bound is below the exact bytes of all groups so far are examined.

        labels: peaks of the groups, as `GroupLabels.ends` yields them.
        """
        begin, end = ends
        order = np.lexsort((labels[LINES], labels[MACS]))
        lower_bounds = labels[LINES, order]
        kept: list[Candidate] = []
        source, result = self._moves.whole_bytes(begin), self._moves.whole_bytes(end)
        larger = max(source, result)
        counted = result if is_streamed else larger  # bytes of the ends in a label
        position, least = 0, self._memory + 1
        while position < len(order):
            number, lower_bound = int(order[position]), int(lower_bounds[position])
            moves = search.moves_of(labels, number)
            lead = 0 if is_streamed else self._lead(begin, end, moves)
            exact = lower_bound - larger + max(source + min(lead, result), larger)
            if exact < least:
                staging, work = int(labels[STAGING, number]), int(labels[MACS, number])
                lines = lower_bound - staging - counted
                kept.append(((exact, work, lines, staging, lead), moves))
                least = exact
            position += 1
            smaller = lower_bounds[position:] < least
            position = position + int(smaller.argmax()) if smaller.any() else len(order)
        return kept

    def _lead(self, begin: int, end: int, moves: JoinedMoves) -> int:
        """Minimum of source offset minus result offset at which the result may overlap the source."""
        table, layer_order = self._moves.table, self._moves.layer_order
        source, around = layer_order.at(begin), layer_order.carried[begin + 1 : end + 1]
        if source in layer_order.results or source in around:  # it is not overwritten
            return self._moves.whole_bytes(end)
        paces = [pace for pace in map(self._moves.pace, moves) if pace is not None]
        if len(paces) < len(moves):  # a tensor between the moves that they do not read
            return self._moves.whole_bytes(end)
        return least_lead(paces, table.row_bytes(source), table.row_bytes(layer_order.at(end)))


# An array of labels has a label in each column and these rows: bytes of line buffers; bytes of the
# largest staging buffer; MACs; and, to trace a label back, the number of the extended state, the column
# of the extended label in that state, and the index of the move.
LINES, STAGING, MACS, BEFORE, LABEL, MOVE = range(6)


class GroupLabels:
    """All labels of the groups that begin at one separator."""

    def __init__(
        self,
        moves: GroupMoves,
        begin: int,
        limits: tuple[int, int, int],
        stop: Stop,
        *,
        is_streamed: bool,
    ) -> None:
        """Set the separator, and the stop whose effort the search spends.

        limits: bytes of a group; MACs from the begin of the group to the end of the network; labels of
            a state. Where more labels are undominated, the search drops some, and is a heuristic.
        """
        self._moves, self._stop = moves, stop
        self._memory, self._work, self._labels = limits
        self._begin = begin
        source = 0 if is_streamed else moves.whole_bytes(begin)
        self._source = np.array(source, ranges.number_type(4 * source))
        # A state is a separator, and the rows of a batch of its tensor.
        # Of each extended state, by its number: its labels, and the moves after its separator.
        self._states: list[tuple[Array, MoveArrays]] = []
        # The labels that reach each state that is not yet extended, by separator and rows.
        self._open: dict[int, dict[int, list[Array]]] = defaultdict(lambda: defaultdict(list))
        first = np.zeros((6, 1), np.int64)
        first[LINES] = moves.carried_bytes(begin)
        self._open[begin][1 if is_streamed else WHOLE].append(first)
        self.has_left_out = False  # whether the limit on the labels of a state dropped labels

    def ends(self) -> Iterator[tuple[int, Array]]:
        """Yield the separators that end a group, each with its labels.

        LINES of these labels is the peak of the whole group. Of its source and its result it counts
        only the larger tensor, as if they overlapped completely.
        """
        last = len(self._moves.layer_order.separators) - 1
        for cut in range(self._begin, last):
            for rows, labels in sorted(self._open.pop(cut, {}).items()):
                yield from self._extended(cut, rows, self._pruned(labels))

    def _extended(self, cut: int, rows: int, labels: Array) -> Iterator[tuple[int, Array]]:
        """Extend the labels of a state (columns) by all moves (rows); yield ended groups, as `ends`."""
        computed = self._moves.computed
        choices = self._moves.arrays(cut, rows)
        self._stop.spend(
            STATE_EFFORT
            + STAGE_EFFORT * (self._moves.computed - computed)
            + labels.shape[1] * len(choices.moves) // EXTENSIONS
        )
        self._stop.look()
        if not len(choices.moves):
            return
        number = len(self._states)
        self._states.append((labels, choices))
        lines = labels[LINES] + choices.lines[:, None]
        work = labels[MACS] + choices.work[:, None]
        staging = np.maximum(labels[STAGING], choices.staging[:, None])
        peak = lines + staging + np.maximum(self._source, choices.result)[:, None]
        is_cheap = work + choices.left[:, None] <= self._work
        ends = (peak <= self._memory) & is_cheap
        yield from _by_target(choices.end, ends, number, peak, staging, work)
        staging = np.maximum(labels[STAGING], choices.staging_onward[:, None])
        last = len(self._moves.layer_order.separators) - 1
        continues = is_cheap & (choices.end < last)[:, None]
        continues &= self._source + lines + staging <= self._memory
        for key, reached in _by_target(choices.key, continues, number, lines, staging, work):
            end, batch = choices.keys[key]
            self._open[end][batch].append(reached)

    def _pruned(self, arrays: list[Array]) -> Array:
        """Return the undominated labels; beyond the limit, labels evenly spread over their bytes."""
        labels = np.concatenate(arrays, axis=1)
        self._stop.spend(labels.shape[1] // LABELS)
        kept = undominated(labels[LINES], labels[STAGING], labels[MACS])
        if len(kept) > self._labels:
            self.has_left_out = True
            order = kept[np.argsort((labels[LINES] + labels[STAGING])[kept], kind="stable")]
            spread = np.linspace(0, len(order) - 1, self._labels)
            kept = order[np.unique(spread.astype(np.int64))]
        return labels.take(kept, axis=1)

    def moves_of(self, labels: Array, number: int) -> JoinedMoves:
        """Return the moves of the partial group of a label."""
        moves: list[GroupMove] = []
        while True:
            labels_before, choices = self._states[int(labels[BEFORE, number])]
            moves.append(choices.moves[int(labels[MOVE, number])])
            number, labels = int(labels[LABEL, number]), labels_before
            if moves[-1].begin == self._begin:
                return tuple(reversed(moves))


def _by_target(
    target: Array, wanted: Array, state: int, *sums: Array
) -> Iterator[tuple[int, Array]]:
    """Yield the wanted pairs of a move (row) and an extended label (column) as labels, by target.

    target: of each move, in ascending order: the separator or the state that the move reaches.
    state: number of the extended state.
    sums: LINES, STAGING and MACS of each pair.
    """
    move, label = np.nonzero(wanted)
    if not len(move):
        return
    labels = np.empty((6, len(move)), np.result_type(*sums))
    for row, numbers in enumerate(sums):
        labels[row] = numbers[wanted]
    labels[BEFORE], labels[LABEL], labels[MOVE] = state, label, move
    targets = target[move]
    bounds = (np.flatnonzero(targets[1:] != targets[:-1]) + 1).tolist()
    for begin, end in pairwise((0, *bounds, len(move))):
        yield int(targets[begin]), labels[:, begin:end]


def undominated(first: Array, second: Array, third: Array) -> Array:
    """Return the indices of the triples that no other triple dominates.

    Of equal triples the first is kept. O(n log n) for short staircases.
    """
    order = np.lexsort((second, first, third))
    backend = compiler.backend(fits=all(column.dtype == np.int64 for column in (first, second)))
    columns = [first, second, order]
    if not backend.is_compiled:
        columns = [column.tolist() for column in columns]
    kept = backend.blank(len(order))
    rooms = backend.blank(len(order)), backend.blank(len(order))
    count = backend.kernel(dominance.undominated)(*columns, *rooms, kept)
    return np.array(kept[:count], np.int64)
