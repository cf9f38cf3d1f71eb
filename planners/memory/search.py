"""Search for memory plans of a network in an arena, by label-setting dynamic programming, until a stop.

Two baselines are planned first: layer by layer, and all layers row by row. Then chains of groups
are searched with increasing limits on the labels of a state, first with line buffers alone and then
with column strips. If placement of a chain needs more bytes than the search has counted, the arena
is bisected for further chains whose tensors can be placed.

Sets of moves are searched in this order: a small set for a first answer; moves without recomputed
MACs, that is with line buffers alone; then moves with column strips, with rematerialisation and
with channel blocks.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

from cnn2csdf.network import Network
from cnn2csdf.parameters import multiply_accumulates, network_multiply_accumulates
from csdf.errors import GaveUp, counted
from csdf.log import Log
from csdf.search.pareto import improving
from csdf.status import Ended, Reason
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
from planners.memory.build import smaller_plan
from planners.memory.labels import ANY_WORK, PlanFront
from planners.memory.line_buffers import firings_before_last, least_lead, pace_of
from planners.memory.moves import (
    WHOLE,
    GroupMove,
    GroupMoves,
    JoinedMoves,
)
from planners.memory.order import TopologicalOrder
from planners.memory.partitions import PARTS, coarse_partitions, single_layers
from planners.memory.placed_chains import Candidate, PlacedChains
from planners.memory.plain_plans import layer_by_layer, row_by_row
from planners.memory.request import FitRequest
from planners.memory.stage_orders import StageOrders
from planners.memory.stages import StageTable
from planners.plan.plan import Span, Stage, StreamingPlan
from planners.plan.ram import RamBeside, state_bytes
from planners.plan.stack import stage_stack_bytes
from planners.rewrites.layer_copies import Rewritten
from planners.rewrites.rematerialisation import (
    LONGEST_SPAN,
    TIMES_LONGER,
    heads_between,
    rematerialised_between,
)

LOG = Log("csdf.planners.memory")

ANY_BYTES = 2**62  # more than any arena has
SMALL_GAP = 256  # part of the bytes counted; no other chain is looked for
PARTS_OF_GAP = 4  # arenas that are tried between what is counted and what is taken
MOST_CAPS = 12  # arenas that are tried after a search
PLAN_EFFORT = 100  # of a plan: microseconds of a usual machine for each of its stages


def method_of(
    name: str,
    plan: StreamingPlan,
    network: Network,
    nanoseconds: int | None,
    *,
    beside: RamBeside | None,
) -> FitMethod:
    """Return a plan with its figures as a FitMethod.

    beside: stack and reserve, which count as RAM together with the execution state and the stack of
    the plan; None if only the arena counts.
    """
    return FitMethod(
        name=name,
        plan=plan,
        mac_ratio=Fraction(
            plan.multiply_accumulates, max(network_multiply_accumulates(network), 1)
        ),
        nanoseconds=nanoseconds,
        state_bytes=0 if beside is None else state_bytes(plan, network),
        stage_stack_bytes=0 if beside is None else stage_stack_bytes(plan, network),
        beside_bytes=0 if beside is None else beside.bytes,
    )


class PlanSearch:
    """Search for the memory plans of a network; `ended` is the reason if the stop ended the search."""

    def __init__(
        self,
        request: FitRequest,
        layer_order: TopologicalOrder,
        table: StageTable,
        *,
        stop: Stop,
    ) -> None:
        """Set the request, and the execution order with its table. stop: effort limit of the search."""
        self.methods: list[FitMethod] = []
        # Of plans in `methods`, by their identity: the groups from which they were built.
        self._chains: dict[int, tuple[JoinedMoves, ...]] = {}
        self.ended: Reason | None = None
        self._layer_order, self._table = layer_order, table
        self._is_streamed = request.is_streamed
        self._spaces = {
            name: moves for name, moves in self._all_spaces() if name in request.searched
        }
        self._widths = request.labels
        self._ram = None if request.room is None else max(0, request.room)
        self._beside = request.beside
        self._times = request.times(table)
        self._stop = stop
        self._planned: set[tuple[object, ...]] = set()  # names and stages of built chains

    def _all_spaces(self) -> Iterator[tuple[str, GroupMoves]]:
        """The sets of moves with strips; rematerialisation only if there are spans to recompute."""
        yield STRIPS, GroupMoves(self._layer_order, self._table)
        recomputing = RecomputingMoves(self._layer_order, self._table)
        if recomputing.has_spans:
            yield TWICE, recomputing
        yield IN_PARTS, GroupMoves(self._layer_order, self._table, PARTS)

    def plan_baselines(self) -> None:
        """Add the two baseline plans."""
        where = self._layer_order, self._table
        self._add(WHOLE_LAYERS, layer_by_layer(*where, is_streamed=self._is_streamed).plan)
        self._add(BY_ROWS, row_by_row(*where, is_streamed=self._is_streamed).plan)

    def run(self) -> None:
        """Add all plans that the search finds before the stop."""
        try:
            self._search()
        except ENDS as end:
            self.ended = self.ended or reason_of(end)

    @property
    def is_interrupted(self) -> bool:
        """Whether Ctrl-C ended the search, which its stop does not record."""
        return self.ended is not None and self.ended.has(Ended.INTERRUPTED)

    def can_improve(self, known: Sequence[FitMethod], stop: Stop) -> bool:
        """Whether a plan can be below the Pareto front of known plans in bytes and MACs.

        Between two neighbours of the front a better plan has fewer bytes than the larger neighbour
        and fewer MACs than the smaller. Each of these ranges is searched with the labels of the first
        search, whose bytes a plan exceeds unless another order of its stages makes it smaller: of 60
        searches of random networks, 1 missed 3 bytes of a plan of 1.5x MACs. True if the stop ends a
        search. Raises KeyboardInterrupt.
        """
        front_methods = improving(
            known, lambda method: (method.ram_bytes, method.plan.multiply_accumulates)
        )
        moves = [MinimumMacsMoves(self._layer_order, self._table), *self._spaces.values()]
        most_work = ANY_WORK
        try:
            for method in front_methods:
                for space in moves:
                    plan_front = PlanFront(
                        space,
                        method.ram_bytes - 1,
                        is_streamed=self._is_streamed,
                        most_work=most_work,
                        labels=self._widths[0],
                        budget=stop,
                    )
                    if plan_front.plans:
                        return True
                most_work = method.plan.multiply_accumulates - 1
        except GaveUp:
            return True
        return False

    def run_without_ram(self, stop: Stop) -> None:
        """Search without a RAM limit, so that every plan listed for a limit is also found with it.

        The limits of a search decide which of several equal labels is kept, and how far an effort
        reaches.
        """
        self._ram, self._stop = None, stop
        self.run()

    def improve(self, method: FitMethod, stop: Stop) -> None:
        """Add the plan of a method with another order of its stages, if that makes the plan smaller.

        `ended` does not record whether the stop ended this improvement.
        """
        chain = self._chains.get(id(method.plan))
        if chain is None:
            return
        orders = StageOrders(self._layer_order, self._table, stop, is_streamed=self._is_streamed)
        plan = orders.improve(chain, method.plan)
        if plan.arena_bytes < method.ram_bytes:
            self._add(method.name, plan)

    def _add(self, name: str, plan: StreamingPlan) -> None:
        if name == LINES and plan.rematerialised:
            name = HEADS if any(span.by_heads for span in plan.rematerialised) else LINES_AGAIN
        time = None if self._times is None else self._times.of(plan)
        method = method_of(name, plan, self._layer_order.network, time, beside=self._beside)
        work, groups = float(method.mac_ratio), counted(len(plan.groups), "group")
        LOG.info("%s: arena of %d bytes, %.4gx MACs, %s", name, plan.arena_bytes, work, groups)
        self.methods.append(method)

    def _search(self) -> None:
        """Search line buffers first and then strips, with a growing number of labels for each state."""
        moves = MinimumMacsMoves(self._layer_order, self._table)
        heads = _HeadGroups(moves).groups()
        most = min(method.ram_bytes for method in self.methods)
        self._add_front(LINES, FewMoves(self._layer_order, self._table), most, self._widths[0])
        for labels in self._widths:
            most = min(method.ram_bytes for method in self.methods if method.name in PLAIN)
            is_complete = self._add_front(LINES, moves, most, labels)
            lowest = min(method.mac_ratio for method in self.methods)  # 1; 0 without MACs
            fewest_macs = [method for method in self.methods if method.mac_ratio == lowest]
            least = min(method.ram_bytes for method in fewest_macs)
            if self._is_within_ram(fewest_macs):
                return
            if heads:
                is_complete &= self._add_front(LINES, moves, most, labels, heads)
            is_complete &= self._search_strips(least, labels)
            if is_complete:
                return

    def _is_within_ram(self, methods: Sequence[FitMethod]) -> bool:
        """Whether the smallest of the methods fits into the RAM limit."""
        return self._ram is not None and min(method.with_state for method in methods) <= self._ram

    def _search_strips(self, least: int, labels: int) -> bool:
        """Search strips below the minimum of line buffers; return whether the search was exhaustive."""
        is_complete = True
        is_first = labels == self._widths[0]
        for name, moves in self._spaces.items():
            for limit in _limits(least, self._ram):
                before = len(self.methods)
                is_complete &= self._add_front(name, moves, limit, labels)
                if self._ram is not None and len(self.methods) > before and not is_first:
                    break
        return is_complete

    def _add_front(
        self,
        name: str,
        moves: GroupMoves,
        limit: int,
        labels: int,
        others: HeadGroups | None = None,
    ) -> bool:
        """Add the new plans of a Pareto front; return whether the front is complete.

        limit: bytes of a plan, as counted by the search. labels, others: as in PlanFront.
        """
        plan_front = PlanFront(
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
        for memory, work, groups in plan_front.plans:
            plan = self._add_chain(name, work, groups)
            if plan is not None and plan.arena_bytes > memory:
                gaps.append((memory, plan.arena_bytes))
        states = (method.state_bytes for method in self.methods)
        room = None if self._ram is None else self._ram - max(states)
        for cap in _further_arenas(gaps, room):
            self._stop.look()
            works = (
                method.plan.multiply_accumulates
                for method in self.methods
                if method.ram_bytes <= cap
            )
            chain = plan_front.chains.within(cap, min(works, default=ANY_WORK), self._stop)
            if chain is not None:
                self._add_chain(name, *chain)
        if gaps:
            self._bisect_arena(name, plan_front.chains, min(counted for counted, _ in gaps))
        return plan_front.is_complete

    def _bisect_arena(self, name: str, chains: PlacedChains, counted: int) -> None:
        """Bisect the arena between the bytes that were counted and those of the smallest plan.

        With a RAM limit the bisection runs only until a plan fits.
        """
        lower, upper = counted, min(method.ram_bytes for method in self.methods)
        if self._is_within_ram(self.methods):
            return
        while lower + lower // SMALL_GAP < upper:
            self._stop.look()
            cap = (lower + upper) // 2
            chain = chains.within(cap, ANY_WORK, self._stop)
            if chain is None:
                lower = cap + 1
                continue
            self._add_chain(name, *chain)
            upper = min(cap, *(method.ram_bytes for method in self.methods))

    def _add_chain(
        self, name: str, work: int, groups: tuple[JoinedMoves, ...]
    ) -> StreamingPlan | None:
        """Build and add the plan of a new chain of groups, unless a known plan is as good.

        work: MACs of the chain.
        """
        self._stop.look()
        key = (name, *(tuple(move.stages for move in moves) for moves in groups))
        if key in self._planned:
            return None
        self._planned.add(key)
        fewer_macs = (method for method in self.methods if method.plan.multiply_accumulates <= work)
        stages = sum(len(move.stages) for moves in groups for move in moves)
        self._stop.spend(PLAN_EFFORT * stages)
        plan = smaller_plan(
            self._layer_order,
            self._table,
            groups,
            is_streamed=self._is_streamed,
            below_bytes=min((method.ram_bytes for method in fewer_macs), default=ANY_BYTES),
        )
        if plan is not None:
            self._chains[id(plan)] = groups
            self._add(name, plan)
        return plan


def _limits(least: int, ram: int | None) -> Iterator[int]:
    """Memory limits for the search of strips; each search returns all plans below its limit.

    Of labels with equal counts the search keeps one, and a different one under each limit; their
    plans differ in bytes once they are placed. The limits are therefore steps that do not depend on
    the RAM, and the first search runs through all steps from the RAM upwards: a plan that is found
    with more RAM, and fits into less, is also found with less.
    """
    if ram is None:
        yield from (least // 4, least // 2, least - 1)
        return
    lowest = ram + ram // 8  # the count of the search is above the bytes of its plan here and there
    steps = [least - 1]
    while (below := steps[-1] - steps[-1] // 10 - 1) >= lowest:
        steps.append(below)
    yield from reversed(steps)


def _further_arenas(gaps: Sequence[tuple[int, int]], ram: int | None) -> list[int]:
    """Return the arena sizes in which further chains are searched, if plans exceed their counted bytes.

    gaps: pairs of counted bytes and bytes of the plan.
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


