"""Recurrent layers of ONNX: each output that is read is a layer that works as a whole."""

from __future__ import annotations

from cnn2csdf import operators as op
from cnn2csdf.onnx_files.conversion.assembly import Assembly
from cnn2csdf.onnx_files.conversion.steps import ConversionStep, Numbers
from cnn2csdf.onnx_files.nodes import Node, unsupported

KINDS = {"LSTM": "lstm", "GRU": "gru", "RNN": "rnn"}
USUAL = {"lstm": ("Sigmoid", "Tanh", "Tanh"), "gru": ("Sigmoid", "Tanh"), "rnn": ("Tanh",)}
GIVEN = ("all", "last", "cell")
ROLES = ((1, "matrix"), (2, "recurrent matrix"), (3, "bias"), (5, "state"), (6, "cell"))


def recurrence(node: Node, assembly: Assembly) -> None:
    """Add a recurrent layer for each output that is read: constant first states, no peepholes."""
    tensor = assembly.dynamic(node, 0)
    kind = KINDS[node.op_type]
    _require_plain(node, kind)
    _require_all_frames(node, assembly)
    weights = {}
    for index, role in ROLES:
        if node.input(index) is not None and (role != "cell" or kind == "lstm"):
            numbers, _ = assembly.trained(node, index, f"the {role}")
            weights[role] = assembly.numbers(numbers)
    dims = assembly.values.dims(tensor)
    read = [one for one in node.outputs if one and assembly.is_read(one)]
    for gives, output in zip(GIVEN, node.outputs, strict=False):
        if output in read:
            name = output if len(read) > 1 else None
            layer = _step(node, kind, gives, weights)
            whole = () if assembly.shape(tensor).dims == dims else (op.Reshape(dims=dims),)
            found = assembly.values.dims(output)
            ends = (op.Reshape(dims=found[1:]),) if found[0] == 1 and gives == "all" else ()
            assembly.add(node, *whole, layer, *ends, inputs=(tensor,), output=output, name=name)


def _step(node: Node, kind: str, gives: str, weights: dict[str, Numbers]) -> ConversionStep:
    operator = op.Recurrence(
        kind=kind,
        units=node.integer("hidden_size", 0),
        direction=node.text("direction", "forward"),
        resets_after=bool(node.integer("linear_before_reset", 0)),
        gives=gives,
        has_bias="bias" in weights,
        has_state="state" in weights,
        has_cell="cell" in weights,
    )
    return ConversionStep(operator=operator, weights=weights)


def _require_plain(node: Node, kind: str) -> None:
    """Raise UnsupportedOperator for a form other than the usual one."""
    if node.integer("layout", 0):
        raise unsupported(node, "layout = 1 is not supported")
    if node.integer("input_forget", 0) or "clip" in node.attributes:
        raise unsupported(node, "input_forget and clip are not supported")
    if node.input(7) is not None:
        raise unsupported(node, "peepholes are not supported")
    names = node.texts("activations")
    if names is not None and any(
        name.lower() != usual.lower() for name, usual in zip(names, USUAL[kind] * 2, strict=False)
    ):
        raise unsupported(node, f"activations {', '.join(names)} are not supported")


def _require_all_frames(node: Node, assembly: Assembly) -> None:
    dims = assembly.values.dims(node.required(0))
    if len(dims) != 3:
        raise unsupported(node, f"works on frames x sequences x elements only, found {dims}")
    lengths = assembly.integers(node, 4, "the lengths")
    if lengths is not None and set(lengths) != {dims[0]}:
        raise unsupported(node, "sequences shorter than the tensor are not supported")
