"""Independent subproblems of the storage search, merged where a critical cycle joins them.

Variables that no cut has in common so far are in different parts. Each part is searched alone, the
capacities of all others unlimited: no sufficient distribution has less on these channels, so the sum
over the parts is a lower bound. Where the smallest of every part together suffice, they are the
smallest of all. Where they do not, a critical cycle says why: the parts that it joins become one, and
go on with all that they know. So the answer is exact however the parts were guessed; in the end there
may be one. The MP3 decoder by blocks has two sides that share no reason: 2 searches over 5 channels
and one over 8 in place of one over 18.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import pairwise

from csdf.search.cuts import Cut
from csdf.search.evaluator import Evaluates, Evaluation
from csdf.search.exploration import Exploration, Known, Sufficient
from csdf.search.insight.symmetry import Permutation, Symmetries, evened, within
from csdf.search.variables import Variable


def independent_parts(variables: int, joined: Iterable[Collection[int]]) -> list[list[int]]:
    """Return the positions of the variables, in groups of those that something joins."""
    part = [[place] for place in range(variables)]
    for places in joined:
        for first, place in pairwise(places):
            if part[place] is not part[first]:
                small, large = sorted((part[place], part[first]), key=len)
                large += small
                for moved in small:
                    part[moved] = large
    distinct = {id(group): sorted(group) for group in part}
    return sorted(distinct.values())


class _PartEvaluator:
    """The evaluator of all variables, asked about some, the others unlimited."""

    def __init__(self, whole: Evaluates, variables: int, places: Sequence[int]) -> None:
        self._whole = whole
        self._variables = variables
        self._places = places
        self._position = {place: position for position, place in enumerate(places)}

    @property
    def count(self) -> int:
        return self._whole.count

    @property
    def firings(self) -> int:
        return self._whole.firings

    def evaluate(self, capacities: tuple[int | None, ...]) -> Evaluation:
        trial: list[int | None] = [None] * self._variables
        for place, capacity in zip(self._places, capacities, strict=True):
            trial[place] = capacity
        period, holding, cycles = self._whole.evaluate(tuple(trial))
        return Evaluation(
            period,
            tuple(self._position[place] for place in holding),
            tuple(cycle.moved(self._position) for cycle in cycles),
        )


class _Part:
    """Variables that are searched once, and those that are alike, whose answer is the same.

    images: the places of the variables that are searched, then of others in the order of those that
    they are like.
    """

    def __init__(
        self,
        evaluator: Evaluates,
        variables: Sequence[Variable],
        places: Sequence[int],
        look: Callable[[], None],
        alike: Iterable[Permutation],
    ) -> None:
        self.images = [list(places)]
        inner = (within(one, places) for one in alike)
        self.exploration = Exploration(
            _PartEvaluator(evaluator, len(variables), places),
            [variables[place] for place in places],
            look,
            [one for one in inner if one is not None],
        )

    @property
    def lower_bound(self) -> int:
        """The least cost of all images together."""
        return len(self.images) * self.exploration.lower_bound

    def learn(self, known: Known) -> None:
        """Take note of all that lies in one image, by positions of all variables."""
        for image in self.images:
            where = {place: position for position, place in enumerate(image)}
            for cut in known.cuts:
                if cut.limits.keys() <= where.keys():
                    limits = {where[place]: limit for place, limit in cut.limits.items()}
                    self.exploration.learn(Cut(limits))
            for cycle in known.cycles:
                if cycle.places <= where.keys():
                    self.exploration.learn_cycle(cycle.moved(where))

    def known(self) -> Known:
        """Return what is known by positions of all variables."""
        exploration = self.exploration
        return Known(
            [
                Cut({image[position]: limit for position, limit in cut.limits.items()})
                for image in self.images
                for cut in exploration.cuts
            ],
            [cycle.moved(image) for image in self.images for cycle in exploration.cycles],
        )


class PartedExploration:
    """An exploration that goes on in parts; see `Exploration` for its questions.

    before: whose cuts and lower bound it takes over. Its tests were no stricter than those to come.
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
        self._parts: list[_Part] = []
        known = before.known()
        for places in independent_parts(len(variables), known.joined):
            self._take(places, known)

    def _take(self, places: Sequence[int], known: Known) -> None:
        """Search these places as a part, or as an image of a part that is like them."""
        part, image = self._like(places)
        if part is None:
            part = _Part(self.evaluator, self._variables, places, self._look, self._alike)
            self._parts.append(part)
        else:
            part.images.append(image)
        part.learn(known)

    def _like(self, places: Sequence[int]) -> tuple[_Part | None, list[int]]:
        """A part that is like these places, and them in its order; None without any."""
        for part in self._parts if self._alike else ():
            taken = self._symmetries.onto(part.images[0], places)
            if taken is not None:
                return part, [taken[place] for place in part.images[0]]
        return None, []

    @property
    def lower_bound(self) -> int:
        """The least cost of every distribution that is still to be found."""
        return max(self._floor, sum(part.lower_bound for part in self._parts))

    @property
    def is_exhausted(self) -> bool:
        """Whether no distribution is left, whatever its size."""
        return any(part.exploration.is_exhausted for part in self._parts)

    @property
    def is_full(self) -> bool:
        """Whether the search had to end for lack of memory."""
        return any(part.exploration.is_full for part in self._parts)

    def known(self) -> Known:
        """Return what all parts have found out."""
        return _together(self._parts)

    def size(self, capacities: Sequence[int]) -> int:
        """Return what a distribution costs."""
        return sum(
            capacity * variable.weight
            for capacity, variable in zip(capacities, self._variables, strict=True)
        )

    def cheapest(self, is_sufficient: Sufficient) -> tuple[int, ...] | None:
        """Return the cheapest sufficient distribution; None if there is none, or no memory left."""
        while True:
            joined = self._joined(is_sufficient)
            if joined is None:
                return None
            evaluation = self.evaluator.evaluate(joined)
            if is_sufficient(evaluation.period):
                return joined
            cut = Cut({place: joined[place] for place in evaluation.holding})
            self._learn(cut, Known([cut], list(evaluation.cycles)))

    def _joined(self, is_sufficient: Sufficient) -> tuple[int, ...] | None:
        """The cheapest of every part together; None where a part has none."""
        capacities = [0] * len(self._variables)
        for part in self._parts:
            found = part.exploration.cheapest(is_sufficient)
            if found is None:
                return None
            for image in part.images:
                for place, capacity in zip(image, found, strict=True):
                    capacities[place] = capacity
        return tuple(capacities)

    def _learn(self, cut: Cut, known: Known) -> None:
        """Let the part that the cut names know it; of several make one that does."""
        touched = [
            (part, image)
            for part in self._parts
            for image in part.images
            if not cut.limits.keys().isdisjoint(image)
        ]
        if len(touched) == 1:
            touched[0][0].learn(known)
            return
        self._floor = self.lower_bound
        before = _together(list({id(part): part for part, _ in touched}.values()))
        known = Known(before.cuts + known.cuts, before.cycles + known.cycles)
        for part, image in touched:
            part.images.remove(image)
        self._parts = [part for part in self._parts if part.images]
        self._take(sorted(place for _, image in touched for place in image), known)


def _together(parts: Sequence[_Part]) -> Known:
    """All that the parts know, by positions of all variables."""
    known = [part.known() for part in parts]
    return Known(
        [cut for one in known for cut in one.cuts],
        [cycle for one in known for cycle in one.cycles],
    )
