"""Frames of the test program: inputs, states, reference outputs, and tolerances.

A test detects a wrong table of weights only if the outputs depend on it. Random numbers often do not
show that: averaged by layers, they give the same saturated output in each frame. Among random
inputs of several amplitudes and grain sizes, and for a network with a state among random states, those
are taken whose outputs have the most values. Only outputs that are integers decide, if there
are any, so that the choice is the same on each machine.

Outputs get a tolerance where computed floating-point numbers are rounded to integers. Another order
of summation or another mathematical library changes the last bits of such a number. Near a rounding
boundary the integer then differs by one step, and so do the layers after it. The network is
therefore executed twice more: with all these numbers slightly larger, and slightly smaller. The
change of an output bounds its tolerance.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.dtypes import Element
from cnn2csdf.execution.compare import random_tensor, table_entries
from cnn2csdf.execution.layer_by_layer import States, first_states, run_layer_by_layer
from cnn2csdf.network import Layer, Network
from cnn2csdf.parameters import network_multiply_accumulates
from cnn2csdf.stored_tensors import stores_integers
from cnn2csdf.weights import Array, Model
from csdf.names import longer_name

Frame = Mapping[str, Array]

FRAMES = 4  # of a network with a state: after the initial state, and after a random state
CANDIDATES = 8  # inputs or states, of which those with the most varied outputs are taken
MOST_WORK = 48_000_000  # multiply-accumulates of all candidates
ENOUGH = 8  # different values of the outputs, with which no further candidate is tried
MOST_ELEMENTS = 40_000  # of the inputs of several frames
MOST_STATE_BYTES = 1 << 15  # of a state that the test program writes
BLOCKS = 4  # equal elements of an axis, in coarse noise
FAINT = 8  # by which faint noise is smaller


@dataclass(frozen=True, slots=True, kw_only=True)
class TestVector:
    """A frame and its reference outputs, by the names of the layers.

    tolerance: permitted difference from the reference, in addition to rounding errors of float.
    before: the state that is written before the frame, by layer and role; None to continue from the
    previous frame. after: the state that the frame has to leave; None if it is not compared.
    """

    frame: Frame
    outputs: Frame
    tolerance: Mapping[str, float] = field(default_factory=dict)
    before: States | None = None
    after: States | None = None


def random_frame(network: Network, seed: int) -> dict[str, Array]:
    """Return random numbers for each input; integers if it is quantised."""
    generator = np.random.default_rng(seed)
    entries = table_entries(network)
    return {
        layer.name: random_tensor(layer, generator, entries.get(layer.name, 128))
        if layer.quantization is None
        else _random_integers(generator, layer)
        for layer in network.inputs
    }


def _random_integers(generator: np.random.Generator, layer: Layer) -> Array:
    """Integers over the range of their type; of int32, as small as those of int8."""
    if layer.element is Element.INT32:
        return generator.integers(-128, 128, layer.shape.dims, layer.array_type)
    limits = np.iinfo(layer.element.value)
    return generator.integers(limits.min, limits.max + 1, layer.shape.dims, layer.array_type)


def vectors_of(
    model: Model, frames: Sequence[Frame], states: States | None = None
) -> tuple[TestVector, ...]:
    """Return the frames with their reference outputs, computed layer by layer.

    states: before the first frame, changed to those after the last; by default the initial states.
    """
    vectors, states = [], first_states(model) if states is None else states
    for frame in frames:
        outputs = run_layer_by_layer(model, frame, states)
        tolerance = {} if states else tolerances(model, frame, outputs)
        vectors.append(TestVector(frame=frame, outputs=outputs, tolerance=tolerance))
    return tuple(vectors)


def chosen_vectors(model: Model) -> tuple[TestVector, ...]:
    """Return test vectors whose outputs vary, if those of any candidate do.

    Of a network without a state, as many of the most varied frames as give ENOUGH values of outputs.
    With a state, FRAMES frames from the initial state and, if the state has integers only, as many
    from a random state, whose last state is compared.
    """
    network, states = model.network, first_states(model)
    if not states:
        count = _affordable(network, 1) if stores_integers(network) else 1
        drawn = (drawn_frame(network, seed) for seed in range(count))
        ranked = _ranked(
            (TestVector(frame=frame, outputs=run_layer_by_layer(model, frame)),) for frame in drawn
        )
        elements = sum(layer.shape.elements for layer in network.inputs)
        taken = ranked[0]
        for vectors in ranked[1 : max(1, min(FRAMES, MOST_ELEMENTS // elements))]:
            taken += vectors if _varied(taken) < ENOUGH else ()
        return tuple(
            replace(vector, tolerance=tolerances(model, vector.frame, vector.outputs))
            for vector in taken
        )
    frames = [random_frame(network, seed) for seed in range(FRAMES)]
    begun = vectors_of(model, frames, states)
    arrays = [array for roles in states.values() for array in roles.values()]
    size = sum(array.nbytes for array in arrays)
    if size > MOST_STATE_BYTES or any(array.dtype.kind == "f" for array in arrays):
        return begun
    count = _affordable(network, FRAMES)
    return begun + _ranked(_from_random_state(model, states, seed) for seed in range(count))[0]


def from_initial_state(vectors: Sequence[TestVector]) -> int:
    """Return the number of vectors before the first that writes a state."""
    return next((n for n, vector in enumerate(vectors) if vector.before), len(vectors))


def constant_outputs(vectors: Sequence[TestVector]) -> tuple[str, ...]:
    """Return outputs that are equal in all of several vectors, or at the limits of their type."""
    return tuple(
        name
        for name, first in (vectors[0].outputs if vectors else {}).items()
        if not _values([vector.outputs[name] for vector in vectors])
        or (len(vectors) > 1 and all((first == v.outputs[name]).all() for v in vectors))
    )


def _affordable(network: Network, frames: int) -> int:
    """The number of candidates of so many frames that may be executed."""
    work = frames * (network_multiply_accumulates(network) + 1)
    return max(1, min(CANDIDATES, MOST_WORK // work))


def _ranked(candidates: Iterable[tuple[TestVector, ...]]) -> list[tuple[TestVector, ...]]:
    """The candidates until one has ENOUGH different values of outputs; the most varied first."""
    drawn = []
    for vectors in candidates:
        drawn.append(vectors)
        if _varied(vectors) >= ENOUGH:
            break
    return sorted(drawn, key=_varied, reverse=True)


def _varied(vectors: Sequence[TestVector]) -> int:
    """The number of different values of outputs: of those that are integers, if there are any."""
    outputs = vectors[0].outputs
    integers = [name for name, array in outputs.items() if array.dtype.kind in "iu"]
    return sum(_values([v.outputs[name] for v in vectors]) for name in integers or outputs)


def _values(arrays: Sequence[Array]) -> int:
    """The number of different elements; of integers without the limits of their type."""
    values = np.unique(np.concatenate([array.reshape(-1) for array in arrays]))
    if values.dtype.kind in "iu":
        limits = np.iinfo(values.dtype)
        values = values[(values > limits.min) & (values < limits.max)]
    return len(values)


def _from_random_state(model: Model, states: States, seed: int) -> tuple[TestVector, ...]:
    """Test vectors of FRAMES frames after a random state. states: reachable ones."""
    network, generator = model.network, np.random.default_rng(seed)
    before: States = {}
    for name, roles in states.items():
        layer = network.layer(name)
        # Any sums could overflow: those of frames cannot.
        is_free = layer.operator.frames_per_output == 1
        before[name] = {
            role: _drawn(_whole(generator, array), layer, seed) if is_free else array
            for role, array in roles.items()
        }
    after = {name: dict(roles) for name, roles in before.items()}
    frames = [drawn_frame(network, FRAMES * (seed + 1) + number) for number in range(FRAMES)]
    vectors = vectors_of(model, frames, after)
    return (
        replace(vectors[0], before=before), *vectors[1:-1], replace(vectors[-1], after=after)
    )  # fmt: skip


def _whole(generator: np.random.Generator, like: Array) -> Array:
    """Random integers over the range of a type."""
    limits = np.iinfo(like.dtype)
    return generator.integers(limits.min, limits.max, like.shape, like.dtype, endpoint=True)


def drawn_frame(network: Network, seed: int) -> dict[str, Array]:
    """Return a random frame in the grain and amplitude that the last bits of the seed choose.

    Inputs that are integers without a scale, such as the rows of a table, are random numbers.
    """
    return {
        name: array
        if network.layer(name).quantization is None and network.layer(name).element.is_integer
        else _drawn(array, network.layer(name), seed)
        for name, array in random_frame(network, seed).items()
    }


def _drawn(noise: Array, layer: Layer, seed: int) -> Array:
    """Noise as it is; of odd seeds in blocks, of every second pair of seeds faint, around zero."""
    if seed & 1:
        steps = (-(-size // BLOCKS) for size in noise.shape)
        places = (np.arange(n) // step * step for n, step in zip(noise.shape, steps, strict=True))
        noise = noise[np.ix_(*places)]
    if not seed & 2:
        return noise
    if noise.dtype.kind == "f":
        return noise / np.float32(FAINT)
    types = layer.quantization
    zero = types.zero_point if types is not None and noise.dtype == layer.array_type else 0
    return (zero + (noise.astype(np.int64) - zero) // FAINT).astype(noise.dtype)


SHARE = 2.0**-20  # error of sums in single precision, relative to the range of a tensor
SIGMOID_ERROR = 2.0**-23  # half the difference of two tangents near -1, each off by 1 or 2 steps
TINY = 1e5 * SIGMOID_ERROR  # below this output, SIGMOID_ERROR exceeds the relative tolerance


def tolerances(
    model: Model, frame: Mapping[str, Array], outputs: Mapping[str, Array]
) -> dict[str, float]:
    """Return the permitted difference of each output from its reference; zero for most outputs."""
    tolerances, rounded = _behind_sigmoids(model, outputs), _rounded(model.network)
    if not rounded:
        return tolerances
    for sign in (-1, 1):
        # A layer before each rounding of computed numbers changes them all, up or down.
        share = sign * SHARE
        layers, weights = [], dict(model.weights or {})
        for layer in model.network.layers:
            if layer.name not in rounded:
                layers.append(layer)
                continue
            before = model.network.layer(layer.inputs[0])
            moved = _moved(layer, before, model.network)
            layers += [moved, replace(layer, inputs=(moved.name, *layer.inputs[1:]))]
            # With a known scale, shift by a share of the full range; otherwise multiply.
            types = layer.quantization
            change = 1 + share
            if types is not None:
                change = types.scale * 2 ** (8 * types.element.bytes) * share
            weights[moved.name] = {"constant": np.array([change], np.float32)}
        network = replace(model.network, layers=tuple(layers))
        moved_outputs = run_layer_by_layer(Model(network=network, weights=weights), frame)
        for name, array in moved_outputs.items():
            away = np.abs(array.astype(np.float64) - outputs[name].astype(np.float64))
            tolerances[name] = max(tolerances[name], 2 * float(np.nan_to_num(away).max(initial=0)))
    return tolerances


def _behind_sigmoids(model: Model, outputs: Mapping[str, Array]) -> dict[str, float]:
    """Return the permitted absolute error of tiny sigmoids; zero for all other outputs.

    A sigmoid is computed from a hyperbolic tangent near -1, so its absolute error does not shrink
    with its value.
    """
    errors = dict.fromkeys(outputs, 0.0)
    for name, array in outputs.items():
        layer = model.network.layer(model.network.layer(name).inputs[0])
        last = (layer.operator, *layer.epilogue)[-1]
        is_tiny = array.dtype.kind == "f" and float(np.abs(array).max(initial=0)) < TINY
        if is_tiny and last == op.Activation(function="sigmoid"):
            errors[name] = SIGMOID_ERROR
    return errors


def _rounded(network: Network) -> set[str]:
    """The layers that round floating-point numbers computed by other layers."""
    computed: set[str] = set()
    fed_layers: set[str] = set()
    for layer in network.layers:
        makes_integers = layer.operator.run_time_result == "integers" or (
            layer.operator.converts and layer.quantization is not None
        )
        if makes_integers:
            # Only the first input is rounded; a scale and a zero point may follow it.
            fed_layers |= {layer.name} if layer.inputs[0] in computed else set()
        elif layer.quantization is None and layer.inputs:
            is_exact = layer.operator.converts or layer.operator.moves
            is_fed = not computed.isdisjoint(layer.inputs)
            computed |= {layer.name} if is_fed or layer.epilogue or not is_exact else set()
    return fed_layers


def _moved(layer: Layer, before: Layer, network: Network) -> Layer:
    """A layer between two others that multiplies its input, or adds to it, a constant."""
    name = longer_name(f"before {layer.name}", {layer.name for layer in network.layers}, by="'")
    function = "multiply" if layer.quantization is None else "add"
    operator = op.Elementwise(function=function, constant=(1,))
    return Layer(
        name=name,
        operator=operator,
        inputs=(before.name,),
        shape=before.shape,
        element=before.element,
    )
