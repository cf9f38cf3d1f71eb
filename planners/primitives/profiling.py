"""Measurement of the profile of a network: times of all layers and layout transformations.

A variant of a layer is a primitive with its layouts. The time of a variant is the median of several
repetitions, which alternate between the variants of the layer (`take_turns`). Layers of the same
operator, shapes and fused operators are timed once. As in a network, inputs are in a cache and weights
are not: before each run an array larger than the near caches is written, then the inputs. Times are
processor times of a single thread: equal to wall-clock time on an idle machine, and independent of
other processes on a busy machine.

All times are measured in a worker process in which matrix products have one thread. The libraries of
matrix products read the number of threads when they are loaded, so it is set when the process starts.
"""

from __future__ import annotations

import os
import pickle
import platform
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from pathlib import Path
from statistics import median, quantiles
from time import thread_time_ns
from typing import IO, Any

import numpy as np

from cnn2csdf.network import Layer, Network, Shape
from cnn2csdf.weights import Array, Model, random_weights
from csdf.arguments import public
from csdf.errors import CsdfError, ExecutionError, GaveUp, InvalidPlan
from csdf.time_limit import ENDS, Budget, Progress, Stop, stop_of
from planners.primitives.execution import SelectedRun, Variants, fresh_memory, run_selected
from planners.primitives.library.layers import (
    PreparedLayer,
    change_layout,
    layer_variants,
    layout_changes,
    prepared_layer,
)
from planners.primitives.library.primitive import ELEMENT_BYTES, map_dims
from planners.primitives.profile import (
    LayerProfile,
    Profile,
    TimingMachine,
    TransformProfile,
    Variant,
)

SEED = 0  # of random weights and frames, where only times are measured
MOST_WEIGHTS = 1 << 28  # bytes of weights that are prepared at once
PAGE = 1 << 12  # bytes to which measured workspaces are rounded
THREADS = 1
HOME = str(Path(__file__).parents[2])  # the folder of this project's packages
# The numbers of threads that libraries of matrix products read when they are loaded.
THREAD_VARIABLES = (
    "OPENBLAS_NUM_THREADS",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)
PROCESSORS = Path("/proc/cpuinfo")
# The worker imports this module by its name, because pickle stores classes and functions by module.
WORKER_CODE = f"from {__name__} import run_worker; run_worker()"

