"""Order of minimum peak with steps at fixed positions: dynamic programming over down-sets by size."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import NamedTuple

from csdf.errors import InvalidGraph
from csdf.time_limit import Progress, Stop
from planners.order.problem import NumberedGraph, OrderProblem, peak_of

# Down-sets of each size that a round stores; the last round takes seconds for 100 steps.
WIDTHS = (2**8, 2**12, 2**15)
MICROSECONDS = 3  # of a typical machine, to add a step to a down-set


class Windows(NamedTuple):
    """The first and the last position of each step, narrowed along all dependencies."""

    earliest: list[int]
    latest: list[int]


def windows_of(problem: OrderProblem) -> Windows:
    """Return the first and the last position of each step."""
    graph = problem.numbered
    windows = Windows(
        [step.earliest for step in problem.steps],
        [graph.steps - 1 if step.latest is None else step.latest for step in problem.steps],
    )
    for step in graph.topological:
        for source in graph.before[step]:
            windows.earliest[step] = max(windows.earliest[step], windows.earliest[source] + 1)
    for step in reversed(graph.topological):
        for later in graph.after[step]:
            windows.latest[step] = min(windows.latest[step], windows.latest[later] - 1)
    return windows


def earliest_deadline_first(windows: Windows, done: int = 0) -> list[int] | None:
    """Return an order of the remaining steps in which each is in its range; None if there is none.

    done: the executed steps, as bits. At each position the step with the smallest last position is
    chosen. With unit times and ranges that respect all dependencies this finds an order if one exists.
    Source: Jackson, Scheduling a production line to minimize maximum tardiness, 1955.
    """
    steps = len(windows.earliest)
    remaining = sorted(
        (step for step in range(steps) if not done >> step & 1), key=windows.earliest.__getitem__
    )
    ready: list[tuple[int, int]] = []
    order: list[int] = []
    released = 0
    for position in range(done.bit_count(), steps):
        while released < len(remaining) and windows.earliest[remaining[released]] <= position:
            step = remaining[released]
            heappush(ready, (windows.latest[step], step))
            released += 1
        if not ready or ready[0][0] < position:
            return None
        order.append(heappop(ready)[1])
    return order


def in_windows(windows: Windows, order: Sequence[int]) -> bool:
    """Whether each step of an order is within its positions."""
    return all(
        windows.earliest[step] <= position <= windows.latest[step]
        for position, step in enumerate(order)
    )


class DownSets:
    """Down-sets, sets of executed steps as bits of an integer: the next steps, and their bytes."""

    def __init__(self, graph: NumberedGraph) -> None:
        """Set the graph."""
        self._graph = graph
        self._before = [sum(1 << source for source in sources) for sources in graph.before]
        self._readers = [sum(1 << reader for reader in readers) for readers in graph.readers]
        sizes = zip(graph.sizes, graph.producers, strict=True)
        self.live_at_start = sum(size for size, producer in sizes if producer < 0)

    def ready(self, done: int) -> list[int]:
        """The steps after a set whose predecessors are all in it."""
        return [
            step
            for step, before in enumerate(self._before)
            if not done >> step & 1 and before & ~done == 0
        ]

    def cost(self, step: int, done: int, live: int) -> tuple[int, int]:
        """Return the bytes while a step runs, and the change of the live bytes by it.

        done: the down-set before the step. live: its live bytes.
        """
        graph = self._graph
        is_last = {
            tensor
            for tensor in graph.reads[step]
            if self._readers[tensor] & ~done == 1 << step and not graph.is_output[tensor]
        }
        cost = live + graph.scratch[step]
        if is_last.isdisjoint(graph.overwrites[step]):
            cost += sum(graph.sizes[tensor] for tensor in graph.writes[step])
        change = sum(
            graph.sizes[tensor]
            for tensor in graph.writes[step]
            if graph.readers[tensor] or graph.is_output[tensor]
        )
        return cost, change - sum(graph.sizes[tensor] for tensor in is_last)


class TimedOrder(NamedTuple):
    """The best order within the ranges of positions, its peak, and a lower bound on the peak."""

    order: tuple[int, ...]
    peak: int
    lower_bound: int


class TimedSearch:
    """Beam search over down-sets of 0, 1, 2, ... steps, each with the minimum peak of its orders.

    If a size has more down-sets than the beam, those with the lowest peak and the fewest live bytes are
    retained. The minimum peak of the discarded sets is a lower bound. answer: the best order so far.
    """

    def __init__(self, problem: OrderProblem, *, lower_bound: int) -> None:
        """Begin with the order by deadlines. Raises InvalidGraph if no order keeps all positions."""
        self._graph = graph = problem.numbered
        self._windows = windows_of(problem)
        first = earliest_deadline_first(self._windows)
        if first is None:
            raise InvalidGraph(
                f"graph {problem.name!r}: no order has each step within its positions; expected "
                "ranges that leave room for the steps that come before and after"
            )
        self._sets = DownSets(graph)
        self.answer = TimedOrder(tuple(first), peak_of(problem, problem.named(first)), lower_bound)

    @property
    def is_optimal(self) -> bool:
        """Whether no order has a lower peak."""
        return self.answer.peak <= self.answer.lower_bound

    def offer(self, order: Sequence[int], peak: int) -> None:
        """Keep an order that is within all ranges and has a lower peak."""
        if in_windows(self._windows, order) and peak < self.answer.peak:
            self.answer = self.answer._replace(order=tuple(order), peak=peak)

    def run(self, stop: Stop) -> None:
        """Search with more and more down-sets, until the best order is optimal."""
        for width in WIDTHS:
            if self.is_optimal:
                return
            self._round(width, stop)

    def _round(self, width: int, stop: Stop) -> None:
        """Search with this many down-sets of each size; raise the lower bound."""
        graph = self._graph
        live = self._sets.live_at_start
        level = {0: (live, live)}  # peak and live bytes of each down-set of this size
        origins: list[dict[int, tuple[int, int]]] = []  # by size: the down-set before, and the step
        dropped = self.answer.peak  # minimum peak of the discarded down-sets
        for position in range(graph.steps):
            stop.look(Progress(lower_bound=self.answer.lower_bound, best=self.answer.peak))
            following: dict[int, tuple[int, int]] = {}
            origin: dict[int, tuple[int, int]] = {}
            for done, (peak, live) in level.items():
                for step in self._ready(done, position):
                    cost, change = self._sets.cost(step, done, live)
                    reached = done | 1 << step
                    value = (max(peak, cost), live + change)
                    if value[0] < self.answer.peak and value < following.get(
                        reached, (self.answer.peak, 0)
                    ):
                        following[reached] = value
                        origin[reached] = (done, step)
            stop.spend(MICROSECONDS * graph.steps * len(level))
            if len(following) > width:
                ranked = sorted(following, key=lambda done: (following[done], done))
                dropped = min(dropped, following[ranked[width]][0])
                following = {done: following[done] for done in ranked[:width]}
            level = following
            origins.append(origin)
        for peak, _ in level.values():  # the full set, if an order has a lower peak; else empty
            order = self._path(origins)
            self.answer = self.answer._replace(order=order, peak=peak)
        bound = max(self.answer.lower_bound, min(dropped, self.answer.peak))
        self.answer = self.answer._replace(lower_bound=bound)

    def _ready(self, done: int, position: int) -> list[int]:
        """The steps that may run at a position so that all later steps can keep their positions."""
        windows = self._windows
        return [
            step
            for step in self._sets.ready(done)
            if windows.earliest[step] <= position <= windows.latest[step]
            and earliest_deadline_first(windows, done | 1 << step) is not None
        ]

    def _path(self, origins: Sequence[dict[int, tuple[int, int]]]) -> tuple[int, ...]:
        """The steps that lead to the full set."""
        done, order = (1 << self._graph.steps) - 1, []
        for origin in reversed(origins):
            done, step = origin[done]
            order.append(step)
        return tuple(reversed(order))
