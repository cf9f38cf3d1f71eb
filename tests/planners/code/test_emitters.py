"""The registry of emitters of C calls."""

import inspect

import pytest

from cnn2csdf import operators as op
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
