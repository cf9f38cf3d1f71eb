"""The least that is in use together, by branch and bound over the parts of the layers.

A node fixes the parts of some layers; what they force to be in use together (`ChoicesLeft`) is a bound
for all that agree with it. The node with the smallest bound is split by the open layer nearest to the
place where most is in use. So there is a proved bound at any time, and it rises. Each node is also
completed by the smallest parts, which gives a choice, and an end where one meets the bound.

The bound holds for every schedule of every choice, where each edge has the smallest buffer that its
block can run with, as the planner gives it, and is in use from the first firing of its producer to the
last of its consumer.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from heapq import heappop, heappush
from typing import NamedTuple

from csdf.stopping import ENDS, Budget, stop_of
from planners.reuse.application.application import Genes
from planners.reuse.cost.bounds import PUBLISHED_GENES
from planners.reuse.cost.choices_left import Choices, ChoicesLeft
from planners.reuse.cost.evaluation import Evaluator


class _Node(NamedTuple):
    """A part of all choices, in the order in which nodes are split.

    bound: elements in use together at least. fixed: minus the number of layers that are fixed. fullest:
    the layer at whose first firing most is in use.
    """

    bound: int
    fixed: int
    number: int
    choices: Choices
    fullest: int


class PartitionSearch:
    """The search in one partition; bound and found: elements, rows: of the parts that need `found`."""

    def __init__(self, left: ChoicesLeft) -> None:
        self._left = left
        self._nodes: list[_Node] = []
        self._made = 0
        self.rows = tuple(open_rows[0] for open_rows in left.all_open)
        self.found = max(left.loads(_completed(left.all_open)))
        self._add(left.all_open, 0, 0)

    @property
    def bound(self) -> int:
        """No choice has less in use together."""
        return min(self.found, self._nodes[0].bound) if self._nodes else self.found

    @property
    def genes(self) -> Genes:
        """The genes of the least that was found."""
        return tuple(known[rows] for known, rows in zip(self._left.genes, self.rows, strict=True))

    def step(self) -> None:
        """Split the node with the smallest bound, unless the search is at its end."""
        if self.bound == self.found:
            return
        node = heappop(self._nodes)
        layer = min(
            (number for number, rows in enumerate(node.choices) if len(rows) > 1),
            key=lambda one: (abs(one - node.fullest), one),
        )
        before, behind = node.choices[:layer], node.choices[layer + 1 :]
        for place, rows in enumerate(node.choices[layer]):
            choices = (*before, (rows,), *behind)
            if place:
                self._complete(choices)
            self._add(choices, node.bound, node.fixed - 1)

    def _complete(self, choices: Choices) -> None:
        whole = _completed(choices)
        load = max(self._left.loads(whole))
        if load < self.found:
            self.found, self.rows = load, tuple(rows for (rows,) in whole)

    def _add(self, choices: Choices, bound: int, fixed: int) -> None:
        loads = self._left.loads(choices)
        largest = max(loads)
        if largest < self.found:
            self._made += 1
            node = _Node(max(bound, largest), fixed, self._made, choices, loads.index(largest))
            heappush(self._nodes, node)


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
