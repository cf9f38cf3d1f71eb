"""The registry of emitters of C calls."""

import inspect
import re
from dataclasses import replace

import numpy as np
import pytest

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.dtypes import Arithmetic, Element, Quantization
from cnn2csdf.weights import Model
from csdf.errors import UnsupportedOperator
from planners.code.c_text import Tables
from planners.code.calls import by_data_type, emitters
from planners.code.calls.emitters import Numbers, emitter_of, kinds_in

KINDS = [
    kind for kind in vars(op).values() if inspect.isclass(kind) and issubclass(kind, op.Operator)
]


def test_an_operator_has_the_emitter_of_the_first_arithmetic_that_has_any():
    softmax = op.Softmax(axis=0)
    single = emitter_of(softmax, Numbers.SINGLE, Numbers.FIXED)
    assert single is emitter_of(softmax, Numbers.SINGLE)
    assert single is not emitter_of(softmax, Numbers.FIXED)
    assert emitter_of(op.Pad(padding=(0, 0, 0, 0)), Numbers.SINGLE, Numbers.FIXED) is emitter_of(
        op.Pad(padding=(0, 0, 0, 0)), Numbers.FIXED
    )


def test_an_operator_without_an_emitter_has_none():
    assert emitter_of(op.Input(dims=(1,)), *Numbers) is None


def test_a_class_that_is_registered_is_listed(monkeypatch):
    monkeypatch.setattr(emitters, "_EMITTERS", dict(emitters._EMITTERS))
    emitters.register(Numbers.WIDE, {op.Input: lambda one, _: one.call("copy_region")})
    assert op.Input in kinds_in(Numbers.WIDE)
    assert op.Input not in kinds_in(Numbers.REAL)


@pytest.mark.parametrize("numbers", Numbers)
def test_emitters_are_of_operators_of_the_package(numbers):
    assert by_data_type.LayerCalls  # imports all modules that register
    assert kinds_in(numbers)
    assert kinds_in(numbers) <= {*KINDS}


def function_of(operator, sources, types, weights=None):
    """The C function of a layer that reads tensors of these dims and types, and writes `types`."""
    builder = NetworkBuilder()
    names = [
        builder.input(dims, f"input{number}", element=Element.INT8, quantization=read)
        if read
        else builder.input(dims, f"input{number}")
        for number, (dims, read) in enumerate(sources)
    ]
    name = builder.add(operator, *names, quantization=types)
    builder.output(name)
    network = builder.network()
    calls = by_data_type.LayerCalls(
        Model(network=network, weights={name: weights or {}}), Tables("tried")
    )
    (call,) = calls.stage_calls("BY_ROWS", [calls.node(network.layer(name))], {})
    return call.function


INT8 = Quantization(element=Element.INT8, scales=(0.5,))
SINGLE = replace(INT8, arithmetic=Arithmetic.SINGLE_PRECISION)


def test_a_table_of_integers_is_looked_up_by_real_indices():
    table = {"table": np.zeros((5, 3), np.int8)}
    rows = function_of(op.Embedding(entries=5, width=3), [((1, 4, 1), None)], SINGLE, table)
    assert rows == "look_up_integers"


def test_integers_are_gathered_at_real_positions():
    assert function_of(op.GatherPoints(), [((6, 2), INT8), ((3, 1), None)], INT8) == "gather_points"


@pytest.mark.parametrize("types", [INT8, SINGLE])
def test_real_weights_between_integers_are_refused_by_the_name_of_their_layer(types):
    operator = op.TransposedConvolution(filters=2, window=op.Window(kernel=(3, 3)), has_bias=False)
    kernel = {"kernel": np.ones((3, 2, 3, 3), np.float32)}
    with pytest.raises(UnsupportedOperator, match="kernel is not stored as integers"):
        function_of(operator, [((3, 4, 4), types)], types, kernel)


@pytest.mark.parametrize(
    ("operator", "dims", "axes"),
    [
        (op.InstanceNormalization(), (5,), "()"),  # without positions
        (op.Reduction(function="mean", axes=(), keeps=True), (5, 4), "()"),
        (op.Reduction(function="mean", axes=(0, 2), keeps=True), (5, 4, 3, 2), "(0, 2)"),
    ],
)
def test_reductions_over_no_axes_or_axes_apart_are_refused_by_the_name_of_their_layer(
    operator, dims, axes
):
    weights = {"scale": np.ones(5, np.float32), "shift": np.zeros(5, np.float32)}
    with pytest.raises(UnsupportedOperator, match=rf"over axes {re.escape(axes)} of {len(dims)}$"):
        function_of(operator, [(dims, None)], None, weights)
