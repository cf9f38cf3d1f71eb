"""The times at which a plan uses the bytes of its buffers, in firings: found by carrying it out."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from cnn2csdf.network import Network
from cnn2csdf.weights import Array
from planners.streaming.held import MarkedArena
from planners.streaming.machine import Machine
from planners.streaming.plan import Kind, StreamBuffer, StreamingPlan


class Life(NamedTuple):
    """A buffer from the firing that first touches it to behind the one that last does."""

    name: str
    start: int
    end: int
    offset: int
    size: int


def lifetimes(network: Network, plan: StreamingPlan) -> tuple[Life, ...]:
    """Return the lives of the buffers of the arena that a frame touches, in their order.

    A stage of tiles is one firing. Raises ExecutionError where the plan cannot be carried out.
    """
    machine = Machine(network, plan)
    watched = _WatchedArena(plan, machine)
    machine.arena = watched
    machine.run()
    for layer in network.outputs:
        machine.output(layer.inputs[0])
    return tuple(
        Life(one.name, *watched.touched[number], one.offset, one.size)
        for number, one in enumerate(plan.buffers)
        if number in watched.touched and one.size and one.kind is not Kind.OUTSIDE
    )


class _WatchedArena(MarkedArena):
    """An arena that knows when each buffer is touched."""

    def __init__(self, plan: StreamingPlan, machine: Machine) -> None:
        super().__init__(plan, machine.network)
        self._machine = machine
        self.touched: dict[int, tuple[int, int]] = {}
        self._of_tensor: dict[str, list[tuple[int, StreamBuffer]]] = defaultdict(list)
        self._others: list[tuple[int, StreamBuffer]] = []  # whose bytes no single tensor has
        for number, one in enumerate(plan.buffers):
            if one.kind in (Kind.POOL, Kind.SCRATCH, Kind.SUMS):
                self._others.append((number, one))
            else:
                self._of_tensor[one.tensor].append((number, one))

    def write(self, offset: int, tensor: str, first: int, values: Array | None, count: int) -> None:
        """Write, and note it."""
        super().write(offset, tensor, first, values, count)
        self._note(offset, tensor)

    def read(self, offset: int, tensor: str, first: int, count: int) -> Array:
        """Read, and note it."""
        self._note(offset, tensor)
        return super().read(offset, tensor, first, count)

    def spoil(self, offset: int, size: int) -> None:
        """Write over bytes, and note it."""
        super().spoil(offset, size)
        self._note(offset, "")

    def _note(self, offset: int, tensor: str) -> None:
        now = max(self._machine.firings - 1, 0)  # the firing at work, from 0 on
        for candidates in (self._of_tensor.get(tensor, []), self._others):
            for number, one in candidates:
                is_now = one.begin <= self._machine.group < one.end
                if is_now and one.offset <= offset < one.offset + one.size:
                    first, _ = self.touched.get(number, (now, now))
                    self.touched[number] = first, now + 1
                    return
