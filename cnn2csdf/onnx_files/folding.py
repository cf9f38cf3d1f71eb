"""Running the nodes that no frame changes, with the reference implementation of the operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx.reference import ReferenceEvaluator

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
            found = ReferenceEvaluator(model).run(None, dict(given))
            return {name: np.asarray(one) for name, one in zip(outputs, found, strict=True)}
    except REFUSALS as error:
        raise UnreadableFile(
            f"{nodes[-1]}: its constant value cannot be computed: "
            f"{str(error).strip().partition(chr(10))[0] or type(error).__name__}"
        ) from None
