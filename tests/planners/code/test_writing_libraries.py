"""Files that are written, their names, and requests that are refused before anything is written."""

import re
import subprocess
from dataclasses import replace

import numpy as np
import pytest

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.dtypes import Element
from cnn2csdf.network import Layer, Network
from cnn2csdf.shape import Shape
from cnn2csdf.simplify import simplified
from cnn2csdf.streams import as_stream
from cnn2csdf.weights import Model, random_weights
from csdf.errors import InvalidNetwork, InvalidPlan, UnwritableFile
from planners.code.c_text import TOGETHER, Tables, identifier, number, numbers, unlike
from planners.code.frames import random_frame
from planners.code.layer_descriptor import LayerNode
from planners.code.library import library, write_folder, write_library
from planners.code.makefile import MAIN
from planners.code.parts import (
    INTEGERS,
    REALS,
    SCHEDULER,
    SHORT_SINGLES,
    SHORTS,
    SINGLES,
    WITH_CMSIS_NN,
    comment,
    definitions_of,
)
from planners.code.placed_stages import look_ahead
from planners.code.rules import rule_of
from planners.memory.fit import fit
from tests.planners.code.compiling import COMPILER, FLAGS, inlined, needs_compiler, program, run_all
from tests.planners.memory.streamed import random_plan


def small(name="small", *, rows=6, names=("input", "conv", "output")):
    builder = NetworkBuilder(name)
    window = op.Window(kernel=(3, 3), padding=(1, 1, 1, 1))
    source = builder.input((2, rows, 4), name=names[0])
    last = builder.add(op.Convolution(filters=3, window=window), source, name=names[1])
    last = builder.add(op.Activation(function="relu"), last)
    builder.output(last, name=names[2])
    network = builder.network()
    return Model(network=network, weights=random_weights(network, 0))


def planned(model, **options):
    return random_plan(model.network, 1, **({"is_streamed": False} | options))


def test_an_arena_that_ends_inside_an_element_is_refused():
    model = small()
    plan = planned(model)
    with pytest.raises(
        InvalidPlan, match=f"of {plan.arena_bytes + 3} bytes; expected a multiple of 4"
    ):
        library(model, replace(plan, arena_bytes=plan.arena_bytes + 3))


def test_the_same_model_and_plan_give_the_same_files():
    model = small()
    assert library(model, planned(model)).files == library(model, planned(model)).files


def test_a_library_is_written_again_over_itself(tmp_path):
    model = small()
    for _ in range(2):
        made = write_library(model, planned(model), tmp_path / "new" / "folder")
    for name, text in made.files.items():
        assert (tmp_path / "new" / "folder" / name).read_text() == text


def test_a_folder_with_other_files_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("dear")
    model = small()
    with pytest.raises(UnwritableFile, match=r"thesis\.tex"):
        write_library(model, planned(model), tmp_path)
    assert [one.name for one in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "file").write_text("")
    model = small()
    with pytest.raises(UnwritableFile, match="expected a folder"):
        write_library(model, planned(model), tmp_path / "file")


def test_a_model_without_weights_is_refused():
    model = small()
    with pytest.raises(InvalidNetwork, match="has no weights to write"):
        library(Model(network=model.network), planned(model))


def test_a_plan_that_counts_other_bytes_is_refused():
    model = small()
    with pytest.raises(InvalidPlan, match="1 bytes"):
        library(model, planned(model, element_bytes=1))


def test_a_plan_of_a_stream_that_counts_other_bytes_is_refused_for_these_bytes():
    builder = NetworkBuilder("stream")
    rows = builder.input((3, 4, 3))
    window = op.Window(kernel=(2, 1))
    last = builder.add(op.Convolution(filters=3, window=window), rows)
    builder.output(builder.add(op.Convolution(filters=2, window=window), last))
    network = builder.network()
    model = as_stream(Model(network=network, weights=random_weights(network, 0)), 1)
    plan = fit(model, element_bytes=2, searched=()).methods[0].plan
    assert any(one.persists and one.offset % 4 for one in plan.buffers)
    with pytest.raises(InvalidPlan, match=r"counts 2 bytes .* computed in 4; plan with that many"):
        library(model, plan)


def test_a_weight_that_is_no_number_is_refused():
    model = small()
    weights = {name: dict(roles) for name, roles in model.weights.items()}
    weights["conv"]["bias"] = weights["conv"]["bias"] * float("nan")
    with pytest.raises(InvalidNetwork, match="NaN"):
        library(replace(model, weights=weights), planned(model))


