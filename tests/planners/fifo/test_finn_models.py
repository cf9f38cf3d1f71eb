import json
import runpy
from fractions import Fraction
from itertools import product

import onnx
import pytest
from onnx import TensorProto, helper

from csdf.errors import UnreadableFile
from csdf.search.memory_cost import blocks
from planners.fifo.cores import FifoCore, cost, split_cores, whole_core, with_cores
from planners.fifo.event_graph import EventGraph
from planners.fifo.finn.nodes import FinnNode
from planners.fifo.finn.reading import fifo_depths, folding_text, read_design, read_folding
from planners.fifo.sizing import smallest_depths
from planners.fifo.study import automatic_depths, max_rate, period_of, study
from planners.fifo.timing.cluster import TimingOptions
from tests.planners.fifo.designs import RESIDUAL, ROOT, cluster, fork
from tests.planners.fifo.handshakes import Times, cluster_rules
from tests.shared_data import SHARED, each

DESIGNS = SHARED / "fifo"
MODELS = sorted(DESIGNS.glob("*.onnx*"))
NO_DESIGNS = pytest.mark.skipif(not MODELS, reason=f"real designs of FINN are not in {DESIGNS}")
OPTIONS = TimingOptions()


def layer_of(design, name):
    return next(layer for layer in design.layers if layer.name == name)


def written(tmp_path, *nodes, inputs=("x",), outputs=("y",)):
    """A model file of these nodes."""
    ends = [
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in names]
        for names in (inputs, outputs)
    ]
    model = helper.make_model(helper.make_graph(nodes, "drawn", *ends))
    onnx.save(model, str(tmp_path / "drawn.onnx"))
    return str(tmp_path / "drawn.onnx")


def hardware(op_type, inputs, outputs, name=None, **attributes):
    domain = "finn.custom_op.fpgadataflow"
    return helper.make_node(op_type, inputs, outputs, name=name, domain=domain, **attributes)


def thresholding(inputs, outputs, name, **more):
    attributes = {"NumChannels": 8, "numInputVectors": [1, 4], "numSteps": 3} | more
    return hardware("Thresholding_rtl", inputs, outputs, name, **attributes)


def test_the_model_of_the_page_is_what_its_script_writes():
    script = runpy.run_path(str(ROOT / "models" / "fifo" / "make_residual.py"))
    assert onnx.load(RESIDUAL).graph == script["model"]().graph


def test_unknown_operators_are_all_named_in_one_message(tmp_path):
    path = written(
        tmp_path,
        thresholding(["x"], ["a"], "t"),
        hardware("Wonder_hls", ["a"], ["b"], "w1"),
        helper.make_node("Conv", ["b"], ["y"], name="c1"),
    )
    with pytest.raises(UnreadableFile, match=r"'w1' \(Wonder_hls\), 'c1' \(Conv\)"):
        read_design(path, OPTIONS)


def test_a_missing_attribute_is_named_with_its_node(tmp_path):
    path = written(tmp_path, hardware("FMPadding_rtl", ["x"], ["y"], "pad"))
    with pytest.raises(UnreadableFile, match=r"'pad' \(FMPadding_rtl\) has no attribute 'ImgDim'"):
        read_design(path, OPTIONS)


def test_a_fold_that_does_not_divide_is_named(tmp_path):
    path = written(tmp_path, thresholding(["x"], ["y"], "t", PE=3))
    with pytest.raises(UnreadableFile, match="PE=3 does not divide NumChannels=8"):
        read_design(path, OPTIONS)


@pytest.mark.parametrize(
    ("operator", "attributes"),
    [
        ("Concat", {"ChannelsPerStream": ()}),
        ("Concat", {"ChannelsPerStream": (2, 2, 2), "inputDataTypes": ("INT8", "INT8")}),
        ("AddStreams", {"NumChannels": 2, "inputDataTypes": ()}),
        ("DownSampler", {"ImgDim": (4, 4), "Stride": (10**20, 1), "NumChannels": 1}),
        ("DownSampler", {"ImgDim": (4, 4, 4), "NumChannels": 1}),
    ],
)
def test_empty_and_huge_attributes_are_refused(operator, attributes):
    with pytest.raises(UnreadableFile, match=f"node 'one' .{operator}"):
        cluster(operator, "hls", **attributes)


