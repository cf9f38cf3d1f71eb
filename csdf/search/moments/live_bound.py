"""Live capacities and a lower bound of their size that are close, where cuts alone would take long.

A run that gets stuck shows the moments that matter: an actor lacks tokens that only come when another
one has space, and that one waits for this actor. What lies in the channels at these moments gives a
bound, and capacities near to it from which another run begins.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import floor, inf
from random import Random

from csdf.search.evaluator import Evaluation
from csdf.search.moments.demands import Moment, Moments
from csdf.search.moments.exchange import exchanges
from csdf.search.narrowing import Distribution, narrowing
from csdf.search.sequential import SequentialRun
from csdf.search.variables import Variable
from csdf.stopping import Stop

MOMENTS = (3, 3, 4)  # of the first linear program, and that each later one has more
TRIES = 12  # exchanges before the first linear program, and after the last
LONGEST = 15  # seconds of a linear program where there is a budget, and at most
SHARE = 0.5  # of what is left of it
ANY = 1 << 40  # tokens, more than an iteration of moderate size has
NEAR = 1e-6  # above a whole number that a solver means


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveBound:
    """No live capacities have a smaller size than `lower_bound`. capacities: live ones."""

    lower_bound: int
    capacities: Distribution


class _Liveness:
    """A run in the place of an evaluator: only whether capacities are live, at once."""

    def __init__(self, run: SequentialRun) -> None:
        self._run = run
        self.count = 0
        self.firings = 0

    def evaluate(self, capacities: tuple[int | None, ...]) -> Evaluation:
        self.count += 1
        chosen = [one for one in capacities if one is not None]
        return Evaluation(Fraction(0) if self._run.is_live(chosen) else None, ())


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
    problem = Moments(run.graph, variables, owners=run.owners, occupied=run.occupied, cycles=cycles)
    bound, best, chosen = 0, _smaller(run, variables, known, known), list[Moment]()
    start: Sequence[int] = [variable.least for variable in variables]
    random = Random(0)

    def regrown(small: Sequence[int]) -> Distribution | None:
        return _narrowed(run, variables, run.grown(small))

    for found in exchanges(variables, best, regrown, random, TRIES):
        best = found
        yield LiveBound(lower_bound=bound, capacities=best)
    for count in MOMENTS:
        grown = run.grown(start)
        new = [one for one in _moments(run) if one not in chosen][:count]
        chosen += new
        best = _smaller(run, variables, best, grown)
        yield LiveBound(lower_bound=bound, capacities=best)
        below = _below(variables, best)
        relaxed = problem.relaxed(chosen, below, _seconds(stop), stop.look) if new else None
        if relaxed is None:
            break
        bound = max(bound, min(relaxed.lower_bound, _size(variables, best)))
        yield LiveBound(lower_bound=bound, capacities=best)
        start = _whole(variables, relaxed.columns)
    best = _smaller(run, variables, best, run.grown(start))
    yield LiveBound(lower_bound=bound, capacities=best)
    for found in exchanges(variables, best, regrown, random, TRIES):
        yield LiveBound(lower_bound=bound, capacities=found)


def _seconds(stop: Stop) -> float:
    """How long a linear program may take."""
    left = stop.seconds_of_all
    return inf if left is None else min(LONGEST, SHARE * left)


def _moments(run: SequentialRun) -> list[Moment]:
    """The moments of a run that space was added for, the most of it first."""
    return [Moment(*one) for one in sorted(run.moments, key=lambda one: -run.moments[one])]


def _smaller(
    run: SequentialRun,
    variables: Sequence[Variable],
    best: Distribution,
    grown: Distribution | None,
) -> Distribution:
    """The smaller of the best and what has grown, narrowed."""
    narrowed = _narrowed(run, variables, grown) or best
    return min(best, narrowed, key=lambda one: _size(variables, one))


def _narrowed(
    run: SequentialRun, variables: Sequence[Variable], grown: Distribution | None
) -> Distribution | None:
    """Live capacities of which none can be less on its own; None for none."""
    if grown is not None:
        for narrowed in narrowing(_Liveness(run), variables, _is_live, grown):
            grown = grown if narrowed is None else narrowed
    return grown


def _whole(variables: Sequence[Variable], relaxed: Sequence[float]) -> list[int]:
    """The largest useful capacities that are no more than those of the linear program."""
    steps = [
        max(0, floor((value + NEAR - variable.least) / variable.step))
        for variable, value in zip(variables, relaxed, strict=False)  # firings come behind
    ]
    return [one.least + count * one.step for one, count in zip(variables, steps, strict=True)]


def _below(variables: Sequence[Variable], best: Distribution) -> list[int]:
    """The most that each variable can have in a distribution no larger than the best."""
    spare = _size(variables, best) - _size(variables, [one.least for one in variables])
    return [one.least + spare // one.weight if one.weight else ANY for one in variables]


def _is_live(period: Fraction | None) -> bool:
    return period is not None


def _size(variables: Sequence[Variable], capacities: Sequence[int]) -> int:
    return sum(variable.weight * one for variable, one in zip(variables, capacities, strict=True))