def test_only_kernels_that_are_used_are_written():
    model = small()
    text = inlined(library(model, planned(model)).files, "src/small.c")
    assert "LAYER(convolve, " in text
    for unused in ("softmax", "average_pool", "depthwise_conv", "resize", "step_gelu"):
        assert unused not in text


def test_of_functions_that_share_a_loop_only_those_used_are_written_and_the_loop_once():
    builder = NetworkBuilder("curves")
    last = builder.input((2, 4, 4))
    for operator in (
        op.Activation(function="mish"),
        op.Activation(function="tanh"),
        op.Elementwise(function="subtract", constant=(2, 1, 1), constant_first=True),
    ):
        last = builder.add(operator, last)
    builder.output(last)
    network = builder.network()
    model = simplified(
        Model(network=network, weights=random_weights(network, 0)), ("fuse-activation",)
    )
    text = inlined(library(model, planned(model)).files, "src/curves.c")
    made = re.findall(r"^([A-Z_]+)\((\w+), .*\)$", text, re.MULTILINE)
    assert sorted(made) == [
        ("EACH_ELEMENT", "step_mish"),
        ("EACH_ELEMENT", "step_tanh"),
        ("EACH_WITH_CONSTANT", "step_constant_subtract_first"),
        ("LAYER", "copy_region"),  # which the functions follow
        ("OF_TWO", "subtract"),
    ]
    assert "element softplus(" in text  # which mish alone needs
    assert all(text.count(f"#define {macro}(") == 1 for macro, _ in made)
    assert "FOLD(" not in text


def test_code_does_not_grow_with_the_rows():
    sizes = set()
    for rows in (30, 90):
        model = small(rows=rows)
        plan = random_plan(model.network, 4, is_streamed=True)
        text = inlined(library(model, plan).files, "src/small.c")
        sizes.add(len(re.sub(r"-?\d+", "0", text)))
    assert len(sizes) == 1


ODD = ("größe */ int", "1st", "", "while", "a-b", "a b", "??/", "printf", "%s\\n", "NULL")


@pytest.mark.slow
@needs_compiler
def test_odd_names_make_libraries_that_compile(tmp_path):
    made = []
    for place, name in enumerate(ODD):
        names = (ODD[place - 1] or "x", f"{name} layer", ODD[place - 2] or "y")
        model = small(name or "z", names=names)
        plan = planned(model, is_streamed=place % 2 == 1)
        made.append(library(model, plan, name=f"{name}{place}"))
    assert len({one.name for one in made}) == len(ODD)
    assert run_all(made, tmp_path) == []


def test_names_become_identifiers():
    assert identifier("Conv 2D/3") == "conv_2d_3"
    assert identifier("7") == "n_7"
    assert identifier("int") == "n_int"
    assert identifier("") == "n"
    assert unlike("a b", ["a_b", "a_b_2"]) == "a_b_3"


@pytest.mark.parametrize("text", ["a */ b", "a*\\", "\\*", "/*/", "*/*", "???/", "????\\"])
def test_a_comment_has_no_delimiter_backslash_or_trigraph(text):
    for sign in ("*/", "/*", "\\", "??"):
        assert sign not in comment(text)


def test_numbers_are_exact_in_single_precision():
    assert number(0.1) == "0.100000001f"
    assert number(3) == "3.0f"
    assert number(float("-inf")) == "-INFINITY"
    with pytest.raises(InvalidNetwork, match=r"-1e\+39, exceeds single precision"):
        number(-1e39)


def test_many_numbers_are_written_as_each_is():
    # All exponents, whole numbers, both zeros, infinities; more than become text at once.
    bits = np.random.default_rng(0).integers(0, 2**32, TOGETHER + 1000, np.uint32)
    drawn = bits.view(np.float32)
    found = [*drawn[~np.isnan(drawn)], 0.0, -0.0, 1.0, -12.0, 1e9, 1e-45, np.inf, -np.inf]
    array = np.array(found, np.float32)
    assert list(numbers(array)) == [number(one) for one in array]
    assert list(numbers(array[:0])) == []


