"""Predicted instructions of emitted C, beside what QEMU counts of models that nothing was fitted to."""

import re
from dataclasses import replace
from fractions import Fraction

import pytest

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.catalogue.networks import from_catalogue
from cnn2csdf.dtypes import Element, Quantization, Stored
from cnn2csdf.instructions import loops, tabulated_loops, work
from cnn2csdf.platforms import NANOSECONDS, PLATFORMS, platform_named
from cnn2csdf.readers.model_files import read_model
from cnn2csdf.simplify import simplified
from cnn2csdf.streams import as_stream
from cnn2csdf.weights import Model, random_weights
from csdf.errors import CsdfError
from planners.memory.answer import LINES, PLAIN, SEARCHED, STRIPS, TWICE
from planners.memory.fit import fit
from planners.memory.loaded_plan import layer_times
from planners.memory.stages import StageTable
from planners.memory.times import frame_loops, group_loops, stage_loops
from planners.plan.plan import Stage
from tests.benchmarks.instruction_samples import drawn
from tests.docs.pages import ROOT
from tests.planners.memory.gated import gated_block
from tests.shared_data import SHARED

CORES = ("cortex-m4", "cortex-m55", "cortex-m0plus", "hazard3")  # as the columns of the page
PLANS = ("layer by layer", "row by row", "least")
FILES = ("ad01_int8", "micro_speech_int8", "hello_world_int8", "keyword_scrambled_8bit")
STREAMS = ("mww_v1_okay_nabu", "mww_v2x_okay_computer", "made_residual_begin0")
LARGE = (
    "mcunet_vww1_int8",
    "kws_int8",
    "person_detect_int8",
    "ic_resnet8_int8",
    "ic_resnet8_fp32",
    "dtln_int8",
)


def counted():
    """Instructions by model, platform and plan: the table of the page, which QEMU counted."""
    text = (ROOT / "docs/firmware-measured.md").read_text()
    rows = re.findall(r"^\| (\w+) \| (.*%) \|$", text[text.index("## Predicted times") :], re.M)
    found = {}
    for model, cells in rows:
        for platform, cell in zip(CORES, cells.split(" | "), strict=True):
            numbers = (1000 * Fraction(one.split()[0].replace(",", "")) for one in cell.split(", "))
            found |= {
                (model, platform, plan): one for plan, one in zip(PLANS, numbers, strict=False)
            }
    return found


def instructions(found, method, core):
    return Fraction(method.nanoseconds * core.hertz, NANOSECONDS) / core.most


@pytest.mark.parametrize(
    "name", [*FILES, *STREAMS, *(pytest.param(one, marks=pytest.mark.slow) for one in LARGE)]
)
def test_instructions_of_models_that_were_not_fitted_are_within_ten_percent(name):
    path = next((SHARED / "networks").glob(f"*/{name}.tflite"), None)
    if path is None:
        pytest.skip("no shared models")
    network, known = simplified(read_model(path)).network, counted()
    for platform in CORES:
        found, core = fit(network, platform=platform), PLATFORMS[platform].core
        methods = {one.name: one for one in found.methods} | {PLANS[-1]: found.least}
        for plan in PLANS:
            if (name, platform, plan) in known:
                ratio = instructions(found, methods[plan], core) / known[name, platform, plan]
                assert abs(ratio - 1) < Fraction(1, 10), (platform, plan, float(ratio))


@pytest.mark.parametrize("platform", ["cortex-m4", "jetson-tx2"])
def test_the_time_of_a_method_is_the_sum_of_the_times_of_its_layers(platform):
    network = gated_block(4, 16, 8)
    found = fit(network, platform=platform, element_bytes=1, searched=SEARCHED)
    assert {PLAIN[0], PLAIN[1], LINES, STRIPS, TWICE} == {one.name for one in found.methods}
    for one in found.methods:
        times = layer_times(network, one.plan, platform=platform_named(platform))
        assert sum(times.values()) == one.nanoseconds
        assert set(times) == {layer.name for layer in network.layers}
        assert min(times.values()) >= 0


