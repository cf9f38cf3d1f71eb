"""The steady part of an execution: from the first state that recurs to its recurrence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import NamedTuple

from csdf.analysis.cause_record import CauseRecord
from csdf.analysis.execution import Execution, ExecutionWhy
from csdf.analysis.growth import growth_bounds
from csdf.errors import NoRecurrence
from csdf.model.indexed import IndexedGraph
from csdf.outcome import because
from csdf.stopping import Budget

INTEGER_BYTES = 40  # of one number in a tuple
STATE_BYTES = 2**30  # most memory for remembered states


class SteadyState(NamedTuple):
    """When the execution of a graph began to repeat itself, in whole iterations."""

    transient: int  # iterations before the first state that recurs
    iterations: int  # iterations until it recurs
    time: int  # time units until it recurs
    causes: CauseRecord  # of the starts in that many iterations of the steady part

    @property
    def period(self) -> Fraction:
        """Time of one iteration, in the long run."""
        return Fraction(self.time, self.iterations)


def steady_state(
    graph: IndexedGraph,
    firings: Sequence[int],
    *,
    limit: int | None = None,
    budget: Budget = None,
    on_bounds: Callable[[Fraction, Fraction], None] = lambda _low, _high: None,
) -> SteadyState | None:
    """Execute until a state recurs; None if the graph deadlocks.

    graph: without capacities. States are compared after whole iterations; in a strongly connected
    graph one recurs in the end, in another only where no part runs ahead for ever.
    on_bounds: is told lower and upper bounds of the period on the way.
    limit: most iterations to try. Raises NoRecurrence when it, or the memory for states, is used
    up. budget: ends the work by GaveUp.
    """
    execution = Execution(graph, firings, budget=budget)
    seen: dict[bytes | tuple[int, ...], tuple[int, int]] = {}
    remembered, told, earlier = 0, 0, execution.times()
    while limit is None or execution.iterations < limit:
        causes = None  # the next ones may take its memory
        causes = execution.caused(1)
        if causes is None:
            return None
        if execution.iterations >= 2 * told:
            later = execution.times()
            on_bounds(*growth_bounds(earlier, later, execution.iterations - told))
            told, earlier = execution.iterations, later
        state = execution.state()
        if state in seen:
            transient, begin = seen[state]
            iterations, time = execution.iterations - transient, execution.now - begin
            if iterations > 1:
                causes = execution.caused(iterations)
            if causes is None:
                raise AssertionError("a steady part does not get stuck")
            return SteadyState(transient=transient, iterations=iterations, time=time, causes=causes)
        seen[state] = (execution.iterations, execution.now)
        remembered += len(state) if isinstance(state, bytes) else INTEGER_BYTES * len(state)
        if remembered > STATE_BYTES:
            raise NoRecurrence(
                because(ExecutionWhy.MEMORY, iterations=execution.iterations, remembered=remembered)
            )
    raise NoRecurrence(because(ExecutionWhy.NO_RECURRENCE, iterations=limit))


def recurrence(
    graph: IndexedGraph,
    firings: Sequence[int],
    *,
    limit: int,
    budget: Budget = None,
) -> SteadyState | None:
    """Return the steady part, or None where no state recurs within so many iterations.

    The graph has no deadlock. budget: ends the wait by GaveUp.
    """
    try:
        return steady_state(graph, firings, limit=limit, budget=budget)
    except NoRecurrence:
        return None