def test_a_partition_names_the_file_that_has_the_layers(tmp_path):
    node = hardware("StreamingDataflowPartition", ["x"], ["y"], "p", model="child.onnx")
    with pytest.raises(UnreadableFile, match=r"the layers are in child\.onnx"):
        read_design(written(tmp_path, node), OPTIONS)


def test_a_network_is_no_design(tmp_path):
    path = written(tmp_path, helper.make_node("Relu", ["x"], ["y"]))
    with pytest.raises(UnreadableFile, match="a network, not a design"):
        read_design(path, OPTIONS)


def test_older_names_of_operators_mean_the_same(tmp_path):
    attributes = {"MW": 8, "MH": 4, "SIMD": 2, "PE": 1, "inputDataType": "INT2"}
    path = written(tmp_path, hardware("StreamingFCLayer_Batch", ["x"], ["y"], "f", **attributes))
    cluster = read_design(path, OPTIONS).layers[0].cluster
    assert (cluster.inputs[0].words, cluster.outputs[0].words) == (4, 4)


def test_a_width_converter_is_put_where_the_widths_need_one(tmp_path):
    path = written(
        tmp_path, thresholding(["x"], ["a"], "one"), thresholding(["a"], ["y"], "two", PE=4)
    )
    design = read_design(path, OPTIONS)
    assert [layer.kind for layer in design.layers] == [
        "Thresholding_rtl", "Thresholding_rtl", "StreamingDataWidthConverter",
    ]  # fmt: skip
    assert [(fifo.words, fifo.bits) for fifo in design.fifos] == [(32, 8), (8, 32)]


def test_fifo_nodes_in_a_row_are_one_fifo_with_their_depths_together(tmp_path):
    path = written(
        tmp_path,
        thresholding(["x"], ["a"], "one"),
        hardware("StreamingFIFO_rtl", ["a"], ["b"], "f0", depth=32),
        hardware("StreamingFIFO_rtl", ["b"], ["c"], "f1", depth=4),
        thresholding(["c"], ["y"], "two"),
    )
    (fifo,) = read_design(path, OPTIONS).fifos
    assert (fifo.given, fifo.nodes) == (36, ("f0", "f1"))


def test_fifo_nodes_of_depth_two_are_looked_at_as_given(tmp_path):
    path = written(
        tmp_path,
        thresholding(["x"], ["a"], "one"),
        hardware("StreamingFIFO_rtl", ["a"], ["b"], "f0", depth=2),
        thresholding(["b"], ["y"], "two"),
    )
    found = study(read_design(path, OPTIONS))
    assert found.as_given is not None
    assert found.as_given.depths == found.at_depth_2.depths == (2,)


def test_a_folding_changes_layers_and_the_converters_between_them(tmp_path):
    path = written(
        tmp_path,
        thresholding(["x"], ["a"], "one"),
        hardware("StreamingDataWidthConverter_rtl", ["a"], ["b"], "StreamingDataWidthConverter_rtl_0",
                 shape=[1, 4, 8], inWidth=8, outWidth=16, dataType="INT8"),
        thresholding(["b"], ["y"], "two", PE=2),
    )  # fmt: skip
    design = read_design(path, OPTIONS, {"two": {"PE": 4}})
    assert [fifo.words for fifo in design.fifos] == [32, 8]


def test_a_folding_of_another_model_is_refused(tmp_path):
    path = written(tmp_path, thresholding(["x"], ["y"], "one"))
    with pytest.raises(UnreadableFile, match=r"'MVAU_hls_7'.*belongs to another model"):
        read_design(path, OPTIONS, {"MVAU_hls_7": {"PE": 2}})


