"""Times of all layers and changes of layout of a network, in this process.

Layers of the same operator, shapes and fused operators are timed once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from math import prod
from typing import NamedTuple

import numpy as np

from cnn2csdf.network import Connection, Layer, Network, Shape
from cnn2csdf.operators import Input
from cnn2csdf.weights import Array, Model
from csdf.errors import GaveUp
from csdf.stopping import Progress, Stop
from planners.primitives.execution.memory import fresh_memory
from planners.primitives.library.convolution import ELEMENT_BYTES
from planners.primitives.library.prepared import PreparedLayer, prepared_layer, ways_of
from planners.primitives.library.primitive import map_dims
from planners.primitives.library.relayout import change_layout
from planners.primitives.profile import CHW, HWC, LAYOUTS, LayerProfile, TransformProfile
from planners.primitives.profiling.effort import Effort
from planners.primitives.profiling.timing import Candidate, Time, allocated_bytes, take_turns

MOST_WEIGHTS = 1 << 28  # bytes of weights that are prepared at once
PAGE = 1 << 12  # bytes to which measured workspaces are rounded


class _Measurer:
    """The state that all measurements share: effort, random numbers, memory to write in between."""

    def __init__(self, effort: Effort) -> None:
        self.effort = effort
        self._generator = np.random.default_rng(effort.seed)
        self._evicting = fresh_memory(effort.evicted_bytes)

    def random(self, dims: Sequence[int]) -> Array:
        """Return a random array in memory as the executor takes it."""
        array = fresh_memory(prod(dims) * ELEMENT_BYTES).reshape(dims)
        self._generator.standard_normal(dtype=np.float32, out=array)
        return array

    def refresh(self, targets: Sequence[Array], sources: Sequence[Array]) -> None:
        """Drive out what is near, then write the inputs."""
        self._evicting.fill(1.0)
        for target, source in zip(targets, sources, strict=True):
            np.copyto(target, source)


def measured_layers(model: Model, effort: Effort, stop: Stop) -> tuple[LayerProfile, ...]:
    """Return every way to run every layer, in the order of the layers.

    Raises GaveUp, naming the layer, where memory does not suffice.
    """
    network, measurer = model.network, _Measurer(effort)
    known: dict[tuple[object, ...], list[LayerProfile]] = {}
    found: list[LayerProfile] = []
    for number, layer in enumerate(network.layers, start=1):
        key = (layer.operator, network.input_shapes(layer), layer.epilogue)
        if key not in known:
            progress = Progress(done=number - 1, total=len(network.layers), at=layer.name)
            try:
                known[key] = list(_ways_measured(model, layer, measurer, stop, progress))
            except MemoryError as error:
                raise GaveUp(
                    f"not enough memory for layer {layer.name!r} (--profile reads times from a file)"
                ) from error
        found += [replace(one, layer=layer.name) for one in known[key]]
    return tuple(found)


def _ways_measured(
    model: Model, layer: Layer, measurer: _Measurer, stop: Stop, progress: Progress
) -> Iterable[LayerProfile]:
    """The ways in groups whose weights fit into MOST_WEIGHTS, at least one a group."""
    group: list[PreparedLayer] = []
    for way in ways_of(model.network, layer):
        prepared = prepared_layer(model, layer, way)
        if group and sum(one.parameter_bytes for one in (*group, prepared)) > MOST_WEIGHTS:
            yield from _group_measured(model.network, layer, group, measurer, stop, progress)
            group = []
        group.append(prepared)
    yield from _group_measured(model.network, layer, group, measurer, stop, progress)


class _Memory(NamedTuple):
    """Inputs by layout, where they are refreshed from, outputs by layout, and the workspace."""

    inputs: dict[str, list[Array]]
    fresh: dict[str, list[Array]]
    outputs: dict[str, Array]
    workspace: Array


def _group_measured(
    network: Network,
    layer: Layer,
    group: Sequence[PreparedLayer],
    measurer: _Measurer,
    stop: Stop,
    progress: Progress,
) -> Iterable[LayerProfile]:
    memory = _memory(network, layer, group, measurer)
    candidates = [_candidate(one, memory, measurer) for one in group]

    def look(number: int) -> None:
        primitive = group[number].way[0]
        stop.look(progress._replace(at=f"{layer.name}, {primitive}"))

    times = take_turns(candidates, measurer.effort, look=look)
    for prepared, candidate, time in zip(group, candidates, times, strict=True):
        extra = allocated_bytes(candidate.run) if prepared.allocates else 0
        yield _profile(layer.name, prepared, time, -(-extra // PAGE) * PAGE)


def _profile(layer: str, prepared: PreparedLayer, time: Time, extra: int) -> LayerProfile:
    primitive, source, target = prepared.way
    return LayerProfile(
        layer=layer,
        primitive=primitive,
        input_layout=source,
        output_layout=target,
        nanoseconds=time.nanoseconds,
        spread_nanoseconds=time.spread_nanoseconds,
        workspace_bytes=prepared.workspace_bytes + extra,
        parameter_bytes=prepared.parameter_bytes,
    )


def _memory(
    network: Network, layer: Layer, group: Sequence[PreparedLayer], measurer: _Measurer
) -> _Memory:
    shapes = (layer.shape,) if isinstance(layer.operator, Input) else network.input_shapes(layer)
    sources = {one.way[1] for one in group}
    targets = {one.way[2] for one in group}
    inputs, fresh = (
        {key: [measurer.random(map_dims(one.dims, key)) for one in shapes] for key in sources}
        for _ in range(2)
    )
    return _Memory(
        inputs=inputs,
        fresh=fresh,
        outputs={key: measurer.random(map_dims(layer.shape.dims, key)) for key in targets},
        workspace=fresh_memory(max(one.workspace_bytes for one in group)),
    )


def _candidate(prepared: PreparedLayer, memory: _Memory, measurer: _Measurer) -> Candidate:
    _, source, target = prepared.way
    inputs = memory.inputs[source]
    return Candidate(
        before=partial(measurer.refresh, inputs, memory.fresh[source]),
        run=partial(prepared.run, inputs, memory.workspace, memory.outputs[target]),
    )


def measured_transforms(
    network: Network, layers: Sequence[LayerProfile], effort: Effort, stop: Stop
) -> tuple[TransformProfile, ...]:
    """Return every change of layout that a selection among these ways can ask for."""
    measurer = _Measurer(effort)
    reads: dict[str, set[str]] = {}
    writes: dict[str, set[str]] = {}
    for one in layers:
        reads.setdefault(one.layer, set()).add(one.input_layout)
        writes.setdefault(one.layer, set()).add(one.output_layout)
    known: dict[tuple[Shape, str], Time] = {}
    found = []
    place = {layer.name: number for number, layer in enumerate(network.layers, start=1)}
    for link in network.connections:
        shape = network.layer(link.producer).shape
        at = f"{link.consumer}, change of layout"
        progress = Progress(done=place[link.consumer] - 1, total=len(place), at=at)
        for source, target in ((CHW, HWC), (HWC, CHW)):
            is_asked = source in writes[link.producer] and target in reads[link.consumer]
            if not shape.is_map or not is_asked:
                continue
            if (shape, source) not in known:
                known[shape, source] = _change_measured(shape, source, measurer, stop, progress)
            found.append(_transform(link, source, target, known[shape, source]))
    return tuple(found)


def _transform(connection: Connection, source: str, target: str, time: Time) -> TransformProfile:
    return TransformProfile(
        producer=connection.producer,
        consumer=connection.consumer,
        index=connection.index,
        source_layout=source,
        target_layout=target,
        nanoseconds=time.nanoseconds,
        spread_nanoseconds=time.spread_nanoseconds,
        workspace_bytes=0,
    )


def _change_measured(
    shape: Shape, source: str, measurer: _Measurer, stop: Stop, progress: Progress
) -> Time:
    target = next(one for one in LAYOUTS if one != source)
    fresh, array = (measurer.random(map_dims(shape.dims, source)) for _ in range(2))
    result = measurer.random(map_dims(shape.dims, target))
    candidate = Candidate(
        before=partial(measurer.refresh, [array], [fresh]),
        run=partial(change_layout, array, source, result),
    )
    return take_turns([candidate], measurer.effort, look=lambda _: stop.look(progress))[0]
