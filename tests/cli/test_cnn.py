"""`csdf cnn`: show, convert, memory, verify."""

import csv
import io
import json
import re
from fractions import Fraction

import numpy as np
import pytest

from cnn2csdf.operators.resizes import ResizedAxis
from cnn2csdf.readers.supported import IN_INTEGERS, RESTRICTIONS
from cnn2csdf.readers.tflite.reader import CONVERTERS
from csdf.analysis.throughput import throughput
from csdf.io.graph_files import read_graph
from csdf.search.trade_off import smallest_storage
from tests.cnn2csdf.readers.tflite_cases import NAMES
from tests.cnn2csdf.readers.tflite_models import small_network
from tests.shared_data import SHARED

PYRAMID = SHARED / "networks" / "onnx-small" / "shared.onnx"
CFG = """[net]
height=8
width=8
channels=3
[convolutional]
filters=4
size=3
pad=1
activation=leaky
[maxpool]
size=2
stride=2
"""


@pytest.fixture
def cfg(tmp_path):
    path = tmp_path / "tiny.cfg"
    path.write_text(CFG)
    return str(path)


def test_show_lists_layers_and_totals(run):
    code, output, remarks = run("cnn", "show", "samos_example")
    assert (code, remarks) == (0, "")
    lines = output.splitlines()
    assert lines[1].split() == [
        "layer", "operator", "output", "phases", "parameters", "MACs", "output", "bytes",
    ]  # fmt: skip
    # n2: 4 filters of 17x17 and a bias each over 16x16 places
    assert lines[3].split() == [
        "n2", "conv", "17x17", "4x16x16", "16", "1,160", "295,936", "4.096", "kB",
    ]  # fmt: skip
    assert lines[0].startswith("samos_example: 5 layers, ")
    assert lines[-1] == "sizes: elements float32; parameters float32"


@pytest.mark.skipif(not PYRAMID.exists(), reason=f"there is no {PYRAMID}")
def test_show_and_memory_count_a_kernel_of_three_levels_once(answer, run):
    _, shown = answer("cnn", "show", str(PYRAMID))
    _, memory = answer("cnn", "memory", str(PYRAMID))
    # 16 filters of 3x3x3 with biases, and the shared 16 of 16x3x3 with theirs: 448 + 2,320 numbers.
    assert shown["parameter_bytes"] == 4 * (448 + 2320) == 11_072
    assert memory["networks"][0]["parameter_bytes"] == 11_072
    # Without sharing, two more uses of 2,320.
    assert shown["shared_parameters"] == 4640
    assert "shared" in run("cnn", "show", str(PYRAMID))[1].splitlines()[-1]


def test_show_as_json_has_the_shapes(answer):
    _, found = answer("cnn", "show", "resnet8")
    assert found["layers"][0]["output"] == [3, 32, 32]
    assert found["parameters"] == sum(layer["parameters"] for layer in found["layers"])


def test_arguments_of_the_catalogue_are_part_of_the_name(answer):
    _, found = answer("cnn", "show", "mobilenet_v1:width=1/4,resolution=96")
    assert found["layers"][0]["output"] == [3, 96, 96]


def test_a_graph_in_json_keeps_windows(run, tmp_path):
    path = tmp_path / "graph.json"
    assert run("cnn", "convert", "samos_example", "-o", str(path), "--element-bytes", "1")[0] == 0
    graph = read_graph(path)
    # 5x5, stride 3, padding -1: window k begins with row 3k + 1, so 4, 7, 10 rows of 64 elements are
    # free before windows 1 to 3, and all 16 after the last.
    assert graph.channel("n2 to n3").release == (256, 192, 192, 384)
    assert smallest_storage(graph).point.size == 978  # Table II of SAMOS 2020


def test_a_graph_in_xml_has_overlaps_in_self_loops_and_says_so(run, tmp_path):
    path = tmp_path / "graph.xml"
    code, _, remarks = run("cnn", "convert", "samos_example", "-o", str(path))
    assert code == 0
    assert "self-loops" in remarks
    assert read_graph(path).channel("n2 to n3 overlap").production == (128, 128, 128, 0)


def test_windows_in_xml_need_capacities(run, tmp_path):
    path = tmp_path / "graph.xml"
    arguments = ("cnn", "convert", "samos_example", "-o", str(path), "--overlap", "window")
    code, _, remarks = run(*arguments)
    assert code == 2
    assert "add --bounded" in remarks
    assert not path.exists()
    assert run(*arguments, "--bounded")[0] == 0
    assert throughput(read_graph(path)).period is not None