class RecomputingMoves(GroupMoves):
    """Generator of all moves, including moves that recompute the producers of a global reduction."""

    spans_are_free = False  # whether only layers without MACs are recomputed
    most_spans = 3  # separators that may end a span

    def __init__(self, layer_order: TopologicalOrder, table: StageTable) -> None:
        super().__init__(layer_order, table)
        self._spans: dict[
            tuple[int, int], tuple[Rewritten[tuple[str, ...]], StageTable] | None
        ] = {}

    @property
    def has_spans(self) -> bool:
        """Whether layers between two separators can be recomputed."""
        return any(
            self._span(begin, end) is not None
            for begin in range(len(self.layer_order.separators))
            for end in self._ends(begin)
        )

    def moves_from(self, begin: int, entry: int) -> Iterator[GroupMove]:
        """Yield the moves after a separator; entry: rows of a batch of its tensor, or WHOLE."""
        yield from super().moves_from(begin, entry)
        for end in self._ends(begin) if entry == WHOLE else ():  # the whole source is read again
            rewritten = self._span(begin, end)
            if rewritten is not None:
                again, table = rewritten
                span = Span(self.layer_order.at(begin), self.layer_order.at(end))
                yield from self.partitioned(begin, end, again.parts[0], table, span)

    def _ends(self, begin: int) -> Iterator[int]:
        """Separators that end a span worth recomputing from this separator on."""
        left = self.most_spans
        for end in range(begin + 1, len(self.layer_order.separators)):
            length = self.layer_order.separators[end] - self.layer_order.separators[begin]
            if length > TIMES_LONGER * LONGEST_SPAN or not left:
                return
            left -= self._span(begin, end) is not None
            yield end

    def _span(self, begin: int, end: int) -> tuple[Rewritten[tuple[str, ...]], StageTable] | None:
        """The layers between two separators with copies of recomputed layers; None if not worth it."""
        if (begin, end) not in self._spans:
            self._spans[begin, end] = None
            repeated = rematerialised_between(self.layer_order, begin, end)
            if repeated is not None and self._pays(begin, repeated):
                self._spans[begin, end] = repeated, self.table.of(repeated.network)
        return self._spans[begin, end]

    def _pays(self, begin: int, again: Rewritten[tuple[str, ...]]) -> bool:
        """Whether recomputation pays: the largest recomputed tensor is larger than the source.

        If other layers read the source as well, an equal size suffices. A span also has to be of
        the kind that these moves recompute: with MACs, or without.
        """
        copied = {copy.layer for copy in again.copies.values()}
        widest = max(map(self.table.tensor_bytes, copied))
        readers = set(again.network.consumers[self.layer_order.at(begin)])
        stays = bool(readers - set(again.copies) - copied)
        copies = map(again.network.layer, again.copies)
        work = sum(multiply_accumulates(copy, again.network.input_shapes(copy)) for copy in copies)
        is_wanted = not work if self.spans_are_free else work > 0
        return is_wanted and self.whole_bytes(begin) < widest + stays

    def table_of(self, move: GroupMove) -> StageTable:
        """Return the table that has the stages of a move."""
        span = self._span(move.begin, move.end) if move.is_rematerialised else None
        return self.table if span is None else span[1]


