"""Plans for fast and slow memory: dynamic programming over the execution order minimises cost.

The cost is slow-memory traffic, or time if the rates of the memories are known. Layers are computed in
fast memory. A tensor that is stored whole between groups may be in slow memory. Its rows are then
copied into a ring buffer of the group that reads it, or read in place by layers that read no byte
twice. A stage whose result is in slow memory computes a few pixels at a time in a write buffer, and
stores them from there. Each byte of a tensor in slow memory is therefore moved once when it is
produced, and once for each group that reads it.

A label has the cost so far, and the MACs with the number of channel blocks, for a set of live tensors
in fast memory. Of the labels for the same set, csdf.search.pareto.ChainLabels retains the least. Fast
memory that a group leaves free holds copies of its weights, if they reduce the cost.
planners.memory.memory_groups generates the groups. The search is exact in this space, as long as live
bytes decide whether a group fits and no labels are dropped. Offsets are computed afterwards; if they
need more memory than was counted, the search is repeated with less. The plans of
planners.memory.network_searches for one fast memory are candidates, too: their line buffers retain
fewer rows, and results overlap dead rows of inputs.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from cnn2csdf.parameters import network_multiply_accumulates
from cnn2csdf.platforms import SCRATCH, TENSORS
from csdf.search.pareto import ChainLabels
from csdf.status import Ended, Reason, Why, because
from csdf.time_limit import ENDS, Budget, Stop, reason_of, stop_of
from planners.memory.answer import SlowTraffic
from planners.memory.layer_orders import few_orders
from planners.memory.memory_groups import LONGEST_RUN, GroupCandidates
from planners.memory.memory_plans import (
    Chain,
    MemoryGroup,
    Names,
    PlacedPlan,
    in_fast_memory,
)
from planners.memory.moved_weights import costs_of, layout_of
from planners.memory.network_searches import methods_of_orders
from planners.memory.order import topological_order
from planners.memory.request import FitRequest, plan_times
from planners.memory.slow_bounds import (
    greedy_split,
    least_slow_bytes,
    least_waiting_bytes,
    slow_bytes_of_whole_layers,
    subsets,
)
from planners.plan.plan import StreamingPlan
from planners.rewrites.rematerialisation import executed_layers

MOST_LABELS = 256  # sets of tensors in fast memory at an index of the order
PINNED = (1, 2, 3, 4)  # quarters of the fast memory that weights may have for good
GROUPS = "row by row, strips, whole layers"
FIRST_ORDER = 2  # sets of groups of the first order after single layers
MOST_ATTEMPTS = 8  # searches with less memory where offsets take more than is counted

# Effort of the search, in microseconds of a usual machine.
LABEL_EFFORT = 8  # to extend a label by a group


class MemoriesWhy(Why):
    """Reasons for the status of a plan in fast and slow memory."""

    ALL_FAST = "all tensors fit in fast memory; nothing is copied"
    BOUND = "equal to the lower bound of all schedules"
    LEAST = "minimum over the searched groups: {groups}"
    LABELS = "best over {groups}; some sets of resident tensors were pruned"
    PLACED = "best over {groups}; plans with less traffic could not be placed"
    BY_THEN = "the best so far: {end}"
    NONE = "no group that computes layer {layer!r} fits into {fast} bytes of fast memory"
    SLOW = "the plan takes {needed} bytes of slow memory"


def planned_in_memories(request: FitRequest, budget: Budget) -> PlanInMemories:
    """Return the plan of a network with the minimum slow-memory traffic, or the minimum time.

    Time is minimised if the rates of slow memories are known; measured durations apply to tensors
    and weights in fast memory. Inputs are in the memory that the plan names before a frame begins;
    results stay in the memory where they are produced. External tensors, and inputs that arrive row
    by row, cause no traffic.

    budget: a Stop, or seconds; when the budget ends, the best plan so far is returned.

    Raises InvalidArgument if no memory is fast or none is slow, and InvalidNetwork for a network
    with a state.
    """
    search = PlanInMemories(request, stop_of(budget))
    search.run()
    return search


class PlanInMemories:
    """Search for the plan of a network in fast and slow memory, over growing sets of groups.

    plan: best plan; None if no plan fits.
    reason: cause of the result, for a message.
    traffic: slow-memory traffic of the plan, with bounds and baselines.
    """

    plan: StreamingPlan | None
    reason: Reason
    traffic: SlowTraffic

    def __init__(self, request: FitRequest, stop: Stop) -> None:
        """Set the request, and compute the bound on slow-memory traffic."""
        network, layout = request.network, layout_of(request.memories)
        self._request, self._layout, self._stop = request, layout, stop
        self._layer_order = layer_order = topological_order(network)
        arriving = layer_order.at(0) if request.is_streamed else None
        self._table = table = request.table(network)
        times = plan_times(table, request.platform, request.durations, None)
        self._costs = costs_of(layout, layer_order, table, request.platform, times)
        names = (*layer_order.layers, *layer_order.others)
        self._sizes = {name: table.arena_bytes(name) for name in names}
        self._sizes |= {} if arriving is None else {arriving: 0}
        fast, self._trained = layout.capacity, sum(self._costs.sizes.values())
        self._weight_bound = max(0, self._trained - fast)
        self._bound = least_slow_bytes(layer_order, table, fast, without={*table.outside, arriving})
        self._bound += self._weight_bound
        # Layers may read inputs that are external or arrive row by row again at no cost.
        if not table.outside and arriving is None:
            self._bound += least_waiting_bytes(layer_order, table, fast)
        self._candidates = partial(
            GroupCandidates, fast=fast, costs=self._costs, arriving=arriving, stop=stop
        )

    def run(self) -> None:
        """Search until all sets of groups are searched, or the stop ends the search."""
        best = self._best()
        if best is not None and best.slow_excess:
            needed = sum(memory.size for memory in best.plan.memories if memory.is_slow)
            best, self.reason = None, because(MemoriesWhy.SLOW, needed=needed)
        self.plan = plan = None if best is None else best.plan
        if plan is not None and self._costs.scale is None and plan.slow_bytes == self._bound:
            self.reason = because(MemoriesWhy.BOUND if self._bound else MemoriesWhy.ALL_FAST)
        order, fast, weights = self._layer_order, self._layout.capacity, self._trained
        all_slow = slow_bytes_of_whole_layers(order, self._sizes, frozenset())
        self.traffic = SlowTraffic(
            memories=self._layout.all,
            moved=None if plan is None else plan.slow_bytes,
            lower_bound=self._bound,
            all_slow=all_slow + weights,
            greedy=greedy_split(order, self._table, self._sizes, fast) + weights,
            weights=weights,
            nanoseconds=None if best is None else self._costs.nanoseconds(best.cost),
        )

    @property
    def _has_ended(self) -> bool:
        """Whether the stop has ended a search."""
        return self.reason.kind is MemoriesWhy.BY_THEN

    def _best(self) -> PlacedPlan | None:
        """Return the best plan of all searches, which may exceed slow memory; set the reason.

        1. Single layers give a first plan, which limits the larger searches.
        2. All tensors in one fast memory, if the bound does not exclude it.
        3. Growing sets of groups, until a plan has the lowest possible rank.
        4. Weights resident in fast memory, or prefetched.
        5. Tiles of columns, if they may reduce the cost of the best plan so far.
        """
        spaces = self._spaces()
        best, self.reason = self._least_plan(next(spaces), None)
        fewest_macs = network_multiply_accumulates(self._request.network)
        lowest_rank = (self._bound, fewest_macs) if self._costs.scale is None else (0, 0)
        is_open = best is None or (
            best.rank > lowest_rank and not self.reason.has(Ended.INTERRUPTED)
        )
        in_one = self._in_one_memory() if self._bound <= self._weight_bound and is_open else None
        untiled: list[GroupCandidates] = []  # sets of groups that were searched, to add tiles to
        if not any(plan is not None and plan.rank <= lowest_rank for plan in (in_one, best)):
            best, untiled = self._in_groups(spaces, best, lowest_rank)
        improved = None if best is None else self._improved(best)
        plans = [plan for plan in (in_one, improved) if plan is not None]
        cheapest = min(plans, key=lambda plan: plan.rank, default=None)
        if self._may_gain_by_tiles(cheapest) and not self._has_ended:
            improved = self._in_tiles(untiled[1:], cheapest) or improved
        if in_one is None or (improved is not None and improved.rank <= in_one.rank):
            return improved
        if not self._has_ended:
            self.reason = because(MemoriesWhy.ALL_FAST)
        return in_one

    def _in_groups(
        self,
        spaces: Iterator[GroupCandidates],
        best: PlacedPlan | None,
        lowest_rank: tuple[int, int],
    ) -> tuple[PlacedPlan | None, list[GroupCandidates]]:
        """Return the best plan of the sets of groups, and the sets that were begun; set the reason.

        best: the plan of single layers. lowest_rank: that no plan can be below.
        """
        searched: list[GroupCandidates] = []
        for groups in spaces:
            searched.append(groups)
            if (best is not None and best.rank <= lowest_rank) or self._has_ended:
                break
            if groups.has_tiles and best is not None and best.cost <= self._bound:
                continue  # tiles only move less
            candidate, reason = self._least_plan(groups, best)
            best = candidate or best
            # The first groups of an order contain those before: only further orders weaken the claim.
            is_larger = len(searched) <= FIRST_ORDER
            self.reason = reason if is_larger else _weaker(self.reason, reason)
        return best, searched

    def _spaces(self) -> Iterator[GroupCandidates]:
        """Growing sets of groups: single layers, rows, strips; then tiles; for several layer orders."""
        yield self._candidates(self._layer_order, self._table, longest=1)
        yield self._candidates(self._layer_order, self._table, longest=LONGEST_RUN)
        for order in few_orders(self._layer_order.network):
            ordered = topological_order(order), self._table.of(order)
            plain = self._candidates(*ordered)
            yield plain
            # Where weights or stages have costs, tiles are searched after all other groups.
            if not plain.costs.sizes and plain.costs.times is None:
                yield self._candidates(*ordered, untiled=plain)

    def _in_one_memory(self) -> PlacedPlan | None:
        """The best plan in one fast memory, with weights in flash; None if no plan fits."""
        request, table, layout = self._request, self._table, self._layout
        homes = [memory.size for memory in layout.fast if {TENSORS, SCRATCH} <= set(memory.holds)]
        single = replace(request, memories=(), ram=max(homes), beside=None)
        methods, ended = methods_of_orders(single, self._stop.question(1.0))
        if ended is not None and not ended.has(Ended.EFFORT):
            self.reason = because(MemoriesWhy.BY_THEN, end=ended)
        plans = []
        for method in methods:
            plan = in_fast_memory(method.plan, table, layout)
            if plan is None:
                continue
            cost = plan.slow_bytes * self._costs.flash
            if self._costs.times is not None:
                network, copies = executed_layers(table.network, plan.rematerialised)
                executed = table.of(network)
                stages = (stage for group in plan.groups for stage in group.stages)
                costs = self._costs.of_copies(executed, copies)
                cost += costs.of_stages(map(executed.geometry, stages))
            plans.append(PlacedPlan(plan, cost))
        return min(plans, key=lambda plan: plan.rank, default=None)

    def _improved(self, plan: PlacedPlan) -> PlacedPlan:
        """Return a plan with resident and prefetched weights.

        Weights are resident where the plan leaves fast memory free. Searches in which the weights with
        the highest cost per byte occupy a part of fast memory follow, unless the plan is at the bound.
        """
        groups = self._candidates(self._layer_order, self._table)
        improved, tried = plan, {Names()}
        try:
            improved = plan.improved()
            is_at_bound = not self._costs.scale and improved.cost <= self._bound
            for quarters in () if is_at_bound else PINNED:
                room = self._layout.capacity * quarters // 4
                pinned = frozenset(plan.costliest_weights(room))
                if pinned in tried:
                    continue
                if self._has_ended:
                    break
                tried.add(pinned)
                candidate, reason = self._least_plan(groups.pinning(pinned), improved)
                if reason.kind is MemoriesWhy.BY_THEN:
                    self.reason = reason
                if candidate is not None:
                    improved = min(improved, candidate.improved(), key=lambda plan: plan.rank)
        except ENDS as end:
            self.reason = because(MemoriesWhy.BY_THEN, end=reason_of(end))
        return improved.with_wide_blocks()

    def _in_tiles(
        self, spaces: Sequence[GroupCandidates], known: PlacedPlan | None
    ) -> PlacedPlan | None:
        """The best plan with groups in tiles of columns; None if none is better than a known plan.

        spaces: groups without tiles, for each order of the layers.
        """
        best, limit = None, known
        for plain in spaces:
            groups = self._candidates(plain.layer_order, plain.table, untiled=plain)
            tiled, reason = self._least_plan(groups, limit)
            if tiled is not None:
                try:
                    tiled = tiled.improved().with_wide_blocks()
                except ENDS as end:
                    reason = because(MemoriesWhy.BY_THEN, end=reason_of(end))
                if limit is None or not tiled.slow_excess:
                    best = tiled
                if not tiled.slow_excess:
                    limit = tiled
            self.reason = _weaker(self.reason, reason)
            if self._has_ended:
                break
        return best

    def _may_gain_by_tiles(self, plan: PlacedPlan | None) -> bool:
        """Whether tiles of columns are still to be searched, and may reduce the cost of a plan.

        Tiles reduce the bytes of tensors in slow memory only, so they are searched where these are at
        least half of the cost. (On seven networks of the catalogue with a smaller share, tiles gained
        nothing and doubled the time of the search.)
        """
        costs = self._costs
        if not (costs.sizes or costs.scale):
            return False
        if plan is None:
            return True
        moved = sum(
            flow.read * costs.read + flow.written * costs.written
            for flow in plan.plan.traffic
            if flow.memory != plan.plan.flash
        )
        return 2 * moved >= plan.cost > 0

    def _least_plan(
        self, groups: GroupCandidates, known: PlacedPlan | None
    ) -> tuple[PlacedPlan | None, Reason]:
        """The plan with the minimum cost whose offsets fit, and the reason.

        The plan is None if no plan is better than a known plan.
        """
        layout = self._layout
        capacity = layout.capacity - groups.costs.pinned_bytes
        largest = max(memory.size for memory in layout.fast)
        best: PlacedPlan | None = None
        most = None if known is None else known.rank
        first: int | None = None
        names = f"{GROUPS}, tiles of columns" if groups.has_tiles else GROUPS
        reason = because(MemoriesWhy.LEAST, groups=names)
        try:
            for attempt in range(MOST_ATTEMPTS):
                search = MemoriesSearch(
                    groups, self._sizes, capacity, most, has_slow=bool(layout.slow)
                )
                steps = search.chain()
                if steps is None:
                    if first is not None:
                        reason = because(MemoriesWhy.PLACED, groups=names)
                    elif most is None:
                        reason = because(MemoriesWhy.NONE, layer=search.stuck_at, fast=capacity)
                    break
                plan = Chain(
                    groups.layer_order, groups.table, layout, groups.costs, steps, groups.arriving
                ).plan()
                first = plan.cost if first is None else first
                if not plan.fast_excess:
                    best = plan
                    if not search.is_complete:
                        reason = because(MemoriesWhy.LABELS, groups=names)
                    elif first < plan.cost:
                        reason = because(MemoriesWhy.PLACED, groups=names)
                    break
                capacity -= max(plan.fast_excess, capacity // 64)
                if attempt == MOST_ATTEMPTS // 2:  # of several memories the largest alone
                    capacity = min(capacity, largest)
        except ENDS as end:
            reason = because(MemoriesWhy.BY_THEN, end=reason_of(end))
        return best, reason


def _weaker(known: Reason, searched: Reason) -> Reason:
    """The weaker of the claims of two searches; the later claim if both are equal."""
    claims = (
        *(MemoriesWhy.NONE, MemoriesWhy.LEAST),
        *(MemoriesWhy.PLACED, MemoriesWhy.LABELS, MemoriesWhy.BY_THEN),
    )
    return max(searched, known, key=lambda reason: claims.index(reason.kind))


class MemoriesSearch:
    """Label-setting dynamic programming along the layer order, within a given fast memory.

    Example: of two labels for the set {a, b}, of 3072 and 4096 bytes, the second is dominated.
    """

    def __init__(
        self,
        groups: GroupCandidates,
        sizes: dict[str, int],
        capacity: int,
        most: tuple[int, int] | None,
        *,
        has_slow: bool,
    ) -> None:
        """Set the fast memory in bytes.

        most: cost and MACs of an existing plan; only better plans are searched.
        """
        self._has_slow = has_slow  # whether tensors may be in slow memory
        self._groups, self._sizes, self._capacity, self._most = groups, sizes, capacity, most
        self._outside = groups.table.outside
        self._labels = ChainLabels[MemoryGroup]((0, (0, 0), ()), begins=self._first_sets())
        # The sets of each index, in the order of their first labels, with their least cost and MACs.
        self._least: list[dict[Names, tuple[int, int]]] = [{} for _ in (*groups.layers, None)]
        self._least[0] |= {names: (0, 0) for _, names in self._first_sets()}
        self.is_complete = True  # whether no label was left out
        self.stuck_at = groups.layers[0]

    def _first_sets(self) -> Iterator[tuple[int, Names]]:
        """The sets of inputs that fit into fast memory before the first layer."""
        layer_order = self._groups.layer_order
        inputs = {layer_order.at(0), *layer_order.others} - {self._groups.arriving}
        outside = inputs & self._outside
        inside = [
            name for name in layer_order.layers + layer_order.others if name in inputs - outside
        ]
        for fast in subsets(inside):
            is_whole = len(fast) == len(inside)
            if self._bytes(fast) <= self._capacity and (is_whole or self._has_slow):
                yield 0, fast | outside

    def chain(self) -> Sequence[MemoryGroup] | None:
        """Return the groups, each with its tensors in fast memory during its execution; or None."""
        last = len(self._groups.layers)
        for index in range(last):
            self._groups.stop.look()
            if self._least[index]:
                self.stuck_at = self._groups.layers[index]
                self._follow(index)
        ranked = self._ranked(last)
        return self._labels.at((last, ranked[0]))[0][2] if ranked else None

    def _ranked(self, index: int) -> list[Names]:
        """The sets of an index, by cost and MACs of their labels."""
        least = self._least[index]
        return sorted(least, key=lambda names: (least[names], sorted(names)))

    def _follow(self, index: int) -> None:
        """Extend the labels at an index of the order by all groups that begin there."""
        labels = self._least[index]
        if len(labels) > MOST_LABELS:
            self.is_complete = False
            labels = {names: labels[names] for names in self._ranked(index)[:MOST_LABELS]}
        for group in self._groups.at(index):
            self._groups.stop.spend(LABEL_EFFORT * len(labels))
            for fast, before in labels.items():
                self._extend(index, group, fast, before)

    def _extend(self, begin: int, group: MemoryGroup, fast: Names, before: tuple[int, int]) -> None:
        """Extend the label of a set by a group. before: cost and MACs of the label."""
        away = [name for name in group.read if name not in fast]
        streamed, results = group.geometry.streamed_input, group.blocks
        if streamed is not None and streamed not in away:
            return
        if any(name != streamed and name not in group.in_place for name in away):
            return
        costs, arriving = self._groups.costs, self._groups.arriving
        inside = fast
        if arriving in away:  # its rows pass through a ring of the first group, and are gone
            if (begin, streamed) != (0, arriving):
                return
            if self._groups.last_read[arriving] >= group.end:
                return
            away.remove(arriving)
            inside = fast | {arriving}
        cost = group.busy + sum(group.read[name] for name in away) * costs.read
        if streamed in away:
            cost += group.read[streamed] * costs.copied
        room = self._capacity - group.fast - self._bytes(fast)
        settled = group.fixed | self._outside.intersection(results)
        least = self._least[group.end]
        for chosen in subsets([result for result in results if result not in settled]):
            here = settled | chosen
            blocks = sum(size for name, size in results.items() if name not in here)
            free = room - blocks - self._bytes(here)
            if free < 0 or not (self._has_slow or len(here) == len(results)):
                continue
            copies = group.copies[bisect_right(group.copies, free, key=lambda copy: copy.size) - 1]
            away_bytes = sum(self._sizes[name] for name in results if name not in here)
            group_cost = cost + away_bytes * costs.written - copies.saved
            total = before[0] + group_cost, before[1] + group.effort
            if self._most is not None and total >= self._most:
                continue
            live = frozenset(
                tensor for tensor in fast | here if self._groups.last_read[tensor] >= group.end
            )
            if live not in least or total < least[live]:
                least[live] = total
                step = group._replace(in_fast=inside | here, copied=copies.layers)
                link = 0, (group_cost, group.effort), step
                self._labels.extend((begin, fast), (group.end, live), [link])

    def _bytes(self, names: Iterable[str]) -> int:
        return sum(self._sizes[name] for name in names)
