"""Words of commands about counts, missing arguments and defaults."""

import re

import pytest

from csdf.analysis.consistency import repetition_vector
from csdf.cli.answers import counted
from csdf.errors import InconsistentGraph
from csdf.model.builder import GraphBuilder
from tests.cli.running import GRAPHS


@pytest.mark.parametrize(
    ("count", "words"), [(0, "0 groups"), (1, "1 group"), (2, "2 groups"), (1000, "1000 groups")]
)
def test_all_counts_but_one_have_a_plural(count, words):
    assert counted(count, "group") == words


@pytest.mark.parametrize("command", [("cnn", "memory"), ("plan", "reuse"), ("plan", "fusion")])
def test_a_missing_model_is_named_once(run, command):
    code, _, remarks = run(*command)
    assert code == 2
    assert "the following arguments are required: MODEL; see csdf " in remarks


@pytest.mark.parametrize(
    ("command", "default"),
    [("cnn show", "all"), ("plan reuse", "all"), ("plan traffic", "all")],
)
def test_the_help_of_simplify_says_what_happens_without_it(run, command, default):
    _, output, _ = run(*command.split(), "--help")
    words = " ".join(output.split())
    assert f"constants added to a layer's output); default: {default} --" in words


def test_one_network_one_group_one_point(run):
    _, fused, _ = run("plan", "fusion", "samos_example", "--ram", "1MB")
    assert "group        layers" in fused
    words = ("plan", "reuse", "samos_example", "--rows", "0", "--generations", "1", "--explain")
    _, shared, _ = run(*words)
    assert " 1 network, " in shared
    assert "  front  1 point after " in shared


HUGE = "1e999999999"  # eleven characters, a number of a gigabit
GRAPH = GRAPHS / "csdf_example.xml"
FIFO = GRAPHS.parent / "fifo"
PROJECT = FIFO / "small_hls4ml"


@pytest.mark.parametrize(
    "words",
    [
        ("buffers", GRAPH, "--period", HUGE),
        ("buffers", GRAPH, "--throughput", HUGE),
        ("buffers", GRAPH, "--period", "1e-999999999"),
        ("buffers", GRAPH, "--fixed", f"alpha={HUGE}"),
        ("buffers", GRAPH, "--fixed", "alpha=\u00b2"),
        ("buffers", GRAPH, "--time-limit", f"{HUGE}s"),
        ("buffers", GRAPH, "--time-limit", "9" * 200_000),
        ("convert", GRAPH, "out.json", "--capacity", "alpha=" + "9" * 200_000),
        ("convert", GRAPH, "out.json", "--unfold", "\u00b2"),
        ("generate", HUGE),
        ("generate", "1", "--actors", HUGE),
        ("cnn", "memory", "resnet8", "--operations", HUGE),
        ("cnn", "memory", "resnet8", "--launch", f"{HUGE}s"),
        ("cnn", "memory", "resnet8", "--shape", f"in=1x{HUGE}"),
        ("cnn", "memory", "resnet8", "--shape", "in=1x\u00b2"),
        ("cnn", "verify", "resnet8", "--tolerance", HUGE),
        ("cnn", "verify", "resnet8", "--seed", HUGE),
        ("plan", "arena", "problem.csv", "--capacity", "9" * 200_000),
        ("plan", "fusion", "resnet8", "--ram", HUGE),
        ("plan", "fusion", "resnet8", "--layers", "0:\u00b2"),
        ("plan", "reuse", "resnet8", "--throughput", f"resnet8={HUGE}"),
        ("plan", "reuse", "resnet8", "--rows", "0,\u00b2"),
        ("plan", "primitives", "resnet8", "--time", f"{HUGE}s"),
        ("plan", "traffic", "resnet8", "--buffer", "9" * 200_000),
    ],
    ids=lambda words: " ".join(map(str, words))[-60:],
)
def test_a_number_that_would_fill_the_memory_is_refused_at_once(run, words):
    code, output, remarks = run(*words)
    assert (code, output) == (2, "")
    end = remarks.splitlines()[-1]
    assert ": argument " in end
    assert "is not" in end or "has more than" in end
    assert not re.search(r"invalid \w+ value", end)  # argparse's words for a function of ours


def test_one_token_one_byte_one_buffer(run, tmp_path):
    lone = tmp_path / "one.csv"
    lone.write_text("id,lower,upper,size\nonly,0,2,1\n")
    assert "live at step 0: buffer 'only': 1 byte\n" in run("plan", "arena", lone)[1]
    depths = tmp_path / "depths.json"
    depths.write_text('{"in to conv_a": 1}')
    table = GRAPHS.parent / "networks" / "residual_block.csv"
    assert " 1 depth, 1 token: " in run("buffers", table, "--check", depths)[1]
    uneven = (
        GraphBuilder().actor("a", 1).actor("b", 1).channel("a", 1, "b", 1).channel("a", 1, "b", 2)
    )
    with pytest.raises(InconsistentGraph, match="'a' produces 1 token on channel 'a to b 2'"):
        repetition_vector(uneven.graph())


@pytest.mark.parametrize(
    ("words", "near"),
    [
        (("buffers", GRAPH, "--fixed", "alpa=3"), "did you mean 'alpha'?"),
        (("schedule", GRAPH, "--source", "aa"), "did you mean 'a'?"),
        (("cnn", "show", "resnet81"), "did you mean 'resnet8'?"),
        (
            ("fit", "a/kws.tflit"),
            "suffix '.tflit'; expected .onnx, .tflite, .cfg, .json; did you mean",
        ),
        (
            ("deploy", "resnet8", "--element-bytes", "1", "-o", "x"),
            "in the elements of the file, of 4 bytes",
        ),
        (("fit", "resnet8", "--ram", "5", "kB"), "one word, such as 5kB"),
        (("fit", "resnet8", "--platform", "cortex-m3"), "FILE.json"),
        (
            ("fit", "resnet8", "--plan", "a", "--plan", "b"),
            "csdf report MODEL --plan a.json --plan b",
        ),
        (("fit", "resnet8", "--rom", "1MB"), "did you mean --flash? See csdf fit --help"),
        (("fit", "resnet8", "--mcu", "cortex-m4"), "did you mean --platform?"),
        (("fit", GRAPH), "; csdf analyze reads graphs"),
        (("fit", "a/net.keras"), "tf.lite.TFLiteConverter makes a .tflite file of it"),
        (("fifo", "finn", PROJECT), "csdf fifo hls4ml reads the folder of a project"),
        (("fifo", "hls4ml", FIFO / "residual.onnx"), "csdf fifo finn reads it"),
        (("fifo", "hls", FIFO / "hls_branch/csynth.xml", "--report", FIFO), "give the C++ of the"),
        (
            ("fifo", "finn", FIFO / "residual.onnx", "--clock", "1.5GHz"),
            "MHz without a unit: write 1500",
        ),
    ],
)
def test_a_mistyped_name_is_guessed(run, words, near):
    code, _, remarks = run(*words)
    assert code == 2
    assert near in remarks
