"""Fast and slow memory in one plan: least bytes to and from the slow one, by labels over layers.

Layers work in fast memory. A tensor that lies whole between groups may lie in the slow one; its rows
are copied into a ring of the group that reads it, or are read there once, by layers that read no byte
twice. The last stage of a group writes its rows where the result lies. So each byte of a tensor in slow
memory moves once when it is made, and once for each group that reads it.

The search goes along the topological order. A label is the set of live tensors in fast memory, with
the slow bytes so far; groups are runs of layers row by row, and the groups of stages with strips
that planners.memory.labels finds between separators. Exact in this space as far as the live bytes of
a group decide what fits, unless labels are left out; offsets are found behind it, and where they take
more, the search is made again with less.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import NamedTuple

from cnn2csdf import operators as op
from cnn2csdf.network import Network
from cnn2csdf.weights import Model
from csdf.arguments import Positive, public
from csdf.errors import InvalidArgument, InvalidNetwork
from csdf.search.pareto import improving
from csdf.model.shown import Shown
from csdf.status import Reason, Status, Why, because
from csdf.time_limit import ENDS, Budget, Stop, reason_of, stop_of
from planners.arena.problem import loads
from planners.memory.labels import ANY_WORK, GroupLabels, Labels, Limits
from planners.memory.line_buffers import Keeping, kept_rows
from planners.memory.moves import Moves, made_by_rows
from planners.memory.order import TopologicalOrder, topological_order
from planners.memory.placement import GroupBytes, placed
from planners.memory.plain_plans import whole_tensors
from planners.memory.stages import Geometry, StageTable
from planners.plan.accumulators import sums_over_rows
from planners.plan.firing import firing_order, turns_of
from planners.plan.plan import (
    ACCUMULATOR_BYTES,
    Kind,
    Memory,
    Mode,
    PlannedGroup,
    PlannedStage,
    Stage,
    StreamBuffer,
    StreamingPlan,
)

MOST_LABELS = 256  # sets of tensors in fast memory at a place of the order
MOST_WAYS = 3  # from least bytes to least work, of stages between two separators
WIDTH = 12  # labels inside a group, as the first search of csdf fit has
LONGEST_RUN = 32  # layers of a group that is not between separators
MOST_ATTEMPTS = 8  # searches with less memory where offsets take more than is counted
READ_ONCE = (
    *(op.Elementwise, op.Activation, op.BatchNormalization, op.Identity),
    *(op.Concatenation, op.Slice, op.Conversion, op.View),
)

Names = frozenset[str]


class MemoriesWhy(Why):
    """Reasons for the status of a plan in fast and slow memory."""

    ALL_FAST = "all tensors lie in fast memory, and nothing moves"
    BOUND = "no schedule moves less"
    LEAST = "no plan of these groups moves less: rows, strips, whole layers"
    LABELS = "groups of rows, strips and whole layers; some sets of tensors were not followed"
    PLACED = "of these groups some move less, for which no offsets were found"
    BY_THEN = "the best by then: {end}"
    NONE = "no group that works layer {layer!r} fits into {fast} bytes of fast memory"
    SLOW = "the plan takes {needed} bytes of slow memory"


@public
@dataclass(frozen=True, slots=True, kw_only=True)
class MemoriesFit(Shown):
    """A plan of a network in fast and slow memory, and what others move.

    plan: None where none was found. lower_bound: bytes that any schedule moves to and from slow
    memory. all_slow: that layers move that work one after another with all tensors in slow memory,
    each read once by a layer. greedy: with the largest tensors there until the others fit.
    """

    network: str
    memories: tuple[Memory, ...]
    plan: StreamingPlan | None
    lower_bound: int
    all_slow: int
    greedy: int
    status: Status
    reason: Reason

    @property
    def slow_bytes(self) -> int | None:
        """Bytes of a frame to and from slow memory."""
        return None if self.plan is None else self.plan.slow_bytes


class Group(NamedTuple):
    """Layers of the order from begin to before end, as stages, and what they need of fast memory.

    streamed: the tensor of which rows are copied into a ring. rings: rows of each. fast: bytes of rings,
    sums and strips. read: tensors from outside with the bytes that a frame reads of each.
    in_place: those that may be read where they lie. results: tensors that others need.
    """

    begin: int
    end: int
    geometry: tuple[Geometry, ...]
    streamed: str | None
    rings: dict[str, int]
    staging: int
    fast: int
    work: int
    read: dict[str, int]
    in_place: Names
    results: tuple[str, ...]


class Label(NamedTuple):
    """The least slow bytes, then work, with which a set of tensors lies in fast memory.

    before: the label and group that lead here, and the results of that group in fast memory.
    """

    slow: int
    work: int
    before: tuple[Names, Group] | None


@public
def fit_memories(
    network: Network | Model,
    memories: Sequence[Memory],
    *,
    element_bytes: Positive | None = None,
    budget: Budget = None,
) -> MemoriesFit:
    """Return the plan of a network with the least bytes moved to and from slow memory.

    memories: a fast one and a slow one, each with its size. Inputs lie where the plan says before a
    frame begins; results stay where they are made. budget: a stop, or seconds; then the best by then.
    Raises InvalidArgument for other memories, InvalidNetwork for a network that keeps a state.
    """
    network = network.network if isinstance(network, Model) else network
    if [one.is_slow for one in memories] != [False, True] or memories[0].name == memories[1].name:
        found = ", ".join(f"{one.name}{' (slow)' * one.is_slow}" for one in memories)
        raise InvalidArgument(
            f"memories {found}; expected a fast one and then a slow one, such as sram=64kB and "
            "psram=2MB:slow"
        )
    if network.keeps_state:
        raise InvalidNetwork(
            f"network {network.name!r} keeps a state; plan it in one memory with --ram"
        )
    return _Planning(network, memories, element_bytes, stop_of(budget)).answer()


class _Planning:
    """The search for one network in two memories."""

    def __init__(
        self, network: Network, memories: Sequence[Memory], element_bytes: int | None, stop: Stop
    ) -> None:
        self._network = network
        self._memories = tuple(memories)
        self._course = topological_order(network)
        self._table = StageTable(network, element_bytes=element_bytes)
        self._stop = stop
        self._sizes = {name: self._table.tensor_bytes(name) for name in self._course.layers}
        self._sizes |= {name: self._table.tensor_bytes(name) for name in self._course.others}

    def answer(self) -> MemoriesFit:
        fast, slow = (one.size for one in self._memories)
        bound = least_slow_bytes(self._course, self._sizes, fast)
        groups = Groups(self._course, self._table, fast, self._stop)
        plan, reason = self._planned(groups, bound)
        if plan is None:
            status = Status.UNKNOWN
        elif plan.memories[1].size > slow:
            reason = because(MemoriesWhy.SLOW, needed=plan.memories[1].size)
            status, plan = Status.UNKNOWN, None
        else:
            is_least = plan.slow_bytes == bound
            status = Status.OPTIMAL if is_least else Status.FEASIBLE
            if is_least:
                why = MemoriesWhy.ALL_FAST if not bound else MemoriesWhy.BOUND
                reason = because(why)
        return MemoriesFit(
            network=self._network.name,
            memories=self._memories,
            plan=plan,
            lower_bound=bound,
            all_slow=slow_bytes_of_whole_layers(self._course, self._sizes, frozenset()),
            greedy=greedy_split(self._course, self._table, self._sizes, fast),
            status=status,
            reason=reason,
        )

    def _planned(self, groups: Groups, bound: int) -> tuple[StreamingPlan | None, Reason]:
        """The plan with the least slow bytes whose offsets fit, and what is known of others."""
        fast = capacity = self._memories[0].size
        best: StreamingPlan | None = None
        first: int | None = None
        reason = because(MemoriesWhy.LEAST)
        try:
            for _ in range(MOST_ATTEMPTS):
                search = Search(self._course, self._sizes, groups, capacity, self._stop)
                chain, is_complete = search.chain()
                if not is_complete:
                    reason = because(MemoriesWhy.LABELS)
                if chain is None:
                    if best is None:
                        reason = because(MemoriesWhy.NONE, layer=search.stuck_at, fast=capacity)
                    break
                plan = plan_in_memories(self._course, self._table, self._memories, chain)
                first = plan.slow_bytes if first is None else first
                taken = plan.memories[0].size
                if taken <= fast and (best is None or plan.slow_bytes < best.slow_bytes):
                    best = plan
                if taken <= fast:
                    break
                capacity -= max(taken - fast, fast // 64)
        except ENDS as end:
            reason = because(MemoriesWhy.BY_THEN, end=reason_of(end))
        if best is not None and first is not None and first < best.slow_bytes:
            reason = because(MemoriesWhy.PLACED)
        return best, reason


class Groups:
    """The groups that begin at each place of the order, and need no more than so many bytes."""

    def __init__(self, course: TopologicalOrder, table: StageTable, fast: int, stop: Stop) -> None:
        self._course, self._table, self._fast, self._stop = course, table, fast, stop
        self.layers = course.layers[1:]
        self.last_read = {name: -1 for name in (*course.layers, *course.others)}
        for number, name in enumerate(self.layers):
            for source in course.network.layer(name).inputs:
                self.last_read[source] = number
        self.last_read |= dict.fromkeys(course.results, len(self.layers))
        outside = frozenset(course.at(cut) for cut in range(len(course.separators)))
        inner = StageTable(course.network, element_bytes=table.element_bytes, outside=outside)
        self._moves = Moves(course, inner)
        self._cut_at = {place: cut for cut, place in enumerate(course.separators)}
        self._found: dict[int, list[Group]] = {}

    def at(self, begin: int) -> list[Group]:
        """Return the groups whose first layer is that of this number."""
        if begin not in self._found:
            self._stop.look()
            found = [*self._runs(begin), *self._with_strips(begin)]
            kept = {}
            for one in sorted(found, key=lambda one: (one.fast, one.work)):
                key = one.end, one.streamed, one.in_place
                if key not in kept or one.work < kept[key][-1].work:
                    kept.setdefault(key, []).append(one)
            self._found[begin] = [one for some in kept.values() for one in some]
        return self._found[begin]

    def _runs(self, begin: int) -> Iterator[Group]:
        """Layers row by row, each a stage: as many as fit; a single one as a whole, too."""
        network = self._course.network
        layer = self.layers[begin]
        yield from self._ways(begin, begin + 1, (Stage(layers=(layer,), rows=self._table.height(layer)),))
        stages: list[Stage] = []
        for end in range(begin + 1, min(len(self.layers), begin + LONGEST_RUN) + 1):
            layer = network.layer(self.layers[end - 1])
            mode = Mode.ACCUMULATING if sums_over_rows(network, layer) else Mode.ROWS
            stages.append(Stage(layers=(layer.name,), rows=1, mode=mode))
            found = list(self._ways(begin, end, stages))
            yield from found
            if not found:
                return

    def _with_strips(self, begin: int) -> Iterator[Group]:
        """The groups of stages of several layers between separators."""
        cut = self._cut_at.get(begin)
        if cut is None or begin == len(self.layers):
            return
        limits = Limits(self._fast, ANY_WORK, WIDTH)
        for is_streamed in (True, False):
            search = GroupLabels(self._moves, cut, limits, is_streamed=is_streamed)
            found = defaultdict[int, list[tuple[int, int, Labels, int]]](list)
            for end, labels in search.ends():
                self._stop.look()
                numbers = zip(labels.lines.tolist(), labels.work.tolist(), strict=True)
                found[end] += [(*both, labels, place) for place, both in enumerate(numbers)]
            for end, some in found.items():
                best = improving(some, lambda one: one[:2])
                for _, _, labels, number in best[:: -(-len(best) // MOST_WAYS)]:
                    moves = search.moves_of(labels, number)
                    stages = [stage for move in moves for stage in move.stages]
                    yield from self._ways(begin, self._course.separators[end], stages)

    def _ways(self, begin: int, end: int, stages: Sequence[Stage]) -> Iterator[Group]:
        """Stages with nothing copied, and with rows of each tensor that has to be, where they fit."""
        table = self._table
        geometry = tuple(table.geometry(stage) for stage in stages)
        inside = set(self.layers[begin:end])
        read: dict[str, int] = defaultdict(int)
        in_place, once = set[str](), dict[str, bool]()
        for one in geometry:
            for name in one.stage.layers:
                layer = table.network.layer(name)
                for index, source in enumerate(layer.inputs):
                    if source not in inside:
                        read[source] += table.tensor_bytes(source)
                        once[source] = once.get(source, True) and self._reads_once(one, name, index)
        in_place = {source for source, is_once in once.items() if is_once}
        results = tuple(
            name for name in self.layers[begin:end] if self.last_read[name] >= end or name == self.layers[end - 1]
        )
        if any(name not in {one.stage.result for one in geometry} for name in results):
            return
        for streamed in (None, *read):
            found = self._group(begin, end, geometry, streamed, results)
            if found is not None:
                sizes = dict(read)
                if streamed is not None:
                    sizes[streamed] = table.tensor_bytes(streamed)
                yield found._replace(read=sizes, in_place=frozenset(in_place - {streamed}))

    def _reads_once(self, one: Geometry, name: str, index: int) -> bool:
        """Whether a stage of one layer reads each byte of an input once, row after row."""
        layer = self._table.network.layer(name)
        if len(one.stage.layers) > 1 or not isinstance(layer.operator, READ_ONCE):
            return False
        needs = self._table.row_needs(layer, index)
        return sum(end - first for first, end in needs) == self._table.height(layer.inputs[index])

    def _group(
        self,
        begin: int,
        end: int,
        geometry: tuple[Geometry, ...],
        streamed: str | None,
        results: tuple[str, ...],
    ) -> Group | None:
        """The group with exact bytes of its rings, unless they are too many."""
        table = self._table
        firings = [one.firings for one in geometry]
        strips = [one.strip_bytes for one in geometry]
        if streamed is not None:
            firings.insert(0, made_by_rows(streamed, table.height(streamed), 1))
            strips.insert(0, 0)
        keeping = {one.result: Keeping.RING for one in firings} | dict.fromkeys(results, Keeping.WHOLE)
        sizes = {one.result: table.row_bytes(one.result) for one in firings}
        kept = kept_rows(firings, sizes, strips, keeping)
        pieces = [rows * sizes[name] for name, rows in kept.rows.items()]
        pieces += [one.accumulator for one in geometry]
        staging = -(-max(kept.passing) // ACCUMULATOR_BYTES) * ACCUMULATOR_BYTES
        fast = sum(pieces) + staging
        if fast > self._fast:
            return None
        work = sum(one.work for one in geometry)
        return Group(
            begin, end, geometry, streamed, dict(kept.rows), staging, fast, work, {}, frozenset(), results
        )


class Search:
    """Labels along the order, in so many bytes of fast memory."""

    def __init__(
        self,
        course: TopologicalOrder,
        sizes: dict[str, int],
        groups: Groups,
        capacity: int,
        stop: Stop,
    ) -> None:
        self._course, self._sizes, self._groups = course, sizes, groups
        self._capacity, self._stop = capacity, stop
        self._labels: list[dict[Names, Label]] = [{} for _ in range(len(groups.layers) + 1)]
        self._is_complete = True
        self.stuck_at = groups.layers[0]

    def chain(self) -> tuple[list[tuple[Group, Names]] | None, bool]:
        """Return the groups, each with the tensors in fast memory while it works, and if all was seen."""
        inputs = (self._course.at(0), *self._course.others)
        for fast in subsets(inputs):
            if self._bytes(fast) <= self._capacity:
                self._labels[0][fast] = Label(0, 0, None)
        for place, labels in enumerate(self._labels[:-1]):
            self._stop.look()
            if labels:
                self.stuck_at = self._groups.layers[place]
                self._follow(place)
        last = self._labels[-1]
        if not last:
            return None, self._is_complete
        fast = min(last, key=lambda one: (last[one][:2], sorted(one)))
        return self._traced(fast), self._is_complete

    def _follow(self, place: int) -> None:
        """Extend the labels of a place by all groups that begin there."""
        labels = self._labels[place]
        if len(labels) > MOST_LABELS:
            self._is_complete = False
            least = sorted(labels, key=lambda one: (labels[one][:2], sorted(one)))
            labels = self._labels[place] = {one: labels[one] for one in least[:MOST_LABELS]}
        for group in self._groups.at(place):
            for fast, label in labels.items():
                self._extend(group, fast, label)

    def _extend(self, group: Group, fast: Names, label: Label) -> None:
        away = [name for name in group.read if name not in fast]
        if group.streamed is not None and group.streamed not in away:
            return
        if any(name != group.streamed and name not in group.in_place for name in away):
            return
        slow = label.slow + sum(group.read[name] for name in away)
        room = self._capacity - group.fast - self._bytes(fast)
        for here in subsets(group.results):
            if self._bytes(here) > room:
                continue
            if any(name in self._read_inside(group) for name in group.results if name not in here):
                continue
            total = slow + sum(self._sizes[name] for name in group.results if name not in here)
            live = frozenset(one for one in fast | here if self._groups.last_read[one] >= group.end)
            known = self._labels[group.end].get(live)
            if known is None or (total, label.work + group.work) < known[:2]:
                found = Label(total, label.work + group.work, (fast, group, here))
                self._labels[group.end][live] = found

    def _read_inside(self, group: Group) -> Names:
        return frozenset(
            reading.tensor for one in group.geometry for reading in one.firings.readings
        )

    def _bytes(self, names: Iterable[str]) -> int:
        return sum(self._sizes[name] for name in names)

    def _traced(self, fast: Names) -> list[tuple[Group, Names]]:
        found: list[tuple[Group, Names]] = []
        place = len(self._labels) - 1
        while (before := self._labels[place][fast].before) is not None:
            fast, group, here = before
            found.append((group, fast | here))
            place = group.begin
        return found[::-1]


def subsets(names: Sequence[str]) -> Iterator[Names]:
    """Yield all sets of some names, the largest first."""
    for count in range(len(names), -1, -1):
        yield from map(frozenset, combinations(names, count))


def least_slow_bytes(course: TopologicalOrder, sizes: dict[str, int], fast: int) -> int:
    """Return slow bytes of any schedule of whole inputs and results: of those that cannot lie in fast memory.

    Inputs are there together before the first layer works, results behind the last.
    """
    found = 0
    for names in ((course.at(0), *course.others), tuple(course.results)):
        least = sum(sizes[name] for name in names)
        for staying in subsets(names):
            if sum(sizes[name] for name in staying) <= fast:
                least = min(least, sum(sizes[name] for name in names if name not in staying))
        found += least
    return found


def slow_bytes_of_whole_layers(
    course: TopologicalOrder, sizes: dict[str, int], fast: Names
) -> int:
    """Return slow bytes where each layer works whole: once for its result, once for each input."""
    found = 0
    for name in course.layers[1:]:
        for one in (name, *course.network.layer(name).inputs):
            found += 0 if one in fast else sizes[one]
    return found


def greedy_split(
    course: TopologicalOrder, table: StageTable, sizes: dict[str, int], fast: int
) -> int:
    """Return slow bytes of whole layers with the largest tensors in slow memory until the others fit.

    They fit where those that live at one time do, which is generous: offsets may take more.
    """
    whole = whole_tensors(course.network, element_bytes=table.element_bytes)
    inside = sorted(whole.buffers, key=lambda one: one.size)
    while max(loads([(b.start, b.end, b.size) for b in inside]).values(), default=0) > fast:
        inside.pop()
    return slow_bytes_of_whole_layers(course, sizes, frozenset(one.name for one in inside))


def plan_in_memories(
    course: TopologicalOrder,
    table: StageTable,
    memories: Sequence[Memory],
    chain: Sequence[tuple[Group, Names]],
) -> StreamingPlan:
    """Return the plan of a chain of groups, each with the tensors in fast memory while it works.

    Its memories have the bytes that it takes of each. The slow one lies behind the fast one.
    """
    buffers: list[tuple[StreamBuffer, bool]] = []
    slow_bytes = 0
    lives = _lives(course, [group for group, _ in chain])
    for name, (begin, end) in lives.items():
        whole = _buffer(name, Kind.WHOLE, name, table.tensor_bytes(name), begin, end)
        buffers.append((replace(whole, rows=table.height(name)), name not in chain[begin][1]))
    for number, (group, fast) in enumerate(chain):
        slow_bytes += sum(size for name, size in group.read.items() if name not in fast)
        slow_bytes += sum(table.tensor_bytes(one) for one in group.results if one not in fast)
        buffers += [(one, False) for one in _inside(table, group, number)]
    widest = max(ACCUMULATOR_BYTES, *map(table.bytes_of, course.layers))
    offsets = dict[str, int]()
    taken: list[int] = []
    for is_slow in (False, True):
        here = [one for one, lies_slow in buffers if lies_slow == is_slow]
        pieces = [
            GroupBytes(
                name=one.name,
                size=one.size,
                begin=one.begin,
                end=one.end,
                alignment=table.bytes_of(one.tensor) if one.has_rows else widest,
                is_inner=one.kind is not Kind.WHOLE,
            )
            for one in here
        ]
        live = [sum(one.size for one in here if one.begin <= n < one.end) for n in range(len(chain))]
        found = placed(pieces, [], enough=max(live))
        begin = sum(taken)
        offsets |= {name: begin + at for name, at in found.items()}
        end = max((found[one.name] + one.size for one in here), default=0)
        taken.append(end if is_slow else -(-end // widest) * widest)
    return StreamingPlan(
        network=course.network.name,
        element_bytes=table.element_bytes,
        groups=tuple(_planned(table, group) for group, _ in chain),
        buffers=tuple(replace(one, offset=offsets[one.name]) for one, _ in buffers),
        arena_bytes=sum(taken),
        multiply_accumulates=sum(group.work for group, _ in chain),
        memories=tuple(
            replace(one, size=size) for one, size in zip(memories, taken, strict=True)
        ),
        slow_bytes=slow_bytes,
    )


def _lives(course: TopologicalOrder, groups: Sequence[Group]) -> dict[str, tuple[int, int]]:
    """The first group, and one past the last, of all tensors that lie whole."""
    begin = dict.fromkeys((course.at(0), *course.others), 0)
    end: dict[str, int] = {}
    for number, group in enumerate(groups):
        begin |= dict.fromkeys(group.results, number)
        end |= dict.fromkeys(group.read, number + 1)
    end |= dict.fromkeys(course.results, len(groups))
    return {name: (first, end.get(name, first + 1)) for name, first in begin.items()}


def _inside(table: StageTable, group: Group, number: int) -> Iterator[StreamBuffer]:
    """Rings, sums and strips of a group."""
    layers = [table.network.layer(name) for one in group.geometry for name in one.stage.layers]
    for tensor, rows in group.rings.items():
        size = rows * table.row_bytes(tensor)
        one = _buffer(f"{tensor} ring {number + 1}", Kind.RING, tensor, size, number, number + 1)
        readers = tuple(layer.name for layer in layers if tensor in layer.inputs)
        yield replace(one, rows=rows, readers=readers if tensor == group.streamed else ())
    for found in group.geometry:
        if found.accumulator:
            result, size = found.firings.result, found.accumulator
            name = f"{result} {Kind.ACCUMULATORS.value}"
            yield _buffer(name, Kind.ACCUMULATORS, result, size, number, number + 1)
    last = group.geometry[-1].firings.result
    name = f"{last} {Kind.STAGING.value}"
    yield _buffer(name, Kind.STAGING, last, group.staging, number, number + 1)


def _buffer(
    name: str, kind: Kind, tensor: str, size: int, begin: int, end: int
) -> StreamBuffer:
    return StreamBuffer(
        name=name, kind=kind, tensor=tensor, rows=0, size=size, offset=0, begin=begin, end=end
    )


def _planned(table: StageTable, group: Group) -> PlannedGroup:
    """The group of a plan, with the order in which demands of its last stage let it fire."""
    firings = [one.firings for one in group.geometry]
    if group.streamed is not None:
        firings.insert(0, made_by_rows(group.streamed, table.height(group.streamed), 1))
    return PlannedGroup(
        stages=tuple(PlannedStage(stage=one.stage, strips=one.strips) for one in group.geometry),
        streamed_input=group.streamed,
        order=turns_of([firings[place].result for place in firing_order(firings)]),
    )
