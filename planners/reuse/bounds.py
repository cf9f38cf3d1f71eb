"""Lower bound on live bytes over all chromosomes: branch and bound, and minimax paths over separators.

A choice gives each layer of a partition the rows of its parts. A layer with several numbers of rows to
choose from is open, else fixed. The bound holds for every schedule of every choice, where each edge has
the smallest buffer that its block can run with, and is live from the first firing of its producer to
the last firing of its consumer. An edge has at least the minimum of its rows over the choices of its
block. It is live at the first firing of a layer if its producer has begun by then and its consumer has
not ended; this is counted where it follows from data dependences, or from the free rows of buffers of
fixed layers. Live bytes of partitions that run in parallel add up. (For the lifetimes of one chromosome
`ReusePlan.live_load` is the bound, and larger.)

Two searches raise the bound alternately:

    ChoiceTree      a node fixes the rows of a subset of the layers; the bytes that it forces to be live
                    together are a bound for all choices that agree with the node. The node with the
                    minimum bound is split by the open layer nearest to the step with the maximum load.
    SeparatorPaths  the separators that are executed whole cut a choice into segments: each choice is
                    a path from separator to separator. A segment has a bound for all choices that
                    contain it. A choice needs at least the largest bound of its segments, so the
                    minimum over the paths of this largest bound holds for all choices. The largest
                    bound of the minimax path is raised until all its segments are known.

The tree is better with many layers between separators, the paths in long chains. Each new choice is
completed by the smallest parts: an upper bound, which ends the search when both bounds are equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cache
from heapq import heapify
from itertools import product
from math import prod
from typing import NamedTuple

from csdf.time_limit import ENDS, Budget, stop_of
from planners.reuse.edge_buffers import EdgeBuffer, Stay
from planners.reuse.evaluation import Evaluator
from planners.reuse.partition import PartitionModel
from planners.reuse.problem import PUBLISHED_ALLELES
from planners.reuse.storage import CyclicBlock, block_rates, held_rows

MAX_COMBINATIONS = 64  # of a block, all enumerated; with more, the choices of each pair of layers

Choices = tuple[tuple[int, ...], ...]
"""For each layer the rows of a part that are still open; one number where they are fixed."""


def memory_bound(
    evaluator: Evaluator,
    genes: Sequence[int] = PUBLISHED_ALLELES,
    *,
    steps: int = 0,
    shares_tensors: bool = False,
    budget: Budget = None,
) -> int:
    """Return a lower bound on the bytes of weights and buffers of all chromosomes of these genes.

    It holds for whole buffers and for offsets. steps: of the searches that raise the bound, fewer where
    it cannot rise. shares_tensors: the consumers of a tensor may share its buffer, so of the edges that
    leave a layer only the largest counts. budget: a stop, or seconds, that ends the search with the
    present bound.
    """
    searches = [
        PartitionSearch(OpenChoices(model, genes, shares_tensors=shares_tensors))
        for model in evaluator.models
    ]
    units = [[searches[number] for number in unit] for unit in evaluator.units]
    stop = stop_of(budget)
    with suppress(*ENDS):
        for _ in range(steps):
            bound = evaluator.together([search.bound for search in searches])
            open_units = [
                unit for unit in units if sum(search.upper_bound for search in unit) > bound
            ]
            if not open_units:
                break
            # The joint bound is the maximum over the units: only the largest can raise it.
            largest = max(open_units, key=lambda unit: sum(search.bound for search in unit))
            stop.look()
            max(largest, key=lambda search: search.upper_bound - search.bound).step()
    live_elements = evaluator.together([search.bound for search in searches])
    return evaluator.weights + evaluator.costs.element_bytes * live_elements


class OpenChoices:
    """Lower bounds on the live elements of a partition, for any set of choices.

    all_open: all choices of the given genes.
    """

    def __init__(
        self,
        model: PartitionModel,
        genes: Sequence[int],
        *,
        shares_tensors: bool = False,
    ) -> None:
        """Set the partition; shares_tensors: of edges that leave a layer only the largest counts."""
        self.model = model
        tensors: dict[object, list[tuple[EdgeBuffer, Stay]]] = {}
        for number, (edge, stay) in model.residents.items():
            key = (edge.member, edge.connection.producer) if shares_tensors else number
            tensors.setdefault(key, []).append((edge, stay))
        self._tensors = list(tensors.values())
        self._least_rows = cache(self._least_rows_of_block)
        self._begun = [bits | 1 << layer for layer, bits in enumerate(model.awaiting)]
        self.all_open: Choices = tuple(
            tuple(sorted({model.table.part_rows(layer, gene) for gene in genes}))
            for layer in range(len(model.table.layers))
        )

    def loads(self, choices: Choices) -> list[int]:
        """Return for each layer a lower bound on the elements that are live at its first firing."""
        least_rows, fixed_rows = self._edge_rows(choices)
        part_rows = [choice[0] if len(choice) == 1 else None for choice in choices]
        begun_at_end = begun_before_end(self.model, part_rows, fixed_rows)
        edges = self.model.table.edges
        loads = [0] * len(choices)
        for tensor in self._tensors:
            sized = []
            for edge, stay in tensor:
                # The layers, as bits, at whose first firing the edge is live.
                live = (1 << len(choices)) - 1
                if stay.first is not None:
                    live &= self._begun[stay.first]
                if stay.last is not None:
                    live &= begun_at_end[stay.last]
                # An edge between partitions is stored whole.
                inner = edge.inner
                size = (
                    edge.elements
                    if inner is None
                    else least_rows[inner] * edges[inner].row_elements
                )
                sized.append((size, live))
            counted = 0
            # Of edges that may share a tensor only the largest live edge counts at each step.
            for size, live in sorted(sized, reverse=True):
                new = live & ~counted
                counted |= live
                while new:
                    # Loop over the set bits only.
                    lowest = new & -new
                    loads[lowest.bit_length() - 1] += size
                    new ^= lowest
        return loads

    def _edge_rows(self, choices: Choices) -> tuple[list[int], list[int | None]]:
        """The minimum rows of each edge, and the rows of the edges of fixed blocks, else None."""
        least = [0] * len(self.model.table.edges)
        fixed: list[int | None] = [None] * len(least)
        for number, block in enumerate(self.model.blocks):
            choices_of_block = tuple([choices[layer] for layer in block.layers])
            rows = self._least_rows(number, choices_of_block)
            is_fixed = all(len(choice) == 1 for choice in choices_of_block)
            for edge, count in zip(block.edges, rows, strict=True):
                least[edge] = count
                if is_fixed:
                    fixed[edge] = count
        return least, fixed

    def _least_rows_of_block(self, number: int, choices: Choices) -> tuple[int, ...]:
        """The minimum rows of each edge of a block; choices: of the layers of the block."""
        block = self.model.blocks[number]
        # All combinations give the exact minimum of each edge; beyond the limit pairs of layers
        # give a weaker bound.
        if prod(map(len, choices)) <= MAX_COMBINATIONS:
            capacities_of_rows = (self.model.storage(number, rows) for rows in product(*choices))
            # A relaxation: no single choice need have the minimum of all edges.
            return tuple(map(min, zip(*capacities_of_rows, strict=True)))
        table, choice_of = self.model.table, dict(zip(block.layers, choices, strict=True))
        least_rows = []
        for edge_number in block.edges:
            edge = table.edges[edge_number]
            ends = edge.producer, edge.consumer
            alone = CyclicBlock(edges=(edge_number,), layers=ends)
            pairs = product(*(choice_of[layer] for layer in ends))
            least_rows.append(min(held_rows(block_rates(table, alone, pair)) for pair in pairs))
        return tuple(least for (least,), _ in least_rows)


FiringsBeforeEnd = dict[int, int]
"""Minimum firings of layers before the last firing of a layer, excluding it and its predecessors."""


def begun_before_end(
    model: PartitionModel, rows: Sequence[int | None], capacities: Sequence[int | None]
) -> list[int]:
    """Return for each layer, as bits, the layers that have begun before its last firing.

    Two constraints order firings. Data: a phase waits for firings of the producers that it reads.
    Capacity: the producer of a small buffer waits for firings of its consumer. So with small buffers,
    in every schedule a much later layer begins before the earlier layer ends.

    Example: a chain of layers 0, 1, 2 in phases of one row each, 4 rows, and capacities of 2 rows. For
    its fourth firing layer 0 waits until layer 1 has freed two rows, by two firings; of these the
    second needs no firing of layer 2. With capacity 1, layer 1 fires three times, the third after two
    firings of layer 2: all three layers have begun before layer 0 ends.

    rows: of the parts of each layer, None if unknown. capacities: rows of each edge, None if unknown.
    The layer itself counts as begun. The result holds for all values of the unknown rows and
    capacities.
    """
    inputs: list[list[int]] = [[] for _ in rows]
    # For each layer: a neighbour, and its minimum number of firings after each phase of the layer.
    forced_firings: list[list[tuple[int, tuple[int, ...]]]] = [[] for _ in rows]
    for number, edge in enumerate(model.table.edges):
        inputs[edge.consumer].append(edge.producer)
        written, read, capacity = rows[edge.producer], rows[edge.consumer], capacities[number]
        if written is not None and read is not None:
            needed = model.table.needed(number, written, read)
            forced_firings[edge.consumer].append((edge.producer, needed))
            # A buffer for the whole tensor never blocks its producer.
            if capacity is not None and capacity < edge.rows:
                room = model.table.room(number, written, read, capacity)
                forced_firings[edge.producer].append((edge.consumer, room))
    before_ends: list[FiringsBeforeEnd] = []
    begun = []
    for layer, count in enumerate(rows):
        # The layer and its predecessors, which are complete then.
        ended = model.above[layer] | 1 << layer
        firings: FiringsBeforeEnd = {}
        for source in inputs[layer]:
            for forced_layer, times in before_ends[source].items():
                if not ended >> forced_layer & 1 and times > firings.get(forced_layer, 0):
                    firings[forced_layer] = times
        changed = [(layer, len(model.table.written(layer, count)))] if count is not None else []
        # Fixed point by a work list: firing counts only grow and are bounded by the phases.
        while changed:
            forcing_layer, times = changed.pop()
            for forced_layer, forced_at in forced_firings[forcing_layer]:
                forced = forced_at[times - 1]
                if forced > firings.get(forced_layer, 0) and not ended >> forced_layer & 1:
                    firings[forced_layer] = forced
                    changed.append((forced_layer, forced))
        before_ends.append(firings)
        for forced_layer in firings:
            ended |= model.awaited[forced_layer] | 1 << forced_layer
        begun.append(ended)
    return begun


class PartitionSearch:
    """The searches in one partition; upper_bound: live elements of the best choice so far."""

    def __init__(self, open_choices: OpenChoices) -> None:
        self._open_choices = open_choices
        layers = range(len(open_choices.all_open))
        self._tree = ChoiceTree(open_choices, open_choices.all_open, layers, layers)
        self._paths = SeparatorPaths(open_choices)
        self._steps = 0
        self.upper_bound = self._completed(open_choices.all_open)

    @property
    def bound(self) -> int:
        """No choice has fewer live elements."""
        return min(self.upper_bound, max(self._tree.bound, self._paths.bound))

    def step(self) -> None:
        """Take a step of the tree or of the paths, unless the bound is met."""
        if self.bound == self.upper_bound:
            return
        self._steps += 1
        # Alternation: which search is better depends on the distance between separators.
        if self._steps % 2 and not self._paths.is_done:
            self._paths.step()
            new_choices = [self._paths.choices] if self._paths.is_done else []
        else:
            # The completion of the first part is the completion of its parent.
            new_choices = self._tree.split()[1:]
        # Upper bounds by completing open choices end the search as soon as both bounds meet.
        self.upper_bound = min([self.upper_bound, *map(self._completed, new_choices)])

    def _completed(self, choices: Choices) -> int:
        """Live elements of the choice in which each open layer has the smallest parts."""
        return max(self._open_choices.loads(tuple(rows[:1] for rows in choices)))


Segment = tuple[int, int]
"""The choices in which both ends are separators executed whole, and no separator between is.

