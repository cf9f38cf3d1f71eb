"""Real networks, by rows in the smallest buffers, beside ONNX Runtime on the same ONNX file."""

import numpy as np
import pytest

from cnn2csdf.catalogue.networks import CATALOGUE, from_catalogue
from cnn2csdf.execution.calibration import calibrated_weights
from cnn2csdf.execution.compare import random_frames
from cnn2csdf.execution.streaming_executor import run_row_by_row
from cnn2csdf.granularity import ROWS
from cnn2csdf.lowering import lower
from cnn2csdf.simplify import REWRITES
from cnn2csdf.weights import Model
from csdf.analysis.bound_channels import with_capacities
from csdf.analysis.self_timed import self_timed_execution
from csdf.search.trade_off import smallest_storage

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from cnn2csdf.onnx_files.reader import read_onnx
from cnn2csdf.onnx_files.runtime import exact_session
from cnn2csdf.onnx_files.writer import onnx_bytes
from tests.cnn2csdf.onnx_models import NETWORKS, network_with_random_weights

# The deepest of each family; the rest of a family has the same kinds of layers.
LEFT_OUT = ("vgg16", "vgg19", "resnet34", "resnet50", "inception_v2", "zfnet512", "yolo_v2")
SMALL = {  # of the full size in the paper only where that is small; large maps add nothing new
    "alexnet": "resolution=67",
    "keyword_spotting": "",
    "samos_example": "",
    "squeezenet1_0": "resolution=99",
    "tiny_yolo_v2": "resolution=96",
    "yolo_v2_beginning": "resolution=96",
}


def by_rows(model, frames):
    """The outputs of the frames, run in the smallest buffers; each proved to suffice by the run."""
    graph = lower(model.network, ROWS)
    found = smallest_storage(graph)
    assert found.status == "optimal"
    bounded = with_capacities(graph, found.point.capacities)
    firings = self_timed_execution(bounded, iterations=len(frames)).firings
    return run_row_by_row(model, bounded, firings, frames).outputs


def by_runtime(model, network, frames):
    """The outputs by ONNX Runtime, by the order of outputs; model: a path or bytes."""
    session = exact_session(model)
    names = [one.name for one in session.get_inputs()]
    for frame in frames:
        given = {
            name: frame[layer.name][None] for name, layer in zip(names, network.inputs, strict=True)
        }
        yield session.run(None, given)


def assert_equal(model, original, frames):
    found = by_rows(model, frames)
    outputs = [layer.name for layer in model.network.outputs]
    for ours, theirs in zip(found, by_runtime(original, model.network, frames), strict=True):
        for name, tensor in zip(outputs, theirs, strict=True):
            # Not all alike: an output of one value would agree whatever the rows were.
            assert np.std(tensor) > 1e-3 * np.abs(tensor).max()
            difference = np.abs(ours[name] - tensor.reshape(ours[name].shape)).max()
            assert difference < 2e-4 * np.abs(tensor).max()


@pytest.mark.slow
@pytest.mark.parametrize("name", [one for one in NETWORKS if one not in (*LEFT_OUT, "densenet121")])
def test_networks_of_the_onnx_package(name, tmp_path):
    path = network_with_random_weights(name, tmp_path)
    model = REWRITES["eliminate-nop"](read_onnx(path, with_weights=True))
    assert_equal(model, path, random_frames(model.network, 1, seed=2))


@pytest.mark.slow
@pytest.mark.parametrize("name", [one for one in CATALOGUE if one not in LEFT_OUT])
def test_networks_of_the_catalogue(name):
    arguments = SMALL.get(name, "resolution=64")
    network = from_catalogue(f"{name}:{arguments}" if arguments else name)
    model = Model(network=network, weights=calibrated_weights(network, 1))
    assert_equal(model, onnx_bytes(model), random_frames(network, 1, seed=2))
