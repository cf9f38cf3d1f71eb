"""Layers that take turns, against passes over all of them in plain words, by both kernels."""

from array import array
from random import Random

import pytest

from csdf.errors import InvalidNetwork
from planners.reuse.partition import firing_order
from tests.both_kernels import BOTH, use


def drawn(random):
    """Phases of each layer, what each phase waits for, and gates: (layer, source) -> firings.

    Firings that are waited for never get fewer from phase to phase, as in a graph.
    """
    phases = [random.randint(1, 5) for _ in range(random.randint(1, 6))]
    waits = {}
    for layer in range(len(phases)):
        for source in range(len(phases)):
            if source != layer and random.random() < (0.6 if source < layer else 0.2):
                most = phases[source]
                waits[layer, source] = sorted(random.randint(0, most) for _ in range(phases[layer]))
    return phases, waits


def passes(phases, waits, *, is_started):
    """The steps, as the docstring of the module says; None where all are stuck."""
    fired = [0] * len(phases)
    if is_started:
        fired[0] = phases[0]
    steps = []
    while fired != phases:
        before = len(steps)
        for layer, phase in enumerate(tuple(fired)):
            if phase < phases[layer] and all(
                fired[source] >= firings[phase]
                for (waiting, source), firings in waits.items()
                if waiting == layer
            ):
                fired[layer] += 1
                steps.append(layer)
        if len(steps) == before:
            return None
    return steps


def as_waits(phases, waits):
    """The waits of each layer as pairs, and the array of the firings that they begin in."""
    numbers = array("q", [99])  # the waits of other segments precede
    pairs = [[] for _ in phases]
    for (layer, source), firings in waits.items():
        pairs[layer].append((source, len(numbers)))
        numbers.extend(firings)
    return pairs, numbers


@pytest.mark.parametrize("backend", BOTH)
@pytest.mark.parametrize("is_started", [False, True])
def test_layers_fire_once_a_pass_as_soon_as_they_can(backend, is_started, monkeypatch):
    use(monkeypatch, backend)
    random = Random(7)
    stuck = 0
    for _ in range(400):
        phases, waits = drawn(random)
        expected = passes(phases, waits, is_started=is_started)
        given, no_gates = as_waits(phases, waits), [False] * len(phases)
        if expected is None:
            stuck += 1
            with pytest.raises(InvalidNetwork, match="every layer waits for another one"):
                firing_order(phases, *given, separators=no_gates, is_started=is_started)
            given[1].append(0)  # nothing holds on to the numbers
            continue
        order, found = firing_order(phases, *given, separators=no_gates, is_started=is_started)
        assert list(order) == expected
        assert found.total == len(expected)
        for layer in range(len(phases)):
            places = [step for step, one in enumerate(expected) if one == layer] or [-1]
            assert (found.first[layer], found.last[layer]) == (places[0], places[-1])
    assert 10 < stuck < 390


@pytest.mark.parametrize("backend", BOTH)
def test_a_gate_changes_no_schedule(backend, monkeypatch):
    # All layers behind the gate wait for it, so that to look at them is of no use.
    use(monkeypatch, backend)
    random = Random(8)
    for _ in range(200):
        phases, waits = drawn(random)
        gate = random.randrange(len(phases))
        for layer in range(gate + 1, len(phases)):
            waits[layer, gate] = [
                max(1, one) for one in waits.get((layer, gate), [1] * phases[layer])
            ]
        if passes(phases, waits, is_started=False) is None:
            continue
        given = as_waits(phases, waits)
        gates = [layer == gate for layer in range(len(phases))]
        with_gate = firing_order(phases, *given, separators=gates)
        without = firing_order(phases, *given, separators=[False] * len(phases))
        assert list(with_gate[0]) == list(without[0])