@pytest.mark.parametrize(
    ("needed", "places", "limit"),
    [
        (lambda row: (2 * row - 1, 2 * row + 2), 5, 9),  # a window
        (lambda row: (-((2 - row) // 2), row // 2 + 1), 9, 4),  # a transposed one
        (lambda row: (row // 3, row // 3 + 1), 12, 4),  # blocks
        (lambda row: (min(max(row - 2, 0), 3),) * 1 + (min(max(row - 2, 0), 3) + 1,), 9, 4),
        (lambda row: (row * row % 4, row * row % 4 + 1), 6, 4),  # nothing regular
    ],
)
def test_a_rule_gives_the_rows_it_was_made_of(needed, places, limit):
    rule = rule_of([needed(place) for place in range(places)], limit)
    for place in range(places):
        first = (rule.slope * place + rule.first) // rule.divisor
        last = (rule.slope * place + rule.last) // rule.divisor
        if rule.is_clamped:
            first, last = (min(max(one, 0), limit - 1) for one in (first, last))
        if rule.pairs:
            first, last = rule.pairs[place]
        assert (first, last + 1) == needed(place)


def test_how_far_a_reader_looks_ahead():
    assert look_ahead([(0, 3), (1, 4), (2, 5)], 5) == 0
    assert look_ahead([(0, 0), (0, 2), (1, 3)], 5) == 1  # the first needs nothing
    assert look_ahead([(4, 5), (4, 6), (2, 5)], 6) == 2  # a later one needs an earlier row
    assert look_ahead([(0, 1), (0, 0)], 5) == 0


TWO_INSTANCES = """
int main(void)
{
    static small_element arenas[2][SMALL_ARENA_ELEMENTS];
    small_state states[2];
    int32_t row, done = 0, failed = 0;
    small_init(&states[0], arenas[0], sizeof arenas[0]);
    small_init(&states[1], arenas[1], sizeof arenas[1]);
    for (row = 0; row < SMALL_ROWS; row++) {
        done += small_push_row(&states[0], port_input_0 + row * SMALL_ROW_ELEMENTS);
        done += small_push_row(&states[1], port_input_1 + row * SMALL_ROW_ELEMENTS);
    }
    failed |= !is_near(small_output(&states[0], 0), port_output_0, SMALL_OUTPUT_ELEMENTS);
    failed |= !is_near(small_output(&states[1], 0), port_output_1, SMALL_OUTPUT_ELEMENTS);
    return failed || done != 2 || begun == 0 || begun != ended || small_test();
}
"""
PROFILED = """
static int begun, ended;
void small_profile_begin(int stage)
{
    begun += stage >= 0;
}
void small_profile_end(int stage)
{
    ended += stage >= 0;
}
"""


@needs_compiler
def test_two_instances_take_turns_and_firings_are_told(tmp_path):
    model = small()
    frames = [random_frame(model.network, seed) for seed in range(2)]
    made = library(model, planned(model, is_streamed=True), frames=frames)
    write_folder(tmp_path, {**made.files, MAIN: made.files[MAIN] + PROFILED + TWO_INSTANCES})
    built = subprocess.run(
        [
            COMPILER,
            *FLAGS,
            "-DNO_MAIN",
            "-DSMALL_PROFILE",
            *program(made.files),
            "-lm",
            "-o",
            "two",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stderr
    assert subprocess.run(["./two"], cwd=tmp_path).returncode == 0


@pytest.mark.parametrize("files", [(*files, *SCHEDULER) for files in (REALS, INTEGERS, SINGLES)])
def test_each_name_of_c_is_defined_once(files):
    names = [name for file in files for part in definitions_of(file) for name in part.names]
    assert sorted(names) == sorted(set(names))


def test_a_refused_layer_without_a_name_is_told_by_operator_and_number():
    shape = Shape(dims=(1, 2, 2))
    layers = (
        Layer(name="in", operator=op.Input(dims=shape.dims), inputs=(), shape=shape),
        Layer(name="", operator=op.Softmax(axis=0), inputs=("in",), shape=shape),
    )
    network = Network(name="net", layers=layers)
    node = LayerNode(
        layer=layers[1],
        inputs=network.input_shapes(layers[1]),
        weights={},
        tables=Tables("net"),
        input_types=(None,),
        element=Element.FLOAT32,
        number=2,
    )
    assert str(node.refusal("at all")).startswith(
        "layer number 2 of the network, a Softmax without"
    )


def test_no_part_of_the_c_sources_hides_another_of_its_name():
    for files in (WITH_CMSIS_NN, SINGLES, SHORTS, SHORT_SINGLES, REALS):
        names = [name for file in files for part in definitions_of(file) for name in part.names]
        assert sorted(names) == sorted(set(names))
