"""Lower bound on the peak of every order: for each step, a minimum cut over down-sets."""

from __future__ import annotations

from collections.abc import Sequence

from csdf.time_limit import Progress, Stop
from planners.order.bounded import WORK_A_MICROSECOND, GraphArrays
from planners.order.problem import NumberedGraph


def ends_bound(graph: NumberedGraph) -> int:
    """Return the bytes that are live before the first step, or after the last, if those are more."""
    inputs = sum(
        size for size, maker in zip(graph.sizes, graph.producers, strict=True) if maker < 0
    )
    kept = sum(size for size, is_kept in zip(graph.sizes, graph.is_output, strict=True) if is_kept)
    return max(inputs, kept)


def cut_bound(machine: GraphArrays, costs: Sequence[int], stop: Stop) -> int:
    """Return bytes that no order is below.

    costs: bytes of each step in some order; a step whose bytes there are within the bound so far is
    left out, as its own bound is at most these.

    When a step runs, a down-set is live that holds all steps before it, neither the step nor any after
    it. Live bytes are submodular, so that the least over these down-sets is a minimum cut. A step
    that overwrites a tensor also comes after all other readers of it, and takes the live bytes and its
    scratch alone.
    """
    graph = machine.graph
    full = (1 << graph.steps) - 1
    descendants = [0] * graph.steps
    for step in reversed(graph.topological):
        for later in graph.after[step]:
            descendants[step] |= descendants[later] | 1 << later
    bound = ends_bound(graph)
    for step in sorted(range(graph.steps), key=lambda step_: (-costs[step_], step_)):
        if costs[step] <= bound:
            break
        stop.look(Progress(lower_bound=bound))
        before = machine.cut.work
        upper = full & ~descendants[step] & ~(1 << step)
        live, _ = machine.least_live(graph.ancestors[step], upper)
        least = live + sum(graph.sizes[tensor] for tensor in graph.writes[step])
        least += graph.scratch[step]
        for tensor in graph.overwrites[step]:
            lower = graph.ancestors[step]
            for reader in graph.readers[tensor]:
                if reader != step:
                    lower |= graph.ancestors[reader] | 1 << reader
            if lower & ~upper == 0 and not graph.is_output[tensor]:
                overwritten, _ = machine.least_live(lower, upper)
                least = min(least, overwritten + graph.scratch[step])
        bound = max(bound, least)
        stop.spend((machine.cut.work - before) // WORK_A_MICROSECOND)
    return bound
