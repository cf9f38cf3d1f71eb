"""Lower bound on live bytes over all chromosomes: branch and bound, and minimax paths over separators.

An edge has at least the rows that it holds under some choice of its block. It is live when a layer
fires for the first time, if its producer has begun until then and its consumer has not ended: where
that follows from data, and from the room in buffers that are already fixed, it is so in every schedule.
Live bytes of partitions that run in parallel add up. (For the lifetimes of one chromosome
`ReusePlan.live_load` is the bound, and larger.)

Two searches raise the bound alternately:

    Tree            a node fixes the rows of some layers; what it forces to be live together is a bound
                    for all choices that agree with it. The node with the least bound is split by the
                    open layer nearest to the step where most is live.
    SeparatorPaths  the separators that are executed whole cut a choice into segments: each choice is
                    a path from separator to separator. A segment has a bound for all choices that have
                    it. A choice needs as much as its neediest segment, so the path whose largest bound
                    is the least gives a bound for all choices. It is raised where that path has its
                    largest bound, until all of the path is known.

The first is better where many layers lie between separators, the second in long chains. Each choice
that is met is completed by the smallest parts, which ends the search where it needs no more than the
bound.

The bound holds for every schedule of every choice, where each edge has the smallest buffer that its
block can run with, as the planner gives it, and is live from the first firing of its producer to the
last of its consumer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from heapq import heapify
from itertools import chain, product
from math import prod
from typing import NamedTuple

from csdf.time_limit import ENDS, Budget, stop_of
from planners.reuse.edge_buffers import EdgeBuffer, Stay
from planners.reuse.evaluation import Evaluator
from planners.reuse.partition import PartitionModel
from planners.reuse.storage import CyclicBlock, block_rates, held_rows

PUBLISHED_GENES = (1, None)
MOST_COMBINED = 64  # choices of a block of which all are tried; else those of two layers at a time

Choices = tuple[tuple[int, ...], ...]
"""For each layer the rows of a part that are still open; one number where they are fixed."""


def memory_bound(
    evaluator: Evaluator,
    genes: Sequence[int | None] = PUBLISHED_GENES,
    *,
    steps: int = 0,
    shares_tensors: bool = False,
    budget: Budget = None,
) -> int:
    """Return bytes of weights and buffers that no chromosome of these genes is below.

    It holds for whole buffers and for offsets. steps: of the search that raises it. shares_tensors: it
    holds also where readers of a tensor share its place: of the edges that leave a layer only the
    largest counts. budget: a stop, or seconds; it ends the search with the bound until then.
    """
    search = PartitionBound(evaluator, genes, shares_tensors=shares_tensors)
    search.run(steps, budget)
    return search.bound


class OpenChoices:
    """The layers of a partition, and what they need at least for any choices that are open.

    shares_tensors: of the edges that leave a layer only the largest counts.
    """

    def __init__(
        self,
        model: PartitionModel,
        genes: Sequence[int | None],
        *,
        shares_tensors: bool = False,
    ) -> None:
        self.model = model
        tensors: dict[object, list[tuple[EdgeBuffer, Stay]]] = {}
        for number, (edge, stay) in model.residents.items():
            key = (edge.member, edge.connection.producer) if shares_tensors else number
            tensors.setdefault(key, []).append((edge, stay))
        self._tensors = list(tensors.values())
        self._rows: dict[tuple[int, Choices], tuple[int, ...]] = {}
        self._begun = [bits | 1 << layer for layer, bits in enumerate(model.awaiting)]
        self.genes = [
            {model.table.part_rows(layer, gene): gene for gene in genes}
            for layer in range(len(model.table.layers))
        ]
        self.all_open: Choices = tuple(tuple(sorted(gene)) for gene in self.genes)

    def loads(self, choices: Choices) -> list[int]:
        """Return the elements that are live at least when each layer fires for the first time."""
        least, fixed = self._edge_rows(choices)
        rows = [choice[0] if len(choice) == 1 else None for choice in choices]
        not_ended = begun_before_end(self.model, rows, fixed)
        edges = self.model.table.edges
        loads = [0] * len(choices)
        for tensor in self._tensors:
            sized = []
            for edge, stay in tensor:
                live = (
                    1 << len(choices)
                ) - 1  # the layers, as bits, at whose first firing it is live
                if stay.first is not None:
                    live &= self._begun[stay.first]
                if stay.last is not None:
                    live &= not_ended[stay.last]
                inner = edge.inner  # a cut edge is whole
                size = edge.elements if inner is None else least[inner] * edges[inner].row_elements
                sized.append((size, live))
            counted = 0
            # Of edges that may share a tensor only the largest live edge counts at each step.
            for size, live in sorted(sized, reverse=True):
                new = live & ~counted
                counted |= live
                while new:
                    # Iterates over the set bits: layers are sparse in the mask.
                    lowest = new & -new
                    loads[lowest.bit_length() - 1] += size
                    new ^= lowest
        return loads

    def _edge_rows(self, choices: Choices) -> tuple[list[int], list[int | None]]:
        """The rows that each edge has at least, and those of the blocks that are fixed."""
        least = [0] * len(self.model.table.edges)
        fixed: list[int | None] = [None] * len(least)
        for number, block in enumerate(self.model.blocks):
            choices_of_block = tuple([choices[layer] for layer in block.layers])
            rows = self._rows.get((number, choices_of_block))
            if rows is None:
                rows = self._rows[number, choices_of_block] = self._block_rows(
                    number, choices_of_block
                )
            is_fixed = all(len(choice) == 1 for choice in choices_of_block)
            for edge, count in zip(block.edges, rows, strict=True):
                least[edge] = count
                if is_fixed:
                    fixed[edge] = count
        return least, fixed

    def _block_rows(self, number: int, choices: Choices) -> tuple[int, ...]:
        block = self.model.blocks[number]
        # All combinations give the exact minimum of each edge; beyond the limit pairs of layers
        # give a weaker bound.
        if prod(map(len, choices)) <= MOST_COMBINED:
            capacities_of_rows = (
                self.model.storage(number, rows).capacities for rows in product(*choices)
            )
            # The minimum of each edge by itself is a relaxation: no single choice need reach all of
            # them.
            return tuple(map(min, zip(*capacities_of_rows, strict=True)))
        alone = [
            CyclicBlock(
                edges=(edge,), layers=(block.layers[ends[0]], block.layers[ends[1]]), ends=((0, 1),)
            )
            for edge, ends in zip(block.edges, block.ends, strict=True)
        ]
        return tuple(
            min(
                held_rows(block_rates(self.model.table, block, pair))[0][0]
                for pair in product(choices[producer], choices[consumer])
            )
            for block, (producer, consumer) in zip(alone, block.ends, strict=True)
        )


Rows = int | None
Ahead = dict[int, int]
"""How often layers have fired by the time a layer ends, but for itself and those it depends on."""


def begun_before_end(
    model: PartitionModel, rows: Sequence[Rows], capacities: Sequence[Rows]
) -> list[int]:
    """Return for each layer, as bits, the layers that have begun before it fires for the last time.

    Two things force a firing to come before another. Data: a phase waits for firings of the layers
    that it reads. Room: where a buffer is small, its producer waits for firings of its consumer. So
    with small buffers a layer far below begins before a layer above ends, in every schedule.

    rows: of the parts of each layer, None where they are not known. capacities: rows that each edge
    holds, None where they are not known. The layer itself counts as begun. What follows from the
    layers and edges that are known holds whatever the others are.
    """
    inputs: list[list[int]] = [[] for _ in rows]
    # For each layer pairs: another layer, and how often it has fired after each phase of the first.
    forces: list[list[tuple[int, tuple[int, ...]]]] = [[] for _ in rows]
    for number, edge in enumerate(model.table.edges):
        inputs[edge.consumer].append(edge.producer)
        written, read, capacity = rows[edge.producer], rows[edge.consumer], capacities[number]
        if written is not None and read is not None:
            needed = model.table.needed(number, written, read)
            forces[edge.consumer].append((edge.producer, needed))
            # A buffer for the whole tensor never blocks its producer.
            if capacity is not None and capacity < edge.rows:
                room = model.table.room(number, written, read, capacity)
                forces[edge.producer].append((edge.consumer, room))
    ahead: list[Ahead] = []
    begun = []
    for layer, count in enumerate(rows):
        ended = model.above[layer] | 1 << layer
        fired: Ahead = {}
        for before in (ahead[source] for source in inputs[layer]):
            for layer_before, firings in before.items():
                if not ended >> layer_before & 1 and firings > fired.get(layer_before, 0):
                    fired[layer_before] = firings
        changed = [(layer, len(model.table.written(layer, count)))] if count is not None else []
        # Fixed point by a work list: firing counts only grow and are bounded by the phases.
        while changed:
            now, often = changed.pop()
            for layer_before, forced_at in forces[now]:
                forced = forced_at[often - 1]
                if forced > fired.get(layer_before, 0) and not ended >> layer_before & 1:
                    fired[layer_before] = forced
                    changed.append((layer_before, forced))
        ahead.append(fired)
        for layer_before in fired:
            ended |= model.awaited[layer_before] | 1 << layer_before
        begun.append(ended)
    return begun


class PartitionSearch:
    """The search in one partition; upper_bound: live elements of the best choice so far."""

    def __init__(self, left: OpenChoices) -> None:
        self._left = left
        layers = range(len(left.all_open))
        self._tree = ChoiceTree(left, left.all_open, layers=layers, moments=layers)
        self._paths = SeparatorPaths(left)
        self._steps = 0
        self.upper_bound = self._completed(left.all_open)

    @property
    def bound(self) -> int:
        """No choice has fewer live elements."""
        return min(self.upper_bound, max(self._tree.bound, self._paths.bound))

    def step(self) -> None:
        """Take a step of one of the searches, unless the bound is met."""
        if self.bound == self.upper_bound:
            return
        self._steps += 1
        met: Sequence[Choices] = ()
        # Alternation: which search is better depends on the distance between separators.
        if self._steps % 2 and not self._paths.is_done:
            self._paths.step()
            met = [self._paths.choices] if self._paths.is_done else []
        else:
            met = self._tree.split()[1:]  # the first is completed as before
        # Upper bounds by completing open choices end the search as soon as both bounds meet.
        self.upper_bound = min([self.upper_bound, *map(self._completed, met)])

    def _completed(self, choices: Choices) -> int:
        """Live elements of the choice in which each open layer has the smallest parts."""
        return max(self._left.loads(tuple(rows[:1] for rows in choices)))


class PartitionBound:
    """The search in all partitions of an application, whose bound rises with every step.

    genes: to choose from. shares_tensors: readers of a tensor may share its place.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        genes: Sequence[int | None] = PUBLISHED_GENES,
        *,
        shares_tensors: bool = False,
    ) -> None:
        self._evaluator = evaluator
        self.searches = [
            PartitionSearch(OpenChoices(model, genes, shares_tensors=shares_tensors))
            for model in evaluator.models
        ]

    @property
    def bound(self) -> int:
        """Bytes of weights and of live buffers, which no chromosome is below."""
        least = self._evaluator.together([search.bound for search in self.searches])
        return self._evaluator.weights + self._evaluator.costs.element_bytes * least

    def run(self, steps: int, budget: Budget = None) -> None:
        """Take this many steps, or fewer where the bound cannot rise, or `budget` or Ctrl-C ends it."""
        stop = stop_of(budget)
        with suppress(*ENDS):
            for _ in range(steps):
                least = self._evaluator.together([search.bound for search in self.searches])
                units = [
                    [self.searches[number] for number in unit] for unit in self._evaluator.units
                ]
                units = [
                    unit for unit in units if sum(search.upper_bound for search in unit) > least
                ]
                if not units:
                    return
                # The joint bound is the maximum over the units: only the largest can raise or
                # settle it.
                largest = max(units, key=lambda unit: sum(search.bound for search in unit))
                stop.look()
                max(largest, key=lambda search: search.upper_bound - search.bound).step()