@pytest.mark.parametrize(
    ("name", "bits"),
    [("FLOAT<5,10>", 16), ("FLOAT<5, 10, 15>", 16), ("FIXED<8, -2>", 8), ("SCALEDINT<4>", 4)],
)
def test_data_types_of_qonnx_have_widths(name, bits):
    node = FinnNode(
        name="n", operator="MVAU", style="", written="MVAU", attributes={}, inputs=(), outputs=()
    )
    assert node.type_bits(name) == bits
    with pytest.raises(UnreadableFile, match="not one of QONNX"):
        node.type_bits(name.replace(">", ",>"))


@pytest.mark.parametrize(
    ("depth", "row"),
    [
        (0, [("rtl", 2)]),
        # FINN's documentation of SplitLargeFIFOs, as the design notes give it.
        (257, [("rtl", 256), ("rtl", 2)]),
        (300, [("rtl", 256), ("rtl", 44)]),
        (1000, [("vivado", 512), ("rtl", 256), ("rtl", 232)]),
        (8196, [("vivado", 8192), ("rtl", 4)]),
        (40000, [("vivado", 32768), ("vivado", 4096), ("vivado", 2048), ("vivado", 1024), ("rtl", 64)]),
    ],
)  # fmt: skip
def test_large_fifos_are_split_as_by_finn(depth, row):
    assert [(core.style, core.depth) for core in split_cores(depth)] == row


def test_a_whole_core_holds_a_power_of_two_beyond_256():
    assert whole_core(0) == (FifoCore(style="rtl", depth=2),)
    assert whole_core(256) == (FifoCore(style="rtl", depth=256),)
    assert whole_core(257) == (FifoCore(style="vivado", depth=512),)
    assert sum(core.depth for core in whole_core(40000)) >= 40000


def test_costs_agree_with_finn():
    # ceil(64 / 32) * ceil(16 / 2) LUTs and 2 * ceil(log2 64) for the address.
    assert cost(FifoCore(style="rtl", depth=64), 12).luts == 2 * 8 + 12
    assert blocks(512, 36) == 1
    assert blocks(1024, 36) == 2  # two of 18 bits side by side
    # Both ends count to 4096 in 12 bits; words are 16 bits on the wire: 4 memories of 1024 by 18 bits.
    assert cost(FifoCore(style="vivado", depth=4096), 12) == (2 * 12, 4)


def test_a_chain_of_cores_has_the_sum_of_their_depths():
    design = fork()
    one = [
        (FifoCore(style="rtl", depth=9),)
        if fifo.name == "fork to sum"
        else (FifoCore(style="rtl", depth=2),)
        for fifo in design.fifos
    ]
    rows = [
        (FifoCore(style="rtl", depth=5), FifoCore(style="rtl", depth=4))
        if len(row) and row[0].depth == 9
        else row
        for row in one
    ]
    periods = []
    for cores in (one, rows):
        changed, depths = with_cores(design, cores)
        periods.append(period_of(EventGraph(changed), depths).period)
    assert periods[0] <= periods[1]  # a second core costs a cycle, never saves one
    assert sum(depths) == 9 + 2 * 4


def test_the_folding_file_gives_each_stream_one_depth_at_both_ends():
    design = read_design(RESIDUAL, OPTIONS)
    cores = [(FifoCore(style="rtl", depth=number + 2),) for number in range(len(design.fifos))]
    found = json.loads(folding_text(design, cores, {"MVAU_hls_0": {"PE": 2}}))
    assert found["MVAU_hls_0"]["PE"] == 2
    for fifo, (core,) in zip(design.fifos, cores, strict=True):
        start, end = design.layers[fifo.producer].name, design.layers[fifo.consumer].name
        assert found[start]["outFIFODepths"][fifo.output] == core.depth
        assert found[end]["inFIFODepths"][fifo.input] == core.depth


def test_the_depths_that_are_written_are_read_again(tmp_path):
    design = read_design(RESIDUAL, OPTIONS)
    cores = [(FifoCore(style="rtl", depth=number + 3),) for number in range(len(design.fifos))]
    (tmp_path / "folding.json").write_text(folding_text(design, cores))
    again = read_design(RESIDUAL, OPTIONS, read_folding(str(tmp_path / "folding.json")))
    assert [fifo.given for fifo in again.fifos] == [core.depth for (core,) in cores]