Clock = Callable[[], int]  # nanoseconds
MedianAndSpread = tuple[int, int]  # median and interquartile range of repetitions, in nanoseconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """The number of repetitions of each variant of a layer, and the conditions of a repetition.

    repetitions: after a warm-up run. A variant gets fewer if its repetitions take `nanoseconds` in all,
    but at least `least`. It gets a single repetition if that takes more than `hopeless` times the
    fastest warm-up run of its layer. evicted_bytes: written before each run to evict the weights from
    the near caches, as the other layers of a network do.
    """

    repetitions: int = 9
    least: int = 3
    nanoseconds: int = 200_000_000
    hopeless: int = 8
    evicted_bytes: int = 1 << 22
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("repetitions", "least", "hopeless"):
            if getattr(self, name) < 1:
                raise InvalidPlan(f"{name} is {getattr(self, name)}; expected at least 1")


@public
def profile_network(
    network: Network,
    *,
    effort: Effort | None = None,
    begun: Profile | None = None,
    keep: Callable[[Profile], object] | None = None,
    budget: Budget = None,
) -> Profile:
    """Return times and memory of every variant of every layer, measured in a separate process.

    Weights and maps are random: no time depends on them. budget: a stop, or seconds; it ends the
    measurement before the next run by GaveUp. keep: called with the unfinished profile if the budget or
    an interrupt ends the measurement. begun: an unfinished profile, which is continued.
    """
    profile = begun
    try:
        for extended in from_worker(stop_of(budget), measure, network, effort or Effort(), begun):
            profile = extended
    except ENDS:
        if keep is not None and profile is not None:
            keep(profile)
        raise
    if profile is None:
        raise ExecutionError("the worker gave no profile")
    return profile


def run_measured(
    model: Model, variants: Variants, frame: Mapping[str, Array], *, repeats: int
) -> SelectedRun:
    """Return a run of the variants: outputs for this frame, and times from a worker.

    The worker uses random weights and frames of its own, as for a profile. With weights received
    through a pipe, some products took 1.5 times as long; the reason is unknown.
    """
    run = run_selected(model, variants, frame)
    (nanoseconds,) = from_worker(Stop(), _timed_run, model.network, dict(variants), repeats)
    return replace(run, nanoseconds=nanoseconds)


def _timed_run(network: Network, variants: Variants, repeats: int, _: Stop) -> Iterator[int]:
    model = Model(network=network, weights=random_weights(network, SEED))
    yield run_selected(model, variants, random_frame(network, SEED), repeats=repeats).nanoseconds


def random_frame(network: Network, seed: int) -> dict[str, Array]:
    """Return a frame of random numbers."""
    generator = np.random.default_rng(seed)
    return {
        layer.name: generator.standard_normal(layer.shape.dims, np.float32)
        for layer in network.inputs
    }


def measure(
    network: Network, effort: Effort, begun: Profile | None, stop: Stop
) -> Iterator[Profile]:
    """Yield unfinished profiles, then the whole profile, measured in this process with its threads.

    begun: an unfinished profile. Raises GaveUp with the name of the layer if memory does not suffice.
    """
    model = Model(network=network, weights=random_weights(network, effort.seed))
    measurer, machine = _Measurer(effort, stop), this_machine()
    times_of_layers = {} if begun is None else _known_layers(network, begun)
    layers: list[LayerProfile] = []
    unfinished = partial(
        Profile, network=network.name, machine=machine, transforms=(), is_whole=False
    )
    for number, layer in enumerate(network.layers):
        key = _timing_key(network, layer)
        if key not in times_of_layers:
            if layers:
                yield unfinished(layers=tuple(layers))
            progress = Progress(done=number, total=len(network.layers), at=layer.name)
            try:
                times_of_layers[key] = list(measurer.layer(model, layer, progress))
            except MemoryError as error:
                raise GaveUp(
                    f"not enough memory for layer {layer.name!r} (--profile reads times from a file)"
                ) from error
        layers += [replace(layer_time, layer=layer.name) for layer_time in times_of_layers[key]]
    yield unfinished(layers=tuple(layers))
    times: dict[tuple[Shape, str], MedianAndSpread] = {}
    transforms: list[TransformProfile] = []
    position = {layer.name: number for number, layer in enumerate(network.layers)}
    variants = [(layer.layer, layer.variant) for layer in layers]
    for link, source, target in layout_changes(network, variants):
        shape = network.layer(link.producer).shape
        at = f"{link.consumer}, layout transformation"
        progress = Progress(done=position[link.consumer], total=len(position), at=at)
        if (shape, source) not in times:
            times[shape, source] = measurer.change(shape, source, target, progress)
        nanoseconds, spread = times[shape, source]
        transforms.append(
            TransformProfile(
                producer=link.producer,
                consumer=link.consumer,
                index=link.index,
                source_layout=source,
                target_layout=target,
                nanoseconds=nanoseconds,
                spread_nanoseconds=spread,
                workspace_bytes=0,
            )
        )
    yield Profile(
        network=network.name,
        machine=machine,
        layers=tuple(layers),
        transforms=tuple(transforms),
    )


def _timing_key(network: Network, layer: Layer) -> tuple[object, ...]:
    """Return a key that layers of equal times have in common."""
    return layer.operator, network.input_shapes(layer), layer.epilogue


def _known_layers(network: Network, begun: Profile) -> dict[tuple[object, ...], list[LayerProfile]]:
    """Return the completely measured layers of an unfinished profile, by `_timing_key`."""
    rows: dict[str, list[LayerProfile]] = {}
    for layer in begun.layers:
        rows.setdefault(layer.layer, []).append(layer)
    return {
        _timing_key(network, layer): rows[layer.name]
        for layer in network.layers
        if {layer_time.variant for layer_time in rows.get(layer.name, ())}
        == set(layer_variants(network, layer))
    }


class _Measurer:
    """Measures layers and layout transformations; all measurements share one evicting array."""

    def __init__(self, effort: Effort, stop: Stop) -> None:
        self._effort, self._stop = effort, stop
        self._generator = np.random.default_rng(effort.seed)
        self._evicting = fresh_memory(effort.evicted_bytes)

    def layer(self, model: Model, layer: Layer, progress: Progress) -> Iterator[LayerProfile]:
        """Measure the variants of a layer, in groups whose weights take at most MOST_WEIGHTS bytes.

        A variant with more weights is a group of its own.
        """
        group: dict[Variant, PreparedLayer] = {}
        for variant in layer_variants(model.network, layer):
            prepared = prepared_layer(model, layer, variant)
            weights = sum(member.parameter_bytes for member in (*group.values(), prepared))
            if group and weights > MOST_WEIGHTS:
                yield from self._group(model.network, layer, group, progress)
                group = {}
            group[variant] = prepared
        yield from self._group(model.network, layer, group, progress)

    def _group(
        self,
        network: Network,
        layer: Layer,
        group: Mapping[Variant, PreparedLayer],
        progress: Progress,
    ) -> Iterator[LayerProfile]:
        """Measure the variants of a group, whose runs alternate."""
        shapes = (layer.shape,) if layer.is_input else network.input_shapes(layer)
        variants = list(group)
        layouts = {variant.input_layout for variant in variants}
        # By layout: the arrays that the runs read, and the values that each run gets copied into them.
        inputs, fresh = (
            {layout: [self._random(shape, layout) for shape in shapes] for layout in layouts}
            for _ in range(2)
        )
        outputs = {
            layout: self._random(layer.shape, layout)
            for layout in {variant.output_layout for variant in variants}
        }
        workspace = fresh_memory(max(member.workspace_bytes for member in group.values()))
        runs = [
            partial(
                prepared.run,
                inputs[variant.input_layout],
                workspace,
                outputs[variant.output_layout],
            )
            for variant, prepared in group.items()
        ]

        def prepare(number: int) -> None:
            variant = variants[number]
            self._stop.look(progress._replace(at=f"{layer.name}, {variant.primitive}"))
            self._refresh(inputs[variant.input_layout], fresh[variant.input_layout])

        times = take_turns(runs, self._effort, prepare=prepare)
        for (variant, prepared), run, measured in zip(group.items(), runs, times, strict=True):
            nanoseconds, spread = measured
            extra = allocated_bytes(run) if prepared.allocates else 0
            yield LayerProfile(
                **variant._asdict(),
                layer=layer.name,
                nanoseconds=nanoseconds,
                spread_nanoseconds=spread,
                workspace_bytes=prepared.workspace_bytes + -(-extra // PAGE) * PAGE,
                parameter_bytes=prepared.parameter_bytes,
            )

    def change(self, shape: Shape, source: str, target: str, progress: Progress) -> MedianAndSpread:
        """Measure a layout transformation of one map."""
        fresh, array = (self._random(shape, source) for _ in range(2))
        run = partial(change_layout, array, source, self._random(shape, target))

        def prepare(_: int) -> None:
            self._stop.look(progress)
            self._refresh([array], [fresh])

        return take_turns([run], self._effort, prepare=prepare)[0]

    def _random(self, shape: Shape, layout: str) -> Array:
        """Return a random map in a layout, in memory as that of the executor."""
        array = fresh_memory(prod(shape.dims) * ELEMENT_BYTES)
        self._generator.standard_normal(dtype=np.float32, out=array)
        return array.reshape(map_dims(shape.dims, layout))

    def _refresh(self, targets: Sequence[Array], sources: Sequence[Array]) -> None:
        """Evict the near caches, then write the inputs."""
        self._evicting.fill(1.0)
        for target, source in zip(targets, sources, strict=True):
            np.copyto(target, source)


def take_turns(
    runs: Sequence[Callable[[], None]],
    effort: Effort,
    *,
    prepare: Callable[[int], None],
    clock: Clock = thread_time_ns,
) -> list[MedianAndSpread]:
    """Return median and interquartile range of the times of each run; repetitions alternate.

    prepare: called with the number of the run before each repetition, and not timed.
    """

    def timed(number: int) -> int:
        prepare(number)
        started = clock()
        runs[number]()
        return max(1, clock() - started)

    # Warm-up: kernels are translated, memory is touched. A variant translated here is no slow variant,
    # so the limit is compared with its first repetition.
    limit = effort.hopeless * min(map(timed, range(len(runs))), default=0)
    times_of_runs: list[list[int]] = [[] for _ in runs]
    for repetition in range(effort.repetitions):
        for number, times in enumerate(times_of_runs):
            if times and times[0] > limit:
                continue
            if repetition < effort.least or sum(times) < effort.nanoseconds:
                times.append(timed(number))
    measured = []
    for times in times_of_runs:
        spread = 0.0
        if len(times) > 1:
            low, _, high = quantiles(times, n=4, method="inclusive")
            spread = high - low
        measured.append((round(median(times)), round(spread)))
    return measured


def allocated_bytes(run: Callable[[], None]) -> int:
    """Return the peak of the bytes that a run allocates, including those of Python itself."""
    was_tracing = tracemalloc.is_tracing()
    if not was_tracing:
        tracemalloc.start()
    tracemalloc.reset_peak()
    before, _ = tracemalloc.get_traced_memory()
    run()
    _, peak = tracemalloc.get_traced_memory()
    if not was_tracing:
        tracemalloc.stop()
    return peak - before


def this_machine() -> TimingMachine:
    """Return this machine, with the threads of a worker.

    The processor is the model as the system names it, else the architecture.
    """
    lines: list[str] = []
    with suppress(OSError):
        lines = PROCESSORS.read_text(encoding="utf-8", errors="replace").splitlines()
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    processor = (named or [platform.processor() or platform.machine() or "unknown"])[0]
    configuration: Any = np.show_config(mode="dicts")
    products = configuration.get("Build Dependencies", {}).get("blas", {})
    library = f"{products.get('name', 'unknown')} {products.get('version', '')}".strip()
    return TimingMachine(
        processor=" ".join(processor.split()),
        cores=os.cpu_count() or 1,
        threads=THREADS,
        library=f"numpy {np.__version__}, {library}",
    )


def from_worker(stop: Stop, function: Callable[..., Any], *values: Any) -> Iterator[Any]:
    """Call a generator function with values and a stop in a worker process; yield its values.

    function: of the top level of a module, for pickle. stop: gets the progress of the function, and may
    end it. Raises the error of the function, and ExecutionError if the worker ends before the function.
    """
    environment = {
        **os.environ,
        **dict.fromkeys(THREAD_VARIABLES, str(THREADS)),
        "PYTHONPATH": os.pathsep.join(import_path()),
    }
    with subprocess.Popen(
        [sys.executable, "-P", "-c", WORKER_CODE],  # -P: no import from the current folder
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        start_new_session=True,  # Ctrl-C is for this process, which ends the worker
    ) as process:
        try:
            if process.stdin is None or process.stdout is None:
                raise ExecutionError("the worker has no pipes")
            with suppress(BrokenPipeError):  # the error of a worker that ended is read below
                _send(process.stdin, (function, values))
            while (message := pickle.load(process.stdout)) is not None:
                if isinstance(message, CsdfError):
                    raise message
                if isinstance(message, Progress):
                    stop.look(message)
                else:
                    yield message
        except (EOFError, pickle.UnpicklingError):  # before a message, or within a message
            code = process.wait()
            raise ExecutionError(f"the worker that measures ended with code {code}") from None
        finally:
            process.kill()


def import_path() -> list[str]:
    """Return the search path of modules of this process, without the current folder.

    An empty entry is the current folder, whose files must not run as `numpy` or `pickle` of the worker.
    """
    path = [folder for folder in sys.path if folder]
    return path if HOME in path else [*path, HOME]


def run_worker() -> None:
    """Run the function of the standard input; send its progress, its values, and its error or None."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # prints of libraries go to the standard error, not between the messages
    function, values = pickle.load(sys.stdin.buffer)
    end: CsdfError | None = None
    try:
        for answer in function(*values, Stop(report=partial(_send, out))):
            _send(out, answer)
    except CsdfError as error:
        end = error
    except MemoryError:
        end = GaveUp("out of memory")
    _send(out, end)


def _send(pipe: IO[bytes], message: object) -> None:
    pickle.dump(message, pipe)
    pipe.flush()
