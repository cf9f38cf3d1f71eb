"""Better orders by windows: some consecutive steps of an order, searched exactly, then the next."""

from __future__ import annotations

from csdf.time_limit import Stop
from planners.order.bounded import FOUND, NONE, BoundedSearch, GraphArrays, run_bounded

# Widths of windows, round after round, and the states of each search. Narrow windows first let wide
# ones succeed. From a reverse post-order of a series-parallel graph of 1,000 steps these rounds give
# 102,784, 105,088, 105,088 and 106,240 bytes. The rounds differ, as a round repeated changes nothing.
ROUNDS = (
    ((40, 1024), (100, 2048), (160, 4096), (350, 8192)),
    ((20, 1024), (60, 1024), (140, 2048), (300, 4096)),
    ((30, 1024), (60, 1024), (120, 2048), (240, 4096)),
    ((25, 1024), (80, 2048), (200, 4096), (400, 8192)),
)
LARGEST_STEP = 256  # by which a bound falls after a failure before it falls by 1


def improve_by_windows(
    machine: GraphArrays, order: list[int], *, width: int, capacity: int, stop: Stop
) -> list[int]:
    """Return an order with lower peaks in windows of this many steps, which overlap by half.

    capacity: states of a search. A window far below the peak of the order counts as well: it makes room
    for the windows around it.
    """
    order = list(order)
    for begin in range(0, len(order), width // 2):
        start = sum(1 << step for step in order[:begin])
        window = order[begin : begin + width]
        order[begin : begin + width] = _improve_window(
            machine, window, start, capacity=capacity, stop=stop
        )
    return order


def _improve_window(
    machine: GraphArrays, window: list[int], start: int, *, capacity: int, stop: Stop
) -> list[int]:
    """Return the steps of a window in an order of a peak as low as searches of this size find.

    The bound falls by a step that doubles with each success, and starts again at 1 after a failure.
    """
    goal = start | sum(1 << step for step in window)
    peak = max(machine.costs(window, start))
    machine.load(start)
    least, fall = int(machine.walk.live), 1
    while least < peak:
        bound = max(least, peak - fall)
        search = BoundedSearch(machine, bound, start=start, goal=goal, capacity=capacity)
        outcome = run_bounded(search, stop)
        if outcome == FOUND:
            window = search.order
            peak = max(machine.costs(window, start))
            fall *= 2
        elif outcome == NONE:
            least = search.blocked
            fall = max(1, (peak - least) // 2)
        elif fall == 1:
            break
        else:
            fall = 1 if fall < LARGEST_STEP else fall // 4
    return window