def test_a_latency_is_that_of_the_node_before_that_of_the_operator():
    options = TimingOptions(latencies={"Pool": 7, "Pool_hls_0": 9})
    assert options.latency("Pool", "Pool_hls_0") == (9, "")
    assert options.latency("Pool", "Pool_hls_1") == (7, "")
    assert options.latency("AddStreams", "a")[1] == "latency 3"  # a guess says that it is one


@pytest.mark.parametrize(
    ("operator", "attributes", "reads", "writes"),
    [
        ("LabelSelect", {"Labels": 6, "PE": 2, "K": 2}, [3], [2]),
        ("GlobalAccPool", {"NumChannels": 4, "PE": 2, "numInputVectors": (1, 2, 2)}, [8], [2]),
        ("StreamingMaxPool", {"ImgDim": (4, 4), "PoolDim": (2, 2), "NumChannels": 2}, [32], [8]),
        ("UpsampleNearestNeighbour",
         {"HI": 2, "WI": 2, "HO": 4, "WO": 4, "NumChannels": 2, "SIMD": 1}, [8], [32]),
        ("Lookup", {"InputShape": (1, 5), "EmbeddingDim": 3}, [5], [5]),
        ("ChannelwiseOp", {"NumChannels": 4, "PE": 2, "numInputVectors": (1, 3)}, [6], [6]),
        ("Concat", {"ChannelsPerStream": (2, 4), "SIMD": 2, "numInputVectors": (1, 3)}, [3, 6], [9]),
        ("Split", {"ChannelsPerStream": (2, 4), "SIMD": 2, "numInputVectors": (1, 3)}, [9], [3, 6]),
        ("VVAU", {"Channels": 4, "PE": 2, "Kernel": (3, 3), "Dim": (2, 2), "SIMD": 3}, [24], [8]),
        ("DownSampler", {"ImgDim": (4, 4), "Stride": (2, 2), "NumChannels": 2}, [32], [8]),
    ],
)  # fmt: skip
def test_hls_layers_move_as_many_words_as_their_loops_say(operator, attributes, reads, writes):
    outputs = len(writes)
    found = cluster(operator, "hls", outputs, **attributes)
    assert [port.words for port in found.inputs] == reads
    assert [port.words for port in found.outputs] == writes


@pytest.mark.parametrize(
    "lhs", [(3, 2, 4), (1, 2, 4), (3, 1, 4), (3, 2, 1), (1, 1, 1), (4,), (2, 1)]
)
def test_a_broadcast_operand_is_read_where_the_loops_over_its_axes_begin(lhs):
    types = dict.fromkeys(("lhs_dtype", "rhs_dtype", "out_dtype"), "INT8")
    out = (3, 2, 4)
    layer = cluster(
        "ElementwiseMul", "hls", lhs_shape=lhs, rhs_shape=out, out_shape=out, PE=2, **types
    )
    # The loop nest of FINN over folds of PE elements: read if all broadcast axes are at 0.
    own = (1,) * (3 - len(lhs)) + lhs
    steps = list(product(range(3), range(2), range(2)))
    begins = [
        number
        for number, step in enumerate(steps)
        if all(not index or size > 1 for index, size in zip(step, own, strict=True))
    ]
    events = layer.inputs[0].events
    assert (list(range(12)) if events is None else list(events)) == begins
    with pytest.raises(UnreadableFile, match="a lhs_shape of"):
        cluster("ElementwiseMul", "hls", lhs_shape=(2,), rhs_shape=out, out_shape=out, **types)


def test_a_longer_latency_delays_writes_and_not_the_rate():
    slow = TimingOptions(latencies={"MVAU": 40})
    design, other = read_design(RESIDUAL, OPTIONS), read_design(RESIDUAL, slow)
    assert max_rate(EventGraph(design)) == max_rate(EventGraph(other))
    one = layer_of(design, "MVAU_hls_0").cluster
    two = layer_of(other, "MVAU_hls_0").cluster
    first, second = Times(cluster_rules(one), {}), Times(cluster_rules(two), {})
    # The guess is 5 and two levels of the adder tree of SIMD 4.
    assert second(1, 0) - first(1, 0) == 40 - 7