class MinimumMacsMoves(RecomputingMoves):
    """Generator of moves without recomputed MACs; only layers without MACs are recomputed."""

    spans_are_free = True

    def moves_from(self, begin: int, entry: int) -> Iterator[GroupMove]:
        """Yield the moves after a separator; entry: rows of a batch of its tensor, or WHOLE."""
        for move in super().moves_from(begin, entry):
            if not any(self.table_of(move).repeats(stage) for stage in move.stages):
                yield move


class FewMoves(MinimumMacsMoves):
    """Generator of moves of single layers and pairs without recomputation, for a first answer."""

    longest_stage = 2
    most_partitions = 1


HeadGroups = dict[int, dict[int, list[Candidate]]]
"""Groups that compute attention head by head, by the separators where they begin and end."""


class _HeadGroups:
    """Generator of the HeadGroups of a network, with separate keys and values for each head."""

    def __init__(self, moves: GroupMoves) -> None:
        """Set the moves of the network, which do not include groups by heads."""
        self._moves, self._layer_order, self._table = moves, moves.layer_order, moves.table

    def groups(self) -> HeadGroups:
        """Return the groups: from each separator to the next attention, if heads are computable."""
        layer_order = self._layer_order
        operators = (layer_order.network.layer(name).operator for name in layer_order.layers)
        attentions = [
            position
            for position, operator in enumerate(operators)
            if operator.attention is not None
        ]
        groups: HeadGroups = {}
        for begin, separator in enumerate(layer_order.separators):
            attention = next((later for later in attentions if later > separator), None)
            if attention is not None:
                end = bisect_left(layer_order.separators, attention)
                group = self._by_heads(begin, end)
                groups |= {} if group is None else {begin: {end: [group]}}
        return groups

    def _by_heads(self, begin: int, end: int) -> Candidate | None:
        """Return the groups between two separators around attention: each head, then the rest.

        The network of the heads has a part for each group of tokens. All heads compute the
        same layers, so the stages of the first head are those of every head.
        """
        layer_order, moves = self._layer_order, self._moves
        rewritten = heads_between(layer_order, begin, end)
        if rewritten is None:
            return None
        span = Span(layer_order.at(begin), layer_order.at(end), by_heads=True)
        table = self._table.of(rewritten.network)
        first, is_joined = rewritten.parts[0], len(rewritten.parts) > 1
        head, head_bytes = self._least(begin, end, first.heads[0], table)
        rest, rest_bytes = self._least(begin, end, first.rest, table) if first.rest else ((), 0)
        ends = self._ends_bytes(begin, end, (*first.slices, layer_order.at(begin)), rest, table)
        during_heads = head_bytes + (ends if is_joined else moves.whole_bytes(begin))
        peak = max(during_heads, rest_bytes + ends)
        groups: list[tuple[Stage, ...]] = []
        for part in rewritten.parts:
            groups += (_at_once(name, table) for name in part.slices)
            groups += (_renamed(head, first.heads[0], layers) for layers in part.heads)
            groups.append(_at_once(part.joined, table))
            groups += [_renamed(rest, first.rest, part.rest)] if rest else []
        if is_joined:  # the groups of tokens are joined
            groups.append(_at_once(layer_order.at(end), table))
        stages = tuple(stage for group in groups for stage in group)
        whole = moves.carried_bytes(begin) + table.arena_bytes(first.joined)
        work = sum(table.geometry(stage).work for stage in stages)
        move = GroupMove(begin, end, stages, span, in_turn=tuple(map(len, groups)))
        return (whole + peak, work, 0, 0, 0), (move,)

    def _least(
        self, begin: int, end: int, layers: tuple[str, ...], table: StageTable
    ) -> tuple[tuple[Stage, ...], int]:
        """Return the stages of layers with the minimum bytes inside the group, and these bytes."""
        candidates = []
        for stages in (single_layers(table, layers), *coarse_partitions(table, layers)):
            if any(map(table.repeats, stages)):
                continue
            cost = self._moves.cost(GroupMove(begin, end, stages), WHOLE, table)
            candidates.append((cost.lines + max(cost.passing, cost.last), stages))
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
        """Bytes of the tensors at both ends, with the result overlapping the source where it can.

        sources: names under which the stages after the heads may read the source, or rows of it.
        """
        layer_order = self._layer_order
        name, result = layer_order.at(begin), layer_order.at(end)
        source, size = self._moves.whole_bytes(begin), self._moves.whole_bytes(end)
        firings = [table.geometry(stage).firings for stage in stages]
        read = {reading.tensor for firing in firings for reading in firing.readings} & set(sources)
        if (
            name in layer_order.results
            or name in layer_order.carried[begin + 1 : end + 1]
            or len(read) > 1
        ):
            return source + size
        rows = table.row_bytes(name), table.row_bytes(result)
        fired = firings_before_last(firings) if read else []
        paces = (pace_of(firings, reading, fired) for reading in read)
        lead = max((least_lead([pace], *rows) for pace in paces), default=0)
        return max(source + min(size, lead), size)


def _at_once(name: str, table: StageTable) -> tuple[Stage, ...]:
    """Return the stage of a layer that computes all its rows in one firing."""
    return (Stage(layers=(name,), rows=table.height(name)),)


def _renamed(
    stages: Sequence[Stage], names: Sequence[str], others: Sequence[str]
) -> tuple[Stage, ...]:
    """Return the stages with other layer names, for layers that compute the same operators."""
    renamed_layers = dict(zip(names, others, strict=True))
    return tuple(
        replace(stage, layers=tuple(renamed_layers[name] for name in stage.layers))
        for stage in stages
    )
