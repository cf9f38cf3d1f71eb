"""Functions of elements, reductions and conversions of a TensorFlow Lite graph as layers.

A tensor of four axes is batch x rows x columns x channels in the file, and channels x rows x columns
in a layer: the batch, of size 1, is dropped. `assembly.axes(node, dims)` lists the axes of the file in
the order of the layer, (3, 1, 2) there. `assembly.add_inner` adds a layer of floating point before
those of the node, `assembly.add_moves` layers that move elements, `assembly.add` the layers of the
output.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import inf, isfinite, prod

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.arrays import Array
from cnn2csdf.dtypes import Element, Stored
from cnn2csdf.operators.operands import constant_role
from cnn2csdf.readers.tflite.assembly import Converter, TfliteAssembly, Trained, refusal
from cnn2csdf.readers.tflite.model_file import TfliteNode
from cnn2csdf.readers.tflite.moves import reshape_steps, with_axes_of
from cnn2csdf.readers.tflite.options import frame_axis, fused_activation, options_of
from csdf.errors import UnreadableFile

MAP_AXES = 4  # of a tensor that a layer may hold as feature maps


def elementwise(
    node: TfliteNode, assembly: TfliteAssembly, *, function: str, fused: bool = True
) -> None:
    """Add an elementwise function of two tensors; one operand may be a constant.

    fused: whether the options contain a fused activation.
    """
    sources, constants = _operands(node, assembly, 2)
    if not constants:
        operator, trained = op.Elementwise(function=function), []
    else:
        ((place, value),) = constants.items()
        trained = [assembly.trained(node, place, "constant", value)]
        operator = op.Elementwise(
            function=function, constant=value.shape or (1,), constant_first=place == 0
        )
    code = fused_activation(node, 0) if fused else 0
    assembly.add(node, operator, sources=sources, trained=trained, fused=code)


def sum_of_tensors(node: TfliteNode, assembly: TfliteAssembly) -> None:
    """Add a sum of any number of tensors of one shape."""
    sources, constants = _operands(node, assembly, len(node.inputs))
    if constants:
        raise refusal(node, "a constant among the tensors that are added")
    assembly.add(node, op.Elementwise(function="add"), sources=sources)


def square(node: TfliteNode, assembly: TfliteAssembly) -> None:
    """Add the product of a tensor with itself."""
    source = assembly.source(node, 0)
    assembly.add(node, op.Elementwise(function="multiply"), sources=[source, source])


def choice(node: TfliteNode, assembly: TfliteAssembly) -> None:
    """Add a choice for each element: the second operand where the first is true, else the third."""
    dims = [assembly.tensor(node, index).dims for index in range(3)]
    if node.kind == "SELECT" and dims[0] != dims[1] and prod(dims[0]) != 1:
        raise refusal(node, f"a condition of {dims[0]} that chooses among tensors of {dims[1]}")
    sources, constants = _operands(node, assembly, 3)
    shapes = tuple((place, value.shape or (1,)) for place, value in constants.items())
    trained = [
        assembly.trained(node, place, constant_role(place), value.reshape(value.shape or (1,)))
        for place, value in constants.items()
    ]
    operator = op.Choice(constants=shapes)
    assembly.add(node, operator, sources=sources, trained=trained)


def _operands(
    node: TfliteNode, assembly: TfliteAssembly, count: int
) -> tuple[list[str], dict[int, Array]]:
    """Return the layers of the operands, and constant operands by their index.

    An operand with fewer axes than the result gets axes of size one in front where its axes would
    otherwise not be aligned.
    """
    dynamic = [index for index in range(count) if assembly.is_dynamic(node, index)]
    if not dynamic:
        raise refusal(node, "all operands are constants")
    rank = max(len(assembly.tensor(node, index).dims) for index in dynamic)
    if len(assembly.output(node).dims) == MAP_AXES:
        rank = MAP_AXES
    sources = []
    for index in dynamic:
        source, dims = assembly.source(node, index), assembly.tensor(node, index).dims
        if len(dims) < rank:
            # The source has the axes of the file; the node may read four axes as channels first.
            steps = reshape_steps(
                assembly.builder.shape(source),
                (1,) * (rank - len(dims)) + dims,
                from_map=False,
                to_map=assembly.works_on_maps(node),
            )
            source = assembly.add_moves(node, source, *steps)
        sources.append(source)
    places = [index for index in range(count) if index not in dynamic]
    return sources, {place: _constant_operand(node, assembly, place) for place in places}


def _constant_operand(node: TfliteNode, assembly: TfliteAssembly, place: int) -> Array:
    """Return a constant operand with the axes of the result in the order of the layer.

    Raises UnsupportedOperator if it varies along an axis that the layer drops, the batch.
    """
    dims, value = assembly.output(node).dims, assembly.constant(node, place)
    value = value.reshape((1,) * (len(dims) - value.ndim) + value.shape)
    axes = assembly.axes(node, dims)
    dropped = [axis for axis in range(len(dims)) if axis not in axes]
    if value.ndim > len(dims) or any(value.shape[axis] != 1 for axis in dropped):
        raise refusal(node, f"a constant of {value.shape} for a result of {dims}")
    value = value.transpose((*dropped, *axes))
    return value.reshape(value.shape[len(dropped) :])


def activation(
    node: TfliteNode, assembly: TfliteAssembly, *, function: str, parameters: tuple[float, ...] = ()
) -> None:
    """Add a function of single elements."""
    operator = op.Activation(function=function, parameters=parameters)
    assembly.add(node, operator)


def leaky_relu(node: TfliteNode, assembly: TfliteAssembly) -> None:
    """Add a rectifier with a slope."""
    # The shortest decimal number that is this float32, such as 0.1 instead of 0.10000000149.
    slope = float(str(np.float32(options_of(node).real(0))))
    activation(node, assembly, function="leaky relu", parameters=(slope,))


def gelu(node: TfliteNode, assembly: TfliteAssembly) -> None:
    """Add a GELU, exact or by its approximation with a tanh."""
    is_approximate = node.options is not None and bool(node.options.integer(0, "b"))
    activation(node, assembly, function="gelu tanh" if is_approximate else "gelu")


def prelu(node: TfliteNode, assembly: TfliteAssembly) -> None:
    """Add a rectifier with a trained slope for each channel, for all, or for each element."""
    slope, shape = assembly.constant(node, 1), assembly.shape(node, 0)
    # Of a matrix the first axis is that of the channels, and slopes lie along the last one.
    dims = assembly.tensor(node, 0).dims
    is_by_channel = assembly.axes(node, dims)[:1] == (len(dims) - 1,)
    if slope.size == 1:
        slope = np.repeat(slope, shape.channels)
    elif not is_by_channel or not slope.size == shape.channels == prod(slope.shape[-1:]):
        _add_slopes(node, assembly)
        return
    trained = [assembly.trained(node, 1, "slope", slope.reshape(-1))]
    operator = op.Activation(function="prelu")
    assembly.add(node, operator, trained=trained)


def _add_slopes(node: TfliteNode, assembly: TfliteAssembly) -> None:
    """Add max(x, 0) + slope * min(x, 0), where slopes differ along other axes than the channels."""
    if assembly.tensor(node, 0).quantization() is not None:
        dims = assembly.tensor(node, 1).dims
        raise refusal(node, f"slopes of shape {dims} for integers, expected one for each channel")
    slope, source = _constant_operand(node, assembly, 1), assembly.source(node, 0)
    zero = Trained(array=np.zeros((1,), np.float32), stored=Stored(role="constant"))
    smaller = op.Elementwise(function="minimum", constant=(1,))
    trained = assembly.trained(node, 1, "constant", slope)
    product = op.Elementwise(function="multiply", constant=slope.shape)
    scaled = assembly.add_inner(
        node, product, [assembly.add_inner(node, smaller, [source], [zero])], [trained]
    )
    positive = assembly.add_inner(node, op.Activation(function="relu"), [source], [])
    assembly.add(node, op.Elementwise(function="add"), sources=[positive, scaled])


def softmax(node: TfliteNode, assembly: TfliteAssembly, *, is_logarithm: bool = False) -> None:
    """Add a softmax over the last axis, which is the channel axis of feature maps."""
    dims, source = assembly.tensor(node, 0).dims, assembly.source(node, 0)
    beta = 1.0 if is_logarithm else options_of(node).real(0)
    if not isfinite(beta):
        raise refusal(node, f"beta is {beta}, expected a finite number")
    if beta != 1.0:
        if assembly.tensor(node, 0).quantization() is not None:
            raise refusal(node, f"beta is {beta}, expected 1 for quantised integers")
        factor = np.full((1,) * len(assembly.builder.shape(source).dims), beta, np.float32)
        source = assembly.add_inner(
            node,
            op.Elementwise(function="multiply", constant=factor.shape),
            [source],
            [Trained(array=factor, stored=Stored(role="constant"))],
        )
    axis = frame_axis(node, assembly, dims, -1) if len(dims) > 1 else 0
    operator = op.Softmax(axis=axis, is_logarithm=is_logarithm)
    assembly.add(node, operator, sources=[source])


def conversion(node: TfliteNode, assembly: TfliteAssembly) -> None:
    """Add a conversion of the data type or the quantisation."""
    assembly.add(node, op.Conversion())


def reduction(node: TfliteNode, assembly: TfliteAssembly, *, function: str) -> None:
    """Add a mean, sum or extreme over some axes.

    Where axes are dropped, the others are transposed from the order of the layer to that of the file.
    """
    tensor = assembly.tensor(node, 0)
    rank, keeps = len(tensor.dims), bool(options_of(node).integer(0, "b"))
    listed = assembly.integers(node, 1)
    if any(not -rank <= axis < rank for axis in listed):
        raise refusal(node, f"axes {listed} of a tensor with {rank} axes")
    reduced = {axis % rank for axis in listed}
    # A layer has no axis for a batch of one.
    in_layer = reduced - {0} if rank > 1 and tensor.dims[0] == 1 else reduced
    axes = tuple(sorted(frame_axis(node, assembly, tensor.dims, axis) for axis in in_layer))
    steps: list[op.Operator] = [op.Reduction(function=function, axes=axes, keeps=keeps)]
    if not in_layer:
        # Over a batch of one alone, all functions are the identity.
        if tensor.quantization() != assembly.output(node).quantization():
            raise refusal(node, "a reduction over no axis, or the batch, to another scale")
        steps = [op.Identity()]
    left = [axis for axis in assembly.axes(node, tensor.dims) if axis not in reduced]
    if not keeps and left != sorted(left):
        steps.append(op.Transpose(permutation=tuple(map(left.index, sorted(left)))))
    assembly.add(node, *steps)


def extreme_place(node: TfliteNode, assembly: TfliteAssembly, *, function: str) -> None:
    """Add the index of the largest or smallest element along an axis, which is dropped."""
    dims = assembly.tensor(node, 0).dims
    axes = assembly.integers(node, 1)
    if len(axes) != 1:
        raise UnreadableFile(f"{node}: {len(axes)} axes; expected one")
    operator = op.ExtremePlace(function=function, axis=frame_axis(node, assembly, dims, axes[0]))
    shape = operator.output_shape([assembly.shape(node, 0)])
    steps = with_axes_of(node, assembly, shape, dims, assembly.output(node).dims)
    assembly.add(node, operator, *steps)


def cast(node: TfliteNode, assembly: TfliteAssembly) -> None:
    """Add a change of type; tensors without quantisation are in single precision already."""
    source, result = assembly.tensor(node, 0), assembly.output(node)
    if source.quantization() is not None or result.quantization() is not None:
        raise refusal(node, "a cast of quantised integers")
    is_cut = result.element is not None and result.element.is_integer
    is_real = source.element is None or not source.element.is_integer
    step: op.Operator = op.Identity()
    if result.element is Element.BOOL and source.element is not Element.BOOL:
        step = op.Activation(function="is not zero")
    elif is_cut and is_real:
        step = op.Activation(function="truncate")
    assembly.add(node, step)


def running_sum(node: TfliteNode, assembly: TfliteAssembly) -> None:
    """Add cumulative sums of the elements along a constant axis."""
    dims, axes = assembly.tensor(node, 0).dims, assembly.integers(node, 1)
    if len(axes) != 1:
        raise UnreadableFile(f"{node}: {len(axes)} axes; expected one")
    operator = op.RunningSum(
        axis=frame_axis(node, assembly, dims, axes[0]),
        is_exclusive=bool(options_of(node).integer(0, "b")),
        is_reversed=bool(options_of(node).integer(1, "b")),
    )
    assembly.add(node, operator)


SMALLEST_LENGTH = 1e-6  # lower bound on the norm by which a vector is divided


def unit_length(node: TfliteNode, assembly: TfliteAssembly) -> None:
    """Add a division of vectors along the last axis by their lengths."""
    source, dims = assembly.source(node, 0), assembly.tensor(node, 0).dims
    axis = frame_axis(node, assembly, dims, -1) if len(dims) > 1 else 0
    if assembly.tensor(node, 0).quantization() is not None:
        assembly.add(node, op.UnitLength(axis=axis), sources=[source])
        return
    length = op.Reduction(function="l2", axes=(axis,), keeps=True)
    limit = op.Activation(function="clip", parameters=(SMALLEST_LENGTH, inf))
    lengths = assembly.add_moves(node, source, length, limit)
    assembly.add(
        node,
        op.Elementwise(function="divide"),
        sources=[source, lengths],
        fused=fused_activation(node, 0),
    )


def largest(node: TfliteNode, assembly: TfliteAssembly) -> None:
    """Add the largest elements along the last axis, sorted, and their indices."""
    counts, dims = assembly.integers(node, 1), assembly.tensor(node, 0).dims
    if assembly.tensor(node, 0).quantization() is not None or len(counts) != 1:
        raise refusal(node, f"{len(counts)} counts, or quantised integers")
    axis = frame_axis(node, assembly, dims, -1) if len(dims) > 1 else 0
    for number in range(len(node.outputs)):
        operator = op.Ranking(axis=axis, count=counts[0], gives_places=number == 1)
        assembly.add(node, operator, output=number)


CONVERTERS: Mapping[str, Converter] = {
    "ABS": partial(activation, function="abs"),
    "ADD": partial(elementwise, function="add"),
    "ADD_N": sum_of_tensors,
    "ARG_MAX": partial(extreme_place, function="max"),
    "ARG_MIN": partial(extreme_place, function="min"),
    "ATAN2": partial(elementwise, function="arc tangent", fused=False),
    "CAST": cast,
    "CEIL": partial(activation, function="ceil"),
    "COS": partial(activation, function="cos"),
    "CUMSUM": running_sum,
    "DEQUANTIZE": conversion,
    "DIV": partial(elementwise, function="divide"),
    "ELU": partial(activation, function="elu", parameters=(1.0,)),
    "EQUAL": partial(elementwise, function="equal", fused=False),
    "EXP": partial(activation, function="exp"),
    "FLOOR": partial(activation, function="floor"),
    "FLOOR_DIV": partial(elementwise, function="floor divide", fused=False),
    "FLOOR_MOD": partial(elementwise, function="floor modulo", fused=False),
    "GELU": gelu,
    "GREATER": partial(elementwise, function="greater", fused=False),
    "GREATER_EQUAL": partial(elementwise, function="greater or equal", fused=False),
    "HARD_SWISH": partial(activation, function="hard swish"),
    "L2_NORMALIZATION": unit_length,
    "LEAKY_RELU": leaky_relu,
    "LESS": partial(elementwise, function="less", fused=False),
    "LESS_EQUAL": partial(elementwise, function="less or equal", fused=False),
    "LOG": partial(activation, function="log"),
    "LOGICAL_AND": partial(elementwise, function="and", fused=False),
    "LOGICAL_NOT": partial(activation, function="not"),
    "LOGICAL_OR": partial(elementwise, function="or", fused=False),
    "LOGISTIC": partial(activation, function="sigmoid"),
    "LOG_SOFTMAX": partial(softmax, is_logarithm=True),
    "MAXIMUM": partial(elementwise, function="maximum", fused=False),
    "MEAN": partial(reduction, function="mean"),
    "MINIMUM": partial(elementwise, function="minimum", fused=False),
    "MUL": partial(elementwise, function="multiply"),
    "NEG": partial(activation, function="negative"),
    "NOT_EQUAL": partial(elementwise, function="not equal", fused=False),
    "POW": partial(elementwise, function="power"),
    "PRELU": prelu,
    "QUANTIZE": conversion,
    "REDUCE_ALL": partial(reduction, function="min"),
    "REDUCE_ANY": partial(reduction, function="max"),
    "REDUCE_MAX": partial(reduction, function="max"),
    "REDUCE_MIN": partial(reduction, function="min"),
    "RELU": partial(activation, function="relu"),
    "RELU6": partial(activation, function="clip", parameters=(0.0, 6.0)),
    "RELU_0_TO_1": partial(activation, function="clip", parameters=(0.0, 1.0)),
    "RELU_N1_TO_1": partial(activation, function="clip", parameters=(-1.0, 1.0)),
    "ROUND": partial(activation, function="round"),
    "RSQRT": partial(activation, function="rsqrt"),
    "SELECT": choice,
    "SELECT_V2": choice,
    "SIGN": partial(activation, function="sign"),
    "SIN": partial(activation, function="sin"),
    "SOFTMAX": softmax,
    "SQRT": partial(activation, function="sqrt"),
    "SQUARE": square,
    "SQUARED_DIFFERENCE": partial(elementwise, function="squared difference"),
    "SUB": partial(elementwise, function="subtract"),
    "SUM": partial(reduction, function="sum"),
    "TANH": partial(activation, function="tanh"),
    "TOPK_V2": largest,
}