# What FINN's RTL needed in simulation, beside its estimate (the notes on real designs).
SIMULATED = {
    "resnet_small_t2500.onnx": {
        "ConvolutionInputGenerator_rtl_0": (2343, 2336),
        "ConvolutionInputGenerator_rtl_3": (2050, 2048),
        "ConvolutionInputGenerator_rtl_4": (2460, 2430),
        "ConvolutionInputGenerator_rtl_5": (2396, 2362),
        "ConvolutionInputGenerator_rtl_6": (1552, 1347),
    },
    "mobilenet_small_t20000.onnx": {"ConvolutionInputGenerator_rtl_4": (1879, 1623)},
}


@each("name", [name for name in SIMULATED if (DESIGNS / name).exists()])
def test_layers_need_the_cycles_that_their_rtl_needs(name):
    design = read_design(str(DESIGNS / name), OPTIONS)
    graph = EventGraph(design)
    max_rate(graph)
    for layer, (estimate, cycles) in SIMULATED[name].items():
        number = design.layers.index(layer_of(design, layer))
        assert (design.layers[number].estimate, graph.alone[number]) == (estimate, cycles)


@pytest.mark.slow
@each("model", MODELS)
def test_real_designs_have_depths_without_deadlock_that_are_proved_the_smallest(model):
    graph = EventGraph(read_design(str(model), OPTIONS))
    found = smallest_depths(graph, None)
    assert found.status == "optimal"
    assert period_of(graph, found.depths).period is not None


LONG = ("cnv_", "resnet_small_unf")  # a proof that takes minutes, or some seconds


@pytest.mark.slow
@each("model", [one for one in MODELS if not one.name.startswith(LONG)])
def test_depths_of_real_designs_are_proved_the_smallest_at_max_rate(model):
    graph = EventGraph(read_design(str(model), OPTIONS))
    full, _ = max_rate(graph)
    found = smallest_depths(graph, full)
    assert (found.status, found.lower_bound) == ("optimal", found.cost)
    assert period_of(graph, found.depths).period == full
    assert found.cost <= graph.design.bits(automatic_depths(graph, full))


@pytest.mark.slow
@NO_DESIGNS
def test_the_residual_design_needs_no_fewer_bits_than_cuts_of_single_depths_prove():
    # A search that knew no sums of depths had found 3114 bits, and proved that 3072 are needed.
    graph = EventGraph(read_design(str(DESIGNS / "resnet_small_t20000.onnx"), OPTIONS))
    full, _ = max_rate(graph)
    assert 3072 <= smallest_depths(graph, full).cost < 3114


@NO_DESIGNS
def test_the_residual_design_deadlocks_on_its_bypass_in_depth_two():
    design = read_design(str(DESIGNS / "resnet_small_t2500.onnx"), OPTIONS)
    cycle = period_of(EventGraph(design), [2] * len(design.fifos))
    assert cycle.period is None
    assert [design.fifos[one].name for one in cycle.fifos] == [
        "DuplicateStreams_hls_0 to ElementwiseAdd_hls_0"
    ]


CONFIGURATIONS = {  # FIFO nodes, words in all, the largest: counted in the notes on real designs
    "finnplus_resnet50_U250_folding_config_live_fifo.json": (266, 122960, 8200),
    "finnplus_mobilenetv1_ZCU102_folding_config_live_fifo.json": (142, 7198, 2056),
}


@each("name", [name for name in CONFIGURATIONS if (DESIGNS / name).exists()])
def test_depth_files_of_full_size_builds_are_read(name):
    depths = fifo_depths(read_folding(str(DESIGNS / name)))
    assert (len(depths), sum(depths.values()), max(depths.values())) == CONFIGURATIONS[name]


def test_a_rate_between_has_a_size_between():
    graph = EventGraph(read_design(RESIDUAL, OPTIONS))
    full, _ = max_rate(graph)
    sizes = [smallest_depths(graph, one).cost for one in (None, Fraction(3000), full)]
    assert sizes == sorted(sizes)
