"""The least that is in use together in a partition, and in an application: bounds that rise.

Two searches share the steps: one splits choices by the layers near the place where most is in use
(`choice_tree`), the other by gates that work as a whole (`gate_paths`). The first is better where many
layers lie between gates, the second in long chains. Each choice that is met is completed by the
smallest parts, which ends the search where it needs no more than the bound.

The bound holds for every schedule of every choice, where each edge has the smallest buffer that its
block can run with, as the planner gives it, and is in use from the first firing of its producer to the
last of its consumer.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from csdf.stopping import ENDS, Budget, stop_of
from planners.reuse.application.application import Genes
from planners.reuse.cost.bounds import PUBLISHED_GENES
from planners.reuse.cost.choice_tree import Tree
from planners.reuse.cost.choices_left import Choices, ChoicesLeft
from planners.reuse.cost.evaluation import Evaluator
from planners.reuse.cost.gate_paths import GatePaths


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
