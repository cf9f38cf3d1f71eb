"""Plans for fast and slow memory: dynamic programming over the execution order minimises cost.

The cost is slow-memory traffic, or time if the rates of the memories are known. Layers are computed in
fast memory. A tensor that is stored whole between groups may be in slow memory. Its rows are then
copied into a ring buffer of the group that reads it, or read in place by layers that read no byte
twice. A stage whose result is in slow memory computes a few pixels at a time in a write buffer, and
stores them from there. Each byte of a tensor in slow memory is therefore moved once when it is
produced, and once for each group that reads it.

A label is the set of live tensors in fast memory, with the cost so far. Fast memory that a group
leaves free holds copies of its weights, if they reduce the cost. Groups are runs of layers executed
row by row, and the groups of stages with column strips that planners.memory.labels finds between
separators. The search is exact in this space, as long as live bytes decide whether a group fits and no
labels are dropped. Offsets are computed afterwards; if they need more memory than was counted, the
search is repeated with less.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, chain
from operator import le
from typing import NamedTuple

from cnn2csdf.network import Network
from cnn2csdf.parameters import multiply_accumulates, network_multiply_accumulates
from csdf.search.pareto import improving
from csdf.status import Reason, Why, because
from csdf.time_limit import ENDS, Budget, Stop, reason_of, stop_of
from planners.memory.answer import SlowTraffic
from planners.memory.labels import ANY_WORK, GroupLabels, LabelLimits, Labels
from planners.memory.line_buffers import Keeping, kept_rows
from planners.memory.making import rings_of
from planners.memory.memory_plans import Chain, ChainStep, MemoryGroup, Names, PlacedPlan
from planners.memory.moved_weights import (
    BoardMemories,
    MoveCosts,
    can_be_copied,
    copies_of,
    costs_of,
    layout_of,
    movable_weights,
)
from planners.memory.moves import LONGEST_STAGE, GroupMoves, batches
from planners.memory.order import TopologicalOrder, topological_order
from planners.memory.orders import few_orders
from planners.memory.plain_plans import ends_of
from planners.memory.request import FitRequest, plan_times
from planners.memory.stages import Geometry, StageTable
from planners.memory.waiting import (
    MOST_CHOSEN,
    greedy_split,
    least_slow_bytes,
    least_waiting_bytes,
    slow_bytes_of_whole_layers,
    subsets,
)
from planners.plan.accumulators import sums_over_rows
from planners.plan.column_tiles import (
    InColumns,
    in_columns,
    part_of,
    stages_of_tile,
)
from planners.plan.firing import NOTHING, in_step, made_by_rows
from planners.plan.plan import ACCUMULATOR_BYTES, Mode, Stage, StreamingPlan
from planners.plan.write_buffers import block_bytes, smallest_block

FRONT = (1, 2, 4, 8, 16, 32)  # quarters of the size of the fast memory
MOST_LABELS = 256  # sets of tensors in fast memory at an index of the order
MOST_WAYS = 3  # from least bytes to least work, of stages between two separators
WIDTH = 12  # labels inside a group, as the first search of csdf fit has
LONGEST_RUN = 32  # layers of a group that is not between separators
ROW_BLOCKS = (2, 4, 8)  # rows a firing, besides one, where firings cost something by themselves
PINNED = (1, 2, 3, 4)  # quarters of the fast memory that weights may have for good
MOST_TILES = 12  # of columns
ENOUGH_TILES = 2  # numbers of tiles with which a group fits
MOST_MISSES = 3  # consecutive ends without a number of tiles that fits
LONGEST_SPAN = 48  # layers that work in tiles
MOST_ATTEMPTS = 8  # searches with less memory where offsets take more than is counted

# Effort of the search, in microseconds of a usual machine.
GROUP_EFFORT = 35  # to size the rings of a group, for each of its stages
LABEL_EFFORT = 8  # to extend a label by a group
TILE_EFFORT = 100  # to cut a tile out of the network, for each of its layers


class MemoriesWhy(Why):
    """Reasons for the status of a plan in fast and slow memory."""

    ALL_FAST = "all tensors lie in fast memory, and nothing moves"
    BOUND = "no schedule moves less"
    LEAST = "least of the groups that were looked at: row by row, strips, whole layers"
    LABELS = "row by row, strips, whole layers; some sets of tensors in fast memory were left out"
    PLACED = "row by row, strips, whole layers; plans that move less found no offsets"
    BY_THEN = "the best by then: {end}"
    NONE = "no group that works layer {layer!r} fits into {fast} bytes of fast memory"
    SLOW = "the plan takes {needed} bytes of slow memory"


class Label(NamedTuple):
    """Label of the dynamic programming: minimum cost, then MACs, for a set of tensors in fast memory.

    cost: slow-memory bytes, or time if memory rates are set, from the begin of the frame.
    work: MACs from the begin of the frame.
    before: tensors of the preceding label, the group that extends it, results of this group in fast
        memory, and weights that the group copies to fast memory; None for the initial label.

    Example: of two labels for the set {a, b} with costs of 3072 and 4096 bytes, the second is
    dominated and dropped.
    """

    cost: int
    work: int
    before: tuple[Names, MemoryGroup, Names, tuple[str, ...]] | None


class InMemories(NamedTuple):
    """Result of a search for a plan in fast and slow memory.

    plan: best plan; None if no plan fits.
    reason: cause of the result, for a message.
    traffic: slow-memory traffic of the plan, with bounds and baselines.
    """

    plan: StreamingPlan | None
    reason: Reason
    traffic: SlowTraffic


def planned_in_memories(request: FitRequest, budget: Budget) -> InMemories:
    """Return the plan of a network with the minimum slow-memory traffic, or the minimum time.

    Time is minimised if the rates of slow memories are known; measured durations apply to tensors
    and weights in fast memory. Inputs are in the memory that the plan names before a frame begins;
    results stay in the memory where they are produced. External tensors, and inputs that arrive row
    by row, cause no traffic.

    budget: a Stop, or seconds; when the budget ends, the best plan so far is returned.

    Raises InvalidArgument if no memory is fast or none is slow, and InvalidNetwork for a network
    with a state.
    """
    network, platform, layout = request.network, request.platform, layout_of(request.memories)
    course, stop = topological_order(network), stop_of(budget)
    is_streamed, external = ends_of(course, request.input, request.output)
    arriving = course.at(0) if is_streamed else None
    table = StageTable(network, element_bytes=request.element_bytes, outside=external)
    times = plan_times(table, platform, request.durations, None)
    costs = costs_of(layout, course, table, platform, times)
    sizes = {name: table.arena_bytes(name) for name in (*course.layers, *course.others)}
    sizes |= {} if arriving is None else {arriving: 0}
    fast, trained = layout.capacity, sum(costs.sizes.values())
    bound = least_slow_bytes(course, table, fast, without={*external, arriving})
    bound += max(0, trained - fast)
    if not (external or is_streamed):  # of these, layers may read an input again at no cost
        bound += least_waiting_bytes(course, table, fast)
    once = network_multiply_accumulates(network)
    best: tuple[PlacedPlan, Chain] | None = None
    reason = because(MemoriesWhy.LEAST)
    terms = GroupTerms(course, table, fast, stop, costs, arriving)
    for groups in _spaces(terms, network):
        if best is not None and costs.scale is None:
            if best[0].rank <= (bound, once):
                break
            if groups.has_tiles and best[0].cost <= bound:
                continue  # tiles only move less
        candidate, reason = _planned_within(groups, layout, sizes, best and best[0].rank)
        best = candidate or best
        if stop.is_over():
            break
    improved = None if best is None else best[1].improved(best[0])
    if best is not None and improved is not None and (costs.scale or improved.cost > bound):
        best, improved = _with_pinned(Groups(terms), layout, sizes, best, improved)
    if best is not None and improved is not None:
        improved = best[1].with_wide_blocks(improved)
    if improved is not None and improved.slow_excess:
        needed = sum(memory.size for memory in improved.plan.memories if memory.is_slow)
        improved, reason = None, because(MemoriesWhy.SLOW, needed=needed)
    plan = None if improved is None else improved.plan
    if plan is not None and costs.scale is None and plan.slow_bytes == bound:
        reason = because(MemoriesWhy.BOUND if bound else MemoriesWhy.ALL_FAST)
    traffic = SlowTraffic(
        memories=layout.all,
        moved=None if plan is None else plan.slow_bytes,
        lower_bound=bound,
        all_slow=slow_bytes_of_whole_layers(course, sizes, frozenset()) + trained,
        greedy=greedy_split(course, table, sizes, fast) + trained,
        weights=trained,
        nanoseconds=None if improved is None else costs.nanoseconds(improved.cost),
    )
    return InMemories(plan, reason, traffic)


def _with_pinned(
    groups: Groups,
    layout: BoardMemories,
    sizes: dict[str, int],
    best: tuple[PlacedPlan, Chain],
    found: PlacedPlan,
) -> tuple[tuple[PlacedPlan, Chain], PlacedPlan]:
    """Return the best plan with resident weights in part of fast memory, before and after improvement.

    groups: groups without resident weights.
    best: a plan of the search, with its chain.
    found: the same plan after improvement.
    """
    chosen = best
    tried = set[Names]()
    for quarters in PINNED:
        pinned = frozenset(best[1].dearest(best[0], layout.capacity * quarters // 4))
        if not pinned or pinned in tried or groups.stop.is_over():
            continue
        tried.add(pinned)
        candidate, _ = _planned_within(groups.pinning(pinned), layout, sizes, found.rank)
        if candidate is not None:
            improved = candidate[1].improved(candidate[0])
            if improved.rank < found.rank:
                chosen, found = candidate, improved
    return chosen, found


def slow_front(request: FitRequest, stop_for: Callable[[int], Stop]) -> list[SlowTraffic]:
    """Return the traffic for a first memory of a quarter to eight times its size.

    stop_for: the stop of the search for a size in bytes.
    """
    first, *further_memories = request.memories
    return [
        planned_in_memories(
            replace(request, memories=(replace(first, size=size), *further_memories)),
            stop_for(size),
        ).traffic
        for size in (first.size * times // 4 for times in FRONT)
    ]


def _spaces(terms: GroupTerms, network: Network) -> Iterator[Groups]:
    """Growing sets of groups: single layers, rows, strips; then tiles; for several layer orders."""
    yield Groups(terms, longest=1)
    yield Groups(terms, longest=LONGEST_RUN)
    costs = terms.costs
    for order in few_orders(network):
        ordered = terms._replace(course=topological_order(order), table=terms.table.of(order))
        plain = Groups(ordered)
        yield plain
        if not costs.sizes and costs.time_of is None:  # which copies of layers have not
            yield Groups(ordered, untiled=plain)


def _planned_within(
    groups: Groups, layout: BoardMemories, sizes: dict[str, int], most: tuple[int, int] | None
) -> tuple[tuple[PlacedPlan, Chain] | None, Reason]:
    """The plan with the minimum cost whose offsets fit, with its chain; and the reason.

    most: cost and MACs of a known plan; the result is None if no plan is better.
    """
    capacity = layout.capacity - groups.costs.pinned_bytes
    largest = max(memory.size for memory in layout.fast)
    best: tuple[PlacedPlan, Chain] | None = None
    first: int | None = None
    reason = because(MemoriesWhy.LEAST)
    try:
        for attempt in range(MOST_ATTEMPTS):
            search = MemoriesSearch(groups, sizes, capacity, most, has_slow=bool(layout.slow))
            steps = search.chain()
            if steps is None:
                if first is not None:
                    reason = because(MemoriesWhy.PLACED)
                elif most is None:
                    reason = because(MemoriesWhy.NONE, layer=search.stuck_at, fast=capacity)
                break
            tried = Chain(groups.course, groups.table, layout, groups.costs, steps, groups.arriving)
            plan = tried.plan()
            first = plan.cost if first is None else first
            if not plan.fast_excess:
                best = plan, tried
                if not search.is_complete:
                    reason = because(MemoriesWhy.LABELS)
                elif first < plan.cost:
                    reason = because(MemoriesWhy.PLACED)
                break
            capacity -= max(plan.fast_excess, capacity // 64)
            if attempt == MOST_ATTEMPTS // 2:  # of several memories the largest alone
                capacity = min(capacity, largest)
    except ENDS as end:
        reason = because(MemoriesWhy.BY_THEN, end=reason_of(end))
    return best, reason


class GroupTerms(NamedTuple):
    """Parameters of the groups of a search in fast and slow memory.

    course: execution order of the network.
    table: geometry of the stages.
    fast: bytes of fast memory.
    stop: effort limit of the search.
    costs: cost of slow-memory traffic, and of weights.
    arriving: input that arrives row by row; None if no input does.
    """

    course: TopologicalOrder
    table: StageTable
    fast: int
    stop: Stop
    costs: MoveCosts
    arriving: str | None


class Groups:
    """Generator of the groups that begin at each index of the layer order and fit into fast memory."""

    def __init__(
        self, terms: GroupTerms, *, longest: int | None = None, untiled: Groups | None = None
    ) -> None:
        """Set the network and the fast memory.

        longest: limit on the layers of a group.
        untiled: groups to which tiles of columns are added.
        """
        self._untiled, self.has_tiles = untiled, untiled is not None
        self.terms = terms
        course, table, self._fast, self.stop, self.costs, self.arriving = terms
        self.course, self.table = course, table
        self.layers = course.layers[1:]
        self._longest = longest
        self.last_read = dict.fromkeys((*course.layers, *course.others), -1)
        for number, name in enumerate(self.layers):
            for source in course.network.layer(name).inputs:
                self.last_read[source] = number
        self.last_read |= dict.fromkeys(course.results, len(self.layers))
        outside = frozenset(course.at(cut) for cut in range(len(course.separators)))
        inner = StageTable(course.network, element_bytes=table.element_bytes, outside=outside)
        self._moves = GroupMoves(course, inner)
        self._narrow = self._narrow_places()
        self._cut_at = {place: cut for cut, place in enumerate(course.separators)}
        self._found: dict[int, list[MemoryGroup]] = {}

    def at(self, begin: int) -> list[MemoryGroup]:
        """Return the groups whose first layer has this index."""
        if begin not in self._found:
            self.stop.look()
            if self._untiled is not None:
                groups = [*self._untiled.at(begin), *self._in_tiles(begin)]
            else:
                groups = list(self._runs(begin))
            if self._longest is None and self._untiled is None:
                groups += [*self._single_stages(begin), *self._with_strips(begin)]
            kept: dict[tuple[int, str | None, Names], list[MemoryGroup]] = {}
            for group in sorted(groups, key=lambda group: (group.fast, group.costs)):
                key = group.end, group.streamed, group.in_place
                if not any(
                    all(map(le, cheaper.costs, group.costs))
                    and all(cheaper.blocks[name] <= size for name, size in group.blocks.items())
                    and all(cheaper.read[name] <= size for name, size in group.read.items())
                    for cheaper in kept.setdefault(key, [])
                ):
                    kept[key].append(group)
            self._found[begin] = [
                groups_of_key for group in kept.values() for groups_of_key in group
            ]
        return self._found[begin]

    def _runs(self, begin: int) -> Iterator[MemoryGroup]:
        """Groups of layers row by row, each layer a stage, while they fit; also the first layer alone.

        A group of the first layer alone computes all rows in one firing.
        """
        first = self.layers[begin]
        whole = Stage(layers=(first,), rows=self.table.height(first))
        yield from self._ways(begin, begin + 1, (whole,))
        blocks = [(1, 1)]
        if self.costs.scale:  # firings cost something by themselves
            blocks += [(rows, rest_rows) for rows in ROW_BLOCKS for rest_rows in (1, rows)]
        for rows, rest_rows in blocks:
            yield from self._run(begin, rows, rest_rows)

    def _run(self, begin: int, rows: int, others: int) -> Iterator[MemoryGroup]:
        """Groups of layers row by row, with the same rows in each firing.

        rows: of a firing of layers with weights; others: of a firing of other layers.
        """
        network = self.course.network
        stages: list[Stage] = []
        last = min(len(self.layers), begin + (self._longest or LONGEST_RUN))
        for end in range(begin + 1, last + 1):
            layer = network.layer(self.layers[end - 1])
            is_summed = sums_over_rows(network, layer) and not layer.operator.scatters_rows
            mode = Mode.ACCUMULATING if is_summed else Mode.ROWS
            rows_each = min(rows if layer.name in self.costs.sizes else others, layer.shape.rows)
            rows_each = 1 if is_summed else rows_each
            stages.append(Stage(layers=(layer.name,), rows=rows_each, mode=mode))
            groups = list(self._ways(begin, end, stages))
            yield from groups
            if not groups:
                return

    def _single_stages(self, begin: int) -> Iterator[MemoryGroup]:
        """Several layers as one stage, with column strips or feature map by feature map."""
        for end in range(begin + 2, min(len(self.layers), begin + LONGEST_STAGE) + 1):
            layers = self.layers[begin:end]
            if self.table.can_go_by_channels(layers):
                yield from self._ways(begin, end, (Stage(layers=layers, mode=Mode.CHANNELS),))
            if self.table.can_be_stage(layers):
                for rows in batches(layers, self.table):
                    yield from self._ways(begin, end, (Stage(layers=layers, rows=rows),))

    def _with_strips(self, begin: int) -> Iterator[MemoryGroup]:
        """The groups of stages of several layers between separators."""
        for end, stages in self._stages_between(begin, self._fast, (True, False)):
            yield from self._ways(begin, end, stages)

    def _stages_between(
        self, begin: int, most: int, streamed: Sequence[bool]
    ) -> Iterator[tuple[int, list[Stage]]]:
        """Yield later separators, with the stages of groups up to there that fit into `most` bytes."""
        cut = self._cut_at.get(begin)
        if cut is None or begin == len(self.layers):
            return
        limits = LabelLimits(most, ANY_WORK, WIDTH)
        for is_streamed in streamed:
            search = GroupLabels(self._moves, cut, limits, self.stop, is_streamed=is_streamed)
            labels_by_end = defaultdict[int, list[tuple[int, int, Labels, int]]](list)
            for end, labels in search.ends():
                self.stop.look()
                numbers = zip(labels.lines.tolist(), labels.work.tolist(), strict=True)
                labels_by_end[end] += [(*both, labels, place) for place, both in enumerate(numbers)]
            for end, labels_of_end in labels_by_end.items():
                best = improving(labels_of_end, lambda label: label[:2])
                for _, _, labels, number in best[:: -(-len(best) // MOST_WAYS)]:
                    moves = search.moves_of(labels, number)
                    stages = [stage for move in moves for stage in move.stages]
                    yield self.course.separators[end], stages

    def _in_tiles(self, begin: int) -> Iterator[MemoryGroup]:
        """Yield groups of layers in column tiles, for rows that are too long; slices are read in place.

        A single tile is a candidate for groups that read several tensors, or read their own
        results.
        """
        ends = {begin + 1}
        if not begin or begin in self._narrow:
            ends |= {
                position for position in self._narrow if begin < position <= begin + LONGEST_SPAN
            }
        rows = [(end, [Stage(layers=(layer,)) for layer in self.layers[begin:end]]) for end in ends]
        most = MOST_TILES // 2 * self._fast
        by_end = defaultdict[int, dict[tuple[Stage, ...], None]](dict)
        for end, stages in chain(self._stages_between(begin, most, (True,)), rows):
            by_end[end][tuple(stages)] = None
        misses = 0
        for end in sorted(ends):
            self.stop.look()
            tiled = [self._of_tiles(begin, end, stages) for stages in by_end[end]]
            yield from (group for groups_of_tiles in tiled for group in groups_of_tiles or ())
            misses = misses + 1 if all(groups_of_tiles is None for groups_of_tiles in tiled) else 0
            if misses == MOST_MISSES and len(self.layers) > MOST_CHOSEN:
                return

    def _narrow_places(self) -> set[int]:
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

    def _of_tiles(self, begin: int, end: int, stages: Sequence[Stage]) -> list[MemoryGroup] | None:
        """Groups with the fewest tiles that fit, and with more tiles and fewer bytes; or None."""
        inside, results = self.layers[begin:end], self._results(begin, end)
        if not {stage.result for stage in stages}.issuperset(results):
            return None
        part = part_of(self.course.network, inside)
        geometry = tuple(map(self.table.geometry, stages))
        whole = self._group(begin, end, geometry, None, results, is_limited=False)
        assert whole is not None
        fewest = 1 if len(part.inputs) > 1 or whole.fixed else 2
        if fewest == 2:  # with the rows of its one source, which would be copied
            source = part.inputs[0].name
            whole = self._group(begin, end, geometry, source, results, is_limited=False)
            assert whole is not None
        tiles, enough = max(fewest, whole.fast // (2 * self._fast)), ENOUGH_TILES
        if 2 * whole.fast <= self._fast:
            enough = 2 - fewest  # one tile, if any
        if len(self.layers) <= MOST_CHOSEN:
            tiles, enough = 1, MOST_TILES
        least, groups = self._fast + 1, list[MemoryGroup]()
        while tiles <= MOST_TILES and len(groups) < enough:
            self.stop.spend(TILE_EFFORT * tiles * len(inside))
            columns = in_columns(part, inside, tiles)
            parts = None if columns is None else self._tiles_of(begin, end, columns, stages)
            if parts is None:
                return groups or None
            fast = max(part.fast for part in parts)
            if len(parts) == tiles and fast < least:
                least = fast
                total = sum((Counter(part.read) for part in parts), Counter[str]())
                blocks = {
                    name: max(part.blocks[part.results[place]] for part in parts)
                    for place, name in enumerate(results)
                }
                group = whole._replace(
                    streamed=None,
                    fast=fast,
                    blocks=blocks,
                    work=sum(part.work for part in parts),
                    read=dict(total),
                    in_place=frozenset(total),
                    fixed=frozenset(),
                    tiles=parts,
                )
                groups.append(group)
            tiles += 1 if groups else max(1, tiles * fast // self._fast - tiles - 1)
        return groups if groups or not enough else None

    def _tiles_of(
        self, begin: int, end: int, found: InColumns, stages: Sequence[Stage]
    ) -> tuple[MemoryGroup, ...] | None:
        """The groups of the tiles, up to the first that does not fit; None if tiles are impossible."""
        inside, network = self.layers[begin:end], found.network
        table, groups = self.table.of(network), dict[int, MemoryGroup]()
        count = len(found.tiles)
        for number in sorted(range(count), key=lambda index: abs(2 * index + 1 - count)):
            tile = found.tiles[number]  # from the middle, where tiles have most columns
            worked = stages_of_tile(network, tile, inside, stages)
            if worked is None:
                return None
            geometry = tuple(map(table.geometry, worked))
            group = self._group(
                begin, end, geometry, None, tile.results, table=table, is_limited=False
            )
            assert group is not None
            read = Counter[str]()
            for name in tile.slices:
                read[network.layer(name).inputs[0]] += table.tensor_bytes(name)
            groups[number] = group._replace(read=dict(read))
            if group.fast > self._fast:
                break
        return tuple(groups[number] for number in sorted(groups))

    def _ways(self, begin: int, end: int, stages: Sequence[Stage]) -> Iterator[MemoryGroup]:
        """Variants of a group that fit: no tensor copied, or one source copied row by row."""
        table = self.table
        geometry = tuple(table.geometry(stage) for stage in stages)
        inside = set(self.layers[begin:end])
        read: dict[str, int] = defaultdict(int)
        in_place = set(self.last_read)
        for stage_rows in geometry:
            for name in stage_rows.stage.layers:
                for index, source in enumerate(table.network.layer(name).inputs):
                    if source not in inside:
                        rows = self._rows_read_once(stage_rows, name, index)
                        read[source] += (rows or 0) * table.row_bytes_read(name, source)
                        in_place -= {source} if rows is None else set()
        results = self._results(begin, end)
        made = {geometry.stage.result: geometry.stage for geometry in geometry}
        if not made.keys() >= set(results) or any(
            stage.mode is Mode.ACCUMULATING and table.network.layer(name).operator.scatters_rows
            for name, stage in made.items()  # these write pixels of a whole result
        ):
            return
        for streamed in (None, *read):
            group = self._group(begin, end, geometry, streamed, results)
            if group is not None:
                sizes = dict(read)
                if streamed is not None:
                    sizes[streamed] = table.tensor_bytes(streamed)
                yield group._replace(
                    read=sizes, in_place=frozenset(in_place.intersection(read) - {streamed})
                )

    def _rows_read_once(self, one: Geometry, name: str, index: int) -> int | None:
        """Number of input rows that a stage reads, if it reads each byte once; otherwise None."""
        layer = self.table.network.layer(name)
        needs = self.table.row_needs(layer, index)
        if one.stage.mode is Mode.ACCUMULATING:
            is_once = not multiply_accumulates(layer, self.table.network.input_shapes(layer))
            return needs[-1][1] - needs[0][0] if is_once else None
        if len(one.stage.layers) > 1 or not layer.operator.reads_once:
            return None
        alike = (
            position for position, name in enumerate(layer.inputs) if name == layer.inputs[index]
        )
        if len({self.table.row_needs(layer, position) for position in alike}) > 1:
            return None  # a tensor is read by two inputs, in different rows
        height = self.table.height(layer.inputs[index])
        return height if sum(end - first for first, end in needs) == height else None

    def _group(
        self,
        begin: int,
        end: int,
        geometry: tuple[Geometry, ...],
        streamed: str | None,
        results: tuple[str, ...],
        *,
        table: StageTable | None = None,
        is_limited: bool = True,
    ) -> MemoryGroup | None:
        """The group with exact bytes of its ring buffers; None if it exceeds the fast memory.

        table: of the stages, if they are not stages of the network.
        """
        self.stop.spend(GROUP_EFFORT * len(geometry))
        table, pinned = table or self.table, self.costs.pinned
        if pinned and not pinned.intersection(self.layers[begin:end]) <= can_be_copied(geometry):
            return None
        firings = [geometry.firings for geometry in geometry]
        strips = [geometry.strip_bytes for geometry in geometry]
        if streamed is not None:
            firings.insert(0, made_by_rows(streamed, table.height(streamed), 1))
            strips.insert(0, 0)
        keeping = {firing.result: Keeping.RING for firing in firings} | dict.fromkeys(
            results, Keeping.WHOLE
        )
        sizes = {firing.result: table.row_bytes(firing.result) for firing in firings}
        together = in_step(firings)
        if len(together) > len(firings):
            strips.append(0)
            sizes[NOTHING], keeping[NOTHING] = 0, Keeping.WHOLE
        kept = kept_rows(together, sizes, strips, keeping)
        aliases = [
            alias for alias in table.aliases.values() if streamed not in (alias.tensor, alias.host)
        ]
        joint = rings_of(table.network, together, aliases, kept.rows, sizes)
        within = tuple(alias for _, inside in joint.values() for alias in inside)
        rings = {**kept.rows, **{name: rows for name, (rows, _) in joint.items()}}
        for alias in within:
            del rings[alias.tensor]
        pieces = [rows * sizes[name] for name, rows in rings.items()]
        pieces += [size.accumulator for size in geometry]
        staging = -(-max(kept.passing) // ACCUMULATOR_BYTES) * ACCUMULATOR_BYTES
        fast = sum(pieces) + staging
        if is_limited and fast > self._fast:
            return None
        inside = {reading.tensor for firing in firings for reading in firing.readings}
        blocks = {
            geometry.stage.result: self._block_bytes(table, geometry.stage) for geometry in geometry
        }
        return MemoryGroup(
            begin=begin,
            end=end,
            geometry=geometry,
            streamed=streamed,
            rings=rings,
            within=within,
            staging=staging,
            fast=fast,
            work=sum(geometry.work for geometry in geometry),
            read={},
            in_place=frozenset(),
            results=results,
            fixed=frozenset(inside.intersection(results)),
            busy=self.costs.of_stages(geometry)
            + sum(map(self.costs.in_place, movable_weights(geometry, self.costs, table))),
            copies=copies_of(geometry, self.costs, table),
            blocks={name: blocks[name] for name in results},
        )

    def _block_bytes(self, table: StageTable, stage: Stage) -> int:
        """Bytes of the smallest write buffer of a result in slow memory."""
        rows, columns = smallest_block(table.network, stage)
        return block_bytes(table.network, stage, rows * columns, table.bytes_of(stage.result))

    def pinning(self, layers: Names) -> Groups:
        """Return the groups where the weights of some layers are resident in fast memory."""
        return Groups(self.terms._replace(costs=self.costs.pinning(layers)), longest=self._longest)


class MemoriesSearch:
    """Label-setting dynamic programming along the layer order, within a given fast memory."""

    def __init__(
        self,
        groups: Groups,
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
        self._labels: list[dict[Names, Label]] = [{} for _ in range(len(groups.layers) + 1)]
        self.is_complete = True  # whether no label was left out
        self.stuck_at = groups.layers[0]

    def chain(self) -> list[ChainStep] | None:
        """Return the groups, each with its tensors in fast memory during its execution; or None."""
        course = self._groups.course
        inputs = {course.at(0), *course.others} - {self._groups.arriving}
        outside = inputs & self._outside
        for fast in subsets(
            [name for name in course.layers + course.others if name in inputs - outside]
        ):
            is_whole = len(fast) == len(inputs - outside)
            if self._bytes(fast) <= self._capacity and (is_whole or self._has_slow):
                self._labels[0][fast | outside] = Label(0, 0, None)
        for place, labels in enumerate(self._labels[:-1]):
            self._groups.stop.look()
            if labels:
                self.stuck_at = self._groups.layers[place]
                self._follow(place)
        last = self._labels[-1]
        if not last:
            return None
        return self._traced(min(last, key=lambda names: (last[names][:2], sorted(names))))

    def _follow(self, place: int) -> None:
        """Extend the labels at an index of the order by all groups that begin there."""
        labels = self._labels[place]
        if len(labels) > MOST_LABELS:
            self.is_complete = False
            least = sorted(labels, key=lambda names: (labels[names][:2], sorted(names)))
            labels = self._labels[place] = {names: labels[names] for names in least[:MOST_LABELS]}
        for group in self._groups.at(place):
            self._groups.stop.spend(LABEL_EFFORT * len(labels))
            for fast, label in labels.items():
                self._extend(group, fast, label)

    def _extend(self, group: MemoryGroup, fast: Names, label: Label) -> None:
        away = [name for name in group.read if name not in fast]
        if group.streamed is not None and group.streamed not in away:
            return
        if any(name != group.streamed and name not in group.in_place for name in away):
            return
        costs, arriving = self._groups.costs, self._groups.arriving
        if arriving in away:  # its rows pass through a ring of the first group, and are gone
            if (group.begin, group.streamed) != (0, arriving):
                return
            if self._groups.last_read[arriving] >= group.end:
                return
            away.remove(arriving)
        work = label.work + group.work
        cost = label.cost + group.busy + sum(group.read[name] for name in away) * costs.read
        if group.streamed in away:
            cost += group.read[group.streamed] * costs.copied
        room = self._capacity - group.fast - self._bytes(fast)
        settled = group.fixed | self._outside.intersection(group.results)
        for chosen in subsets([result for result in group.results if result not in settled]):
            here = settled | chosen
            blocks = sum(size for name, size in group.blocks.items() if name not in here)
            free = room - blocks - self._bytes(here)
            if free < 0 or not (self._has_slow or len(here) == len(group.results)):
                continue
            copies = group.copies[bisect_right(group.copies, free, key=lambda copy: copy.size) - 1]
            away_bytes = sum(self._sizes[name] for name in group.results if name not in here)
            total = cost + away_bytes * costs.written - copies.saved
            if self._most is not None and (total, work) >= self._most:
                continue
            live = frozenset(
                tensor for tensor in fast | here if self._groups.last_read[tensor] >= group.end
            )
            best_label = self._labels[group.end].get(live)
            if best_label is None or (total, work) < best_label[:2]:
                new = Label(total, work, (fast, group, here, copies.layers))
                self._labels[group.end][live] = new

    def _bytes(self, names: Iterable[str]) -> int:
        return sum(self._sizes[name] for name in names)

    def _traced(self, fast: Names) -> list[ChainStep]:
        steps: list[ChainStep] = []
        place = len(self._labels) - 1
        while (before := self._labels[place][fast].before) is not None:
            fast, group, here, copied = before
            arrived = {self._groups.arriving or ""} & group.read.keys()  # its rows are in a ring
            steps.append(ChainStep(group, fast | here | arrived, copied))
            place = group.begin
        return steps[::-1]
