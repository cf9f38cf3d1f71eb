"""Search for an order of the steps between two down-sets whose peak is within a bound."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from csdf.kernels import compile as compiler
from csdf.time_limit import Stop
from planners.kernels import order_search as kernel
from planners.kernels import order_states as states_kernel
from planners.order.problem import NumberedGraph

BITS = 62  # of a word of the kernels, whose numbers are never negative
KEY = 2**62
# Memory for each state that may be stored: further parents (links), and steps of valleys. The search is
# full if either is used up.
LINKS = 4
POOL = 4

UNDECIDED, FOUND, NONE, FULL = kernel.UNDECIDED, kernel.FOUND, kernel.NONE, kernel.FULL
WORK_A_MICROSECOND = 500  # elementary steps of the kernels, on graphs of 80 to 500 steps
STATES_A_RUN = 100  # between two looks at the stop: some milliseconds, or 0.1 s in Python


class GraphArrays:
    """The arrays of a graph for the kernels: one walk, one flow network, keys of the steps."""

    def __init__(self, graph: NumberedGraph) -> None:
        self.graph = graph
        self.backend = backend = compiler.backend(
            fits=4 * sum((*graph.sizes, *graph.scratch)) < states_kernel.ENDLESS
        )
        steps, tensors = graph.steps, len(graph.sizes)
        reads = sum(map(len, graph.reads))
        nodes, edges = 2 + steps + tensors, 2 * (tensors + 2 * reads)
        self.tensors = graph.tensors(backend)
        self.walk = backend.kernel(states_kernel.Walk)(
            self.tensors, *map(backend.blank, (steps, steps, tensors))
        )
        self.cut = backend.kernel(states_kernel.FlowNetwork)(
            self.tensors,
            *(backend.blank(nodes) for _ in range(5)),
            *(backend.blank(edges) for _ in range(3)),
            *map(backend.blank, (steps, tensors)),
        )
        generator = random.Random(steps)  # the keys only spread states over a table
        self.keys = backend.array(generator.randrange(1, KEY) for _ in range(steps))
        self.word = backend.array(step // BITS for step in range(steps))
        self.power = backend.array(1 << step % BITS for step in range(steps))
        self.words = steps // BITS + 1
        self.counts = backend.array(ancestor.bit_count() for ancestor in graph.ancestors)

    def load(self, done: int) -> None:
        """Move the walk to a down-set, as bits of an integer."""
        steps = range(self.graph.steps)
        self.walk.load(self.backend.array(1 - (done >> step & 1) for step in steps))

    def least_live(self, lower: int, upper: int) -> tuple[int, int]:
        """Return the minimum live bytes of a down-set between two, and the largest such down-set."""
        steps = range(self.graph.steps)
        mark = self.backend.array(
            0 if lower >> step & 1 else 2 - (upper >> step & 1) for step in steps
        )
        self.cut.least_between(mark)
        self.walk.load(mark)
        return self.walk.live, sum(1 << step for step in steps if mark[step] == 0)

    def costs(self, order: Sequence[int], start: int = 0) -> list[int]:
        """Return the bytes while each step of an order runs. start: the down-set before the order."""
        self.load(start)
        costs = []
        for step in order:
            costs.append(self.walk.cost(step))
            self.walk.run(step)
        return costs


class BoundedSearch:
    """A search for an order from one down-set to another within a bound.

    capacity: states that it may store.
    """

    def __init__(
        self,
        arrays: GraphArrays,
        bound: int,
        *,
        start: int = 0,
        goal: int | None = None,
        capacity: int,
    ) -> None:
        graph, backend = arrays.graph, arrays.backend
        self._arrays = arrays
        steps = range(graph.steps)
        goal = (1 << graph.steps) - 1 if goal is None else goal
        universe = [step for step in steps if (goal & ~start) >> step & 1]
        blank = backend.blank
        table = 1 << (2 * capacity).bit_length()
        self._tree = backend.kernel(kernel.StateTree)(
            blank(capacity * arrays.words),
            *(blank(capacity) for _ in range(9)),
            blank(table),
            blank(capacity + 1),
            blank(POOL * capacity + graph.steps),
            *(blank(LINKS * capacity) for _ in range(5)),
        )
        self._prefix = blank(graph.steps + 1)
        self._search: Any = backend.kernel(kernel.OrderSearch)(
            backend.array(universe),
            arrays.counts,
            arrays.word,
            arrays.power,
            arrays.keys,
            self._prefix,
            blank(arrays.words),
            *(blank(graph.steps + 1) for _ in range(3)),
            bound,
            states_kernel.ENDLESS,
        )
        self._continue = backend.kernel(kernel.search_order)
        self._cut_work = arrays.cut.work
        arrays.load(start)
        backend.kernel(kernel.begin_search)(arrays.walk, self._tree, self._search)

    def run(self, states: int) -> int:
        """Expand at most this many states; return FOUND, NONE, FULL or UNDECIDED."""
        arrays = self._arrays
        return int(self._continue(arrays.walk, arrays.cut, self._tree, self._search, states))

    @property
    def order(self) -> list[int]:
        """The steps of the order that was found."""
        return [self._prefix[index] for index in range(self._search.prefixed)]

    @property
    def blocked(self) -> int:
        """The minimum bytes above the bound of a step that the search rejected."""
        return int(self._search.blocked)

    @property
    def work(self) -> int:
        """Elementary steps of the search so far."""
        return int(self._search.work + self._arrays.cut.work - self._cut_work)


def run_bounded(search: BoundedSearch, stop: Stop) -> int:
    """Run a search to its end; return FOUND, NONE or FULL. Raises GaveUp if the stop ends it."""
    outcome, work = UNDECIDED, 0
    while outcome == UNDECIDED:
        stop.look()
        outcome = search.run(STATES_A_RUN)
        stop.spend((search.work - work) // WORK_A_MICROSECOND)
        work = search.work
    return outcome
