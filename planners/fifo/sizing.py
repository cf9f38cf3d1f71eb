"""The smallest depths of all FIFOs of a design: for its full rate, a given one, or no deadlock.

The search is that of csdf.search: the cheapest depths that no cut excludes, each cut from a circuit
of events. Before it, each FIFO is looked at with all others unbounded, which gives a depth that no
answer goes below. Where all of these together suffice, they are the answer at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from csdf.errors import GaveUp
from csdf.search.exploration import Exploration
from csdf.search.narrowing import sufficient_distribution
from csdf.search.variables import Variable
from planners.fifo.design import LEAST_DEPTH
from planners.fifo.evaluator import DesignEvaluator
from planners.fifo.event_system import EventSystem

Watch = Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizing:
    """Depths in the order of the FIFOs, and what is known about them.

    status: "optimal" if no depths with fewer bits do, of whole numbers from 2 on in this model;
    "feasible" with the proved bound beside it; "infeasible" if no depths do. least: what each FIFO needs
    if all others have no bound.
    """

    status: str
    depths: tuple[int, ...]
    bits: int
    lower_bound: int
    least: tuple[int, ...]
    reason: str
    evaluations: int


def least_depths(evaluator: DesignEvaluator) -> tuple[int, ...]:
    """Return for each FIFO the least depth that does if all others have no bound."""
    fifos = len(evaluator.system.design.fifos)
    return tuple(_least_alone(evaluator, number, fifos) for number in range(fifos))


def _least_alone(evaluator: DesignEvaluator, number: int, fifos: int) -> int:
    trial: list[int | None] = [None] * fifos

    def does(depth: int) -> bool:
        trial[number] = depth
        return evaluator.circuit(trial) is None

    low, high = LEAST_DEPTH - 1, LEAST_DEPTH
    while not does(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if does(middle) else (middle, high)
    return high


def smallest_depths(
    system: EventSystem,
    *,
    period: Fraction | None,
    weights: Sequence[int] | None = None,
    watch: Watch = lambda: None,
) -> Sizing:
    """Return the smallest depths with at most this period, or without deadlock if it is None.

    weights: what a word of each FIFO costs; by default its bits.
    """
    fifos = system.design.fifos
    weights = [fifo.bits for fifo in fifos] if weights is None else weights
    evaluator = DesignEvaluator(system, required=period, only_live=period is None, watch=watch)

    def is_sufficient(found: Fraction | None) -> bool:
        return found is not None and (period is None or found <= period)

    if evaluator.circuit([None] * len(fifos)) is not None or _is_too_slow(evaluator, period):
        return _infeasible(evaluator, len(fifos))
    least = tuple([LEAST_DEPTH] * len(fifos))
    try:
        least = least_depths(evaluator)
        search = Exploration(evaluator, _variables(least, weights), watch)  # type: ignore[arg-type]
        found = search.cheapest(is_sufficient)
    except (GaveUp, KeyboardInterrupt) as end:
        return _narrowed(evaluator, least, weights, is_sufficient, str(end) or "interrupted")
    if found is None:
        return _infeasible(evaluator, len(fifos))
    return _sizing("optimal", found, search.lower_bound, least, weights, evaluator, "")


def _is_too_slow(evaluator: DesignEvaluator, period: Fraction | None) -> bool:
    layers = range(len(evaluator.system.design.layers))
    return period is not None and any(evaluator.alone(one) > period for one in layers)


def _variables(least: Sequence[int], weights: Sequence[int]) -> list[Variable]:
    return [
        Variable(channels=(), least=one, step=1, weight=weight)
        for one, weight in zip(least, weights, strict=True)
    ]


def _infeasible(evaluator: DesignEvaluator, fifos: int) -> Sizing:
    return Sizing(
        status="infeasible", depths=(), bits=0, lower_bound=0, least=(LEAST_DEPTH,) * fifos,
        reason="no depths do", evaluations=evaluator.count,
    )  # fmt: skip


def _narrowed(
    evaluator: DesignEvaluator,
    least: Sequence[int],
    weights: Sequence[int],
    is_sufficient: Callable[[Fraction | None], bool],
    reason: str,
) -> Sizing:
    """What grows quickest until it suffices, each FIFO then made as small as the others let it."""
    evaluator.watch = lambda: None
    variables = _variables(least, weights)
    found = sufficient_distribution(evaluator, variables, is_sufficient, len(least))  # type: ignore[arg-type]
    bound = sum(map(int.__mul__, least, weights))
    return _sizing("feasible", found or (), bound, least, weights, evaluator, reason)


def _sizing(
    status: str,
    depths: Sequence[int],
    bound: int,
    least: Sequence[int],
    weights: Sequence[int],
    evaluator: DesignEvaluator,
    reason: str,
) -> Sizing:
    bits = sum(map(int.__mul__, depths, weights))
    return Sizing(
        status=status, depths=tuple(depths), bits=bits, lower_bound=bound, least=tuple(least),
        reason=reason, evaluations=evaluator.count,
    )  # fmt: skip