class _Segment:
    """The choices in which both ends are whole separators, and no separator between them is.

    begin: -1 before the first layer. end: the number of layers behind the last one. bound: elements
    that are live together at least.
    """

    def __init__(self, begin: int, end: int, bound: int) -> None:
        self.begin = begin
        self.end = end
        self.bound = bound
        self.tree: ChoiceTree | None = None

    @property
    def is_known(self) -> bool:
        """Whether the bound cannot rise."""
        return self.tree is not None and self.tree.is_done


class SeparatorPaths:
    """The bound of a partition by its segments, higher with every step."""

    def __init__(self, left: OpenChoices) -> None:
        self._left = left
        self._heights = left.model.heights
        self._layers = len(self._heights)
        separators = [
            separator
            for separator in left.model.separators
            if separator
            and self._heights[separator] in left.all_open[separator]  # it can work as a whole
        ]
        self._separators_left = set(separators)
        self._places = [-1, *separators, self._layers]
        least = max(left.loads(left.all_open))
        self._ending: dict[int, list[_Segment]] = {place: [] for place in self._places}
        for number, begin in enumerate(self._places):
            for end in self._places[number + 1 :]:
                # All segments begin with the bound of no choice at all, valid for each of them.
                self._ending[end].append(_Segment(begin, end, least))
                if end < self._layers and len(left.all_open[end]) == 1:
                    break  # this separator works as a whole in all choices
        self._path = self._least_path()

    @property
    def bound(self) -> int:
        """No choice has fewer live elements."""
        return max(segment.bound for segment in self._path)

    @property
    def is_done(self) -> bool:
        """Whether the bound cannot rise."""
        return all(segment.is_known for segment in self._path)

    @property
    def choices(self) -> Choices:
        """The choices of the path; if it is complete, no segment needs more than the bound."""
        choices = list(self._left.all_open)
        for segment in self._path:
            if segment.tree is not None:
                first, behind = max(segment.begin, 0), segment.end + 1
                choices[first:behind] = segment.tree.choices[first:behind]
        return tuple(choices)

    def step(self) -> None:
        """Raise the largest bound of the path, of segments that are not known; there is one.

        By each end alone, then by both ends, then by the layers between them.
        """
        # Only segments on the best path can raise the bound of the path.
        unknown = [segment for segment in self._path if not segment.is_known]
        segment = max(unknown, key=lambda candidate: candidate.bound)
        begin, end = segment.begin, segment.end
        # Lazy refinement: one separator bounds many segments by one evaluation.
        separator = next(
            (border for border in (begin, end) if border in self._separators_left), None
        )
        if separator is not None:
            self._separators_left.remove(separator)
            choices = list(self._left.all_open)
            choices[separator] = (self._heights[separator],)
            both = (segment for segment in self._all() if separator in (segment.begin, segment.end))
            self._note(tuple(choices), both)
        elif segment.tree is None:
            segment.tree = self._tree(segment)
            longer = (
                segment for segment in self._all() if segment.begin == begin and segment.end >= end
            )
            self._note(self._choices(segment, opened=end), longer)
            earlier = (segment for segment in self._ending[end] if segment.begin <= begin)
            self._note(self._choices(segment, opened=begin), earlier)
        else:
            segment.tree.split()
        if segment.tree is not None:
            segment.bound = max(segment.bound, segment.tree.bound)
        self._path = self._least_path()

    def _all(self) -> Iterator[_Segment]:
        return chain.from_iterable(self._ending.values())

    def _choices(self, segment: _Segment, *, opened: int | None = None) -> Choices:
        """The choices of a segment; with those where the end that is opened is not whole."""
        choices = list(self._left.all_open)
        for place in self._places[1:-1]:
            if place in (segment.begin, segment.end) and place != opened:
                choices[place] = (self._heights[place],)
            elif segment.begin < place < segment.end:
                choices[place] = tuple(
                    rows for rows in choices[place] if rows != self._heights[place]
                )
        return tuple(choices)

    def _note(self, choices: Choices, segments: Iterable[_Segment]) -> None:
        """Note what these choices need for segments whose choices are among them."""
        least = max(self._left.loads(choices))
        for segment in segments:
            segment.bound = max(segment.bound, least)

    def _tree(self, segment: _Segment) -> ChoiceTree:
        """The choices of a segment, to be split by its layers and those of blocks that it cuts."""
        begin, end = segment.begin, segment.end
        layers = set(range(begin + 1, end))
        for block in self._left.model.blocks:
            if sum(begin <= layer <= end for layer in block.layers) > 1:
                layers.update(block.layers)
        moments = range(max(begin, 0), min(end + 1, self._layers))
        return ChoiceTree(
            self._left, self._choices(segment), layers=sorted(layers), moments=moments
        )

    def _least_path(self) -> list[_Segment]:
        """The segments of the path whose largest bound is the least; of equal ones the longest."""
        best = {-1: 0}
        come: dict[int, _Segment] = {}
        for place in self._places[1:]:
            reached = [segment for segment in self._ending[place] if segment.begin in best]
            if reached:
                come[place] = min(
                    reached,
                    # Minimax path by dynamic programming: a choice needs as much as its largest
                    # segment.
                    key=lambda segment: (max(best[segment.begin], segment.bound), segment.begin),
                )
                best[place] = max(best[come[place].begin], come[place].bound)
        path = [come[self._layers]]
        while path[-1].begin >= 0:
            path.append(come[path[-1].begin])
        return path[::-1]


