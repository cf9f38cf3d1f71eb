"""Smallest storage distribution: greedy growth, reduction channel by channel, best-first search.

It works with any evaluator that returns the period of capacities and the channels that limit it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from csdf.search.evaluator import Evaluates
from csdf.search.exploration import Exploration
from csdf.search.learned_bounds import Sufficient
from csdf.search.pareto import StorageWhy
from csdf.search.variables import Distribution, Variable, size_of
from csdf.status import Reason, Status, because
from csdf.time_limit import ENDS, Progress, Stop, reason_of


@dataclass(frozen=True, slots=True, kw_only=True)
class LeastDistribution:
    """The result of a search: capacities in the order of its variables, None without any.

    size: of the capacities; at least `lower_bound`, and equal to it if they are proved optimal.
    """

    capacities: Distribution | None
    size: int | None
    lower_bound: int
    status: Status
    reason: Reason


def least_distribution(
    evaluator: Evaluates,
    variables: Sequence[Variable],
    is_sufficient: Sufficient,
    stop: Stop,
    *,
    refusal: Callable[[], Reason],
) -> LeastDistribution:
    """Return the cheapest sufficient capacities with a proof, or the best so far when the stop ends.

    refusal: returns the reason if not even unlimited capacities suffice.
    """
    best: Distribution | None = None

    def size() -> int | None:
        return None if best is None else size_of(variables, best)

    def look() -> None:  # called by the exploration, after it has been constructed
        bound = exploration.lower_bound
        stop.look(Progress(done=evaluator.count, lower_bound=bound, best=size()))

    def answer(status: Status, reason: Reason) -> LeastDistribution:
        size_now, bound = size(), exploration.lower_bound
        if size_now is not None and status == Status.OPTIMAL:
            bound = size_now
        return LeastDistribution(
            capacities=best, size=size_now, lower_bound=bound, status=status, reason=reason
        )

    exploration = Exploration(evaluator, variables, look)
    try:
        if not is_sufficient(evaluator.evaluate((None,) * len(variables)).period):
            return answer(Status.INFEASIBLE, refusal())
        for trial in narrowing(evaluator, variables, is_sufficient):
            best = trial
            look()
        cheapest = exploration.cheapest(is_sufficient)
        # None: the exploration holds as many regions as it has room for.
        best, reason = cheapest or best, because(StorageWhy.IS_FULL)
    except ENDS as end:
        cheapest, reason = None, reason_of(end)
    if cheapest is not None or (best is not None and size() == exploration.lower_bound):
        return answer(Status.OPTIMAL, because(StorageWhy.NO_SMALLER))
    return answer(Status.UNKNOWN if best is None else Status.FEASIBLE, reason)


def narrowing(
    evaluator: Evaluates,
    variables: Sequence[Variable],
    is_sufficient: Sufficient,
    start: Distribution | None = None,
) -> Iterator[Distribution | None]:
    """Yield after each evaluation the smallest sufficient distribution so far, None at first.

    Capacities on critical cycles are doubled until they suffice, then each is bisected, the most
    expensive first. Sufficiently large capacities must suffice. start: the initial capacities, by
    default the minimum capacities.
    """
    capacities = [variable.least for variable in variables] if start is None else list(start)
    while not is_sufficient((evaluation := evaluator.evaluate(tuple(capacities))).period):
        yield None
        for index in evaluation.holding:
            variable = variables[index]
            # Doubling reaches sufficient capacities soon; the reduction takes the surplus back.
            grown = max(1, (capacities[index] - variable.least) // variable.step)
            capacities[index] += grown * variable.step
    yield tuple(capacities)
    yield from reduced(
        variables, tuple(capacities), lambda trial: is_sufficient(evaluator.evaluate(trial).period)
    )


def reduced(
    variables: Sequence[Variable],
    capacities: Distribution,
    suffices: Callable[[Distribution], bool],
    *,
    is_close: bool = False,
) -> Iterator[Distribution]:
    """Yield after each evaluation the smallest capacities so far; at the end none can be reduced.

    capacities: sufficient. is_close: few can be reduced, so a single step less is tried first.
    """
    # Expensive channels are reduced first, while the other channels still have surplus space.
    for position in sorted(range(len(variables)), key=lambda index: -variables[index].weight):
        variable = variables[position]
        # Capacities in steps above the minimum: `low` is known to fail, `high` to suffice.
        low, first = -1, (capacities[position] - variable.least) // variable.step
        high = first
        while high - low > 1:
            # Close to a minimum, one failed test with a step less settles a channel.
            middle = high - 1 if is_close and high == first else (low + high) // 2
            smaller = variable.least + middle * variable.step
            trial = (*capacities[:position], smaller, *capacities[position + 1 :])
            if suffices(trial):
                high, capacities = middle, trial
            else:
                low = middle
            yield capacities
