"""The types in which C computes operators, beside what the calls say of files of these operators."""

import pytest

from cnn2csdf.dtypes import Element
from cnn2csdf.readers.supported import supported
from cnn2csdf.readers.tflite.reader import parse_tflite
from cnn2csdf.simplify import simplified
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
                calls.of_stage("BY_ROWS", [calls.described(layer)], {})
                calls.steps_behind(calls.described(layer))
    except UnsupportedOperator:
        return False
    return True
