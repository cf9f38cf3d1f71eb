"""The profile of a network on this machine, and the time of a selection under the same conditions.

Times of all layers and changes of layout of a network, in this process.

Layers of the same operator, shapes and fused operators are timed once.

Times of several ways to do one thing, taken in turns.

The ways take turns, so that each repetition comes after all others and finds its own weights no
nearer than in a network. Before each run something larger than the near caches is written, then the
inputs, as the layers before would have written them: inputs are near, weights are not. Times are
those of the processor for this one thread: on an idle machine they are what passes on the wall, and
on a busy one the work of others does not count.

How much time goes into a profile, and how far it has come.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from statistics import median, quantiles
from time import thread_time_ns
from typing import NamedTuple

import numpy as np

from cnn2csdf.network import Connection, Layer, Network, Shape
from cnn2csdf.operators import Input
from cnn2csdf.weights import Array, Model, random_weights
from csdf.arguments import public
from csdf.errors import GaveUp, InvalidPlan
from csdf.time_limit import Budget, Progress, Stop, stop_of
from planners.primitives.execution.selected import (
    SelectedRun,
    Selection,
    fresh_memory,
    run_selected,
)
from planners.primitives.library.layers import PreparedLayer, change_layout, prepared_layer, ways_of
from planners.primitives.library.primitive import ELEMENT_BYTES, map_dims
from planners.primitives.profile import CHW, HWC, LAYOUTS, LayerProfile, Profile, TransformProfile
from planners.primitives.profiling.jobs import THREADS, Job, run_in_worker, this_machine

SEED = 0  # of weights and frames that only times are taken of


@public
def profile_network(
    network: Network, *, effort: Effort | None = None, budget: Budget = None
) -> Profile:
    """Return times and memory of every way to run every layer, measured in a process of its own.

    Weights and maps are random: no time depends on them. budget: a stop, or seconds; it ends the
    measurement before the next run by GaveUp.
    """
    job = Job(function=measure, values=(network, effort or Effort()))
    found: Profile = run_in_worker(job, stop_of(budget))
    return found


def measure(network: Network, effort: Effort, stop: Stop) -> Profile:
    """Return the same, measured in this process with the threads that it has."""
    model = Model(network=network, weights=random_weights(network, effort.seed))
    layers = measured_layers(model, effort, stop)
    return Profile(
        network=network.name,
        machine=this_machine(THREADS),
        layers=layers,
        transforms=measured_transforms(network, layers, effort, stop),
    )


def run_measured(
    model: Model,
    selection: Selection,
    frame: Mapping[str, Array],
    *,
    repeats: int = 9,
    budget: Budget = None,
) -> SelectedRun:
    """Return a run of the selection: outputs from here, times from a process as for a profile.

    Times are of random weights and frames made in that process, as those of a profile are. With
    weights sent through a pipe, some products were seen to take half as long again; why is not known.
    """
    found = run_selected(model, selection, frame)
    values = (model.network, dict(selection), repeats)
    timed: SelectedRun = run_in_worker(Job(function=_timed, values=values), stop_of(budget))
    return replace(found, nanoseconds=timed.nanoseconds, layers=timed.layers, changes=timed.changes)


def _timed(network: Network, selection: Selection, repeats: int, _: Stop) -> SelectedRun:
    model = Model(network=network, weights=random_weights(network, SEED))
    return run_selected(model, selection, random_frame(network, SEED), repeats=repeats)


def random_frame(network: Network, seed: int) -> dict[str, Array]:
    """Return a frame of random numbers."""
    generator = np.random.default_rng(seed)
    return {
        layer.name: generator.standard_normal(layer.shape.dims, np.float32)
        for layer in network.inputs
    }


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


Clock = Callable[[], int]  # nanoseconds


class Time(NamedTuple):
    """Median and interquartile range."""

    nanoseconds: int
    spread_nanoseconds: int


class Candidate(NamedTuple):
    """A way to time: what comes before each run, and the run itself, which alone is timed."""

    before: Callable[[], None]
    run: Callable[[], None]


def take_turns(
    candidates: Sequence[Candidate],
    effort: Effort,
    *,
    look: Callable[[int], None],
    clock: Clock = thread_time_ns,
) -> list[Time]:
    """Return the time of each candidate; look: called with its number before each run."""
    limit = effort.hopeless * min(_first_times(candidates, look, clock), default=0)
    taken: list[list[int]] = [[] for _ in candidates]
    for turn in range(effort.repetitions):
        for number, one in enumerate(candidates):
            times = taken[number]
            if times and times[0] > limit:
                continue
            if turn < effort.least or sum(times) < effort.nanoseconds:
                look(number)
                times.append(_timed_in_turn(one, clock))
    return [_summary(times) for times in taken]


def _first_times(
    candidates: Sequence[Candidate], look: Callable[[int], None], clock: Clock
) -> Iterator[int]:
    """The times that do not count: kernels are translated, memory is touched."""
    for number, one in enumerate(candidates):
        look(number)
        yield _timed_in_turn(one, clock)


def _timed_in_turn(candidate: Candidate, clock: Clock) -> int:
    candidate.before()
    started = clock()
    candidate.run()
    return max(1, clock() - started)


def _summary(times: Sequence[int]) -> Time:
    if len(times) == 1:
        return Time(times[0], 0)
    low, _, high = quantiles(times, n=4, method="inclusive")
    return Time(round(median(times)), round(high - low))


def allocated_bytes(run: Callable[[], None]) -> int:
    """Return the most bytes that are allocated at once during a run, Python's own included."""
    was_tracing = tracemalloc.is_tracing()
    if not was_tracing:
        tracemalloc.start()
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    run()
    peak = tracemalloc.get_traced_memory()[1]
    if not was_tracing:
        tracemalloc.stop()
    return peak - before


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """The measurements that the times of a profile rest on.

    repetitions: of each way to run a layer, after one that is not counted. least: of one so long
    that `nanoseconds` are over before. hopeless: a way that takes so many times as long as the
    fastest of its layer, by the one not counted, is timed once. evicted_bytes: written between two
    runs, so that the next finds its weights as in a network, where all other layers ran since.
    """

    repetitions: int = 9
    least: int = 3
    nanoseconds: int = 200_000_000
    hopeless: int = 8
    evicted_bytes: int = 1 << 22
    seed: int = 0

    def __post_init__(self) -> None:
        for what in ("repetitions", "least", "hopeless"):
            if getattr(self, what) < 1:
                raise InvalidPlan(f"{what} is {getattr(self, what)}; expected at least 1")
