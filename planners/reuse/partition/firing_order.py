"""The schedule of a partition on one processor: the layers take turns.

The processor passes over the layers in their order again and again, and fires each that has its
input and room for its output, once a pass. A layer that works as a whole fires in one of the passes;
layers that work by rows alternate. This is how the published tool executes a CSDF graph; here buffers
are bounded, and a pass that fires nothing would be a deadlock, which capacities without deadlock
exclude: in a graph of this kind the order of firings never decides whether it gets stuck.
Source: Minakova and Stefanov, TODAES 28(1), 2022, section 4, Algorithm 10.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from csdf.errors import InvalidNetwork


class Wait(NamedTuple):
    """Firings of another layer that each phase of a layer waits for."""

    layer: int
    firings: Sequence[int]


def firing_order(
    phases: Sequence[int],
    waits: Sequence[Sequence[Wait]],
    *,
    gates: Sequence[bool] = (),
    is_started: bool = False,
) -> list[int]:
    """Return the layer of each step of the schedule of one frame.

    phases: of each layer. waits: of each layer, for input and for room. gates: of each layer,
    whether all layers behind it depend on it. is_started: the first layer has fired already, and is
    left out. Raises InvalidNetwork if the layers are stuck. O(passes * layers).
    """
    fired = [0] * len(phases)
    gates = gates or [False] * len(phases)
    order: list[int] = []
    fired[0] = phases[0] if is_started else 0
    low = 1 if is_started else 0  # every layer before it is done
    while low < len(phases):
        before = len(order)
        for layer in range(low, len(phases)):
            phase = fired[layer]
            if phase == phases[layer]:
                continue
            if _is_ready(waits[layer], fired, phase):
                fired[layer] = phase + 1
                order.append(layer)
            elif not phase and gates[layer]:
                break
        if len(order) == before:
            raise InvalidNetwork("the buffers are too small: every layer waits for another one")
        while low < len(phases) and fired[low] == phases[low]:
            low += 1
    return order


def _is_ready(waits: Sequence[Wait], fired: Sequence[int], phase: int) -> bool:
    for layer, firings in waits:  # noqa: SIM110 - half the time of an evaluation is spent here
        if fired[layer] < firings[phase]:
            return False
    return True
