"""The least that is in use together in a partition, and in an application: bounds that rise.

Two searches share the steps: one splits choices by the layers near the place where most is in use
(`choice_tree`), the other by gates that work as a whole (`gate_paths`). The first is better where many
layers lie between gates, the second in long chains. Each choice that is met is completed by the
smallest parts, which ends the search where it needs no more than the bound.

The bound holds for every schedule of every choice, where each edge has the smallest buffer that its
block can run with, as the planner gives it, and is in use from the first firing of its producer to the
last of its consumer.

A bound over all choices by the gates that work as a whole: each choice is a path from gate to gate.

A gate is a layer that all other layers come before, or wait for. The gates that work as a whole cut a
choice into stretches; gates within a stretch work by parts. A stretch has a bound for all choices that
have it, from what is in use between its ends. A choice needs as much as the neediest of its stretches,
so the path whose largest bound is the least gives a bound for all choices. It is raised where that path
has its largest bound, until all of the path is known.

Branch and bound over the parts of some layers: the least that they can have in use together.

A node fixes the parts of some layers; what they force to be in use together (`ChoicesLeft`) is a bound
for all that agree with it. The node with the smallest bound is split by the open layer nearest to the
place where most is in use. So there is a proved bound at any time, and it rises.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from heapq import heapify
from typing import NamedTuple

from csdf.time_limit import ENDS, Budget, stop_of
from planners.reuse.application.application import Genes
from planners.reuse.cost.bounds import PUBLISHED_GENES, Choices, ChoicesLeft
from planners.reuse.cost.evaluation import Evaluator


class PartitionSearch:
    """The search in one partition; found: elements that the choice with these rows has in use."""

    def __init__(self, left: ChoicesLeft) -> None:
        self._left = left
        layers = range(len(left.all_open))
        self._tree = Tree(left, left.all_open, layers=layers, moments=layers)
        self._paths = GatePaths(left)
        self._steps = 0
        self.rows = tuple(rows for (rows,) in _completed(left.all_open))
        self.found = max(left.loads(_completed(left.all_open)))

    @property
    def bound(self) -> int:
        """No choice has less in use together."""
        return min(self.found, max(self._tree.bound, self._paths.bound))

    @property
    def genes(self) -> Genes:
        """The genes of the least that was found."""
        return tuple(known[rows] for known, rows in zip(self._left.genes, self.rows, strict=True))

    def step(self) -> None:
        """Take a step of one of the searches, unless the bound is met."""
        if self.bound == self.found:
            return
        self._steps += 1
        if self._steps % 2 and not self._paths.is_done:
            self._paths.step()
            if self._paths.is_done:
                self._complete(self._paths.choices)
        else:
            for choices in self._tree.split()[1:]:  # the first is completed as before
                self._complete(choices)

    def _complete(self, choices: Choices) -> None:
        whole = _completed(choices)
        load = max(self._left.loads(whole))
        if load < self.found:
            self.found, self.rows = load, tuple(rows for (rows,) in whole)


def _completed(choices: Choices) -> Choices:
    """The choices where each open layer has the smallest parts."""
    return tuple(rows[:1] for rows in choices)


class LeastLoad:
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
            PartitionSearch(ChoicesLeft(model, here, genes, shares_tensors=shares_tensors))
            for model, here in zip(evaluator.models, evaluator.residents, strict=True)
        ]

    @property
    def bound(self) -> int:
        """Bytes of weights and of what is in use together, which no chromosome is below."""
        least = self._evaluator.together([one.bound for one in self.searches])
        return self._evaluator.weights + self._evaluator.costs.element_bytes * least

    def run(self, steps: int, budget: Budget = None) -> None:
        """Take so many steps, or fewer where the bound cannot rise, or `budget` or Ctrl-C ends it."""
        stop = stop_of(budget)
        with suppress(*ENDS):
            for _ in range(steps):
                search = self._next()
                if search is None:
                    return
                stop.look()
                search.step()

    def _next(self) -> PartitionSearch | None:
        """The partition on which the bound depends; None where it is as high as it can be."""
        least = self._evaluator.together([one.bound for one in self.searches])
        units = [one for one in self._units() if sum(search.found for search in one) > least]
        if not units:
            return None
        largest = max(units, key=lambda one: sum(search.bound for search in one))
        return max(largest, key=lambda search: search.found - search.bound)

    def _units(self) -> list[list[PartitionSearch]]:
        """Partitions that run at the same time, together; the others alone."""
        units: dict[object, list[PartitionSearch]] = {}
        for number, (group, search) in enumerate(
            zip(self._evaluator.groups, self.searches, strict=True)
        ):
            units.setdefault(("alone", number) if group is None else group, []).append(search)
        return list(units.values())


def searched_bound(
    evaluator: Evaluator,
    genes: Sequence[int | None] = PUBLISHED_GENES,
    *,
    steps: int,
    shares_tensors: bool = False,
    budget: Budget = None,
) -> int:
    """Return bytes of weights and buffers that no chromosome of these genes is below.

    As `memory_bound` and `tensor_bound`, and at least as much, for the buffers that blocks are given.
    """
    search = LeastLoad(evaluator, genes, shares_tensors=shares_tensors)
    search.run(steps, budget)
    return search.bound


class _Stretch:
    """The choices in which both ends are whole gates, and no gate between them is.

    begin: -1 before the first layer. end: the number of layers behind the last one. bound: elements
    that are in use together at least.
    """

    def __init__(self, begin: int, end: int, bound: int) -> None:
        self.begin = begin
        self.end = end
        self.bound = bound
        self.tree: Tree | None = None

    @property
    def is_known(self) -> bool:
        """Whether the bound cannot rise."""
        return self.tree is not None and self.tree.is_done

    def note(self, bound: int) -> None:
        """Take over a bound that holds for all of its choices."""
        self.bound = max(self.bound, bound)


class GatePaths:
    """The bound of a partition by its stretches, higher with every step."""

    def __init__(self, left: ChoicesLeft) -> None:
        self._left = left
        self._heights = [layer.shape.rows for layer in left.model.table.layers]
        self._layers = len(self._heights)
        gates = [gate for gate in left.model.gates if gate and self._can_be_whole(gate)]
        self._gates_left = set(gates)
        self._places = [-1, *gates, self._layers]
        least = max(left.loads(left.all_open))
        self._ending: dict[int, list[_Stretch]] = {place: [] for place in self._places}
        for number, begin in enumerate(self._places):
            for end in self._places[number + 1 :]:
                self._ending[end].append(_Stretch(begin, end, least))
                if end < self._layers and len(left.all_open[end]) == 1:
                    break  # this gate works as a whole in all choices
        self._path = self._least_path()

    @property
    def bound(self) -> int:
        """No choice has less in use together."""
        return max(one.bound for one in self._path)

    @property
    def is_done(self) -> bool:
        """Whether the bound cannot rise."""
        return all(one.is_known for one in self._path)

    @property
    def choices(self) -> Choices:
        """The choices of the path, of which no stretch needs more than the bound if it is done."""
        choices = list(self._left.all_open)
        for one in self._path:
            if one.tree is not None:
                first, behind = max(one.begin, 0), one.end + 1
                choices[first:behind] = one.tree.choices[first:behind]
        return tuple(choices)

    def step(self) -> None:
        """Raise the largest bound of the path, of stretches that are not known; there is one."""
        unknown = [one for one in self._path if not one.is_known]
        self._look_at(max(unknown, key=lambda one: one.bound))
        self._path = self._least_path()

    def _can_be_whole(self, layer: int) -> bool:
        return self._heights[layer] in self._left.all_open[layer]

    def _choices(self, stretch: _Stretch, *, opened: int | None = None) -> Choices:
        """The choices of a stretch; with those where the end that is opened is no whole gate."""
        choices = list(self._left.all_open)
        for gate in self._places[1:-1]:
            if gate in (stretch.begin, stretch.end) and gate != opened:
                choices[gate] = (self._heights[gate],)
            elif stretch.begin < gate < stretch.end:
                choices[gate] = tuple(one for one in choices[gate] if one != self._heights[gate])
        return tuple(choices)

    def _look_at(self, stretch: _Stretch) -> None:
        """Raise its bound: by each end alone, then by both ends, then by the layers between them."""
        for end in (stretch.begin, stretch.end):
            if end in self._gates_left:
                self._gates_left.remove(end)
                self._note(self._whole(end), self._with_end(end))
                return
        if stretch.tree is None:
            stretch.tree = self._tree(stretch)
            self._note(self._choices(stretch, opened=stretch.end), self._longer(stretch))
            self._note(self._choices(stretch, opened=stretch.begin), self._earlier(stretch))
        else:
            stretch.tree.split()
        stretch.note(stretch.tree.bound)

    def _note(self, choices: Choices, stretches: Iterable[_Stretch]) -> None:
        """Note what these choices need for stretches whose choices are among them."""
        least = max(self._left.loads(choices))
        for one in stretches:
            one.note(least)

    def _whole(self, gate: int) -> Choices:
        choices = list(self._left.all_open)
        choices[gate] = (self._heights[gate],)
        return tuple(choices)

    def _with_end(self, gate: int) -> Iterable[_Stretch]:
        yield from self._ending[gate]
        yield from (one for some in self._ending.values() for one in some if one.begin == gate)

    def _longer(self, stretch: _Stretch) -> Iterable[_Stretch]:
        """Stretches with the same beginning that end no earlier."""
        return (
            one
            for end in self._places
            if end >= stretch.end
            for one in self._ending[end]
            if one.begin == stretch.begin
        )

    def _earlier(self, stretch: _Stretch) -> Iterable[_Stretch]:
        """Stretches with the same end that begin no later."""
        return (one for one in self._ending[stretch.end] if one.begin <= stretch.begin)

    def _tree(self, stretch: _Stretch) -> Tree:
        """The choices of a stretch, to be split by its layers and those of blocks that it cuts."""
        begin, end = stretch.begin, stretch.end
        layers = set(range(begin + 1, end))
        for block in self._left.model.blocks:
            if sum(begin <= layer <= end for layer in block.layers) > 1:
                layers.update(block.layers)
        moments = range(max(begin, 0), min(end + 1, self._layers))
        return Tree(self._left, self._choices(stretch), layers=sorted(layers), moments=moments)

    def _least_path(self) -> list[_Stretch]:
        """The stretches of the path whose largest bound is the least; of equal ones the longest."""
        best = {-1: 0}
        come: dict[int, _Stretch] = {}
        for place in self._places[1:]:
            reached = [one for one in self._ending[place] if one.begin in best]
            if reached:
                come[place] = min(
                    reached, key=lambda one: (max(best[one.begin], one.bound), one.begin)
                )
                best[place] = max(best[come[place].begin], come[place].bound)
        path = [come[self._layers]]
        while path[-1].begin >= 0:
            path.append(come[path[-1].begin])
        return path[::-1]


class _Node(NamedTuple):
    """Choices that agree in some layers, in the order in which nodes are split.

    bound: elements in use together at least. fixed: minus the number of layers that were fixed.
    fullest: the layer at whose first firing most is in use.
    """

    bound: int
    fixed: int
    number: int
    choices: Choices
    fullest: int


class Tree:
    """Nodes that together are all choices.

    layers: to be split. moments: the layers at whose first firing it is asked what is in use.
    """

    def __init__(
        self, left: ChoicesLeft, choices: Choices, *, layers: Iterable[int], moments: range
    ) -> None:
        self._left = left
        self._layers = [layer for layer in layers if len(choices[layer]) > 1]
        self._moments = moments
        self._made = 0
        self._nodes = [self._node(choices, 0, 0)]

    @property
    def bound(self) -> int:
        """No choice has less in use together."""
        return self._nodes[0].bound

    @property
    def choices(self) -> Choices:
        """The choices that need no more than the bound, as far as is known."""
        return self._nodes[0].choices

    @property
    def is_done(self) -> bool:
        """Whether the bound cannot rise: all layers are fixed in the node that has it."""
        return not self._open(self._nodes[0])

    def split(self) -> list[Choices]:
        """Split the node with the smallest bound, which has an open layer; return its parts.

        Wherever Ctrl-C ends it, the nodes are all choices.
        """
        node, *others = self._nodes
        layer = min(self._open(node), key=lambda one: (abs(one - node.fullest), one))
        before, behind = node.choices[:layer], node.choices[layer + 1 :]
        parts = [(*before, (rows,), *behind) for rows in node.choices[layer]]
        others += [self._node(choices, node.bound, node.fixed - 1) for choices in parts]
        heapify(others)
        self._nodes = others
        return parts

    def _open(self, node: _Node) -> list[int]:
        return [layer for layer in self._layers if len(node.choices[layer]) > 1]

    def _node(self, choices: Choices, bound: int, fixed: int) -> _Node:
        loads = self._left.loads(choices)
        fullest = max(self._moments, key=loads.__getitem__)
        self._made += 1
        return _Node(max(bound, loads[fullest]), fixed, self._made, choices, fullest)