class _ChoiceNode(NamedTuple):
    """Choices that agree in some layers, in the order in which nodes are split.

    bound: live elements at least. fixed: minus the number of layers that were fixed. fullest: the
    layer at whose first firing most is live.
    """

    bound: int
    fixed: int
    number: int
    choices: Choices
    fullest: int


class ChoiceTree:
    """Nodes that together are all choices.

    layers: to be split. moments: the layers at whose first firing it is asked what is live.
    """

    def __init__(
        self, left: OpenChoices, choices: Choices, *, layers: Iterable[int], moments: range
    ) -> None:
        self._left = left
        self._layers = [layer for layer in layers if len(choices[layer]) > 1]
        self._moments = moments
        self._made = 0
        self._nodes = [self._node(choices, 0, 0)]

    @property
    def bound(self) -> int:
        """No choice has fewer live elements."""
        return self._nodes[0].bound

    @property
    def choices(self) -> Choices:
        """The choices that need no more than the bound, by the constraints learned so far."""
        return self._nodes[0].choices

    @property
    def is_done(self) -> bool:
        """Whether the bound cannot rise: all layers are fixed in the node that has it."""
        return next(self._open(self._nodes[0]), None) is None

    def split(self) -> list[Choices]:
        """Split the node with the smallest bound, which has an open layer; return its parts.

        Wherever Ctrl-C ends it, the nodes are all choices.
        """
        node, *rest = self._nodes
        # The open layers near the fullest step decide its load, so they are fixed first.
        layer = min(
            self._open(node), key=lambda candidate: (abs(candidate - node.fullest), candidate)
        )
        before, behind = node.choices[:layer], node.choices[layer + 1 :]
        parts = [(*before, (rows,), *behind) for rows in node.choices[layer]]
        # The bound of a child is at least its parent's bound.
        rest += [self._node(choices, node.bound, node.fixed - 1) for choices in parts]
        heapify(rest)
        # Assigned once, after all parts are made: an interrupt leaves a complete partition of the
        # choices.
        self._nodes = rest
        return parts

    def _open(self, node: _ChoiceNode) -> Iterator[int]:
        return (layer for layer in self._layers if len(node.choices[layer]) > 1)

    def _node(self, choices: Choices, bound: int, fixed: int) -> _ChoiceNode:
        loads = self._left.loads(choices)
        fullest = max(self._moments, key=loads.__getitem__)
        self._made += 1
        return _ChoiceNode(max(bound, loads[fullest]), fixed, self._made, choices, fullest)
