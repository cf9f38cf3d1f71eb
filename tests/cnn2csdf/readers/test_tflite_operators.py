"""Operators of quantised TensorFlow Lite files, bit by bit as the kernels of TensorFlow Lite Micro.

tflite_micro_outputs.json holds checksums of what the package tflite-micro 0.dev20261023182759 gave
for the files and frames of tflite_cases.py. Where that package is installed, more are compared.
"""

import json
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest

from cnn2csdf.dtypes import Runtime
from cnn2csdf.execution.layer_by_layer import run_layer_by_layer
from cnn2csdf.execution.streaming_executor import run_row_by_row
from cnn2csdf.granularity import ROWS
from cnn2csdf.lowering import lower
from cnn2csdf.readers.tflite.reader import parse_tflite
from csdf.analysis.bound_channels import with_capacities
from csdf.analysis.self_timed import self_timed_execution
from csdf.search.trade_off import smallest_storage
from tests.cnn2csdf.readers.tflite_cases import NAMES, case

RECORDED = json.loads((Path(__file__).parent / "tflite_micro_outputs.json").read_text())
SEEDS = range(4)
# Files of which LiteRT's kernel of fully connected layers gives other bytes than that of TensorFlow
# Lite Micro, and checksums of what the reference kernels of ai-edge-litert 2.3 gave.
IN_LITERT = {
    72: 2904388928, 88: 2677172796, 97: 3046838154, 104: 2028394364, 296: 2932268323,
    347: 2296610092, 433: 2131636832, 435: 572014710, 479: 2541847015,
}  # fmt: skip
SHORT_IN_LITERT = {  # the same of int16, where TensorFlow Lite Micro multiplies with 16 bits
    "FULLY_CONNECTED": {
        6: 676082311, 10: 2080518553, 17: 1375304940, 25: 1944555312, 45: 2673817814,
        46: 1991660346, 50: 2497794033,
    },
    "FULLY_CONNECTED of vectors": {0: 3220053797, 2: 1192045590, 4: 3709969876, 6: 4184158235},
}  # fmt: skip
ROUNDED_ONCE = [
    *(("FULLY_CONNECTED of vectors", "int8", *pair) for pair in IN_LITERT.items()),
    *((kind, "int16", *pair) for kind, sums in SHORT_IN_LITERT.items() for pair in sums.items()),
]
cases = pytest.mark.parametrize(("kind", "dtype"), NAMES, ids=map(" ".join, NAMES))


def frames_of(network, seed):
    """A frame for each input, rows and columns first, as in the file."""
    generator = np.random.default_rng(seed)
    found = []
    for layer in network.inputs:
        dims = layer.shape.dims
        limits = np.iinfo(layer.element.value)
        order = (1, dims[1], dims[2], dims[0]) if len(dims) == 3 else dims
        numbers = generator.integers(limits.min, limits.max + 1, order)
        found.append(numbers.astype(layer.element.value))
    return found


def ours(network, frames):
    return {
        layer.name: (np.moveaxis(one[0], 2, 0) if one.ndim == 4 else one).reshape(layer.shape.dims)
        for layer, one in zip(network.inputs, frames, strict=True)
    }


def theirs(outputs):
    """Outputs with channels last, flat, as bytes."""
    arrays = [np.moveaxis(one, 0, 2) if one.ndim == 3 else one for one in outputs.values()]
    return [np.ascontiguousarray(one).reshape(-1) for one in arrays]


@cases
def test_an_operator_gives_the_recorded_outputs(kind, dtype):
    found = []
    for seed in SEEDS:
        model = parse_tflite(case(kind, dtype, seed), "one.tflite", with_weights=True)
        outputs = run_layer_by_layer(model, ours(model.network, frames_of(model.network, seed)))
        found.append(crc32(b"".join(one.tobytes() for one in theirs(outputs))))
    assert found == RECORDED[f"{kind} {dtype}"]


@pytest.mark.parametrize("runtime", Runtime)
@pytest.mark.parametrize(("kind", "dtype", "seed", "expected"), ROUNDED_ONCE)
def test_sums_of_fully_connected_layers_are_rounded_as_the_runtime_rounds_them(
    kind, dtype, seed, expected, runtime
):
    content = case(kind, dtype, seed)
    model = parse_tflite(content, "one.tflite", with_weights=True, runtime=runtime)
    outputs = run_layer_by_layer(model, ours(model.network, frames_of(model.network, seed)))
    checksum = crc32(b"".join(array.tobytes() for array in theirs(outputs)))
    assert (checksum == expected) is (runtime is Runtime.LITERT)


@cases
def test_an_operator_by_rows_gives_the_whole(kind, dtype):
    model = parse_tflite(case(kind, dtype, 0), "one.tflite", with_weights=True)
    frame = ours(model.network, frames_of(model.network, 0))
    graph = lower(model.network, ROWS)
    bounded = with_capacities(graph, smallest_storage(graph).point.capacities)
    firings = self_timed_execution(bounded, iterations=1).firings
    (found,) = run_row_by_row(model, bounded, firings, [frame]).outputs
    for name, expected in run_layer_by_layer(model, frame).items():
        assert np.array_equal(found[name], expected)


@cases
def test_an_operator_gives_what_the_installed_kernels_give(kind, dtype):
    runtime = pytest.importorskip(
        "tflite_micro.python.tflite_micro.runtime",
        reason="needs tflite-micro (a pre-release: pip install --pre tflite-micro)",
    )
    for seed in range(10, 20):
        content = case(kind, dtype, seed)
        interpreter = runtime.Interpreter.from_bytes(content, arena_size=1 << 20)
        model = parse_tflite(content, "one.tflite", with_weights=True)
        frames = frames_of(model.network, seed)
        for place, frame in enumerate(frames):
            dims = tuple(interpreter.get_input_details(place)["shape"])
            interpreter.set_input(frame.reshape(dims), place)
        interpreter.invoke()
        outputs = run_layer_by_layer(model, ours(model.network, frames))
        for place, found in enumerate(theirs(outputs)):
            assert np.array_equal(found, interpreter.get_output(place).reshape(-1))
