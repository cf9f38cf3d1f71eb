"""The schedule of a partition on one processor: the layers take turns.

The processor passes over the layers in their order again and again, and fires each that has its
input and room for its output, once a pass. A layer that works as a whole fires in one of the passes;
layers that work by rows alternate. This is how the published tool executes a CSDF graph; here buffers
are bounded, and a pass that fires nothing would be a deadlock, which capacities without deadlock
exclude: in a graph of this kind the order of firings never decides whether it gets stuck.
Source: Minakova and Stefanov, TODAES 28(1), 2022, section 4, Algorithm 10.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import NamedTuple

from csdf.errors import InvalidNetwork
from csdf.kernels import compile as compiler
from csdf.kernels import turns as kernel


class Waits:
    """The firings of other layers that each phase of each layer waits for.

    numbers: firings, those of one wait behind one another. Layers are added in their order.
    """

    def __init__(self, numbers: array[int]) -> None:
        self.numbers = numbers
        self.waiting = [0]
        self.source: list[int] = []
        self.start: list[int] = []

    def add(self, layer: int, start: int) -> None:
        """Let the phases of the layer that is next wait for so many firings of this one.

        start: of the firings, among the numbers.
        """
        self.source.append(layer)
        self.start.append(start)

    def end_layer(self) -> None:
        """Go on with the layer behind."""
        self.waiting.append(len(self.source))


class Turns(NamedTuple):
    """The layer of each step of a schedule, and the steps at which each layer fires first and last.

    first, last: -1 for a layer that fired before the schedule.
    """

    order: Sequence[int]
    first: list[int]
    last: list[int]


def firing_order(
    phases: Sequence[int],
    waits: Waits,
    *,
    gates: Sequence[bool],
    is_started: bool = False,
) -> Turns:
    """Return the schedule of one frame.

    phases: of each layer. waits: for input and for room. gates: of each layer, whether all layers
    behind it depend on it. is_started: the first layer has fired already, and is left out. Raises
    InvalidNetwork if the layers are stuck. O(passes * layers).
    """
    backend = compiler.backend(fits=True)
    order = backend.blank(sum(phases))
    first, last = (backend.array([-1] * len(phases)) for _ in range(2))
    fired = backend.blank(len(phases))
    fired[0] = phases[0] if is_started else 0
    layers = backend.kernel(kernel.Layers)(
        *map(backend.array, (phases, gates, waits.waiting, waits.source, waits.start)),
        waits.numbers,
        fired,
    )
    steps = backend.kernel(kernel.take_turns)(layers, order, first, last)
    del layers  # which keeps the numbers from growing
    if steps == kernel.STUCK:
        raise InvalidNetwork("the buffers are too small: every layer waits for another one")
    return Turns(order[:steps], list(first), list(last))
