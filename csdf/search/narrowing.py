"""Sufficient storage distributions by greedy growth, then reduction channel by channel."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from csdf.search.evaluator import Evaluates
from csdf.search.exploration import Sufficient
from csdf.search.variables import Variable

Distribution = tuple[int, ...]


def sufficient_distribution(
    evaluator: Evaluates,
    variables: Sequence[Variable],
    is_sufficient: Sufficient,
    effort: int | None,
) -> Distribution | None:
    """Return a sufficient distribution in which, given the effort, no single capacity can be less.

    It must be known that capacities large enough suffice. effort: evaluations after which narrowing
    ends, None for all it takes; if nothing sufficed by then, the answer is None.
    """
    found = None
    end = None if effort is None else evaluator.count + effort
    for best in narrowing(evaluator, variables, is_sufficient):
        found = best
        if end is not None and evaluator.count >= end:
            break
    return found


def narrowing(
    evaluator: Evaluates,
    variables: Sequence[Variable],
    is_sufficient: Sufficient,
    start: Distribution | None = None,
) -> Iterator[Distribution | None]:
    """Yield after each evaluation the smallest sufficient distribution so far, first None.

    Capacities on critical cycles are doubled until they suffice, then each is bisected, the most
    expensive first. It must be known that capacities large enough suffice. start: where to begin,
    by default with the least capacities.
    """
    capacities = [variable.least for variable in variables] if start is None else list(start)
    while not is_sufficient((found := evaluator.evaluate(tuple(capacities))).period):
        yield None
        for place in found.holding:
            variable = variables[place]
            grown = max(1, (capacities[place] - variable.least) // variable.step)
            capacities[place] += grown * variable.step
    yield tuple(capacities)
    yield from reduced(
        variables,
        tuple(capacities),
        lambda trial: is_sufficient(evaluator.evaluate(trial).period),
    )


def reduced(
    variables: Sequence[Variable],
    capacities: Distribution,
    suffices: Callable[[Distribution], bool],
    *,
    is_close: bool = False,
) -> Iterator[Distribution]:
    """Yield after each evaluation the smallest capacities so far; in the end no single one can be less.

    capacities: some that suffice. is_close: few of them can be less, so one step less is tried first.
    """
    for place in sorted(range(len(variables)), key=lambda one: -variables[one].weight):
        variable = variables[place]
        low, first = -1, (capacities[place] - variable.least) // variable.step
        high = first
        while high - low > 1:
            middle = high - 1 if is_close and high == first else (low + high) // 2
            smaller = variable.least + middle * variable.step
            trial = (*capacities[:place], smaller, *capacities[place + 1 :])
            if suffices(trial):
                high, capacities = middle, trial
            else:
                low = middle
            yield capacities


def whole_iterations(variables: Sequence[Variable], cycles: Mapping[str, int]) -> Distribution:
    """Return capacities with which a graph runs, if it does with these channels unbounded.

    Each has room for all that an iteration puts on the channel beside its initial tokens, so that no
    firing of an iteration waits for space; after it the channel is as it was.
    cycles: of each actor in an iteration. Nothing is evaluated; `narrowing` finds less.
    """
    return tuple(
        max(
            variable.least,
            *(
                one.initial_tokens + cycles[one.producer] * sum(one.production)
                for one in variable.channels
            ),
        )
        for variable in variables
    )