def test_the_time_of_a_layer_is_that_of_its_kernel_and_of_the_calls_around_it():
    network, platform = from_catalogue("keyword_spotting"), platform_named("cortex-m4")
    plan = fit(network, element_bytes=1).methods[-1].plan
    assert [len(group.stages) for group in plan.groups] == [1] * len(plan.groups)
    times, table = layer_times(network, plan, platform=platform), platform.core.table
    for group in plan.groups:
        layer = network.layer(group.stages[0].result)
        calls = -(-layer.shape.rows // group.stages[0].rows)
        turns = work(platform, network, layer, 1) + table["frame"]["groups"]
        turns += calls * sum(table["firing"].get(one, 0) for one in ("calls", "firings"))
        turns += calls * table["frame"].get("firings", 0)
        turns += calls * table["frame"].get("ranges", 0) * (1 + len(layer.inputs))
        expected = turns * NANOSECONDS / platform.operations_per_second
        assert abs(times[layer.name] - expected) < 2 + expected / 10**6, layer.name  # rounded up
    assert len(plan.groups) > 5


def convolution(height, width, padding=1):
    builder = NetworkBuilder()
    last = builder.input((2, height, width))
    window = op.Window(kernel=(3, 3), padding=(padding,) * 4)
    builder.output(builder.add(op.Convolution(filters=5, window=window), last, name="c"))
    return builder.network()


def of_kernel(found, kernel):
    assert {one for one, _ in found} == {kernel}
    return {loop: number for (_, loop), number in found.items()}


def test_taps_beside_the_tensor_are_no_products_of_single_filters():
    network = convolution(2, 2)
    layer = network.layer("c")
    counts = of_kernel(loops(network, layer, 1), "Convolution")
    # Each of the four windows has 2 x 2 taps of 2 channels on the map; filter 5 is beside a block.
    assert counts["single products"] == 4 * 2 * 2 * 2
    # The others meet windows of 3 x 3 x 2 values, gathered with zero points around.
    assert counts["words"] == 4 * (18 // 4)
    assert counts["tails"] == 4 * (18 % 4)


def test_windows_that_bend_around_a_ring_cost_more_than_those_of_whole_rows():
    network = convolution(6, 6)
    layer = network.layer("c")
    rings = [
        of_kernel(loops(network, layer, 1, ring=ring), "Convolution")["gathered rows"]
        for ring in (0, 3)
    ]
    assert rings[0] < rings[1] <= 2 * rings[0]


def test_state_in_rings_costs_a_look_for_each_view_and_ring():
    network = convolution(12, 6, padding=0)
    model = Model(network=network, weights=random_weights(network, 0))
    table = StageTable(as_stream(model, 1).network)
    assert table.state_rings == 2  # rows of the input, and of the output
    assert frame_loops(table)["frame", "variables"] == 2
    plan = fit(table.network, element_bytes=1).methods[0].plan
    (counts,) = (
        stage_loops(table, one)["c"]
        for group in plan.groups
        for one in group.stages
        if "c" in one.layers
    )
    assert counts["firing", "calls"] == 1
    assert counts["firing", "rings seen"] == 2 * 2  # views of the window and of the result


def test_a_stage_is_examined_again_for_each_firing_that_it_waited_for():
    network = from_catalogue("keyword_spotting")
    table = StageTable(network, element_bytes=1)
    plans = {one.name: one.plan for one in fit(network, element_bytes=1).methods}
    group = max(plans["row by row"].groups, key=lambda group: len(group.stages))
    firings = [table.geometry(stage).firings.count for stage in group.stages]
    counts = group_loops(table, group.stages)
    assert len(firings) > 5
    assert counts["frame", "firings"] == sum(firings)
    assert counts["frame", "firings waited for"] == sum(firings[:-1])


def test_each_call_of_a_hybrid_convolution_reads_its_whole_input():
    network = drawn("hybrids:0:bytes").network
    name = next(one.name for one in network.layers if isinstance(one.operator, op.HybridProduct))
    (source,) = network.input_shapes(network.layer(name))
    table = StageTable(network)
    key = "HybridProduct.Convolution.real", "read in each call"
    for rows in (1, 2, network.layer(name).shape.rows):
        stage = Stage(layers=(name,), rows=rows)
        calls = table.geometry(stage).firings.count
        assert stage_loops(table, stage)[name][key] == calls * source.elements


def test_an_unknown_function_behind_a_known_kernel_costs_its_elements():
    network = convolution(2, 2)
    layer = network.layer("c")
    kernel = {("Convolution.real", "places"): 4}
    behind = {("fused multiply", "elements"): 20, ("fused multiply", "places"): 4}
    guessed = tabulated_loops(network, layer, kernel | behind, {"Convolution.real": {}})
    assert guessed == kernel | {("other", "operations"): 20, ("other", "read"): 20}


def test_a_least_memory_plan_is_slower_than_its_macs_tell():
    network = convolution(16, 16)
    found = fit(network, element_bytes=1, platform="cortex-m4")
    whole = next(one for one in found.methods if one.name == "layer by layer")
    rows = next(one for one in found.methods if one.name == "row by row")
    assert rows.mac_ratio == whole.mac_ratio
    assert rows.nanoseconds > whole.nanoseconds


def test_times_are_the_slow_end_and_measured_ones_take_their_place():
    network = convolution(8, 8)
    found = fit(network, element_bytes=1, platform="cortex-m7")
    value = found.to_json()
    assert value["not_calibrated"]["cycles_per_instruction"] == ["1/2", "2"]
    method = value["methods"][0]
    ratio = method["predicted_nanoseconds"] / method["predicted_nanoseconds_at_best"]
    assert ratio == pytest.approx(4, rel=1e-3)  # both have four digits
    measured = fit(network, platform="cortex-m7", durations={"c": (5_000_000,)})
    assert "not_calibrated" not in measured.to_json()
    assert 5_000_000 <= min(one.nanoseconds for one in measured.methods) < 6_000_000


def test_a_file_describes_a_core(tmp_path):
    path = tmp_path / "board.json"
    path.write_text('{"kernels": "m4", "hertz": 84000000, "least": "1", "most": "2"}')
    network = convolution(8, 8)
    slower, faster = (
        fit(network, element_bytes=1, platform=one).least.nanoseconds
        for one in (str(path), "cortex-m4")
    )
    assert slower == pytest.approx(2 * faster, abs=4)  # parts are rounded up to nanoseconds


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"kernels": "m9", "hertz": 1, "least": "1", "most": "2"}', "'m9'; expected one of m4"),
        ('{"kernels": "m4", "hertz": 1, "least": "3", "most": "2"}', "3 to 2 cycles"),
        ('{"kernels": "m4", "least": "3", "most": "2"}', "'hertz' is missing"),
    ],
)
def test_a_file_that_describes_no_core_is_refused(tmp_path, text, message):
    path = tmp_path / "board.json"
    path.write_text(text)
    with pytest.raises(CsdfError, match=message):
        platform_named(str(path))


