"""Tables of a library with the names of the fields of their structures."""

import re

import numpy as np
import pytest

from csdf.errors import InternalError
from planners.code.c_text import array_items, initialiser, short_lines
from planners.code.initialisers import split_values, structures_of
from planners.code.library import library
from planners.code.parts import INTEGERS
from planners.code.primitives.calls import FILES
from planners.code.vectors import _items_c
from tests.planners.code.test_writing_libraries import planned, small

INT8 = structures_of(INTEGERS)


def test_values_are_named_in_the_order_of_the_structure():
    # frame.c: int32_t slope, first, last, divisor; int32_t is_clamped; const uint16_t *pairs;
    named = ".slope = 1, .first = -1, .last = 1, .divisor = 1, .is_clamped = 0, .pairs = NULL"
    assert INT8.designated("rule", "{1, -1, 1, 1, 0, NULL}") == f"{{{named}}}"
    assert INT8.designated("rule", "{1, 2}") == "{1, 2}"  # another structure of that name
    assert INT8.designated("reader_of_reals", "{1, 2, 3}").startswith("{.stage = 1, ")


def test_named_fields_take_the_order_of_the_structure():
    fields = {"local": 2, "looks_ahead": 3, "stage": 1}
    named = "{.stage = 1, .local = 2, .looks_ahead = 3}"
    assert INT8.designated("reader", initialiser(fields)) == named
    window = {"taps": (3, 3), "stride": (1, 1), "dilation": (1, 1)}
    window |= {"beyond": (0, 0), "before": (1, 1)}
    text = INT8.designated("pooling", initialiser({"at": window, "counts_padding": 0, "offset": 0}))
    assert text.startswith("{.at = {.taps = {3, 3}, ")
    assert ".before = {1, 1}, .beyond = {0, 0}}" in text


@pytest.mark.parametrize("fields", [{"stage": 1, "local": 2}, {"stage": 1, "local": 2, "ahead": 3}])
def test_other_fields_than_those_of_the_structure_are_refused(fields):
    with pytest.raises(InternalError, match="structure 'reader' has the fields"):
        INT8.designated("reader", initialiser(fields))


def test_a_structure_inside_a_structure_has_names_too():
    # sums.c: window at; int32_t groups, group_inputs, group_filters; trained *weights; scaling to;
    window, scaling = "{{3, 3}, {1, 1}, {1, 1}, {0, 0}, {0, 0}}", "{b, m, e, 1, 2, -128, 127}"
    text = INT8.designated("convolution", f"{{{window}, 1, 2, 3, w, {scaling}}}")
    assert text.startswith("{.at = {.taps = {3, 3}, .stride = {1, 1}, ")
    assert (
        ".weights = w, .to = {.bias = b, .multipliers = m, .exponents = e, .zero_in = 1, " in text
    )
    gates = INT8.designated("lstm", "{{{1,2,3,4,5,6,7},{0}},{0},0,0,0,0,0,0,{0},{0}}")
    assert gates.startswith("{.gates = {{.matrix = 1, .recurrent = 2, ")


def test_a_field_of_a_condition_is_named_where_the_library_has_it():
    with_zeros = structures_of(INTEGERS, frozenset({"WEIGHTS_HAVE_ZEROS"}))
    text = "{FOLDED(f) b, m, e, 1, 2, -128, 127, 5}"
    named = with_zeros.designated("scaling", text)
    assert named.startswith("{FOLDED(f) .bias = b, ")
    assert named.endswith(".most = 127, .zero_with = 5}")
    assert INT8.designated("scaling", text) == text


def test_commas_inside_brackets_separate_no_values():
    assert split_values("{{1, 2}, f(a, b), c}") == ["{1, 2}", "f(a, b)", "c"]
    assert split_values("{}") == []


def test_a_brace_in_the_name_of_a_layer_ends_no_row():
    row = INT8.row("reader", "{1, 2, 3}, /* a}b{ */")
    assert row == "/* a}b{ */\n    {.stage = 1, .local = 2, .looks_ahead = 3},"
    assert INT8.row("uint16_t", "3,") == "3,"


def test_a_layer_is_told_by_name_operator_and_shapes():
    text = library(small(), planned(small())).files["src/small.c"]
    assert "/* conv: conv 3x3, 2x6x4 to 3x6x4 */\n    {.compute = convolve, " in text
    rows = re.search(r"static const tensor tensors\[\d+\] = \{\n(.*?)\n\};", text, re.DOTALL)[1]
    assert not re.search("staged_offset|flush_rows|readers", text)  # without line buffers
    assert rows.count(".offset = ") == rows.count(".producer = ") == rows.count("/*")
    assert max(len(line) for line in rows.splitlines()) <= 100


def test_a_field_of_reals_beside_integers_has_the_name_that_its_part_has_there():
    assert INT8.designated("slicing", "{{0}, {1}}") == "{.start = {0}, .step = {1}}"
    of_reals = INT8.designated("slicing_of_reals", "{{0}, {1}}")
    assert of_reals == "{.start = {0}, .step_of_reals = {1}}"


def test_heads_of_functions_have_at_most_100_columns():
    parameters = ", ".join(f"const int8_t *a_long_parameter_{i}" for i in range(4))
    head = f"net_status net_run(net_state *state, {parameters});"
    short = short_lines(f"/* {'x' * 120} */\n{head}\nint a;")
    assert max(map(len, short.splitlines()[1:])) <= 100
    assert re.sub(r"\s+", " ", short) == re.sub(r"\s+", " ", f"/* {'x' * 120} */ {head} int a;")
    text = library(small(), planned(small()), name="a" * 20).files
    for path in (f"include/{'a' * 20}.h", f"src/{'a' * 20}.c"):
        heads = [line for line in text[path].splitlines() if line.startswith(("static", "a" * 20))]
        assert heads
        assert max(map(len, heads)) <= 100


def test_a_pointer_to_a_function_is_a_field():
    assert structures_of(FILES).designated("pairing", "{add, 1}") == "{.of = add, .is_flat = 1}"


def test_numbers_of_test_vectors_are_constants_of_c():
    least = np.array([-(2**63), 7])
    assert list(_items_c(least)) == ["(-9223372036854775807 - 1)", "7"]
    assert list(_items_c(np.array([np.nan, -np.inf, 0.5]))) == ["NAN", "-INFINITY", "0.5f"]


def test_parameters_are_written_with_their_values():
    # The least integers of 32 and 64 bits are no constants of C.
    values = [-(2**63), -(2**33), -(2**31) - 1, -(2**31), -5, 2**40]
    assert list(array_items(np.array(values))) == [
        "(-9223372036854775807 - 1)",
        "-8589934592",
        "-2147483649",
        "(-2147483647 - 1)",
        "-5",
        "1099511627776",
    ]
