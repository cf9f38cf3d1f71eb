"""Round-robin firing order of the layers of a partition on one processor.

The processor passes over the L layers in their order again and again, and fires each that has its
input and room for its output, once a pass. planners.reuse.partition says where this
schedule is from.
"""

from __future__ import annotations

STUCK = -1  # every layer waits for another one


class Layers:
    """L layers, and the firings of one another that their phases wait for.

    phases: (L,) of each layer. is_gate: (L,) whether all layers after it depend on it. waiting:
    (L + 1,) layer a has the waits waiting[a] : waiting[a + 1]. source: layer that is waited for, of
    each wait. start: where in `numbers` the firings of the source begin that each phase waits for.
    fired: (L,) firings before the schedule begins, in; all phases, out.
    """

    def __init__(self, phases, is_gate, waiting, source, start, numbers, fired):
        """Keep these arrays."""
        self.phases = phases
        self.is_gate = is_gate
        self.waiting = waiting
        self.source = source
        self.start = start
        self.numbers = numbers
        self.fired = fired


def round_robin_order(layers, order, first, last):
    """Write the layer of each step; return how many steps there are, or STUCK.

    order: room for all phases. first, last: (L,) -1 at first, the steps of the first and the last
    firing of each layer that fires. O(passes * layers).
    """
    count = len(layers.phases)
    steps = 0
    low = 0  # every layer before it is done
    while low < count and layers.fired[low] == layers.phases[low]:
        low += 1
    while low < count:
        before = steps
        for layer in range(low, count):
            phase = layers.fired[layer]
            if phase == layers.phases[layer]:
                continue
            if is_ready(layers, layer, phase):
                layers.fired[layer] = phase + 1
                order[steps] = layer
                if first[layer] < 0:
                    first[layer] = steps
                last[layer] = steps
                steps += 1
            elif phase == 0 and layers.is_gate[layer] == 1:
                # All later layers depend on this gate: none of them can fire in this pass.
                break
        # A pass without a firing leaves the state as it was: no later pass can fire either.
        if steps == before:
            return STUCK
        while low < count and layers.fired[low] == layers.phases[low]:
            low += 1
    return steps


def is_ready(layers, layer, phase):
    """Whether a phase of a layer has its input and its room."""
    for wait in range(layers.waiting[layer], layers.waiting[layer + 1]):
        if layers.fired[layers.source[wait]] < layers.numbers[layers.start[wait] + phase]:
            return False
    return True