def test_capacities_that_are_not_proved_smallest_are_remarked_upon(run, tmp_path):
    words = ("cnn", "convert", "resnet8", "-o", tmp_path / "graph.json", "--bounded")
    assert "above the lower bound" in run(*words, "--time-limit", "1us")[2]
    assert "above the smallest" not in run(*words)[2]


def test_durations_come_from_a_table(run, tmp_path):
    table = tmp_path / "times.csv"
    phases = {"n1": 1, "n2": 1, "n3": 1, "n4": 1, "n5": 1}
    rows = [f"{name},{phase},7" for name, count in phases.items() for phase in range(count)]
    table.write_text("layer,phase,nanoseconds\n" + "\n".join(rows) + "\n")
    path = tmp_path / "graph.json"
    arguments = ("cnn", "convert", "samos_example", "-o", str(path), "--durations", str(table))
    assert run(*arguments, "--granularity", "whole")[0] == 0
    assert read_graph(path).actor("n2").durations == (7,)
    code, _, remarks = run(*arguments)
    assert code == 2
    assert "layer 'n1': 1 duration for 32 phases" in remarks


def test_measured_durations_fit_the_phases(run, answer, tmp_path):
    table = tmp_path / "times.csv"
    code, _, remarks = run("cnn", "measure", "samos_example", "-o", table, "--repeats", "1")
    assert code == 0
    assert "54 phases" in remarks  # 32 rows in, 16, 4, 1 and 1
    whole = tmp_path / "whole.csv"
    arguments = ("measure", "samos_example", "-o", whole, "--granularity", "whole")
    assert run("cnn", *arguments, "--repeats", "1")[0] == 0
    measured = ("cnn", "memory", "samos_example", "--durations", table)
    _, found = answer(*measured)
    times = [found["networks"][0][one]["nanoseconds"] for one in METHODS]
    assert times[0] == times[1] > 0  # a whole layer takes as long as its rows
    _, found = answer(*measured, "--whole-durations", whole)
    assert found["networks"][0]["layer_by_layer"]["nanoseconds"] != times[0]
    assert found["networks"][0]["row_by_row"]["nanoseconds"] == times[1]


METHODS = ("layer_by_layer", "row_by_row")


def test_the_fit_beside_a_comparison_is_of_one_arena_on_a_board_too(answer):
    names = ("cnn", "memory", "keyword_spotting", "--element-bytes", "1", "--platform")
    on_board, on_core = (
        answer(*names, name)[1]["networks"][0] for name in ("stm32h7", "cortex-m7")
    )
    sizes = {value["fit"]["ram_bytes"] for value in (on_board, on_core)}
    assert sizes == {on_core["row_by_row"]["arena_bytes"]}


@pytest.mark.parametrize("name", ["person_detection", "keyword_spotting"])
def test_a_reduction_is_that_of_the_least_methods_and_none_is_not_advertised(answer, run, name):
    words = ("cnn", "memory", name, "--element-bytes", "1")
    (found,) = answer(*words)[1]["networks"]
    sizes = [found[one][key] for one in METHODS for key in ("separate_bytes", "arena_bytes")]
    totals = [size + found["parameter_bytes"] for size in sizes]
    assert found["min"]["total_bytes"] == min(totals)
    expected = 1 - Fraction(min(totals), min(totals[:2]))
    assert Fraction(found["reduction"]) == expected
    row = run(*words)[1].splitlines()[2]
    assert (" none " in row) == (expected == 0)


def test_the_table_says_of_which_plans_it_speaks_and_who_knows_less(run, answer):
    _, output, _ = run("cnn", "memory", "samos_example", "--element-bytes", "1", "--explain")
    least, rows = output.partition("\n\nterms\n")[0].splitlines()[-2:]
    assert answer("cnn", "memory", "samos_example")[1]["kind"] == f"{least}; {rows}"
    for command in ("csdf plan reuse", "csdf plan fusion", "csdf fit"):
        assert command in least
    assert "as csdf fit --input rows" in rows


def test_the_picture_has_a_bar_for_each_way(run, tmp_path):
    pytest.importorskip("matplotlib")
    path = tmp_path / "bars.svg"
    assert run("cnn", "memory", "resnet8", "--plot", path)[0] == 0
    for way in ("layer by layer, separate buffers", "layer by layer, one arena"):
        assert f"<!-- {way} -->" in path.read_text()


def test_memory_of_several_networks_has_a_line_each(run):
    code, output, _ = run("cnn", "memory", "samos_example", "resnet8", "--csv")
    assert code == 0
    names = [row["network"] for row in csv.DictReader(io.StringIO(output))]
    assert names == ["samos_example", "resnet8"]


