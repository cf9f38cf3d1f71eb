"""Live capacities by large neighbourhood search, and a bound of their size by branch and bound.

Used for graphs in which cuts and cycles alone (`learned_bounds`) would take long.

Large neighbourhood search reduces the capacities of a few channels, partly or to their minimum. A
simulation adds space wherever it deadlocks, and the result is narrowed: each capacity is lowered as far
as the graph stays live. A result that is no larger replaces the current capacities, so the search also
moves among capacities of equal size.

A deadlock shows a marking that matters: an actor lacks tokens that another actor produces only once it
has space, and that actor waits for the first. Branch and bound (`branching`) derives lower bounds from
such markings, and splits boxes of capacities until the smallest are proved, or time runs out.

Source: Shaw, Using constraint programming and local search methods to solve vehicle routing problems,
CP 1998 (parts of a solution are removed and reconstructed).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from math import floor, inf
from random import Random
from typing import TYPE_CHECKING

from csdf.search.liveness_bounds.windows import (
    ANY,
    CapacityBox,
    IterationFirings,
    LiveBound,
    Moment,
)
from csdf.search.sequential import SequentialRun
from csdf.search.variables import Distribution, Variable, size_of
from csdf.time_limit import Stop

if TYPE_CHECKING:
    from csdf.search.liveness_bounds.branching import Branching


TRIES = 30  # exchanges before the first linear program
MORE_TRIES = 6  # exchanges after each linear program
# With a budget, a linear program takes at most LONGEST seconds, and SHARE of the seconds left.
LONGEST = 15
SHARE = 0.5
NEAR = 1e-6  # a solver's value this close below an integer counts as the integer


def live_bounds(
    run: SequentialRun,
    variables: Sequence[Variable],
    cycles: Sequence[int],
    known: Distribution,
    stop: Stop,
) -> Iterator[LiveBound]:
    """Yield improving lower bounds and live capacities, after each exchange and each split of a box.

    known: live capacities. stop: near its end, the linear programs get less time.
    """
    search = _LiveBoundSearch(run, variables, cycles, known, stop)
    for step in (search.exchange, search.branch):
        for _ in step():
            yield LiveBound(search.bound, search.best)


class _LiveBoundSearch:
    """The best live capacities and the best lower bound so far."""

    def __init__(
        self,
        run: SequentialRun,
        variables: Sequence[Variable],
        cycles: Sequence[int],
        known: Distribution,
        stop: Stop,
    ) -> None:
        self._run, self._variables, self._stop = run, variables, stop
        self._firings = IterationFirings(
            run.graph, owners=run.owners, occupied=run.occupied, cycles=cycles
        )
        minimum = tuple(variable.least for variable in variables)
        self._box = CapacityBox(minimum, (ANY,) * len(minimum))
        self._random = Random(0)
        self.bound = 0
        self.best = known

    def exchange(self, count: int = TRIES) -> Iterator[None]:
        """Search for smaller capacities near the best, in this many tries."""
        self._narrow(self.best)
        tries = exchanges(
            self._variables,
            self.best,
            lambda small: self._narrowed(self._run.grown(small, self._random)),
            self._random,
            count,
        )
        for attempt in tries:
            self.best = attempt
            yield

    def branch(self) -> Iterator[None]:
        """Split boxes of capacities until the best are proved, or time runs out."""

        def seconds() -> float:
            """Return the time limit of one linear program."""
            left = self._stop.seconds_of_all
            return inf if left is None else min(LONGEST, SHARE * left)

        # Imported here because it loads SciPy.
        module = import_module("csdf.search.liveness_bounds.branching")
        branching: Branching = module.Branching(
            self._firings,
            self._variables,
            self.best,
            grow=self._grow,
            seconds=seconds,
            look=self._stop.look,
        )
        for narrower in branching.bounds(self._box):
            self.bound, self.best = max(self.bound, narrower.lower_bound), narrower.capacities
            yield

    def _grow(self, relaxed: Sequence[float]) -> tuple[Distribution, list[Moment]]:
        """Grow fractional capacities until they are live.

        Returns the best live capacities so far, and the moments of added space, by decreasing shortage.
        """
        # Rounded down to useful capacities: minimum plus whole steps.
        steps = [
            max(0, floor((value + NEAR - variable.least) / variable.step))
            for variable, value in zip(self._variables, relaxed, strict=True)
        ]
        rounded = [
            variable.least + count * variable.step
            for variable, count in zip(self._variables, steps, strict=True)
        ]
        self._narrow(self._run.grown(rounded))
        lacking = self._run.moments
        moments = [Moment(*key) for key in sorted(lacking, key=lambda moment: -lacking[moment])]
        for _ in self.exchange(MORE_TRIES):
            self._stop.look()
        return self.best, moments

    def _narrow(self, grown: Distribution | None) -> None:
        """Narrow live capacities, and store them if they are smaller than the best."""
        narrowed = self._narrowed(grown) or self.best
        self.best = min(
            self.best, narrowed, key=lambda capacities: size_of(self._variables, capacities)
        )

    def _narrowed(self, grown: Distribution | None) -> Distribution | None:
        """Return minimal live capacities: none of them can be lowered alone. None for None."""
        if grown is None:
            return None
        indices = self._random.sample(range(len(grown)), len(grown))
        for index in sorted(indices, key=lambda index: -self._variables[index].weight):
            self._stop.look()
            grown = self._least(grown, index)
        return grown

    def _least(self, live: Distribution, index: int) -> Distribution:
        """Return the live capacities with the minimum live capacity at this position."""
        start, step = self._variables[index].least, self._variables[index].step

        def with_steps(steps: int) -> Distribution:
            return (*live[:index], start + steps * step, *live[index + 1 :])

        low, high, stride = -1, (live[index] - start) // step, 1
        while high - low > 1:
            # Galloping downwards: after an exchange the minimum is usually a few steps away.
            tried = max(high - stride, (low + high) // 2)
            if self._firings.is_live(with_steps(tried)):
                high, stride = tried, 2 * stride
            else:
                low = tried
        return with_steps(high)


KEPT = (0, 50, 80, 90)  # per cent of a channel's space above its minimum that an exchange retains
MOST_CHANNELS = 3  # channels whose capacities are reduced together

Regrown = Callable[[Sequence[int]], Distribution | None]


def exchanges(
    variables: Sequence[Variable], known: Distribution, regrown: Regrown, random: Random, tries: int
) -> Iterator[Distribution]:
    """Yield after each try the smallest capacities so far.

    known: live capacities. regrown: returns live capacities at least as large as the given ones, which
    may deadlock; None if there are none.
    """

    def size(capacities: Distribution) -> int:
        return size_of(variables, capacities)

    here = best = known
    for _ in range(tries):
        start = _reduced(variables, here, random)
        shrunk = None if start is None else regrown(start)
        if shrunk is not None and size(shrunk) <= size(here):
            # Equal sizes are accepted too: the search moves along plateaus.
            here = shrunk
            best = min(best, here, key=size)
        yield best


def _reduced(
    variables: Sequence[Variable], capacities: Distribution, random: Random
) -> list[int] | None:
    """Return the capacities, reduced in a few channels; None if all are at their minimum."""
    more = [index for index, variable in enumerate(variables) if capacities[index] > variable.least]
    if not more:
        return None
    reduced = list(capacities)
    for index in random.sample(more, random.randint(1, min(MOST_CHANNELS, len(more)))):
        variable = variables[index]
        steps = (capacities[index] - variable.least) // variable.step * random.choice(KEPT) // 100
        reduced[index] = variable.least + steps * variable.step
    return reduced