def test_an_unknown_platform_is_refused_with_the_known_platforms():
    with pytest.raises(CsdfError, match=r"no platform 'm4'; expected one of .*cortex-m4"):
        platform_named("m4")


def test_windows_beside_the_tensor_take_no_products():
    builder = NetworkBuilder()
    last = builder.input((4, 2, 2))
    window = op.Window(kernel=(1, 1), padding=(3, 3, 3, 3))
    builder.output(builder.add(op.Convolution(filters=4, window=window), last, name="c"))
    network = builder.network()
    layer = network.layer("c")
    counts = of_kernel(loops(network, layer, 1), "Convolution")
    assert counts["products"] == 2 * 2 * 4 * 4  # of 64 windows 60 see padding only


def test_kernels_that_were_not_counted_are_named_as_a_guess():
    builder = NetworkBuilder()
    last = builder.add(op.Recurrence(kind="lstm", units=4), builder.input((3, 1, 5)))
    last = builder.add(op.Reshape(dims=(3, 4)), last)
    product = op.TensorProduct(terms=("ab", "cb"), result="ac")
    builder.output(builder.add(product, last, last))
    for platform in ("cortex-m4", "hazard3"):
        found = fit(builder.network(), platform=platform)
        assert found.uncounted == ("TensorProduct.real",)


@pytest.mark.parametrize("platform", ["cortex-m0plus", "cortex-m55", "hazard3"])
def test_each_set_of_instructions_has_the_same_kernels(platform):
    tables = [PLATFORMS[one].core.table for one in ("cortex-m4", platform)]
    assert tables[0].keys() == tables[1].keys()


@pytest.mark.parametrize("form", ["chain:2:halves", "chain:2:zeros", "hybrids:0:bytes"])
@pytest.mark.parametrize("platform", CORES)
def test_weights_of_each_type_have_instructions_of_their_own(form, platform):
    assert fit(drawn(form).network, platform=platform, searched=()).uncounted == ()


def test_filters_of_two_bytes_go_in_blocks_of_eight():
    builder = NetworkBuilder()
    builder.output(builder.add(op.FullyConnected(units=29), builder.input((5,)), name="u"))
    network = builder.network()
    layer = network.layer("u")
    stored = (Stored(role="matrix", element=Element.FLOAT16),)
    single = of_kernel(loops(network, layer, 4), "FullyConnected.real")
    half = of_kernel(loops(network, replace(layer, stored=stored), 4), "FullyConnected.real.halves")
    assert (single["values of 16"], single["values of 8"]) == (5, 5)
    assert half["values of 8"] == 15
    assert "values of 16" not in half
    assert half["products of rest"] == single["products of rest"] == 5 * 5


def test_weights_of_two_bytes_cost_those_of_four_where_they_were_not_counted():
    network = drawn("recurrent:0:plain").network
    halves = replace(
        network,
        layers=tuple(
            replace(
                layer,
                stored=tuple(
                    Stored(role=role, element=Element.FLOAT16) for role in layer.operator.half_roles
                ),
            )
            for layer in network.layers
        ),
    )
    for platform in ("cortex-m4", "hazard3"):
        single, half = (
            fit(net, platform=platform, searched=()).least.nanoseconds for net in (network, halves)
        )
        assert single == half