def test_more_rows_a_part_need_larger_buffers_and_fewer_launches(answer):
    one, four = (
        answer("cnn", "memory", "resnet8", "--granularity", rows)[1]["networks"][0]
        for rows in ("rows", "4")
    )
    assert one["row_by_row"]["separate_bytes"] < four["row_by_row"]["separate_bytes"]
    times = [each["row_by_row"]["nanoseconds"] for each in (one, four)]
    assert times[0] > times[1]


def test_bars_are_drawn(run, tmp_path):
    pytest.importorskip("matplotlib")
    path = tmp_path / "bars.svg"
    assert run("cnn", "memory", "samos_example", "--plot", str(path))[0] == 0
    assert path.read_text().startswith("<?xml")


def test_verify_runs_by_parts_within_the_buffers(answer, cfg):
    _, found = answer("cnn", "verify", cfg, "--frames", "3")
    assert found["equal"]
    assert found["frames"] == 3
    assert found["buffers"]
    for buffer in found["buffers"]:
        assert buffer["peak_bytes"] <= buffer["capacity_bytes"]


@pytest.fixture
def resizing(tmp_path):
    """An ONNX file that resizes 14 rows to 16: at row 8, single precision decides."""
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    tensor = onnx.helper.make_tensor_value_info
    node = onnx.helper.make_node(
        "Resize",
        ["x", "", "", "size"],
        ["y"],
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )
    graph = onnx.helper.make_graph(
        [node],
        "resizing",
        [tensor("x", onnx.TensorProto.FLOAT, (1, 1, 14, 3))],
        [tensor("y", onnx.TensorProto.FLOAT, (1, 1, 16, 3))],
        [onnx.numpy_helper.from_array(np.array([1, 1, 16, 3]), "size")],
    )
    opset = onnx.helper.make_opsetid("", 17)
    path = tmp_path / "resizing.onnx"
    path.write_bytes(
        onnx.helper.make_model(graph, opset_imports=[opset], ir_version=9).SerializeToString()
    )
    return str(path)


def test_verify_compares_an_onnx_file_with_onnx_runtime(answer, resizing):
    _, found = answer("cnn", "verify", resizing)
    assert found["equal"]
    assert found["runtime_relative_difference"] == 0


def test_verify_compares_a_file_with_an_input_of_one_axis(answer, tmp_path):
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, (5,)) for name in "xy")
    graph = onnx.helper.make_graph([onnx.helper.make_node("Relu", "x", "y")], "line", [x], [y])
    opset = onnx.helper.make_opsetid("", 17)
    onnx.save(
        onnx.helper.make_model(graph, opset_imports=[opset], ir_version=9), tmp_path / "line.onnx"
    )
    _, found = answer("cnn", "verify", str(tmp_path / "line.onnx"))
    assert found["runtime_relative_difference"] == 0


def test_verify_notices_a_rule_that_rows_and_execution_share(run, resizing, monkeypatch):
    def exact(axis, places):
        return places * axis.length / axis.size

    monkeypatch.setattr(ResizedAxis, "_single_precision", exact)
    code, output, _ = run("cnn", "verify", resizing)
    assert code == 1
    assert "resizing: DIFFERENT" in output
    assert "largest difference  0 (0 of" in output  # by parts and whole make the same mistake


def test_verify_says_when_outputs_differ(run, cfg):
    # By rows and as a whole sums are taken in another order; only a tolerance below zero sees it.
    code, output, _ = run("cnn", "verify", cfg, "--tolerance", "-1")
    assert code == 1
    assert "DIFFERENT" in output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("show", "no_such_network"),
            "there is no network 'no_such_network' among the built-in models",
        ),
        (("show", "missing.onnx"), "missing.onnx"),
        (("show", "missing.cfg"), "missing.cfg: cannot be read"),
        (("show", __file__), "expected .onnx, .tflite, .cfg, .json"),
        (("memory", "resnet8", "--layer", "conv=2"), "there is no layer 'conv'"),
        (
            ("wrong",),
            "there is no command 'wrong'; expected one of show, convert, memory, measure, verify",
        ),
    ],
)
def test_bad_input_gets_one_line(run, arguments, message):
    code, output, remarks = run("cnn", *arguments)
    assert (code, output) == (2, "")
    assert message in remarks
    assert len(remarks.splitlines()) == 1