The begin is -1 before the first layer, the end is the number of layers after the last layer.
"""


class SeparatorPaths:
    """The bound of a partition by its segments, higher with every step."""

    def __init__(self, open_choices: OpenChoices) -> None:
        self._open_choices = open_choices
        self._heights = open_choices.model.heights
        self._layers = len(self._heights)
        separators = [
            separator
            for separator in open_choices.model.separators
            if separator
            # The separator can be executed whole.
            and self._heights[separator] in open_choices.all_open[separator]
        ]
        self._untried_separators = set(separators)
        self._borders = [-1, *separators, self._layers]
        least = max(open_choices.loads(open_choices.all_open))
        # The lower bound on the live elements of each segment, in the order of the begins.
        self._bounds: dict[Segment, int] = {}
        for number, begin in enumerate(self._borders):
            for end in self._borders[number + 1 :]:
                # The bound with all choices open is valid for each segment.
                self._bounds[begin, end] = least
                if end < self._layers and len(open_choices.all_open[end]) == 1:
                    break  # all choices execute this separator whole
        self._trees: dict[Segment, ChoiceTree] = {}  # of the segments whose layers were split
        self._path = self._least_path()

    @property
    def bound(self) -> int:
        """No choice has fewer live elements."""
        return max(map(self._bounds.__getitem__, self._path))

    @property
    def is_done(self) -> bool:
        """Whether the bound cannot rise."""
        return not any(map(self._can_rise, self._path))

    def _can_rise(self, segment: Segment) -> bool:
        return segment not in self._trees or not self._trees[segment].is_done

    @property
    def choices(self) -> Choices:
        """The choices of the path; if it is complete, no segment needs more than the bound."""
        choices = list(self._open_choices.all_open)
        for begin, end in self._path:
            if tree := self._trees.get((begin, end)):
                layers = slice(max(begin, 0), end + 1)
                choices[layers] = tree.choices[layers]
        return tuple(choices)

    def step(self) -> None:
        """Raise the largest bound among the segments of the path whose bound can rise.

        Three refinements in order: one end of the segment executed whole, both ends, then the layers
        between the ends. Precondition: not `is_done`.
        """
        # Only segments on the minimax path can raise the bound of the path.
        rising = filter(self._can_rise, self._path)
        begin, end = segment = max(rising, key=self._bounds.__getitem__)
        # Lazy refinement: one separator bounds many segments by one evaluation.
        separator = next((at for at in (begin, end) if at in self._untried_separators), None)
        if separator is not None:
            self._untried_separators.remove(separator)
            choices = list(self._open_choices.all_open)
            choices[separator] = (self._heights[separator],)
            self._raise_bounds(tuple(choices), filter(lambda ends: separator in ends, self._bounds))
        elif segment not in self._trees:
            self._trees[segment] = self._tree(segment)
            # Longer segments with the same begin, or end, have choices among those with the other end
            # open.
            longer = [
                (first, last) for first, last in self._bounds if first == begin and last >= end
            ]
            self._raise_bounds(self._choices(segment, opened=end), longer)
            longer = [
                (first, last) for first, last in self._bounds if last == end and first <= begin
            ]
            self._raise_bounds(self._choices(segment, opened=begin), longer)
        else:
            self._trees[segment].split()
        if tree := self._trees.get(segment):
            self._bounds[segment] = max(self._bounds[segment], tree.bound)
        self._path = self._least_path()

    def _choices(self, segment: Segment, *, opened: int | None = None) -> Choices:
        """The choices of a segment; opened: an end that need not be executed whole."""
        begin, end = segment
        choices = list(self._open_choices.all_open)
        for border in self._borders[1:-1]:
            if border in segment and border != opened:
                choices[border] = (self._heights[border],)
            elif begin < border < end:
                choices[border] = tuple(
                    rows for rows in choices[border] if rows != self._heights[border]
                )
        return tuple(choices)

    def _raise_bounds(self, choices: Choices, segments: Iterable[Segment]) -> None:
        """Raise the bounds of segments, whose choices are among these, to the load of these."""
        least = max(self._open_choices.loads(choices))
        for segment in segments:
            self._bounds[segment] = max(self._bounds[segment], least)

    def _tree(self, segment: Segment) -> ChoiceTree:
        """The tree of a segment, split by its layers and the layers of blocks that overlap it."""
        begin, end = segment
        layers = set(range(begin + 1, end))
        for block in self._open_choices.model.blocks:
            if sum(begin <= layer <= end for layer in block.layers) > 1:
                layers.update(block.layers)
        observed_layers = range(max(begin, 0), min(end + 1, self._layers))
        return ChoiceTree(
            self._open_choices, self._choices(segment), sorted(layers), observed_layers
        )

    def _least_path(self) -> list[Segment]:
        """The path with the minimum of its largest bound; of equal paths, the longest segments."""
        peaks = {-1: 0}  # by the end of a path
        last_segment: dict[int, Segment] = {}
        # Minimax path by dynamic programming; segments are in the order of their begins.
        for (begin, end), bound in self._bounds.items():
            peak = max(peaks[begin], bound)
            if end not in peaks or peak < peaks[end]:
                peaks[end], last_segment[end] = peak, (begin, end)
        path: list[Segment] = []
        begin = self._layers
        while begin >= 0:
            path.append(last_segment[begin])
            begin, _ = path[-1]
        return path[::-1]


class _ChoiceNode(NamedTuple):
    """Choices that agree in the layers fixed so far; nodes are split in the order of the fields.

    bound: lower bound on live elements. fixed: minus the number of layers fixed by splits. number: of
    the node, as they were made. fullest: the layer at whose first firing the load is largest.
    """

    bound: int
    fixed: int
    number: int
    choices: Choices
    fullest: int


class ChoiceTree:
    """A partition of the choices into nodes, split by best-first search.

    layers: to be split. observed_layers: the layers at whose first firing the load is evaluated.
    """

    def __init__(
        self,
        open_choices: OpenChoices,
        choices: Choices,
        layers: Iterable[int],
        observed_layers: range,
    ) -> None:
        self._open_choices = open_choices
        self._layers = [layer for layer in layers if len(choices[layer]) > 1]
        self._observed_layers = observed_layers
        self._node_count = 0
        self._nodes = [self._node(choices, 0, 0)]

    @property
    def bound(self) -> int:
        """No choice has fewer live elements."""
        return self._nodes[0].bound

    @property
    def choices(self) -> Choices:
        """The choices of the node with the minimum bound."""
        return self._nodes[0].choices

    @property
    def is_done(self) -> bool:
        """Whether the bound cannot rise: all layers are fixed in the node with the minimum bound."""
        return all(len(self.choices[layer]) == 1 for layer in self._layers)

    def split(self) -> list[Choices]:
        """Split the node with the smallest bound, which has an open layer; return its parts.

        Wherever Ctrl-C ends it, the nodes contain all choices.
        """
        node, *rest = self._nodes
        # The open layers near the fullest step decide its load, so they are fixed first.
        layer = min(
            (candidate for candidate in self._layers if len(node.choices[candidate]) > 1),
            key=lambda candidate: (abs(candidate - node.fullest), candidate),
        )
        before, after = node.choices[:layer], node.choices[layer + 1 :]
        parts = [(*before, (rows,), *after) for rows in node.choices[layer]]
        # The bound of a child is at least its parent's bound.
        rest += [self._node(choices, node.bound, node.fixed - 1) for choices in parts]
        heapify(rest)
        # Assigned once, after all parts are made, so that an interrupt loses no choice.
        self._nodes = rest
        return parts

    def _node(self, choices: Choices, bound: int, fixed: int) -> _ChoiceNode:
        loads = self._open_choices.loads(choices)
        fullest = max(self._observed_layers, key=loads.__getitem__)
        self._node_count += 1
        return _ChoiceNode(max(bound, loads[fullest]), fixed, self._node_count, choices, fullest)