def test_numbers_under_a_window_become_integers_once_for_all_filters():
    window = op.Window(kernel=(3, 3), padding=(1, 1, 1, 1))
    product = op.Convolution(filters=5, window=window)
    hybrid = op.HybridProduct(product=product, scales=(0.01,), has_offset=True)
    builder = NetworkBuilder()
    builder.output(builder.add(hybrid, builder.input((2, 3, 4)), name="h"))
    layer = builder.network().layer("h")
    counts = of_kernel(loops(builder.network(), layer, 4), "HybridProduct.Convolution.real")
    taps = 7 * 10  # of windows of 3 rows and of 4 columns that lie on the map
    assert counts["converted"] == 2 * taps
    assert counts["integer products"] == 2 * 5 * taps


def test_a_matrix_of_real_numbers_meets_rows_in_a_plain_loop():
    builder = NetworkBuilder()
    builder.output(builder.add(op.MatrixProduct(units=7), builder.input((3, 5)), name="m"))
    layer = builder.network().layer("m")
    counts = loops(builder.network(), layer, 4)
    assert counts["MatrixProduct.trained.real", "outputs"] == 3 * 7
    assert counts["MatrixProduct.trained.real", "products"] == 3 * 5 * 7


def test_a_product_in_fixed_point_is_a_plain_convolution():
    network = drawn("encoders:10:integers").network
    layer = next(one for one in network.layers if isinstance(one.operator, op.Convolution))
    plain = replace(layer, operator=replace(layer.operator, block=None))
    counts = of_kernel(loops(network, layer, 1), "Convolution")
    expected = of_kernel(loops(network, plain, 1), "Convolution")
    assert {name: counts[name] for name in expected} == expected


def test_a_concatenation_along_channels_copies_a_piece_of_each_input_at_each_pixel():
    builder = NetworkBuilder()
    sources = [builder.input((channels, 2, 3), f"in{channels}") for channels in (1, 4)]
    for axis, inputs in ((0, sources), (1, [sources[0]] * 2)):
        builder.output(builder.add(op.Concatenation(axis=axis), *inputs, name=f"join{axis}"))
    network = builder.network()
    for axis, pieces in ((0, 2 * 6), (1, 12)):
        layer = network.layer(f"join{axis}")
        counts = of_kernel(loops(network, layer, 1), "Concatenation")
        assert counts["pieces"] == pieces


@pytest.mark.parametrize(
    ("function", "kernel"), [("sigmoid", "Table"), ("relu", "Activation.relu")]
)
def test_functions_of_bytes_go_by_a_table(function, kernel):
    builder = NetworkBuilder()
    builder.output(
        builder.add(op.Activation(function=function), builder.input((2, 3, 4)), name="f")
    )
    layer = builder.network().layer("f")
    counts = of_kernel(loops(builder.network(), layer, 1), kernel)
    assert counts["written"] == 24


INT8 = Quantization(element=Element.INT8, scales=(0.5,))
INT16 = Quantization(element=Element.INT16, scales=(0.5,))


@pytest.mark.parametrize(
    ("source", "result", "kernel"),
    [
        (None, INT8, "Conversion.from real"),
        (INT8, None, "Conversion.to real"),
        (INT8, INT16, "Conversion.wide"),
    ],
)
def test_the_instructions_of_a_conversion_depend_on_the_type_before_it(source, result, kernel):
    elements = [types.element if types else Element.FLOAT32 for types in (source, result)]
    builder = NetworkBuilder()
    numbers = builder.add(op.Input(dims=(4, 3, 2)), element=elements[0], quantization=source)
    builder.add(op.Conversion(), numbers, name="to", element=elements[1], quantization=result)
    network, platform = builder.network(), platform_named("cortex-m4")
    layer, of_kernel = network.layer("to"), platform.core.table[kernel]
    expected = 24 * (of_kernel.get("read", 0) + of_kernel.get("written", 0))
    expected += 3 * (2 * of_kernel.get("places", 0) + of_kernel.get("rows", 0))
    assert work(platform, network, layer, layer.element_bytes) == expected


def test_products_with_what_is_cut_off_at_zero_are_told_apart():
    builder = NetworkBuilder()
    units = builder.add(op.FullyConnected(units=8), builder.input((5,)), name="u")
    cut = builder.add(op.Activation(function="relu"), units, name="cut")
    builder.output(builder.add(op.FullyConnected(units=2), cut, name="v"))
    network = builder.network()
    for name, zeros in (("u", "few"), ("v", "many")):
        layer = network.layer(name)
        source = network.layer(layer.inputs[0])
        counts = loops(network, layer, 4)
        products = counts["FullyConnected.real", f"products, {zeros} of zero"]
        assert products == layer.operator.units * source.shape.elements