@pytest.mark.parametrize(
    "options",
    [
        ("--granularity", "0"),
        ("--granularity", "fine"),
        ("--layer", "=3"),
        ("--simplify", "all,eliminate-nop"),
        ("--shape", "data=1x0"),
        ("--launch", "-1us"),
    ],
)
def test_options_that_mean_nothing_are_refused(run, options):
    code, _, remarks = run("cnn", "memory", "resnet8", *options)
    assert code == 2
    assert f"argument {options[0]}" in remarks


@pytest.mark.parametrize("name", ["show", "convert", "memory", "measure", "verify"])
def test_help_shows_an_example(run, name):
    code, output, _ = run("cnn", name, "--help")
    assert code == 0
    assert f"example: csdf cnn {name} " in " ".join(output.split())


def test_onnx_is_written_and_reads_back(run, answer, tmp_path):
    pytest.importorskip("onnx")
    path = tmp_path / "net.onnx"
    assert run("cnn", "convert", "resnet8", "-o", str(path), "--seed", "5")[0] == 0
    _, found = answer("cnn", "show", str(path))
    _, original = answer("cnn", "show", "resnet8")
    assert found["parameters"] == original["parameters"]


@pytest.mark.parametrize("words", [["--overlap", "self-loop"], ["--bounded"]])
def test_options_of_graphs_are_refused_for_onnx(run, tmp_path, words):
    path = tmp_path / "net.onnx"
    code, _, remarks = run("cnn", "convert", "resnet8", "-o", str(path), *words)
    assert code == 2
    assert "--overlap and --bounded are for graphs" in remarks
    assert not path.exists()


def test_layers_are_fused_unless_it_is_said_otherwise(answer):
    # resnet8 by its source: a normalisation behind the first convolution and the two of each of three
    # blocks, 7, and a relu behind the first and twice in each block, 7 too.
    _, fused = answer("cnn", "show", "resnet8")
    _, apart = answer("cnn", "show", "resnet8", "--simplify", "none")
    assert len(apart["layers"]) == len(fused["layers"]) + 14


def test_a_shape_for_a_network_that_has_its_own_is_refused(run):
    code, _, remarks = run("cnn", "show", "resnet8", "--shape", "height=320")
    assert code == 2
    assert "resnet8: shapes (height) are given for inputs of ONNX and .tflite files" in remarks


def test_a_shape_for_a_tflite_file_replaces_that_of_its_input(answer, run, tmp_path):
    path = tmp_path / "small.tflite"
    path.write_bytes(small_network())
    code, _, remarks = run("fit", path, "--shape", "input=1x4x4x3")
    assert code == 2
    assert "there is no input 'input' to give a shape; inputs: 'x'" in remarks
    code, _, remarks = run("fit", path, "--shape", "x=1x32x4x3")
    assert code == 2
    assert "operator 4 (RESHAPE): tensors of 1x8x1x4, 2 do not fit" in remarks
    _, read = answer("cnn", "show", path, "--shape", "x=1x7x5x3")
    assert read["layers"][0]["output"] == [3, 7, 5]


def test_show_says_elements_and_scales_of_a_quantised_network(answer, run, tmp_path):
    path = tmp_path / "small.tflite"
    path.write_bytes(small_network())
    _, output, _ = run("cnn", "show", path, "--scales")
    lines = {line.split()[0]: line for line in output.splitlines()}
    assert lines["layer"].endswith("element  scales")
    # Of the file: scale 0.1 around 2; four scales of weights, the least 0.005, the largest 0.02.
    assert lines["conv"].endswith("int8     output 0.1 (zero is 2), kernel 0.005 to 0.02")
    _, found = answer("cnn", "show", path, "--scales")
    conv = next(one for one in found["layers"] if one["layer"] == "conv")
    assert conv["quantization"]["output"]["zero_point"] == 2
    assert np.allclose(conv["quantization"]["kernel"]["scales"], [0.01, 0.02, 0.005, 0.01])
    assert "quantization" not in answer("cnn", "show", path)[1]["layers"][0]


def test_show_lists_what_each_reader_takes(answer, run):
    code, output, remarks = run("cnn", "show", "--supported")
    assert (code, remarks, "TensorFlow Lite: one graph" in output) == (0, "", True)
    found = answer("cnn", "show", "--supported")[1]["readers"]
    assert set(found["TensorFlow Lite"]) == set(CONVERTERS)
    assert "int16" in found["TensorFlow Lite"]["CONV_2D"]
    assert {"Conv", "QLinearConv", "com.microsoft.QLinearAdd", "MatMulInteger"} <= set(
        found["ONNX"]
    )
    assert found["Darknet"]["[maxpool]"] == "size, stride, padding"


