"""ONNX nodes of operators with truth values, places, trained operands and states.

Every tensor of the layers is written as float: truth values and whole numbers are cast around the
nodes that need them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from string import ascii_letters
from typing import Any

import numpy as np
import onnx

from cnn2csdf import operators as op
from cnn2csdf.onnx_files.writing.drawing import Constant, NodePiece
from cnn2csdf.onnx_files.writing.place import Pieces, WritingPlace, integers, reshaped
from cnn2csdf.operators.operands import Constants, constant_role
from csdf.errors import InvalidNetwork

FLOAT, BOOL, INTEGER = (onnx.TensorProto.FLOAT, onnx.TensorProto.BOOL, onnx.TensorProto.INT64)
COMPARISONS = {
    "greater": "Greater",
    "greater or equal": "GreaterOrEqual",
    "less": "Less",
    "less or equal": "LessOrEqual",
    "equal": "Equal",
}
LOGIC = {"and": "Mul", "or": "Max", "exclusive or": "Sub"}  # of numbers that are 0 or 1
TRUTHS = (*COMPARISONS, *LOGIC)
RECURRENCES = {"lstm": "LSTM", "gru": "GRU", "rnn": "RNN"}


def cast(kind: int) -> NodePiece:
    """Return a conversion to that type of element."""
    return NodePiece(op_type="Cast", attributes={"to": kind})


def truth_pieces(operator: op.Elementwise, place: WritingPlace) -> Pieces:
    """Return a comparison; of truth values, arithmetic of numbers that are 0 or 1."""
    rank, constants = len(place.output.dims), place.trained("constant")
    given = tuple((role, one[None] if one.ndim == rank else one) for role, one in constants)
    if operator.function in COMPARISONS:
        first = operator.constant_first
        kind = COMPARISONS[operator.function]
        return [NodePiece(op_type=kind, constants=given, constant_first=first), cast(FLOAT)]
    if len(place.inputs) != 2:
        raise InvalidNetwork(f"{operator.function!r} of a constant has no ONNX node")
    kind = LOGIC[operator.function]
    return [NodePiece(op_type=kind), NodePiece(op_type="Abs"), cast(BOOL), cast(FLOAT)]


def _choice(operator: op.Choice, place_of: WritingPlace) -> Pieces:
    """The condition is cast to a truth value; a trained one is one already."""
    weights, rank = place_of.weights, len(place_of.output.dims)
    places = [place for place, _ in operator.constants]
    given = {
        place: array[None] if array.ndim == rank else array
        for place, array in ((place, weights[constant_role(place)]) for place in places)
    }
    if 0 in given:
        given[0] = given[0] != 0
    constants = tuple((constant_role(place), given[place]) for place in places)
    tensors = [place for place in range(3) if place not in given]
    order = tuple([*tensors, *places].index(place) for place in range(3))
    if 0 in given:
        return [NodePiece(op_type="Where", constants=constants, order=order)]
    condition = NodePiece(op_type="Cast", attributes={"to": BOOL}, reads=(0,))
    rest = tuple(range(1, len(tensors)))
    return [condition, NodePiece(op_type="Where", constants=constants, reads=rest, order=order)]


def _extreme_place(operator: op.ExtremePlace, _place: WritingPlace) -> Pieces:
    attributes = {
        "axis": operator.axis + 1,
        "keepdims": 1,
        "select_last_index": int(operator.takes_last),
    }
    kind = {"max": "ArgMax", "min": "ArgMin"}[operator.function]
    return [NodePiece(op_type=kind, attributes=attributes), cast(FLOAT)]


def _ranking(operator: op.Ranking, _place: WritingPlace) -> Pieces:
    piece = NodePiece(
        op_type="TopK",
        constants=(("count", np.array([operator.count], np.int64)),),
        attributes={"axis": operator.axis + 1, "largest": int(operator.takes_largest)},
        output=int(operator.gives_places),
        outputs=2,
    )
    return [piece, cast(FLOAT)] if operator.gives_places else [piece]


def _running_sum(operator: op.RunningSum, _place: WritingPlace) -> Pieces:
    attributes = {"exclusive": int(operator.is_exclusive), "reverse": int(operator.is_reversed)}
    axis = ("axis", np.array(operator.axis + 1, np.int64))
    return [NodePiece(op_type="CumSum", constants=(axis,), attributes=attributes)]


def _repeat(operator: op.Repeat, place: WritingPlace) -> Pieces:
    axes = range(len(place.output.dims))
    times = [1, *(operator.times if axis == operator.axis else 1 for axis in axes)]
    return [NodePiece(op_type="Tile", constants=(integers("times", times),))]


def _gather(operator: op.Gather, _place: WritingPlace) -> Pieces:
    places = integers("places", operator.places)
    return [
        NodePiece(op_type="Gather", constants=(places,), attributes={"axis": operator.axis + 1})
    ]


def _joined(operator: op.ConstantConcatenation, place: WritingPlace) -> Pieces:
    constants, order = _trained(operator.constants, place, batch=True)
    attributes = {"axis": operator.axis + 1}
    return [NodePiece(op_type="Concat", constants=constants, order=order, attributes=attributes)]


def _tensor_product(operator: op.TensorProduct, place: WritingPlace) -> Pieces:
    """The batch of one is a letter of its own."""
    letters = set("".join(operator.terms))
    batch = next(one for one in ascii_letters if one not in letters)
    constants, order = _trained(operator.constants, place, batch=False)
    trained = [index for index, _ in operator.constants]
    terms = ",".join(
        term if index in trained else batch + term for index, term in enumerate(operator.terms)
    )
    attributes = {"equation": f"{terms}->{batch}{operator.result}"}
    ends = [] if operator.result else [reshaped(place.output.dims)]
    product = NodePiece(op_type="Einsum", constants=constants, order=order, attributes=attributes)
    return [product, *ends]


def _trained(
    constants: Constants, place: WritingPlace, *, batch: bool
) -> tuple[tuple[Constant, ...], tuple[int, ...]]:
    """Trained operands, with a batch axis where wanted, and the order of all operands."""
    places = [one for one, _ in constants]
    total = len(place.inputs) + len(places)
    tensors = [one for one in range(total) if one not in places]
    arrays = {one: place.weights[constant_role(one)] for one in places}
    given = tuple(
        (constant_role(one), array[None] if batch else array) for one, array in arrays.items()
    )
    return given, tuple([*tensors, *places].index(one) for one in range(total))


def _recurrence(operator: op.Recurrence, place: WritingPlace) -> Pieces:
    attributes: dict[str, Any] = {
        "hidden_size": operator.units,
        "direction": operator.direction,
    }
    if operator.kind == "gru":
        attributes["linear_before_reset"] = int(operator.resets_after)
    roles = ("matrix", "recurrent matrix", "bias", "", "state", "cell")
    constants = [(role, place.weights[role]) if role in place.weights else None for role in roles]
    while constants[-1] is None:
        constants.pop()
    output = {"all": 0, "last": 1, "cell": 2}[operator.gives]
    frames = NodePiece(op_type="Reshape", constants=(integers("frames", place.inputs[0].dims),))
    layer = NodePiece(
        op_type=RECURRENCES[operator.kind],
        constants=tuple(constants),
        attributes=attributes,
        output=output,
        outputs=3 if operator.kind == "lstm" else 2,
    )
    return [frames, layer, reshaped(place.output.dims)]


WRITERS: Mapping[type, Callable[[Any, WritingPlace], Pieces]] = {
    op.Choice: _choice,
    op.ConstantConcatenation: _joined,
    op.ExtremePlace: _extreme_place,
    op.Gather: _gather,
    op.Ranking: _ranking,
    op.Recurrence: _recurrence,
    op.Repeat: _repeat,
    op.RunningSum: _running_sum,
    op.TensorProduct: _tensor_product,
}
