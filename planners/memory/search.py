"""The ways of a network in an arena, found one after the other until a stop.

First the plain ones: whole layers, and all layers by rows. Then the search of groups, with more and
more labels at a place: lines alone, and strips below what lines need. Where the plan of a chain of
groups takes more bytes than are counted, chains whose tensors find places are looked for beside it.
Spaces of moves: those that compute nothing twice, a few for a first answer, layers worked twice.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

from cnn2csdf.parameters import multiply_accumulates
from csdf.errors import counted
from csdf.log import Log
from csdf.status import Reason
from csdf.time_limit import ENDS, Stop, reason_of
from planners.memory.answer import (
    BY_ROWS,
    HEADS,
    IN_PARTS,
    LINES,
    LINES_AGAIN,
    PLAIN,
    STRIPS,
    TWICE,
    WHOLE_LAYERS,
    FitMethod,
)
from planners.memory.labels import ALL, ANY_WORK, OtherGroups, front
from planners.memory.line_buffers import least_lead, pace_of
from planners.memory.making import smaller_plan
from planners.memory.moves import (
    PARTS,
    WHOLE,
    GroupMove,
    GroupMoves,
    GroupWay,
    OrderSection,
    PlanWay,
)
from planners.memory.order import TopologicalOrder
from planners.memory.placed_chains import PlacedChains
from planners.memory.plain_plans import layer_by_layer, row_by_row
from planners.memory.stage_orders import StageOrders
from planners.memory.stages import StageTable
from planners.memory.times import PlanTimes
from planners.plan.plan import Span, Stage, StreamingPlan
from planners.plan.ram import state_bytes
from planners.plan.rematerialisation import (
    LONGEST_SPAN,
    TIMES_LONGER,
    Rematerialisation,
    done_twice,
    heads_between,
)

LOG = Log("csdf.planners.memory")

ANY_BYTES = 2**62  # more than any arena has
SMALL_GAP = 256  # part of the bytes counted; no other chain is looked for
PARTS_OF_GAP = 4  # arenas that are tried between what is counted and what is taken
MOST_CAPS = 12  # arenas that are tried after a search
PLAN_EFFORT = 100  # of a plan: microseconds of a usual machine for each of its stages
WIDTHS = (12, 100, ALL)  # labels at a place, one search after the other


class Finding:
    """The ways of a network. ended: the reason, where the stop ended the search."""

    def __init__(
        self,
        course: TopologicalOrder,
        table: StageTable,
        *,
        is_streamed: bool,
        searched: Sequence[str],
        labels: Sequence[int],
        ram: int | None,
        counts_state: bool,
        times: PlanTimes | None,
        stop: Stop,
    ) -> None:
        """Take where the input comes from, the spaces to search, and the RAM that is asked for.

        counts_state: whether that is the RAM of arena and execution state, or of the arena.
        """
        self.methods: list[FitMethod] = []
        self._chains: dict[int, PlanWay] = {}  # of plans in `methods`, by their identity
        self.ended: Reason | None = None
        self._course, self._table = course, table
        self._is_streamed = is_streamed
        self._spaces = {name: moves for name, moves in self._all_spaces() if name in searched}
        self._widths = labels
        self._ram = ram
        self._counts_state = counts_state
        self._times = times
        self._stop = stop
        self._planned: set[tuple[object, ...]] = set()  # plans that were made, by their moves
        network = course.network
        self._once = sum(
            multiply_accumulates(layer, network.input_shapes(layer)) for layer in network.layers
        )

    def _all_spaces(self) -> Iterator[tuple[str, GroupMoves]]:
        """The spaces with strips; that in which gates are computed twice only if there are gates."""
        yield STRIPS, GroupMoves(self._course, self._table)
        twice = TwiceMoves(self._course, self._table)
        if twice.has_spans:
            yield TWICE, twice
        yield IN_PARTS, GroupMoves(self._course, self._table, PARTS)

    def run(self) -> None:
        """Find the plain ways, and as many others as the stop allows."""
        where = self._course, self._table
        self._add(WHOLE_LAYERS, layer_by_layer(*where, is_streamed=self._is_streamed).plan)
        self._add(BY_ROWS, row_by_row(*where, is_streamed=self._is_streamed).plan)
        try:
            self._search()
        except ENDS as end:
            self.ended = reason_of(end)

    def run_without_ram(self, stop: Stop) -> None:
        """Search as without a limit of RAM: each plan that is listed then is found with a limit too.

        The limits of a search decide which of equal counts are kept, and how far an effort goes.
        """
        self._ram, self._stop = None, stop
        before = self.ended
        try:
            self._search()
        except ENDS as end:
            self.ended = before or reason_of(end)

    def improve(self, method: FitMethod, stop: Stop) -> None:
        """Add the plan of a method with other orders of its stages, where a smaller one is found.

        `ended` does not say whether the stop ended it.
        """
        chain = self._chains.get(id(method.plan))
        if chain is None:
            return
        orders = StageOrders(course=self._course, table=self._table, is_streamed=self._is_streamed)
        plan = orders.improve(chain, method.plan, stop)
        if plan.arena_bytes < method.ram_bytes:
            self._add(method.name, plan)

    def _add(self, name: str, plan: StreamingPlan) -> None:
        if name == LINES and plan.rematerialised:
            name = HEADS if any(span.by_heads for span in plan.rematerialised) else LINES_AGAIN
        work = Fraction(plan.multiply_accumulates, max(self._once, 1))
        nanoseconds = None if self._times is None else self._times.of(plan)
        groups = counted(len(plan.groups), "group")
        LOG.info(
            "%s: arena of %d bytes, %.4gx MACs, %s", name, plan.arena_bytes, float(work), groups
        )
        self.methods.append(
            FitMethod(
                name=name,
                plan=plan,
                mac_ratio=work,
                nanoseconds=nanoseconds,
                state_bytes=state_bytes(plan, self._course.network) if self._counts_state else 0,
            )
        )

    def _search(self) -> None:
        """Lines alone first, strips below what lines need; with more and more labels at a place."""
        once = OnceMoves(self._course, self._table)
        heads = HeadGroups(once)
        most = min(way.ram_bytes for way in self.methods)
        self._take(LINES, PlainMoves(self._course, self._table), most, self._widths[0])
        for labels in self._widths:
            most = min(way.ram_bytes for way in self.methods if way.name in PLAIN)
            is_complete = self._take(LINES, once, most, labels)
            lowest = min(way.mac_ratio for way in self.methods)  # 1, or 0 where nothing multiplies
            fewest = [way for way in self.methods if way.mac_ratio == lowest]
            least = min(way.ram_bytes for way in fewest)
            if self._is_within_ram(fewest):
                return
            if heads:
                is_complete &= self._take(LINES, once, most, labels, heads)
            is_complete &= self._strips(least, labels)
            if is_complete:
                return

    def _is_within_ram(self, methods: Sequence[FitMethod]) -> bool:
        """Whether the smallest of the methods is within the RAM that is asked for."""
        return self._ram is not None and min(way.with_state for way in methods) <= self._ram

    def _arena_room(self) -> int | None:
        """The RAM that is asked for without the largest execution state so far."""
        return (
            None
            if self._ram is None
            else self._ram - max(method.state_bytes for method in self.methods)
        )

    def _strips(self, least: int, labels: int) -> bool:
        """Look for strips below the least bytes of lines; return whether nothing was left out."""
        is_complete = True
        is_first = labels == self._widths[0]
        for name, moves in self._spaces.items():
            for limit in _limits(least, self._ram):
                before = len(self.methods)
                is_complete &= self._take(name, moves, limit, labels)
                if self._ram is not None and len(self.methods) > before and not is_first:
                    break
        return is_complete

    def _take(
        self,
        name: str,
        moves: GroupMoves,
        limit: int,
        labels: int,
        others: OtherGroups | None = None,
    ) -> bool:
        """Add the plans of a front that are new; return whether none is missing."""
        plan_front = front(
            moves,
            limit,
            is_streamed=self._is_streamed,
            labels=labels,
            others=others,
            budget=self._stop,
        )
        count, end = len(plan_front.plans), "complete" if plan_front.is_complete else "cut short"
        LOG.debug("%s: %d candidates with %d labels a state, %s", name, count, labels, end)
        gaps: list[tuple[int, int]] = []
        for way in plan_front.plans:
            plan = self._tried(name, way)
            if plan is not None and plan.arena_bytes > way.memory:
                gaps.append((way.memory, plan.arena_bytes))
        for cap in _caps(gaps, self._arena_room()):
            self._stop.look()
            works = (
                method.plan.multiply_accumulates
                for method in self.methods
                if method.ram_bytes <= cap
            )
            chain = plan_front.chains.within(cap, min(works, default=ANY_WORK), self._stop)
            if chain is not None:
                self._tried(name, chain)
        if gaps:
            self._sink(name, plan_front.chains, min(counted for counted, _ in gaps))
        return plan_front.is_complete

    def _sink(self, name: str, chains: PlacedChains, counted: int) -> None:
        """Bisect the arena between the bytes that are counted and those of the smallest way.

        With a limit of RAM only as long as no way is within it.
        """
        lower, upper = counted, min(way.ram_bytes for way in self.methods)
        if self._is_within_ram(self.methods):
            return
        while lower + lower // SMALL_GAP < upper:
            self._stop.look()
            cap = (lower + upper) // 2
            chain = chains.within(cap, ANY_WORK, self._stop)
            if chain is None:
                lower = cap + 1
                continue
            self._tried(name, chain)
            upper = min(cap, *(way.ram_bytes for way in self.methods))

    def _tried(self, name: str, way: PlanWay) -> StreamingPlan | None:
        """Add the plan of a chain of groups that is new, unless others are as good; return it."""
        self._stop.look()
        key = (name, *(group.moves for group in way.groups))
        if key in self._planned:
            return None
        self._planned.add(key)
        fewer_macs = (
            method for method in self.methods if method.plan.multiply_accumulates <= way.work
        )
        stages = sum(len(move.stages) for group in way.groups for move in group.moves)
        self._stop.spend(PLAN_EFFORT * stages)
        plan = smaller_plan(
            self._course,
            self._table,
            way.groups,
            is_streamed=self._is_streamed,
            than=min((method.ram_bytes for method in fewer_macs), default=ANY_BYTES),
        )
        if plan is not None:
            self._chains[id(plan)] = way
            self._add(name, plan)
        return plan


def _limits(least: int, ram: int | None) -> Iterator[int]:
    """Limits for the search of strips, each giving all ways below it.

    Of equal counts the search keeps one, another under each limit, and their bytes differ when they
    are placed. So the limits are steps that do not depend on the RAM, and the first search takes all
    from the RAM on: what it finds with more RAM, and fits, it finds with less.
    """
    if ram is None:
        yield from (least // 4, least // 2, least - 1)
        return
    lowest = ram + ram // 8  # the count of the search is above the bytes of its plan here and there
    steps = [least - 1]
    while (below := steps[-1] - steps[-1] // 10 - 1) >= lowest:
        steps.append(below)
    yield from reversed(steps)


def _caps(gaps: Sequence[tuple[int, int]], ram: int | None) -> list[int]:
    """Arenas in which other chains might be placed, where some take more bytes than are counted.

    gaps: bytes that are counted, and those of the plan.
    """
    steps = {
        counted + (taken - counted) * part // PARTS_OF_GAP
        for counted, taken in gaps
        if taken > counted + counted // SMALL_GAP
        for part in range(PARTS_OF_GAP)
    }
    if ram is not None and any(counted <= ram < taken for counted, taken in gaps):
        steps.add(ram)
    caps = sorted(steps)
    return caps[:: -(-len(caps) // MOST_CAPS) or 1]


class TwiceMoves(GroupMoves):
    """All moves, and those in which the layers in front of sums over a whole map work twice."""

    spans_are_free = False  # whether only layers without multiply-accumulates work twice
    longest_way = 3  # cuts beyond the first behind which the sums have been used

    def __init__(self, course: TopologicalOrder, table: StageTable) -> None:
        super().__init__(course, table)
        self._spans: dict[tuple[int, int], tuple[Rematerialisation, StageTable] | None] = {}

    @property
    def has_spans(self) -> bool:
        """Whether there are layers between two cuts that might work twice."""
        return any(
            self._span(begin, end) is not None
            for begin in range(len(self.course.separators))
            for end in self._ends(begin)
        )

    def from_cut(self, begin: int, entry: int) -> Iterator[GroupMove]:
        """Yield the moves that begin behind a cut whose tensor comes so many rows a batch."""
        yield from super().from_cut(begin, entry)
        for end in self._ends(begin) if entry == WHOLE else ():  # it is read twice, all of it
            found = self._span(begin, end)
            if found is not None:
                again, table = found
                span = Span(self.course.at(begin), self.course.at(end))
                section = OrderSection(begin, end, again.layers, table, span)
                yield from self.partitions(section)

    def _ends(self, begin: int) -> Iterator[int]:
        """Cuts to which layers might work twice from a cut on."""
        left = self.longest_way
        for end in range(begin + 1, len(self.course.separators)):
            length = self.course.separators[end] - self.course.separators[begin]
            if length > TIMES_LONGER * LONGEST_SPAN or not left:
                return
            left -= self._span(begin, end) is not None
            yield end

    def _span(self, begin: int, end: int) -> tuple[Rematerialisation, StageTable] | None:
        """The layers between two cuts, some of them twice, where the first tensor is thin."""
        if (begin, end) not in self._spans:
            repeated = done_twice(self.course, begin, end)
            is_worth_it = repeated is not None and self._is_worth_it(begin, repeated)
            self._spans[begin, end] = (
                (repeated, self.table.of(repeated.network))
                if repeated is not None and is_worth_it
                else None
            )
        return self._spans[begin, end]

    def _is_worth_it(self, begin: int, again: Rematerialisation) -> bool:
        """Whether what is computed twice is larger than what it is computed from, or that stays."""
        copied = {copy.layer for copy in again.copies.values()}
        widest = max(map(self.table.tensor_bytes, copied))
        readers = set(again.network.consumers[self.course.at(begin)])
        stays = bool(readers - set(again.copies) - copied)
        copies = map(again.network.layer, again.copies)
        work = sum(multiply_accumulates(copy, again.network.input_shapes(copy)) for copy in copies)
        is_wanted = not work if self.spans_are_free else work > 0
        return is_wanted and self.whole_bytes(begin) < widest + stays

    def table_of(self, move: GroupMove) -> StageTable:
        """Return the table that has the stages of a move."""
        span = self._span(move.begin, move.end) if move.is_rematerialised else None
        return self.table if span is None else span[1]


class OnceMoves(TwiceMoves):
    """The moves that repeat no multiply-accumulate; only layers without any are computed again."""

    spans_are_free = True

    def from_cut(self, begin: int, entry: int) -> Iterator[GroupMove]:
        """Yield the moves that begin behind a cut whose tensor comes so many rows a batch."""
        for move in super().from_cut(begin, entry):
            if not any(self.table_of(move).repeats(stage) for stage in move.stages):
                yield move


class PlainMoves(OnceMoves):
    """The moves of single layers and pairs that compute nothing again, for a first answer."""

    longest_stage = 2
    most_partitions = 1


class HeadGroups:
    """Groups in which the heads of attention work one after another, each with its keys and values."""

    def __init__(self, moves: GroupMoves) -> None:
        """Take the moves of the network, which have no such groups."""
        self._moves, self._course, self._table = moves, moves.course, moves.table
        course = self._course
        self._known: dict[int, GroupWay] = {}
        operators = (course.network.layer(name).operator for name in course.layers)
        places = [
            number for number, operator in enumerate(operators) if operator.attention is not None
        ]
        for begin, place in enumerate(course.separators):
            product = next((later for later in places if later > place), None)
            if product is not None:
                group = self._by_heads(begin, bisect_left(course.separators, product))
                self._known |= {} if group is None else {begin: group}

    def __bool__(self) -> bool:
        """Whether there is an attention whose heads can work one after another."""
        return bool(self._known)

    def __call__(self, begin: int) -> dict[int, list[GroupWay]]:
        """Return the groups behind a cut, by their end."""
        group = self._known.get(begin)
        return {} if group is None else {group.end: [group]}

    def _by_heads(self, begin: int, end: int) -> GroupWay | None:
        """The way between two cuts around an attention: a group for each head, and for the rest."""
        course, moves = self._course, self._moves
        heads_found = heads_between(course, begin, end)
        if heads_found is None:
            return None
        span = Span(course.at(begin), course.at(end), by_heads=True)
        table = self._table.of(heads_found.network)
        part, *_ = heads_found.parts
        first, peak = self._least(OrderSection(begin, end, part.heads[0], table, span))
        last, inner = (
            self._least(OrderSection(begin, end, part.rest, table, span)) if part.rest else ((), 0)
        )
        ends = self._ends_bytes(begin, end, (*part.slices, course.at(begin)), last, table)
        peak = max(peak + (ends if heads_found.joined else moves.whole_bytes(begin)), inner + ends)
        stages: list[Stage] = []
        in_turn: list[int] = []
        for head_part in heads_found.parts:
            before = [_at_once(name, table) for name in head_part.slices]
            heads = [_renamed(first, part.heads[0], head) for head in head_part.heads]
            behind = [_renamed(last, part.rest, head_part.rest)] if last else []
            runs = [*before, *heads, _at_once(head_part.joined, table), *behind]
            stages += (stage for run in runs for stage in run)
            in_turn += map(len, runs)
        if heads_found.joined:
            stages += _at_once(heads_found.joined, table)
            in_turn.append(1)
        whole = moves.carried_bytes(begin) + table.arena_bytes(part.joined)
        work = sum(table.geometry(stage).work for stage in stages)
        move = GroupMove(begin, end, tuple(stages), span)
        return GroupWay(whole + peak, work, begin, end, (move,), tuple(in_turn))

    def _least(self, section: OrderSection) -> tuple[tuple[Stage, ...], int]:
        """The stages of a section with the fewest bytes inside, and those bytes."""
        single = section.move(section.stage((name,), 1) for name in section.layers)
        candidates = []
        for move in (single, *self._moves.around_attention(section)):
            if any(map(section.table.repeats, move.stages)):
                continue
            cost = self._moves.cost(move, WHOLE, section.table)
            candidates.append((cost.lines + max(cost.passing, cost.last), move.stages))
        least, stages = min(candidates, key=lambda candidate: (candidate[0], len(candidate[1])))
        return stages, least

    def _ends_bytes(
        self,
        begin: int,
        end: int,
        sources: Sequence[str],
        stages: Sequence[Stage],
        table: StageTable,
    ) -> int:
        """Bytes of the tensors at both ends, the result over the source as far as it can.

        sources: names under which the stages behind the heads may read the source, or rows of it.
        """
        course = self._course
        name, result = course.at(begin), course.at(end)
        source, size = self._moves.whole_bytes(begin), self._moves.whole_bytes(end)
        firings = [table.geometry(stage).firings for stage in stages]
        read = {reading.tensor for firing in firings for reading in firing.readings} & set(sources)
        if name in course.results or name in course.carried[begin + 1 : end + 1] or len(read) > 1:
            return source + size
        rows = table.row_bytes(name), table.row_bytes(result)
        lead = max((least_lead([pace_of(firings, reading)], *rows) for reading in read), default=0)
        return max(source + min(size, lead), size)


def _at_once(name: str, table: StageTable) -> tuple[Stage, ...]:
    """A layer that makes all its rows in one firing."""
    return (Stage(layers=(name,), rows=table.height(name)),)


def _renamed(
    stages: Sequence[Stage], names: Sequence[str], others: Sequence[str]
) -> tuple[Stage, ...]:
    """The stages of layers that work like others."""
    renamed_layers = dict(zip(names, others, strict=True))
    return tuple(
        replace(stage, layers=tuple(renamed_layers[name] for name in stage.layers))
        for stage in stages
    )
