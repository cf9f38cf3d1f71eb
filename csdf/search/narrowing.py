"""Sufficient storage distributions, quickly: grown until they suffice, then narrowed."""

from __future__ import annotations

from collections.abc import Sequence

from csdf.search.evaluator import Evaluator
from csdf.search.exploration import Sufficient
from csdf.search.variables import Variable


def sufficient_distribution(
    evaluator: Evaluator,
    variables: Sequence[Variable],
    is_sufficient: Sufficient,
    effort: int | None,
) -> tuple[int, ...] | None:
    """Return a sufficient distribution in which, given the effort, no single capacity can be less.

    Capacities on critical cycles are doubled until they suffice, then each is bisected, the most
    expensive first. It must be known that capacities large enough suffice. effort: evaluations after
    which narrowing ends, None for all it takes; if nothing sufficed by then, the answer is None.
    """
    end = None if effort is None else evaluator.count + effort
    capacities = [variable.least for variable in variables]
    while not is_sufficient((found := evaluator.evaluate(tuple(capacities))).period):
        if end is not None and evaluator.count >= end:
            return None
        for place in found.holding:
            variable = variables[place]
            grown = max(1, (capacities[place] - variable.least) // variable.step)
            capacities[place] += grown * variable.step
    for place in sorted(range(len(variables)), key=lambda one: -variables[one].weight):
        capacities[place] = _narrowed(evaluator, variables, is_sufficient, capacities, place, end)
    return tuple(capacities)


def _narrowed(
    evaluator: Evaluator,
    variables: Sequence[Variable],
    is_sufficient: Sufficient,
    capacities: Sequence[int],
    place: int,
    end: int | None,
) -> int:
    """The least capacity of one variable with which the distribution still suffices."""
    variable = variables[place]
    trial = list(capacities)
    low, high = -1, (capacities[place] - variable.least) // variable.step
    while high - low > 1 and (end is None or evaluator.count < end):
        middle = (low + high) // 2
        trial[place] = variable.least + middle * variable.step
        is_enough = is_sufficient(evaluator.evaluate(tuple(trial)).period)
        low, high = (low, middle) if is_enough else (middle, high)
    return variable.least + high * variable.step
