"""How long each phase of each layer takes on this machine, with the executor's own operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from time import perf_counter_ns

import numpy as np

from cnn2csdf.execution.compare import random_tensor
from cnn2csdf.execution.layer_by_layer import Computation, computation
from cnn2csdf.execution.wiring import Rows, wired_layers
from cnn2csdf.part import HeldRows, RowReader
from cnn2csdf.weights import Model
from csdf.errors import ExecutionError
from csdf.model.graph import Graph

Clock = Callable[[], int]  # nanoseconds


def measure_phases(
    model: Model,
    graph: Graph,
    *,
    repeats: int = 3,
    seed: int = 0,
    clock: Clock = perf_counter_ns,
) -> dict[str, tuple[int, ...]]:
    """Return for each layer the nanoseconds of each phase of its actor, at least one.

    Medians over repeats, after one round that is not counted, of computing the phase's output rows
    from random maps. Raises ExecutionError where graph and network do not match, or for no repeats.
    """
    if repeats < 1:
        raise ExecutionError(f"{repeats} repeats of a measurement; at least 1")
    generator = np.random.default_rng(seed)
    times = {}
    for wired in wired_layers(model.network, graph):
        layer = wired.layer
        is_input = layer.is_input
        sources = [layer] if is_input else [model.network.layer(name) for name in layer.inputs]
        inputs = [
            HeldRows(shape=source.shape, array=random_tensor(source, generator))
            for source in sources
        ]
        computed = computation(model, wired.layer)
        rounds = [_round(computed, inputs, wired.rows, clock) for _ in range(repeats + 1)]
        times[wired.layer.name] = tuple(
            max(1, round(median(phase))) for phase in zip(*rounds[1:], strict=True)
        )
    return times


def _round(
    computed: Computation, inputs: Sequence[RowReader], rows: Rows, clock: Clock
) -> list[int]:
    """Time each phase once; a phase that writes nothing takes no time."""
    begin, times = 0, []
    for count in rows:
        started = clock()
        if count:
            computed.rows(inputs, begin, begin + count)
        times.append(clock() - started)
        begin = (begin + count) % computed.shape.rows
    return times
