"""The range of inputs of each kernel of graphs: within it the compiled form computes nothing too large.

Every bound is made in Python integers from all that a kernel adds, multiplies and counts. Callers
choose the compiled form only where it is at most INT64_SUM_LIMIT (`compile.backend`); beyond, the
plain form runs on unbounded integers. INT64_SUM_LIMIT leaves two bits, so sums of up to three such
numbers fit as well.

| kernel | what has to be at most INT64_SUM_LIMIT |
|---|---|
| periodic.expand | tokens of each channel; `expandable_tokens` bounds the heights too |
| periodic.maximum_cycle_ratio | times, heights, the two parts of the lower bound, values on entry |
| slack.rooms | `slack_sum` for all nodes in sequence; the kernel watches its values |
| slack.better_cycle | `better_cycle` |
| self_timed.begin, advance, pack_state | `execution`, and `iteration_time` of all iterations |
| causes.cycle_length, go_round | `causes` |
| cuts.leaving_cost | `cuts` |
| cycles.meeting_cost | `demands` |
| firing_rows.firing_order, count_rows, count_passing | `firing_rows` |
| round_robin.round_robin_order | any input whose arrays fit into memory: it counts steps and firings |

`maximum_cycle_ratio` and `rooms` compute values that no useful bound exists for beforehand: they look
at each sum, and at each factor before a product, and return OVERFLOW where it is more than their limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from csdf.kernels.compile import INT64_SUM_LIMIT


def expandable_tokens(made: int, taken: int, step: int, step_height: int) -> int:
    """Return the most tokens, or debt of tokens, for which `expand` lists a channel; -1 for none.

    made, taken: by all copies of its producer and of its consumer; step, step_height: see Layout. The
    walk begins at most tokens + taken before the first token, or made after it, and passes the last
    one by a step, which is no more than made.
    Shifts are divided by the step and multiplied by its height.
    """
    # The largest shift that stays within INT64_SUM_LIMIT when it is divided by the step and multiplied
    # by the height of the step.
    farthest = min(INT64_SUM_LIMIT, INT64_SUM_LIMIT // step_height * step - 1)
    return max(-1, farthest - 3 * made - taken - 2)


def slack_sum(ratio: tuple[int, int], height: int, time: int) -> int:
    """Return what a value changes by at most along an edge, see `slack.rooms`.

    ratio: numerator and denominator of the period; height, time: the largest of an edge, of a node.
    """
    return ratio[0] * max(1, height) + ratio[1] * max(1, time)


def better_cycle(trial: int, scale: int, members: int, room: int) -> int:
    """Return the largest number of `slack.better_cycle`. room: the largest of an edge.

    An increase is never more than a trial for each member; it loses the room of one edge at a time.
    """
    return max(trial * (members + 1), scale * max(1, room))


def execution(graph: Any, firings: Sequence[int]) -> int:
    """Return the most tokens in a channel, and the most firings, of an execution by iterations.

    graph: an indexed graph. After each iteration a channel is back at its initial tokens.
    """
    tokens = max(graph.initial_tokens, default=0)
    made = max(firings) * max((*graph.production, *graph.consumption), default=0)
    return max(tokens + made, sum(firings))


def iteration_time(graph: Any, firings: Sequence[int]) -> int:
    """Return a time after which no firing of the first iteration ends: in sequence."""
    # The makespan of a sequential execution bounds the self-timed makespan of an iteration.
    starts = zip(firings, graph.phases, graph.duration_start, strict=True)
    return sum(
        count // phases * sum(graph.duration[start : start + phases])
        for count, phases, start in starts
    )


def causes(graph: Any, firings: Sequence[int], *, time: int, begin: int) -> int:
    """Return the largest number of the walk from firing to cause.

    graph: an indexed graph; firings: of each actor in the steady part, which lasts `time`; begin: the
    last recorded start. By Brent's method a walker takes at most eight steps for each firing; a step
    takes at most the longest duration, and goes back over the tokens that a channel holds at first.
    """
    steps = 8 * sum(firings) + 8
    passed = begin + time + steps * max(graph.duration, default=0)
    largest = max(4 * passed, steps)
    rounds = 1
    for channel, producer in enumerate(graph.producer):
        count, phases = firings[producer], graph.phases[producer]
        made = graph.produced(channel)
        held = abs(graph.initial_tokens[channel])
        moved = made * (count // phases)
        largest = max(largest, 2 * (held + moved), (held // made + 2) * phases + count)
        rounds = max(rounds, held // moved + 3)
    return max(largest, steps * rounds)


def cuts(dearest: int, capacities: Iterable[int], steps: Iterable[int]) -> int:
    """Return the largest number of `cuts.leaving_cost`.

    dearest: what it costs to leave all cuts by all of their exits, where a token costs at least 1.
    """
    return max(dearest, max(capacities, default=0) + max(steps, default=0))


def demands(factors: int, cost: int, variables: int, capacities: Iterable[int]) -> int:
    """Return the largest number of `cycles.meeting_cost`. No two demands that it adds up share one.

    factors: the largest sum of a demand's factors and unit; cost: the largest of a demand, met from
    nothing. Factors and capacities are at least 0, so a sum lacks no more than what is demanded.
    """
    return max(factors * (max(capacities, default=0) + 1) + cost, cost * variables)


def firing_rows(rows: int, row_bytes: int, strips: int) -> int:
    """Return the largest number of `firing_rows`: rows, and bytes of two batches and a strip.

    rows: the most of a tensor; row_bytes: the most of a row; strips: the most bytes of a stage.
    """
    return 2 * rows * max(1, row_bytes) + strips