def _columns_of_operators(run, name):
    code, output, remarks = run("cnn", "operators", "--format", name)
    assert (code, remarks) == (0, "")
    lines = output.partition("\n\n")[0].splitlines()[3:]  # two sentences and the heads
    rows = [re.split(r"\s{2,}", line.strip()) for line in lines if not line.startswith("   ")]
    return {row[0]: row[1:] for row in rows}


def test_operators_says_which_types_are_read_and_which_c_computes(run):
    rows = _columns_of_operators(run, "tflite")
    assert set(rows) == {re.sub("CUSTOM:'(.*)'", r"\1", name) for name in CONVERTERS}
    # Kernels: bytes and shorts; a table of 256 results; integers only.
    assert rows["ADD"][:2] == ["f32 i8 i16", "f32 i8 i16"]
    assert rows["ABS"][:2] == ["f32 i8 i16", "f32 i8"]
    assert rows["TFLite_Detection_PostProcess"][1] == "f32"
    assert rows["SVDF"][:2] == ["f32 i8", "f32 i8"]
    assert rows["COS"] == ["f32", "f32"]


def test_operators_of_onnx_are_those_that_its_reader_takes(run, answer):
    rows = _columns_of_operators(run, "onnx")
    assert set(rows) == set(answer("cnn", "show", "--supported")[1]["readers"]["ONNX"])
    assert rows["Einsum"][1] == "none"
    assert rows["Conv"][1] == "f32"
    assert rows["QLinearConv"][0] == "steps"


def test_operators_without_a_format_lists_both(run):
    code, output, _ = run("cnn", "operators")
    assert code == 0
    assert [line.split()[0] for line in output.splitlines() if line[:1].strip()] == [
        *("TensorFlow", "f32:", "Evaluated", "Refused:"),
        *("ONNX:", "f32:"),
    ]


def test_show_needs_a_model_or_a_question(run):
    code, _, remarks = run("cnn", "show")
    assert code == 2
    assert "give a MODEL, or --supported" in remarks


def test_what_is_said_of_operators_in_integers_is_what_is_tested():
    tested = {(kind.partition(" ")[0], dtype) for kind, dtype in NAMES}
    said = {(kind, dtype) for kind, types in IN_INTEGERS.items() for dtype in types}
    assert tested <= said
    assert set(IN_INTEGERS) | set(RESTRICTIONS) <= set(CONVERTERS)


def test_the_smaller_arena_is_written_as_a_plan_of_its_bytes(answer, run, tmp_path):
    path = tmp_path / "plan.json"
    _, found = answer("cnn", "memory", "resnet8", "keyword_spotting", "-o", path)
    for network, plan in zip(found["networks"], json.loads(path.read_text()), strict=True):
        whole, rows = (network[one]["arena_bytes"] for one in METHODS)
        assert plan["arena_bytes"] == min(whole, rows)
        assert (plan["groups"][0]["streamed_input"] is not None) == (rows < whole)
    code, _, error = run("cnn", "memory", "resnet8", "-o", tmp_path / "plan.h")
    assert (code, "expected the suffix .json" in error) == (2, True)


def test_the_published_accounting_of_memory_is_that_of_table_three(answer, run, tmp_path):
    # SAMOS 2020, Table III: squeezenet 34 MB whole, 12 by parts; 64% less.
    words = ("cnn", "memory", "squeezenet1_1", "--accounting", "published")
    (found,) = answer(*words)[1]["networks"]
    totals = [round(found[one]["total_bytes"] / 1e6) for one in METHODS]
    assert totals == [34, 12]
    assert round(100 * Fraction(found["reduction"])) == 64
    assert run(*words)[1].splitlines()[1].split()[-4] == "64.0%"
    fused = answer(*words, "--simplify", "all")[1]["networks"][0]
    assert fused["layer_by_layer"]["total_bytes"] < found["layer_by_layer"]["total_bytes"]
    code, _, error = run(*words, "-o", tmp_path / "plan.json")
    assert (code, "no plan runs in the published accounting" in error) == (2, True)
    assert not (tmp_path / "plan.json").exists()


def test_normalisations_of_the_published_accounting_have_two_tensors_of_scratch(answer):
    # alexnet: two of them, behind the first poolings' convolutions, 55x55x96 and 27x27x256 elements.
    words = ("cnn", "memory", "alexnet", "--accounting", "published")
    (found,) = answer(*words)[1]["networks"]
    expected = 2 * 4 * (55 * 55 * 96 + 27 * 27 * 256)
    assert [found[one]["scratch_bytes"] for one in METHODS] == [expected, expected]
