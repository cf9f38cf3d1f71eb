"""Storage exploration that is decomposed into independent parts.

Two variables belong to the same part if a cut contains both; variables without a common cut so far
are in different parts. Each part is searched with the capacities of all other parts unlimited. No
sufficient distribution costs less on its channels, so the sum over the parts is a lower bound. If
the optima of all parts suffice together, they are the optimum. Otherwise a critical cycle names the
parts that it joins, and these are merged with all their cuts and bounds. The answer is therefore
exact for any initial partition; in the worst case one part remains. Parts that a symmetry of the graph
maps to each other are images of one part, which is searched once.

Example: the MP3 decoder by blocks has two sides without a common cut. Two searches over 5 channels and
one over 8 replace a search over 18.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import pairwise

from csdf.search.evaluator import Evaluates, PeriodEvaluation
from csdf.search.exploration import Exploration, Known
from csdf.search.learned_bounds import InsufficientRegion, Sufficient
from csdf.search.symmetry import Permutation, Symmetries, evened, within
from csdf.search.variables import Variable


class PartedExploration:
    """An exploration decomposed into parts, with the queries of `Exploration`.

    before: the search whose cuts and lower bound are copied. Its tests of sufficiency were at most as
    strict as the next test.
    """

    def __init__(
        self,
        before: Exploration | PartedExploration,
        variables: Sequence[Variable],
        look: Callable[[], None],
        symmetries: Symmetries,
    ) -> None:
        self.evaluator: Evaluates = before.evaluator
        self._symmetries = symmetries
        self._alike = symmetries.generators
        self._variables = evened(variables, self._alike)
        self._look = look
        self._floor = before.lower_bound
        self._orbits = _orbits(len(variables), self._alike)
        self._parts: list[_VariableClass] = []
        knowledge = before.known()
        for indices in independent_parts(len(variables), knowledge.joined):
            self._take(indices, knowledge)

    def _take(self, indices: Sequence[int], known: Known) -> None:
        """Search these variables as a part, or as an image of a symmetric part."""
        part, image = self._symmetric_part(indices)
        if part is None:
            part = _VariableClass(self.evaluator, self._variables, indices, self._look, self._alike)
            self._parts.append(part)
        else:
            part.images.append(image)
        part.learn(known)

    def _symmetric_part(self, indices: Sequence[int]) -> tuple[_VariableClass | None, list[int]]:
        """Return a part that a symmetry maps to these variables, and its image; or None and []."""
        orbits = sorted(self._orbits[index] for index in indices)
        for part in self._parts if self._alike else ():
            self._look()
            if sorted(self._orbits[index] for index in part.images[0]) != orbits:
                continue
            permutation = self._symmetries.onto(part.images[0], indices)
            if permutation is not None:
                return part, [permutation[index] for index in part.images[0]]
        return None, []

    @property
    def lower_bound(self) -> int:
        """Lower bound of the cost of all distributions that are not returned yet."""
        return max(self._floor, sum(part.lower_bound for part in self._parts))

    @property
    def is_exhausted(self) -> bool:
        """Whether every distribution of any size was searched."""
        return any(part.exploration.is_exhausted for part in self._parts)

    @property
    def is_full(self) -> bool:
        """Whether the queue of a part has reached its memory limit."""
        return any(part.exploration.is_full for part in self._parts)

    def known(self) -> Known:
        """Return the cuts and cycles of all parts."""
        return _together(self._parts)

    def cheapest(
        self, is_sufficient: Sufficient, limit: int | None = None
    ) -> tuple[int, ...] | None:
        """Return the cheapest sufficient distribution; see `Exploration.cheapest`."""
        while True:
            joined = self._joined(is_sufficient, limit)
            if joined is None:
                return None
            evaluation = self.evaluator.evaluate(joined)
            if is_sufficient(evaluation.period):
                return joined
            cut = InsufficientRegion({index: joined[index] for index in evaluation.holding})
            self._learn(cut, Known([cut], list(evaluation.cycles)))

    def _joined(self, is_sufficient: Sufficient, limit: int | None) -> tuple[int, ...] | None:
        """Return the cheapest distributions of all parts, joined; None if a part exceeds its limit.

        The limit of a part is the limit less the lower bounds of the other parts.
        """
        capacities = [0] * len(self._variables)
        for part in self._parts:
            left = None
            if limit is not None:
                elsewhere = sum(
                    sibling.lower_bound for sibling in self._parts if sibling is not part
                )
                left = (limit - elsewhere) // len(part.images)
            cheapest = part.exploration.cheapest(is_sufficient, left)
            if cheapest is None:
                return None
            for image in part.images:
                for index, capacity in zip(image, cheapest, strict=True):
                    capacities[index] = capacity
        return tuple(capacities)

    def _learn(self, cut: InsufficientRegion, new: Known) -> None:
        """Add a cut and its cycles to the part that it touches; if it touches several, merge them."""
        touched = [
            (part, image)
            for part in self._parts
            for image in part.images
            if not cut.limits.keys().isdisjoint(image)
        ]
        if len(touched) == 1:
            touched[0][0].learn(new)
            return
        # Invariant: the bound never falls, although the joined part begins a new queue.
        self._floor = self.lower_bound
        before = _together(list({id(part): part for part, _ in touched}.values()))
        new = Known(before.cuts + new.cuts, before.cycles + new.cycles)
        for part, image in touched:
            part.images.remove(image)
        self._parts = [part for part in self._parts if part.images]
        self._take(sorted(index for _, image in touched for index in image), new)


class _VariableClass:
    """A part that is searched once for all of its symmetric images.

    images: the positions of the searched variables, then the positions of each image, in equal order.
    """

    def __init__(
        self,
        evaluator: Evaluates,
        variables: Sequence[Variable],
        indices: Sequence[int],
        look: Callable[[], None],
        alike: Iterable[Permutation],
    ) -> None:
        self.images = [list(indices)]
        inner = (within(part, indices) for part in alike)
        self.exploration = Exploration(
            _PartEvaluator(evaluator, len(variables), indices),
            [variables[index] for index in indices],
            look,
            [part for part in inner if part is not None],
        )

    @property
    def lower_bound(self) -> int:
        """Lower bound on the cost of all images together."""
        return len(self.images) * self.exploration.lower_bound

    def learn(self, known: Known) -> None:
        """Learn the cuts and cycles within one image, given by positions of all variables."""
        for image in self.images:
            where = {index: position for position, index in enumerate(image)}
            for cut in known.cuts:
                if cut.limits.keys() <= where.keys():
                    self.exploration.learn(cut.moved(where))
            for cycle in known.cycles:
                if cycle.places <= where.keys():
                    self.exploration.learn_cycle(cycle.moved(where))

    def known(self) -> Known:
        """Return the cuts and cycles of all images, by positions of all variables."""
        exploration = self.exploration
        return Known(
            [cut.moved(image) for image in self.images for cut in exploration.cuts],
            [cycle.moved(image) for image in self.images for cycle in exploration.cycles],
        )


class _PartEvaluator:
    """The evaluator restricted to some variables; all others are unlimited."""

    def __init__(self, whole: Evaluates, variables: int, indices: Sequence[int]) -> None:
        self._whole = whole
        self._variables = variables
        self._indices = indices
        self._position = {index: position for position, index in enumerate(indices)}

    @property
    def count(self) -> int:
        return self._whole.count

    @property
    def firings(self) -> int:
        return self._whole.firings

    def evaluate(self, capacities: tuple[int | None, ...]) -> PeriodEvaluation:
        trial: list[int | None] = [None] * self._variables
        for index, capacity in zip(self._indices, capacities, strict=True):
            trial[index] = capacity
        evaluation = self._whole.evaluate(tuple(trial))
        return PeriodEvaluation(
            evaluation.period,
            tuple(self._position[index] for index in evaluation.holding),
            tuple(cycle.moved(self._position) for cycle in evaluation.cycles),
        )


def independent_parts(variables: int, joined: Iterable[Collection[int]]) -> list[list[int]]:
    """Return the connected components of the positions of the variables; each set joins its members."""
    part = [[index] for index in range(variables)]
    for indices in joined:
        for first, index in pairwise(indices):
            if part[index] is not part[first]:
                small, large = sorted((part[index], part[first]), key=len)
                # Union by size: each position moves at most log2(variables) times.
                large += small
                for moved in small:
                    part[moved] = large
    distinct = {id(group): sorted(group) for group in part}
    return sorted(distinct.values())


def _orbits(variables: int, generators: Sequence[Permutation]) -> list[int]:
    """Return the number of the orbit of each variable: the set of its images under symmetries."""
    moves = [move for permutation in generators for move in enumerate(permutation)]
    orbit = [0] * variables
    for number, indices in enumerate(independent_parts(variables, moves)):
        for index in indices:
            orbit[index] = number
    return orbit


def _together(parts: Sequence[_VariableClass]) -> Known:
    """Return the cuts and demands of all parts, by positions of all variables."""
    knowledge = [part.known() for part in parts]
    return Known(
        [cut for source in knowledge for cut in source.cuts],
        [cycle for source in knowledge for cycle in source.cycles],
    )
