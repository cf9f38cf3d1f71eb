"""Windows over lines, as in audio: a tensor of 1 x channels x length as maps of one column.

Such maps work by rows. Functions of single elements behind a window stay in that form; for whatever
else reads the tensor, a reshape gives it the axes of the file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps

import onnx

from cnn2csdf import operators as op
from cnn2csdf.elements import Quantization
from cnn2csdf.network import Shape
from cnn2csdf.onnx_files.conversion.assembly import Assembly, Dims
from cnn2csdf.onnx_files.conversion.steps import ConversionStep, Numbers
from cnn2csdf.onnx_files.nodes import Node, unsupported

Converter = Callable[[Node, Assembly], None]
ONES = ("kernel_shape", "strides", "dilations")  # lists with a one for the column
ZEROS = ("output_padding",)


class LineAssembly(Assembly):
    """The same network under construction, to which lines are maps of one column."""

    def __init__(self, assembly: Assembly) -> None:
        """Share everything with the assembly."""
        self.__dict__ = assembly.__dict__

    def map_shape(self, node: Node, index: int) -> Shape:
        """Return the shape of an input as a stack of maps."""
        return self.builder.shape(self.raised(self.dynamic(node, index)))

    def trained(self, node: Node, index: int, what: str) -> tuple[str, Dims]:
        """Return the name and dims of weights; kernels have one column."""
        tensor, dims = super().trained(node, index, what)
        return tensor, (*dims, 1) if len(dims) == 3 else dims

    def numbers(self, tensor: str) -> Numbers:
        """Return a kernel with one column."""
        return Numbers(tensor, lambda: self.values.value(tensor)[..., None])

    def add(
        self,
        node: Node,
        *steps: ConversionStep | op.Operator,
        inputs: Sequence[str],
        output: str | None = None,
        name: str | None = None,
        quantization: Quantization | None = None,
    ) -> None:
        """Add layers that read and write maps of one column.

        Raises UnsupportedOperator where the result is quantised.
        """
        if quantization is not None:
            raise unsupported(node, "windows over lines of integers are not supported")
        self.add_raised(node, *steps, inputs=inputs, output=output, name=name)


def over_lines(convert: Converter) -> Converter:
    """Return a converter that also takes windows over lines."""

    @wraps(convert)
    def converted(node: Node, assembly: Assembly) -> None:
        source = node.required(0)
        is_line = assembly.has(source) and assembly.is_line(source)
        if is_line:
            convert(_with_column(node), LineAssembly(assembly))
        else:
            convert(node, assembly)

    return converted


def _with_column(node: Node) -> Node:
    """The node with attributes for rows and one column."""
    attributes = dict(node.attributes)
    for name in (*ONES, *ZEROS):
        found = node.integers(name)
        if found is not None and len(found) == 1:
            one = int(name in ONES)
            attributes[name] = onnx.helper.make_attribute(name, [*found, one])
    pads = node.integers("pads")
    if pads is not None and len(pads) == 2:
        attributes["pads"] = onnx.helper.make_attribute("pads", [pads[0], 0, pads[1], 0])
    return replace(node, attributes=attributes)
