"""Functions of single elements of ONNX as layers; choices, argmax, top k and running sums."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any

import onnx

from cnn2csdf import operators as op
from cnn2csdf.onnx_files.conversion.assembly import OnnxAssembly, Weighted
from cnn2csdf.onnx_files.conversion.moves import expanded
from cnn2csdf.onnx_files.input_dims import FLOATS
from cnn2csdf.onnx_files.nodes import OnnxNode, unsupported
from csdf.errors import UnreadableFile, counted

BOOL = onnx.TensorProto.BOOL
WHOLE = frozenset({onnx.TensorProto.INT64, onnx.TensorProto.INT32})
NARROW: Mapping[int, int] = {  # small integers, with how many of them are not negative
    onnx.TensorProto.UINT8: 1 << 8,
    onnx.TensorProto.INT8: 1 << 7,
    onnx.TensorProto.UINT16: 1 << 16,
    onnx.TensorProto.INT16: 1 << 15,
}
HELD_BY: Mapping[int, frozenset[int]] = {  # types all of whose numbers the target has
    onnx.TensorProto.UINT16: frozenset({onnx.TensorProto.UINT8}),
    onnx.TensorProto.INT16: frozenset({onnx.TensorProto.UINT8, onnx.TensorProto.INT8}),
}
LARGEST_REAL = 3.4e38  # how exporters write "no limit" in single precision
EXTREMES = {"ArgMax": "max", "ArgMin": "min"}

PLAIN = {  # op type: function and its attributes with the values they have when left out
    "Relu": ("relu", ()),
    "LeakyRelu": ("leaky relu", (("alpha", 0.01),)),
    "Sigmoid": ("sigmoid", ()),
    "HardSigmoid": ("hard sigmoid", (("alpha", 0.2), ("beta", 0.5))),
    "HardSwish": ("hard swish", ()),
    "Mish": ("mish", ()),
    "Elu": ("elu", (("alpha", 1.0),)),
    "Selu": ("selu", (("alpha", 1.6732632), ("gamma", 1.050701))),
    "Celu": ("celu", (("alpha", 1.0),)),
    "Tanh": ("tanh", ()),
    "Softplus": ("softplus", ()),
    "Softsign": ("softsign", ()),
    "ThresholdedRelu": ("thresholded relu", (("alpha", 1.0),)),
    "Exp": ("exp", ()),
    "Log": ("log", ()),
    "Sqrt": ("sqrt", ()),
    "Abs": ("abs", ()),
    "Neg": ("negative", ()),
    "Reciprocal": ("reciprocal", ()),
    "Erf": ("erf", ()),
    "Sin": ("sin", ()),
    "Cos": ("cos", ()),
    "Round": ("round", ()),
    "Floor": ("floor", ()),
    "Ceil": ("ceil", ()),
    "Sign": ("sign", ()),
    "Not": ("not", ()),
    "ZeroForNan": ("zero for nan", ()),  # made from Where and IsNaN, no operator of ONNX
}
GELUS = {"none": "gelu", "tanh": "gelu tanh"}
FUNCTIONS = {
    "Add": "add",
    "Sum": "add",
    "Sub": "subtract",
    "Mul": "multiply",
    "Div": "divide",
    "Max": "maximum",
    "Min": "minimum",
    "Mean": "mean",
    "Mod": "floor modulo",
    "Pow": "power",
    "Greater": "greater",
    "GreaterOrEqual": "greater or equal",
    "Less": "less",
    "LessOrEqual": "less or equal",
    "Equal": "equal",
    "And": "and",
    "Or": "or",
    "Xor": "exclusive or",
}
ORDERED = (  # where it matters which operand comes first
    *("subtract", "divide", "power", "greater", "greater or equal", "less", "less or equal"),
    "floor modulo",
)


def attributes_by_kind() -> dict[str, dict[str, Any]]:
    """Return the function, and its usual parameters, of each type of node that is one of elements."""
    functions: dict[str, dict[str, Any]] = {
        kind: {"function": function} for kind, function in FUNCTIONS.items()
    }
    for kind, (function, defaults) in PLAIN.items():
        parameters = tuple(value for _, value in defaults)
        functions[kind] = {"function": function, "parameters": parameters}
    return functions


def activation(node: OnnxNode, assembly: OnnxAssembly) -> None:
    """Add a function of each element; its parameters are attributes."""
    function, attributes = PLAIN[node.op_type]
    parameters = tuple(node.real(name, default) for name, default in attributes)
    assembly.add(node, op.Activation(function=function, parameters=parameters))


def gelu(node: OnnxNode, assembly: OnnxAssembly) -> None:
    """Add a GELU, the exact one or its approximation by tanh."""
    form = node.text("approximate", "none")
    if form not in GELUS:
        raise unsupported(node, f"approximate = {form!r} is not supported")
    assembly.add(node, op.Activation(function=GELUS[form]))


def swish(node: OnnxNode, assembly: OnnxAssembly) -> None:
    """Add a SiLU."""
    if node.real("alpha", 1.0) != 1.0:
        raise unsupported(node, f"alpha = {node.real('alpha', 1.0)} is not supported, 1 is")
    assembly.add(node, op.Activation(function="silu"))


def clip(node: OnnxNode, assembly: OnnxAssembly) -> None:
    """Add a clip; its limits are attributes before opset 11."""
    if node.opset < 11:
        low, high = node.real("min", -inf), node.real("max", inf)
    else:
        low = (assembly.reals(node, 1, "the lower limit") or (-inf,))[0]
        high = (assembly.reals(node, 2, "the upper limit") or (inf,))[0]
    limits = (-inf if low < -LARGEST_REAL else low, inf if high > LARGEST_REAL else high)
    assembly.add(node, op.Activation(function="clip", parameters=limits))


def prelu(node: OnnxNode, assembly: OnnxAssembly) -> None:
    """Add a rectifier with a trained slope for each feature map."""
    shape = assembly.shape(assembly.dynamic(node, 0))
    _, dims = assembly.trained(node, 1, "the slope")
    rank = len(shape.dims)
    aligned = ((1,) * (rank - len(dims)) + dims)[-rank:]
    if aligned[0] not in (1, shape.channels) or max(aligned[1:], default=1) > 1:
        listed = "x".join(map(str, dims))
        raise unsupported(node, f"a slope of shape {listed}, expected one for each feature map")
    slope = assembly.vector(node, 1, "the slope", shape.channels)
    assembly.add(node, Weighted(op.Activation(function="prelu"), {"slope": slope}))


def elementwise(node: OnnxNode, assembly: OnnxAssembly) -> None:
    """Add a function of the elements of several tensors, or of tensors and one constant."""
    function = FUNCTIONS[node.op_type]
    if node.op_type == "Mod" and node.integer("fmod", 0):
        raise unsupported(node, "fmod = 1, the sign of the dividend, is not supported")
    operands = [node.required(index) for index in range(len(node.inputs))]
    constants = [name for name in operands if assembly.is_static(name)]
    tensors = [name for name in operands if not assembly.is_static(name)]
    if len(constants) > 1:
        raise unsupported(node, "more than one constant operand is not supported")
    if not constants:
        is_one = len(tensors) == 1
        step = op.Identity() if is_one else op.Elementwise(function=function)
        assembly.add(node, step, inputs=tensors)
        return
    if function == "and" and len(tensors) == 1 and assembly.values.value(constants[0]).all():
        expanded(node, assembly, tensors[0])  # a mask of tokens that no other mask changes
        return
    dims = assembly.frame_dims(node, constants[0])
    operator = op.Elementwise(
        function=function,
        constant=dims,
        constant_first=function in ORDERED and node.inputs[0] == constants[0],
    )
    numbers = assembly.reshaped(constants[0], dims)
    assembly.add(node, Weighted(operator, {"constant": numbers}), inputs=tensors)


def identity(node: OnnxNode, assembly: OnnxAssembly) -> None:
    """Add a layer that does nothing."""
    assembly.add(node, op.Identity())


def dropout(node: OnnxNode, assembly: OnnxAssembly) -> None:
    """Add a dropout, which does nothing at inference."""
    if any(assembly.integers(node, 2, "the training mode") or ()):
        raise unsupported(node, "training_mode is not supported; export the model for inference")
    assembly.add(node, op.Identity(kind="dropout"))


def cast(node: OnnxNode, assembly: OnnxAssembly) -> None:
    """Add a conversion to real numbers, truth values, or integers of 8, 16, 32 and 64 bits that fit.

    Real values out of range are undefined in ONNX too. Integer narrowing is refused, unless the
    values are known to be indices that fit.
    """
    tensor, target = assembly.dynamic(node, 0), node.integer("to", 0)
    source = assembly.values.element_type(tensor)
    if target not in FLOATS | WHOLE | set(NARROW) | {BOOL}:
        raise unsupported(node, f"a cast to {_type_name(target)} is not supported")
    types_that_fit = {*FLOATS, *HELD_BY.get(target, ()), BOOL, target}
    if target in NARROW and source not in types_that_fit:
        count = assembly.indexed_length(tensor)
        if count is None or count > NARROW[target]:
            name = _type_name(target)
            reason = f"a cast of integers to {name}, which might not hold them, is not supported"
            raise unsupported(node, reason)
    step: op.Operator = op.Identity()
    if target == BOOL and source != target:
        step = op.Activation(function="is not zero")
    elif target in WHOLE | set(NARROW) and source in FLOATS:
        step = op.Activation(function="truncate")
    assembly.add(node, step)


def _type_name(target: int) -> str:
    type_values = onnx.TensorProto.DataType.values()
    return onnx.TensorProto.DataType.Name(target) if target in type_values else str(target)


def where(node: OnnxNode, assembly: OnnxAssembly) -> None:
    """Add a choice between two tensors or constants by a third."""
    operands = [node.required(index) for index in range(3)]
    constants, weights = assembly.constant_operands(
        operands, lambda name: assembly.frame_dims(node, name)
    )
    tensors = [name for name in operands if not assembly.is_static(name)]
    step = Weighted(op.Choice(constants=constants), weights)
    assembly.add(node, step, inputs=tensors)


def extreme_place(node: OnnxNode, assembly: OnnxAssembly) -> None:
    """Add an argmax or argmin along an axis; without keepdims a reshape moves the axis last."""
    tensor = assembly.dynamic(node, 0)
    axis = assembly.frame_axis(node, tensor, node.integer("axis", 0))
    operator = op.ExtremePlace(
        function=EXTREMES[node.op_type],
        axis=axis,
        takes_last=bool(node.integer("select_last_index", 0)),
    )
    dims = assembly.shape(tensor).dims
    rest = (*dims[:axis], *dims[axis + 1 :]) or (1,)
    without = () if node.integer("keepdims", 1) else (op.Reshape(dims=rest),)
    assembly.add(node, operator, *without)


def ranking(node: OnnxNode, assembly: OnnxAssembly) -> None:
    """Add a top k: the largest elements, their indices, or both, as they are read."""
    tensor = assembly.dynamic(node, 0)
    count = (
        node.integer("k", 0) if node.opset < 10 else (assembly.integers(node, 1, "k") or (0,))[0]
    )
    axis = assembly.frame_axis(node, tensor, node.integer("axis", -1))
    size = assembly.shape(tensor).dims[axis]
    if not 0 < count <= size:
        elements = counted(size, "element")
        raise unsupported(node, f"k = {count} of {elements} along the axis, expected 1 to {size}")
    read = [output for output in node.outputs if output and assembly.is_read(output)]
    for gives_places, output in enumerate(node.outputs):
        if output in read:
            operator = op.Ranking(
                axis=axis,
                count=count,
                takes_largest=bool(node.integer("largest", 1)),
                gives_places=bool(gives_places),
            )
            name = output if len(read) > 1 else None
            assembly.add(node, operator, output=output, name=name)


def running_sum(node: OnnxNode, assembly: OnnxAssembly) -> None:
    """Add a cumulative sum."""
    tensor = assembly.dynamic(node, 0)
    axes = assembly.integers(node, 1, "the axis") or ()
    if len(axes) != 1:
        raise UnreadableFile(f"{node}: {len(axes)} axes, expected one")
    operator = op.RunningSum(
        axis=assembly.frame_axis(node, tensor, axes[0]),
        is_exclusive=bool(node.integer("exclusive", 0)),
        is_reversed=bool(node.integer("reverse", 0)),
    )
    assembly.add(node, operator)
