"""The types in which C computes operators, beside what the calls say of files of these operators."""

import pytest

from cnn2csdf.dtypes import Element
from cnn2csdf.readers.supported import of_constants, refused, supported
from cnn2csdf.readers.tflite.model_file import NAMES as BUILTIN
from cnn2csdf.readers.tflite.reader import parse_tflite
from cnn2csdf.simplify import simplified
from csdf.cli.main import main
from csdf.errors import UnsupportedOperator
from planners.code.c_text import Tables
from planners.code.calls.by_data_type import LayerCalls
from planners.code.supported import types_in_c
from tests.cnn2csdf.readers.tflite_cases import NAMES, case

USUAL = [(kind, dtype) for kind, dtype in NAMES if " " not in kind]  # forms


@pytest.mark.slow
def test_the_types_in_c_are_those_for_which_files_have_calls():
    operators = {one.operator: one for one in supported() if one.reader == "TensorFlow Lite"}
    for kind, dtype in USUAL:
        one = operators[kind]
        types = types_in_c(one.layers, one.attributes, [Element(dtype)])
        assert bool(types) == has_calls(case(kind, dtype, 0)), (kind, dtype)


def has_calls(content):
    """Whether all layers of a file have a call."""
    model = simplified(parse_tflite(content, "one.tflite", with_weights=True))
    calls = LayerCalls(model, Tables("net"))
    try:
        for layer in model.network.layers:
            if not layer.is_input:
                calls.stage_calls("BY_ROWS", [calls.node(layer)], {})
                calls.epilogue_steps(calls.node(layer))
    except UnsupportedOperator:
        return False
    return True


def test_every_builtin_operator_is_supported_evaluated_or_refused_with_a_reason():
    read = {one.operator for one in supported() if one.reader == "TensorFlow Lite"}
    lists = [
        {name for name in read if not name.startswith("CUSTOM")},
        {*of_constants()},
        {*refused()},
    ]
    opened = {"CUSTOM", "IF"}  # by name, and by its graphs
    assert set.union(*lists) | opened == set(BUILTIN.values())
    assert sum(map(len, lists)) == len(set.union(*lists))
    assert all(refused().values())


def test_the_table_of_operators_has_no_line_of_more_than_80_characters(capsys):
    assert main(["cnn", "operators"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert any(line.split()[:4] == ["CONV_2D", "f32", "i8", "i16"] for line in lines)
