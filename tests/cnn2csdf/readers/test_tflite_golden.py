"""Models of the field: golden outputs of TensorFlow Lite Micro's reference kernels, bit by bit."""

import numpy as np
import pytest

from cnn2csdf.execution.layer_by_layer import run_layer_by_layer
from cnn2csdf.execution.streaming_executor import run_row_by_row
from cnn2csdf.granularity import ROWS
from cnn2csdf.lowering import lower
from cnn2csdf.readers.model_files import read_model
from cnn2csdf.readers.tflite.reader import parse_tflite
from cnn2csdf.simplify import simplified
from csdf.analysis.bound_channels import with_capacities
from csdf.analysis.self_timed import self_timed_execution
from csdf.errors import UnsupportedOperator
from csdf.search.trade_off import smallest_storage
from tests.cnn2csdf.readers.tflite_models import with_state_reset
from tests.shared_data import SHARED, each

FOLDER = SHARED / "networks" / "tflite"
REFUSED = {  # by name, and why
    "audio_preprocessor_int8": "CUSTOM:'SignalRfft'",
}
STATEFUL = {  # of whose outputs each is that of the first invocation
    "dtln_int8",
    "keyword_scrambled_8bit",
    "mnist_lstm_int8",
}
NAMES = sorted(path.stem for path in FOLDER.glob("*.tflite"))
HYBRID = ("kws_fp32",)  # TensorFlow Lite Micro refuses it; see test_tflite_hybrid
READ = [name for name in NAMES if name not in REFUSED and name not in HYBRID]


def golden_model(name):
    path = FOLDER / f"{name}.tflite"
    content = with_state_reset(path) if name in STATEFUL else path.read_bytes()
    return parse_tflite(content, str(path), with_weights=True)


def frames_and_outputs(name, network):
    """The golden inputs by layer, and for each the golden outputs; channels first."""
    golden = np.load(FOLDER / "golden" / f"{name}.npz")
    frames = [
        {
            layer.name: in_our_order(golden[f"x{place}_{frame}"], layer.shape.dims)
            for place, layer in enumerate(network.inputs)
        }
        for frame in range(3)
    ]
    outputs = [
        {
            layer.name: in_our_order(golden[f"tflm{place}_{frame}"], layer.shape.dims)
            for place, layer in enumerate(network.outputs)
        }
        for frame in range(3)
    ]
    return frames, outputs


def in_our_order(array, dims):
    return (np.moveaxis(array[0], 2, 0) if array.ndim == 4 else array).reshape(dims)


def assert_golden(found, expected, network):
    computes_integers = any(layer.quantization is not None for layer in network.layers)
    for name, wanted in expected.items():
        if computes_integers:
            assert np.array_equal(found[name], wanted)
        else:  # sums in another order
            largest = max(1, np.abs(wanted).max())
            np.testing.assert_allclose(found[name], wanted, atol=1e-6 * largest)


@each("name", READ)
def test_a_whole_network_gives_the_golden_outputs(name):
    model = golden_model(name)
    frames, outputs = frames_and_outputs(name, model.network)
    for frame, expected in zip(frames, outputs, strict=True):
        assert_golden(run_layer_by_layer(model, frame), expected, model.network)


@each("name", READ)
def test_a_network_by_rows_in_its_smallest_buffers_gives_the_golden_outputs(name):
    model = golden_model(name)
    frames, outputs = frames_and_outputs(name, model.network)
    graph = lower(model.network, ROWS)
    bounded = with_capacities(graph, smallest_storage(graph).point.capacities)
    firings = self_timed_execution(bounded, iterations=len(frames)).firings
    run = run_row_by_row(model, bounded, firings, frames)
    for found, expected in zip(run.outputs, outputs, strict=True):
        assert_golden(found, expected, model.network)


@each("name", [name for name in NAMES if name in REFUSED])
def test_what_is_not_supported_is_said_by_name(name):
    with pytest.raises(UnsupportedOperator, match=REFUSED[name]):
        read_model(FOLDER / f"{name}.tflite")


ATTENTION = SHARED / "networks" / "attention"


@each("name", sorted(path.stem for path in ATTENTION.glob("*.tflite")))
@pytest.mark.parametrize(
    "count", [2, pytest.param(12, marks=pytest.mark.slow)], ids="{} frames".format
)
def test_an_encoder_gives_the_bytes_of_tensorflow_lite_micro(name, count):
    path = ATTENTION / f"{name}.tflite"
    read = parse_tflite(path.read_bytes(), str(path), with_weights=True)
    golden, (source,) = np.load(ATTENTION / f"{name}_tflm.npz"), read.network.inputs
    for kind in ("random", "walk"):
        for frame, wanted in zip(golden[f"x_{kind}"][:count], golden[f"y_{kind}"], strict=False):
            given = {source.name: frame.reshape(source.shape.dims)}
            for model in (read, simplified(read)):
                (found,) = run_layer_by_layer(model, given).values()
                assert np.array_equal(found.reshape(wanted.shape), wanted)
