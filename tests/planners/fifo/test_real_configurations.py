"""A real build beside our model of it: MobileNetV1 on a ZCU102, its FIFOs sized on the device."""

import json

import pytest

from planners.fifo.evaluator import DesignEvaluator
from planners.fifo.event_graph import EventGraph
from planners.fifo.finn.reading import read_design, read_folding
from planners.fifo.sizing import least_depth
from planners.fifo.study import max_rate
from planners.fifo.timing.cluster import TimingOptions
from tests.planners.fifo.real_mobilenet import Chain, real_depths
from tests.shared_data import SHARED

FILE = SHARED / "fifo" / "finnplus_mobilenetv1_ZCU102_folding_config_live_fifo.json"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not FILE.exists(), reason=f"the real configuration is not at {FILE}"),
]


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    """The design of the network's layers in that folding, and the depths of the build."""
    onnx = pytest.importorskip("onnx")
    configuration = json.loads(FILE.read_text())
    file = tmp_path_factory.mktemp("real") / "mobilenet.onnx"
    onnx.save(Chain(configuration).model(), file)
    design = read_design(str(file), TimingOptions(), read_folding(str(FILE)))
    return design, real_depths(configuration)[1:-1]  # but those at the input and the output


def test_the_layers_of_the_network_fit_the_nodes_of_the_build(build):
    # Every FIFO joins ports with equally many words, or there was no design at all.
    design, depths = build
    assert len(design.fifos) == len(depths) == 140
    # Thresholds one by one behind the first convolution: 111 x 111 pixels of 32 channels, fed by a
    # converter, which makes one word in a cycle. No other layer is slower.
    full, slowest = max_rate(EventGraph(design))
    assert (full, design.layers[slowest].name) == (111 * 111 * 32, "StreamingDataWidthConverter_1")


def test_the_deep_fifos_of_the_build_are_those_that_need_it(build):
    # Two FIFOs of the build have more than 256 words where one alone has to be deep in our model.
    # That is a bound from below, for all others are without end: what runs on the device has more.
    design, depths = build
    graph = EventGraph(design)
    evaluator = DesignEvaluator(graph, required=max_rate(graph)[0])
    deep = [number for number, depth in enumerate(depths) if depth > 1500]
    assert [design.layers[design.fifos[one].consumer].name for one in deep] == [
        "FMPadding_rtl_0", "FMPadding_rtl_1",
    ]  # fmt: skip
    for number in deep:
        assert 1500 < least_depth(evaluator, number) <= depths[number]
