"""Overflow bounds of the graph kernels: the largest number that a kernel computes for its inputs.

Each bound is computed in Python integers from all sums, products and counters of a kernel. Callers run
the compiled kernel only if its bound is at most INT64_SUM_LIMIT (`compile.backend`); otherwise the
Python kernel runs on unbounded integers. INT64_SUM_LIMIT leaves two bits, so sums of up to three
such numbers fit as well.

| kernel | at most INT64_SUM_LIMIT |
|---|---|
| periodic.expand | tokens of each channel, at most `expandable_tokens`, which bounds the heights too |
| periodic.maximum_cycle_ratio | times, heights, both terms of the lower bound, initial values |
| slack.compute_rooms | `largest_in_rooms` times the number of nodes |
| slack.better_cycle | `largest_in_better_cycle` |
| self_timed.begin, advance, pack_state | `largest_in_execution`, iterations * `sequential_time` |
| causes.cycle_length, go_round | `largest_in_causes` |
| cuts.leaving_cost | `largest_in_cuts` |
| cycles.meeting_cost | `largest_in_demands` |
| firing_rows.firing_order, count_rows, count_passing | `largest_in_firing_rows` |
| round_robin.round_robin_order | steps and firings, for any input whose arrays fit into memory |

The values of `maximum_cycle_ratio` and `rooms` have no useful bound beforehand: both kernels check
each sum, and each factor before a product, and return OVERFLOW if it exceeds their limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from csdf.kernels.compile import INT64_SUM_LIMIT


def expandable_tokens(made: int, taken: int, step: int, step_height: int) -> int:
    """Return the largest number of initial tokens for which `expand` may list a channel; -1: none.

    made, taken: tokens that all copies of the producer produce, and of the consumer consume.
    step, step_height: see `ConstraintLayout`. The bound holds for negative tokens by magnitude.
    """
    # The largest shift x whose height, x / step * step_height, is at most INT64_SUM_LIMIT.
    # With the names of `periodic.add_producers`: abs(end) <= tokens + taken + 1. A position is less
    # than `made`; it is rounded up to its residue and advanced beyond the last position, each time by
    # at most a step <= made: 3 * made. 2: the 1 in `end`, and the 1 added to the next position.
    farthest = min(INT64_SUM_LIMIT, INT64_SUM_LIMIT // step_height * step - 1)
    return max(-1, farthest - 3 * made - taken - 2)


def largest_in_rooms(ratio: tuple[int, int], height: int, time: int) -> int:
    """Return the largest change of a value along an edge: numerator * height + denominator * time.

    ratio: numerator and denominator of the period; height: largest height of an edge;
    time: largest time of a node.
    """
    return ratio[0] * max(1, height) + ratio[1] * max(1, time)


def largest_in_better_cycle(trial: int, scale: int, members: int, room: int) -> int:
    """Return the maximum of trial * (members + 1) and scale * room. room: largest room of an edge.

    An increase is at most one trial for each member, plus the trial that is added next; the room of
    one edge at a time, times the scale, is subtracted.
    """
    return max(trial * (members + 1), scale * max(1, room))


def largest_in_execution(graph: Any, firings: Sequence[int]) -> int:
    """Return the maximum of initial tokens + firings * rate of any channel, and all firings.

    graph: an indexed graph; firings: of each actor in an iteration, after which each channel has its
    initial tokens again.
    """
    tokens = max(graph.initial_tokens, default=0)
    made = max(firings) * max((*graph.production, *graph.consumption), default=0)
    return max(tokens + made, sum(firings))


def sequential_time(graph: Any, firings: Sequence[int]) -> int:
    """Return the sum of the durations of all firings of an iteration.

    This makespan of a sequential execution bounds the self-timed makespan of the iteration.
    """
    starts = zip(firings, graph.phases, graph.duration_start, strict=True)
    return sum(
        count // phases * sum(graph.duration[start : start + phases])
        for count, phases, start in starts
    )


def largest_in_causes(graph: Any, firings: Sequence[int], *, time: int, begin: int) -> int:
    """Return the largest number of the walk from firing to cause.

    graph: an indexed graph; firings: of each actor in the steady part, which lasts `time`; begin: the
    last recorded start. A step goes back by at most the longest duration, and over the initial
    tokens of a channel.
    """
    # A walk reaches a cycle of length L after T steps, L + T <= F = sum(firings). Brent's method takes
    # less than 4 * max(L, T) + L steps to find L, and 2 * L + T steps go round: less than 8 * F.
    # The summand 8 is a margin.
    steps = 8 * sum(firings) + 8
    passed = begin + time + steps * max(graph.duration, default=0)
    # 4: `ends_now` adds a recorded start, the time of whole rounds and a duration, and compares the
    # sum with the present time; each of the four is at most `passed`.
    largest = max(4 * passed, steps)
    rounds = 1
    for channel, producer in enumerate(graph.producer):
        count, phases = firings[producer], graph.phases[producer]
        made = graph.produced(channel)
        held = abs(graph.initial_tokens[channel])
        moved = made * (count // phases)
        # `maker` needs a token number of magnitude at most held + moved; 2: `first_reaching` rounds it
        # down to a multiple of `made` <= moved. Its firing lies at most held // made cycles before
        # the steady part, and + 2: one for rounding down, one for overtaking firings.
        largest = max(largest, 2 * (held + moved), (held // made + 2) * phases + count)
        # The same firing in steady parts: held // moved, the two cycles above, and rounding down.
        rounds = max(rounds, held // moved + 3)
    return max(largest, steps * rounds)


def largest_in_cuts(dearest: int, capacities: Iterable[int], steps: Iterable[int]) -> int:
    """Return the maximum of `dearest` and largest capacity + largest step, for `cuts.leaving_cost`.

    dearest: cost of leaving all cuts by all of their exits, where a token costs at least 1.
    """
    return max(dearest, max(capacities, default=0) + max(steps, default=0))


def largest_in_demands(factors: int, cost: int, variables: int, capacities: Iterable[int]) -> int:
    """Return the maximum of factors * (capacity + 1) + cost and cost * variables.

    factors: largest sum of the factors and the unit of a demand; cost: largest cost of meeting a demand
    from capacities of 0. Factors and capacities are at least 0, so a sum lacks at most the demand.
    `cycles.meeting_cost` adds demands without common variables: at most one for each variable.
    """
    return max(factors * (max(capacities, default=0) + 1) + cost, cost * variables)


def largest_in_firing_rows(rows: int, row_bytes: int, strips: int) -> int:
    """Return 2 * rows * row_bytes + strips: the bytes of two batches of rows and a column strip.

    rows: most rows of a tensor; row_bytes: most bytes of a row; strips: most strip bytes of a stage.
    """
    return 2 * rows * max(1, row_bytes) + strips
