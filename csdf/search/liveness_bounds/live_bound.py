"""Live capacities by large neighbourhood search, and a bound of their size by branch and bound.

For graphs in which learned constraints alone would take long. A run that deadlocks shows the markings
that matter: an actor lacks tokens that come only when another actor has space, and that actor waits
for the first. The tokens in the channels at these markings give a lower bound, and capacities near to
it with which the next run begins. Boxes of capacities are split until the smallest capacities are
proved, if that does not take too long.

Live capacities near known ones: a few channels are cut to their least capacity, or partly. A
run adds space wherever it deadlocks, and the result is narrowed. If it is no larger than before, the
next exchange begins from it, so that the search moves on among capacities of one size.

Source: Shaw, Using constraint programming and local search methods to solve vehicle routing problems,
CP 1998 (parts of a solution are taken away and found again).
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
MORE_TRIES = 6  # exchanges in every round of demands
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
    """Yield lower bounds and live capacities, better and better, one for each linear program.

    known: live capacities. stop: when it is near, the linear programs get less time.
    """
    search = _LiveBoundSearch(run, variables, cycles, known, stop)
    for step in (search.exchange, search.branch):
        for _ in step():
            yield LiveBound(search.bound, search.best)


class _LiveBoundSearch:
    """The best live capacities, and the best bound, by now."""

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
        """Split boxes of capacities until the best are proved, or it takes too long."""

        # which loads SciPy, and that only here
        def seconds() -> float:
            """How long a linear program may take."""
            left = self._stop.seconds_of_all
            return inf if left is None else min(LONGEST, SHARE * left)

        made: type[Branching] = import_module("csdf.search.liveness_bounds.branching").Branching
        branching = made(
            self._firings,
            self._variables,
            self.best,
            near=self._near,
            seconds=seconds,
            look=self._stop.look,
        )
        for narrower in branching.bounds(self._box):
            self.bound, self.best = max(self.bound, narrower.lower_bound), narrower.capacities
            yield

    def _near(self, relaxed: Sequence[float]) -> tuple[Distribution, list[Moment]]:
        """The best live capacities by now, and the moments that a run from these added space for.

        Those come first that lacked the most.
        """
        # The largest useful capacities that are no more than those of the linear program.
        steps = [
            max(0, floor((value + NEAR - variable.least) / variable.step))
            for variable, value in zip(
                self._variables, relaxed, strict=False
            )  # firings come behind
        ]
        whole = [
            variable.least + count * variable.step
            for variable, count in zip(self._variables, steps, strict=True)
        ]
        self._narrow(self._run.grown(whole))
        lacking = self._run.moments
        moments = [Moment(*key) for key in sorted(lacking, key=lambda moment: -lacking[moment])]
        for _ in self.exchange(MORE_TRIES):
            self._stop.look()
        return self.best, moments

    def _narrow(self, grown: Distribution | None) -> None:
        """Let what has grown be the best, if it is smaller once it is narrowed."""
        narrowed = self._narrowed(grown) or self.best
        self.best = min(
            self.best, narrowed, key=lambda capacities: size_of(self._variables, capacities)
        )

    def _narrowed(self, grown: Distribution | None) -> Distribution | None:
        """Minimal live capacities: none can be less on its own; None for none."""
        if grown is None:
            return None
        indices = self._random.sample(range(len(grown)), len(grown))
        for index in sorted(indices, key=lambda index: -self._variables[index].weight):
            self._stop.look()
            grown = self._least(grown, index)
        return grown

    def _least(self, live: Distribution, index: int) -> Distribution:
        """Live capacities with the least at one position; most often it is not much less."""
        start, step = self._variables[index].least, self._variables[index].step

        def with_steps(steps: int) -> Distribution:
            return (*live[:index], start + steps * step, *live[index + 1 :])

        low, high, stride = -1, (live[index] - start) // step, 1
        while high - low > 1:
            # Galloping downwards: after one exchange a capacity is
            # usually within a few steps of its minimum.
            tried = max(high - stride, (low + high) // 2)
            if self._firings.is_live(with_steps(tried)):
                high, stride = tried, 2 * stride
            else:
                low = tried
        return with_steps(high)


KEPT = (0, 50, 80, 90)  # per cent of what a channel has above its least capacity
MOST_CHANNELS = 3  # channels whose capacities are reduced together

Regrown = Callable[[Sequence[int]], Distribution | None]


def exchanges(
    variables: Sequence[Variable],
    known: Distribution,
    regrown: Regrown,
    random: Random,
    tries: int,
) -> Iterator[Distribution]:
    """Yield after each try the smallest capacities so far.

    known: live capacities. regrown: live capacities that are made of some that may be too small.
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
    """The capacities with less in a few channels; None if there is nothing to give up."""
    more = [index for index, variable in enumerate(variables) if capacities[index] > variable.least]
    if not more:
        return None
    reduced = list(capacities)
    for index in random.sample(more, random.randint(1, min(MOST_CHANNELS, len(more)))):
        variable = variables[index]
        steps = (capacities[index] - variable.least) // variable.step * random.choice(KEPT) // 100
        reduced[index] = variable.least + steps * variable.step
    return reduced
