"""The step for FINN: depths in the model that keep the rate, at both ends of each stream."""

import copy
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from csdf.errors import UnreadableFile
from planners.fifo.event_graph import EventGraph
from planners.fifo.finn.reading import read_design
from planners.fifo.study import automatic_depths, max_rate, period_of
from planners.fifo.timing.cluster import TimingOptions
from planners.integrations.finn import METADATA, step_csdf_fifo_depths
from tests.shared_data import SHARED, each

RESIDUAL = Path(__file__).parents[3] / "models" / "fifo" / "residual.onnx"
CONFIGURATION = SimpleNamespace(synth_clk_period_ns=5.0, fpga_part="xc7z020clg400-1")
QUICK = ("tfc_w2a2_t100", "tfc_w2a2_t1000", "mobilenet_small_unfolded", "resnet_small_t2500_fifos")
FILES = [SHARED / "fifo" / f"{name}.onnx" for name in QUICK]


class Wrapped:
    """A model as qonnx wraps it, as far as a step uses it."""

    def __init__(self, model):
        self.model = model

    @property
    def graph(self):
        return self.model.graph

    def set_metadata_prop(self, key, value):
        self.model.metadata_props.add(key=key, value=value)

    def get_metadata_prop(self, key):
        return next(one.value for one in self.model.metadata_props if one.key == key)

    def save(self, path):
        path.write_bytes(self.model.SerializeToString())


def require_depths(found, tmp_path):
    """The saved model keeps the max. rate in the depths that it gives, in no more than FINN's rule."""
    path = tmp_path / "made.onnx"
    found.save(path if isinstance(found, Wrapped) else str(path))
    design = read_design(str(path), TimingOptions(clock_ns=5.0))
    graph = EventGraph(design)
    summary = json.loads(found.get_metadata_prop(METADATA))
    smallest = [summary["depths"][fifo.name] for fifo in design.fifos]
    # Behind a converter that FINN has yet to insert, the file has no depth to read.
    given = [
        one if fifo.given is None else fifo.given
        for one, fifo in zip(smallest, design.fifos, strict=True)
    ]
    depths = [max(pair) for pair in zip(given, smallest, strict=True)]
    assert depths == given
    assert period_of(graph, depths).period == max_rate(graph)[0]
    assert str(max_rate(graph)[0]) == summary["period_cycles"]
    assert design.bits(smallest) == summary["bits"]
    assert summary["bits"] <= design.bits(automatic_depths(graph, max_rate(graph)[0]))


def test_a_model_gets_depths_and_stays_as_it_was(tmp_path):
    onnx = pytest.importorskip("onnx")
    model = Wrapped(onnx.load(RESIDUAL))
    before = copy.deepcopy(model.model)
    found = step_csdf_fifo_depths(model, CONFIGURATION)
    assert model.model == before
    require_depths(found, tmp_path)
    ends = {
        node.name: {a.name: list(a.ints) for a in node.attribute if a.name.endswith("FIFODepths")}
        for node in found.graph.node
    }
    # The short way of the fork holds what the sum waits for.
    assert 42 in ends["DuplicateStreams_hls_0"]["outFIFODepths"]
    assert 42 in ends["ElementwiseAdd_hls_0"]["inFIFODepths"]


def test_a_model_without_hardware_layers_is_refused_without_a_path():
    onnx = pytest.importorskip("onnx")
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Relu", ["x"], ["y"], "relu")],
        "net",
        [onnx.helper.make_tensor_value_info("x", 1, [1])],
        [onnx.helper.make_tensor_value_info("y", 1, [1])],
    )
    with pytest.raises(UnreadableFile, match=r"^the model: no hardware layer of FINN"):
        step_csdf_fifo_depths(Wrapped(onnx.helper.make_model(graph)), CONFIGURATION)


@pytest.mark.slow
@each("path", [path for path in FILES if path.exists()])
def test_the_shared_designs_get_depths_through_qonnx(path, tmp_path):
    wrapper = pytest.importorskip(
        "qonnx.core.modelwrapper", reason="needs qonnx (pip install qonnx)"
    )
    require_depths(step_csdf_fifo_depths(wrapper.ModelWrapper(str(path)), CONFIGURATION), tmp_path)
