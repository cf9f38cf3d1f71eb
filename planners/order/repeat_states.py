"""Exact search for the lowest price of repeated steps whose peak is within a bound: A* over states.

A state is the set of steps that ran and the set of tensors that are live, as bits of integers. Before a
step runs, tensors are dropped only if its bytes would exceed the bound: inclusion-minimal sets, as
other tensors may be dropped later. The estimate of the remaining price is the price of the steps that
wrote missing tensors: those that remaining steps read, and recursively their inputs.
Source of A*: Hart, Nilsson, Raphael, IEEE Trans. Systems Science and Cybernetics 4 (1968).
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import NamedTuple

from csdf.time_limit import Stop
from planners.order.repeated_runs import RepeatedRuns

MICROSECONDS = 20  # of a state that is stored, in Python


class _State(NamedTuple):
    """Steps that ran, and live tensors."""

    done: int
    live: int


class RepeatStates:
    """A search for a list of runs within a bound, at a price below a limit.

    runs: the list of the lowest price, or None. lower_bound: on the price of lists within the bound;
    None if there is no such list. is_complete: whether `runs` is final.
    """

    def __init__(self, runs: RepeatedRuns, bound: int, *, price_limit: int | None) -> None:
        """Begin without a step. price_limit: the highest price of interest."""
        self._graph, self._bound, self._limit = runs.graph, bound, price_limit
        graph = runs.graph
        self._prices = runs.prices
        self._reads = [_bits(tensors) for tensors in graph.reads]
        self._writes = [_bits(tensors) for tensors in graph.writes]
        self._produced = [sum(graph.sizes[t] for t in tensors) for tensors in graph.writes]
        self._outputs = _bits(t for t, is_output in enumerate(graph.is_output) if is_output)
        self._fixed = _bits(t for t in range(len(graph.sizes)) if not runs.is_repeatable(t))
        self._full = (1 << graph.steps) - 1
        self._inputs = _bits(t for t, producer in enumerate(graph.producers) if producer < 0)
        self._useful: dict[int, int] = {}
        self._kept: dict[int, int] = {}
        start = _State(0, self._inputs)
        self._parents: dict[_State, tuple[_State, int]] = {}
        self._spent = {start: 0}
        self._waiting = [(0, 0, 0, start)]
        self._fronts: dict[int, list[tuple[int, int]]] = {}
        self._sets = 0  # of tensors, dropped before a run
        self.runs: list[int] | None = None

    @property
    def is_complete(self) -> bool:
        """Whether the list of the lowest price is found, or there is none."""
        return not self._waiting or self.runs is not None

    @property
    def lower_bound(self) -> int | None:
        """The minimum estimate of the states that are not expanded; None without such states."""
        return self._waiting[0][0] if self._waiting else None

    def run(self, most: int, stop: Stop) -> None:
        """Search until the list of the lowest price is complete, or this many sets were dropped."""
        while self._waiting:
            entry = heappop(self._waiting)
            state = entry[-1]
            if state.done == self._full and not self._outputs & ~state.live:
                self.runs = self._path(state)
            before = self._sets
            if self.runs is None and not self._is_dominated(state):
                for step in range(self._graph.steps):
                    self._run(state, step, most)
            stop.charge(MICROSECONDS * (1 + self._sets - before))
            if self.runs is not None or self._sets >= most:
                heappush(self._waiting, entry)  # its price is the lower bound
                return

    def _is_dominated(self, state: _State) -> bool:
        """Whether a state of the same steps has all its live tensors, at no higher price."""
        spent = self._spent[state]
        front = self._fronts.setdefault(state.done, [])
        if any(not state.live & ~live and price <= spent for live, price in front):
            return True
        front.append((state.live, spent))
        return False

    def _run(self, state: _State, step: int, most: int) -> None:
        """Store the states after a run of a step."""
        is_repeated = state.done >> step & 1
        price = self._prices[step]
        if self._reads[step] & ~state.live or (is_repeated and price is None):
            return
        done = state.done | 1 << step
        useful = self._useful_after(done)
        if is_repeated and not self._writes[step] & useful & ~state.live:
            return
        live = state.live & ~self._writes[step] if is_repeated else state.live
        spent = self._spent[state] + (price or 0 if is_repeated else 0)
        bytes_ = self._bytes(live) + self._graph.scratch[step]
        overwritten = [
            tensor
            for tensor in self._graph.overwrites[step]
            if not self._retained(done) >> tensor & 1
        ]
        for tensor in overwritten:
            self._drop(state, step, live & ~(1 << tensor), live, bytes_, spent, most)
        if all(useful >> tensor & 1 for tensor in overwritten):
            self._drop(state, step, live, live, bytes_ + self._produced[step], spent, most)

    def _drop(
        self, state: _State, step: int, after: int, live: int, bytes_: int, spent: int, most: int
    ) -> None:
        """Store a state for each minimal set of dropped tensors that lets a step run.

        after: tensors live after the step, without its results, before the drop. live: tensors live
        before the step. bytes_: while it runs. spent: price so far. most: maximum number of sets.
        """
        done = state.done | 1 << step
        useful = self._useful_after(done)
        droppable = live & ~self._reads[step] & ~self._retained(done)
        rows = [
            (self._graph.sizes[tensor], tensor, self._price_of_dropping(tensor, done))
            for tensor in _numbers(droppable)
            if self._graph.sizes[tensor]
        ]
        rows.sort(reverse=True)
        left = None if self._limit is None else self._limit - spent
        for dropped in _minimal_sets(rows, bytes_ - self._bound, 0, left):
            self._sets += 1
            if self._sets > most:
                return
            live_after = (after & ~dropped | self._writes[step]) & useful
            self._store(state, step, _State(done, live_after), spent)

    def _price_of_dropping(self, tensor: int, done: int) -> int:
        """Return the price to recompute a tensor that a remaining step reads, else 0.

        0 too if its step writes other tensors: several dropped tensors would count the price twice.
        """
        producer = self._graph.producers[tensor]
        is_read = any(not done >> reader & 1 for reader in self._graph.readers[tensor])
        is_single = producer >= 0 and len(self._graph.writes[producer]) == 1
        return (self._prices[producer] or 0) if is_read and is_single else 0

    def _store(self, origin: _State, step: int, state: _State, spent: int) -> None:
        if spent >= self._spent.get(state, spent + 1):
            return
        price_to_go = self._price_to_go(state)
        if price_to_go is None or (self._limit is not None and spent + price_to_go > self._limit):
            return
        price = spent + price_to_go
        self._spent[state] = spent
        self._parents[state] = (origin, step)
        # Of states of the same price, the one with the most steps is expanded first.
        heappush(self._waiting, (price, -state.done.bit_count(), len(self._spent), state))

    def _useful_after(self, done: int) -> int:
        """Return the outputs, and the tensors that further runs may read after these steps."""
        if done not in self._useful:
            useful = self._outputs
            for step in reversed(self._graph.topological):
                is_left = not done >> step & 1
                if is_left or (self._prices[step] is not None and self._writes[step] & useful):
                    useful |= self._reads[step]
            self._useful[done] = useful
        return self._useful[done]

    def _retained(self, done: int) -> int:
        """Return the tensors that stay live: not repeatable, and read by remaining steps or outputs."""
        if done not in self._kept:
            retained = self._outputs
            for step, reads in enumerate(self._reads):
                if not done >> step & 1:
                    retained |= reads
            self._kept[done] = retained & self._fixed
        return self._kept[done]

    def _price_to_go(self, state: _State) -> int | None:
        """Return the price of the steps that wrote missing tensors; None if any runs only once."""
        needed, price = self._outputs, 0
        for step in reversed(self._graph.topological):
            if not state.done >> step & 1:
                needed |= self._reads[step]
            elif self._writes[step] & needed & ~state.live:
                repeat_price = self._prices[step]
                if repeat_price is None:
                    return None
                price += repeat_price
                needed |= self._reads[step]
        return None if needed & self._inputs & ~state.live else price

    def _bytes(self, live: int) -> int:
        return sum(self._graph.sizes[tensor] for tensor in _numbers(live))

    def _path(self, state: _State) -> list[int]:
        """Return the runs that lead to a state."""
        runs = []
        while state in self._parents:
            state, step = self._parents[state]
            runs.append(step)
        return runs[::-1]


def _bits(numbers: Iterator[int] | list[int] | range) -> int:
    return sum(1 << number for number in numbers)


def _numbers(bits: int) -> Iterator[int]:
    """Yield the numbers of the bits that are set."""
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest


def _minimal_sets(
    rows: list[tuple[int, int, int]], need: int, first: int, price_limit: int | None
) -> Iterator[int]:
    """Yield the sets of tensors of at least `need` bytes from which no tensor can be left out.

    rows: bytes, tensor and price of each tensor, the largest first. So the tensor that completes a set
    is its smallest, and no other tensor can be left out either. first: index of the first allowed row.
    """
    if need <= 0:
        yield 0
        return
    left = sum(size for size, _, _ in rows[first:])
    for number in range(first, len(rows)):
        if left < need:
            return
        size, tensor, price = rows[number]
        left -= size
        if price_limit is None or price <= price_limit:
            remaining = None if price_limit is None else price_limit - price
            for tensors in _minimal_sets(rows, need - size, number + 1, remaining):
                yield tensors | 1 << tensor
