"""Running the nodes that no frame changes, with the reference implementation of the operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

from cnn2csdf.onnx_files.nodes import Node
from csdf.errors import UnreadableFile

REFUSALS = (  # what the onnx package raises where a message makes no sense
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    MemoryError,
    RuntimeError,
    TypeError,
    ValueError,
)
Value = NDArray[Any]


class QuantizeLinear(OpRun):
    """For all opsets: the onnx package has the newest only."""

    def _run(self, x: Value, scale: Value, zero: Value | None = None, **attributes: Any) -> Any:
        zero = np.zeros(1, np.uint8) if zero is None else zero
        steps, zeros = (_along(one, x, attributes) for one in (scale, zero))
        limits = np.iinfo(zero.dtype)
        found = np.rint(x / steps) + zeros.astype(np.float64)
        return (np.clip(found, limits.min, limits.max).astype(zero.dtype),)


class DequantizeLinear(OpRun):
    """For all opsets: the onnx package has the newest only."""

    def _run(self, x: Value, scale: Value, zero: Value | None = None, **attributes: Any) -> Any:
        zero = np.zeros(1, x.dtype) if zero is None else zero
        steps, zeros = (_along(one, x, attributes) for one in (scale, zero))
        return ((x.astype(np.int64) - zeros.astype(np.int64)).astype(scale.dtype) * steps,)


def _along(values: Value, tensor: Value, attributes: Mapping[str, Any]) -> Value:
    """Return a single value, or a value for each place along the axis of the node."""
    if attributes.get("block_size"):
        raise NotImplementedError("scales of blocks are not supported")
    if values.size == 1:
        return values.reshape(())
    axis = int(attributes["axis"])
    return values.reshape(
        [-1 if place == axis % tensor.ndim else 1 for place in range(tensor.ndim)]
    )


def range_length(start: Value, limit: Value, delta: Value) -> int:
    """Return how many numbers a range holds, computed in double precision."""
    if start.dtype.kind == "i":
        return max(-((int(start) - int(limit)) // int(delta)), 0)
    return max(ceil((float(limit) - float(start)) / float(delta)), 0)


class Range(OpRun):
    """As ONNX Runtime, which adds the step again and again, each sum rounded."""

    def _run(self, start: Value, limit: Value, delta: Value, **_: Any) -> Any:
        start, limit, delta = (np.reshape(one, ()) for one in (start, limit, delta))
        steps = np.full(range_length(start, limit, delta), delta, start.dtype)
        steps[:1] = start
        return (np.add.accumulate(steps, dtype=start.dtype),)


OWN = [QuantizeLinear, DequantizeLinear, Range]


def folded(
    nodes: Sequence[Node],
    given: Mapping[str, Value],
    opsets: Sequence[onnx.OperatorSetIdProto],
) -> dict[str, Value]:
    """Return what the nodes write, from the values of what they read.

    Raises UnreadableFile, naming the last node, where they cannot be run.
    """
    outputs = [name for node in nodes for name in node.outputs if name]
    graph = onnx.GraphProto(
        name="folded",
        node=[node.proto for node in nodes],
        input=[onnx.ValueInfoProto(name=name) for name in given],
        output=[onnx.ValueInfoProto(name=name) for name in outputs],
    )
    model = onnx.ModelProto(ir_version=onnx.IR_VERSION, graph=graph, opset_import=opsets)
    try:
        with np.errstate(all="ignore"):
            found = ReferenceEvaluator(model, new_ops=OWN).run(None, dict(given))
            return {name: np.asarray(one) for name, one in zip(outputs, found, strict=True)}
    except REFUSALS as error:
        raise UnreadableFile(
            f"{nodes[-1]}: its constant value cannot be computed: "
            f"{str(error).strip().partition(chr(10))[0] or type(error).__name__}"
        ) from None
