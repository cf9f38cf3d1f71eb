"""The int8 network of the README: the same file each time, all of it int8, and ONNX Runtime runs it."""

import runpy
from pathlib import Path

import numpy as np
import pytest

import cnn2csdf
from cnn2csdf.parameters import multiply_accumulates

SCRIPT = Path(__file__).parents[2] / "models" / "networks" / "make_int8.py"
onnx = pytest.importorskip("onnx")


def written():
    return runpy.run_path(str(SCRIPT))["network"]().SerializeToString()


def test_the_example_network_is_int8_and_the_same_each_time(tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(written())
    assert path.read_bytes() == written()
    network = cnn2csdf.read_model(path).network
    real = [layer.name for layer in network.layers if layer.array_type != "int8"]
    assert real == ["features", "words_out", "words_out output"]  # in float, as ONNX has its ends
    macs = sum(multiply_accumulates(layer, network.input_shapes(layer)) for layer in network.layers)
    pixels, channels = 25 * 5, 64
    blocks = 4 * pixels * channels * (9 + channels)
    assert macs == pixels * channels * 40 + blocks + channels * 12


def test_onnx_runtime_runs_the_example_network_without_saturation(tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(written())
    features = np.random.default_rng(3).normal(0, 1, (8, 1, 1, 49, 10)).astype(np.float32)
    outputs = np.concatenate([session.run(None, {"features": frame})[0] for frame in features])
    assert len(np.unique(outputs, axis=0)) == 8  # the answer depends on the features
    assert np.abs(outputs).max() < 4  # of the 4.016 that int8 can hold
