"""C calls of layers of real numbers, and the fields that calls of all kinds share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import Any, NamedTuple

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.network import Shape
from cnn2csdf.operators.operands import constant_role
from cnn2csdf.operators.recurrences import DIRECTIONS, GATES
from cnn2csdf.shape import Dims
from cnn2csdf.weights import Array
from planners.code.c_text import NULL, initialiser
from planners.code.calls.emitters import Emitter, Numbers, emitter_of, register
from planners.code.calls.moves import scattering_call
from planners.code.calls.reductions import product_fields
from planners.code.extensions import KernelInC, StepInC, c_of
from planners.code.layer_descriptor import Fields, KernelCall, LayerNode
from planners.code.parts import defined_names

UNSIGNED_OFFSET = 128  # of uint8 values from int8 values
BLOCK = 16  # output channels with interleaved weights, as in reals.c
KINDS = {"lstm": "LSTM", "gru": "GRU", "rnn": "PLAIN"}
GIVEN = {"all": "GIVES_ALL", "last": "GIVES_LAST", "cell": "GIVES_CELL"}

Packing = Callable[[Array, int], Array]
"""From filters and their number of groups to the array that a kernel reads."""
AfterWeights = Callable[[LayerNode, str], Fields]
"""The field that follows the weights of this role in a C structure: the bias, or the rescaling."""


def call_of(node: LayerNode, packed: Array | None = None) -> KernelCall:
    """Return the call for a layer that computes its result row by row.

    packed: the weights of a convolution in the order of its kernel; by default they are packed here.
    Raises UnsupportedOperator, naming the layer, if it has no kernel.
    """
    operator = node.layer.operator
    if packed is not None:
        return _convolution(node, operator, packed)
    emitter = emitter_of(operator, Numbers.REAL)
    if emitter is not None:
        return emitter(node, operator)
    match c_of(operator):
        case StepInC():
            return node.call("copy_region")
        case KernelInC(call=call):
            return call(node, operator)
    raise node.refusal("at all")


def sums_call(node: LayerNode) -> KernelCall:
    """Return the call for a layer that accumulates its input row by row, or reorders pixels."""
    operator = node.layer.operator
    if operator.scatters_rows:
        return scattering_call(node)
    if operator.dense_units is not None:
        rows = row_order(node.weights["matrix"], node.inputs[0]).T
        packed = node.real_weights("matrix", rows)
        return node.call(
            "sum_fully",
            "matrix",
            units=operator.dense_units,
            weights=packed,
            bias=node.optional("bias"),
        )
    return KernelCall("sum_row", _summing(node))


def channels_calls(first: LayerNode, last: LayerNode) -> tuple[KernelCall, KernelCall]:
    """Return the calls for a convolution and the reduction over each of its output channels."""
    convolution = convolve_call(first, packed_filters, _bias)
    return KernelCall(NULL, convolution.parameters), KernelCall("sum_channels", _summing(last))


def _summing(node: LayerNode) -> str:
    source = node.inputs[0]
    function = node.layer.operator.reduction
    if function is None:
        raise node.refusal("row by row")
    window = node.layer.operator.sliding_window
    rows, columns = (source.height, source.width) if window is None else window.extent
    scale = 1 / (rows * columns) if function == "mean" else 1.0
    return node.structure(
        "summing", rows=rows, columns=columns, is_largest=function == "max", scale=scale
    )


def _bias(node: LayerNode, _role: str) -> Fields:
    return {"bias": node.optional("bias")}


def window_fields(window: op.Window) -> Fields:
    """Return the fields of the C structure `window`."""
    strides = {"taps": window.kernel, "stride": window.stride, "dilation": window.dilation}
    return strides | {"before": window.padding[:2], "beyond": window.padding[2:]}


def step_initialiser(
    function: str,
    numbers: Sequence[float] = (0, 0),
    arrays: Sequence[str | None] = (None, None),
    strides: Sequence[int] = (0, 0),
) -> str:
    """Return the initialiser of a `step`: an elementwise function that follows a layer in place.

    numbers: two, the fields a and b. arrays: symbols of two arrays of parameters, the fields values and
    more. strides: of values, by channel and by column.
    """
    (a, b), (values, more), (by_channel, by_column) = numbers, arrays, strides
    fields = {"apply": function, "a": a, "b": b, "values": values, "more": more}
    return initialiser(fields | {"by_channel": by_channel, "by_column": by_column})


def packed_filters(kernel: Array, groups: int) -> Array:
    """Return filters (filters, inputs, rows, columns) as the C code reads them.

    Group by group, block of filters by block of filters; in these tap by tap, input by input.
    """
    filters = len(kernel) // groups
    pieces = [
        kernel[group * filters + first : group * filters + min(first + BLOCK, filters)]
        .transpose(2, 3, 1, 0)
        .reshape(-1)
        for group in range(groups)
        for first in range(0, filters, BLOCK)
    ]
    return np.concatenate(pieces)


def is_depthwise(node: LayerNode, operator: op.Operator | None = None) -> bool:
    """Return whether a layer, or its product, is a convolution with a filter for each channel."""
    bank = (operator or node.layer.operator).filter_bank
    return bank is not None and bank.is_depthwise(node.inputs[0].channels)


def convolution_call(
    node: LayerNode,
    operator: op.Convolution,
    packing: Packing,
    after_weights: AfterWeights,
    packed: Array | None,
) -> KernelCall:
    """Return the call for a convolution: `depthwise_conv` if it is depthwise, else `convolve`.

    packed: the filters in the order of `convolve`, if they are packed already.
    """
    if not is_depthwise(node):
        return convolve_call(node, packing, after_weights, packed)
    kernel = _packed_weights(node, "kernel", node.weights["kernel"][:, 0].transpose(1, 2, 0))
    return node.call(
        "depthwise_conv",
        "convolution",
        at=window_fields(operator.window),
        **group_fields(operator.groups, 1, 1),
        weights=kernel,
        **after_weights(node, "kernel"),
    )


def convolve_call(
    node: LayerNode, packing: Packing, after_weights: AfterWeights, packed: Array | None = None
) -> KernelCall:
    """Return the call of `convolve`, for a convolution that is not depthwise."""
    bank = node.layer.operator.filter_bank
    assert bank is not None
    kernel = packing(node.weights["kernel"], bank.groups) if packed is None else packed
    return node.call(
        "convolve",
        "convolution",
        **convolution_fields(node, bank, kernel),
        **after_weights(node, "kernel"),
    )


def group_fields(groups: int, inputs: int, filters: int) -> Fields:
    """Return the sizes in C of a convolution: input channels and filters of each group."""
    return {"groups": groups, "group_inputs": inputs, "group_filters": filters}


def convolution_fields(node: LayerNode, operator: Any, kernel: Array) -> Fields:
    """Return the fields of the C structure `convolution` up to the packed filters."""
    groups = operator.groups
    sizes = group_fields(groups, node.inputs[0].channels // groups, operator.filters // groups)
    weights = _packed_weights(node, "kernel", kernel)
    return {"at": window_fields(operator.window), **sizes, "weights": weights}


def _packed_weights(node: LayerNode, role: str, packed: Array) -> object:
    """Return the field of weights in the order of a kernel."""
    return node.real_weights(role, packed) if node.is_real else node.symbol(role, packed)


def transposed_call(
    node: LayerNode,
    operator: op.TransposedConvolution,
    packing: Packing,
    after_weights: AfterWeights,
) -> KernelCall:
    """Return the call for a transposed convolution, with filters packed as for a convolution."""
    groups, inputs = operator.groups, node.inputs[0].channels // operator.groups
    kernel = node.weights["kernel"]  # (inputs, filters of a group, rows, columns)
    turned = kernel.reshape(groups, inputs, -1, *operator.window.kernel).swapaxes(1, 2)
    filters = turned.reshape(operator.filters, inputs, *operator.window.kernel)
    by_filters = replace(node, weights={**node.weights, "kernel": filters})
    fields = convolution_fields(by_filters, operator, packing(filters, groups))
    return node.call(
        "transposed_conv", "convolution", **fields, **after_weights(by_filters, "kernel")
    )


def row_order(matrix: Array, source: Shape) -> Array:
    """Return the matrix with its columns in the order of the input in the arena."""
    if not source.is_map:
        return matrix
    return matrix.reshape(-1, *source.dims).transpose(0, 2, 3, 1).reshape(len(matrix), -1)


def fully_connected_call(
    node: LayerNode, operator: op.FullyConnected, packing: Packing, after_weights: AfterWeights
) -> KernelCall:
    """Return the call for a fully connected layer, whose input is read row by row."""
    matrix = row_order(node.weights["matrix"], node.inputs[0])
    rows = matrix.reshape(operator.units, node.inputs[0].rows, -1).swapaxes(1, 2)[..., None]
    packed = _packed_weights(node, "matrix", packing(rows, 1))
    return node.call(
        "fully_connected",
        "matrix",
        units=operator.units,
        weights=packed,
        **after_weights(node, "matrix"),
    )


def pooling_call(node: LayerNode, operator: op.Pooling) -> KernelCall:
    """Return the call for a pooling."""
    function = "max_pool" if operator.function == "max" else "average_pool"
    fields = pooling_fields(
        operator.window, counts_padding=operator.counts_padding, offset=mean_offset(operator)
    )
    return node.call(function, "pooling", **fields)


def pooling_fields(window: op.Window, *, counts_padding: bool = False, offset: int = 0) -> Fields:
    """Return the fields of the C structure `pooling`."""
    return {"at": window_fields(window), "counts_padding": counts_padding, "offset": offset}


def mean_offset(operator: Any) -> int:
    """Return UNSIGNED_OFFSET if means are rounded as uint8 values, else 0."""
    return UNSIGNED_OFFSET if operator.rounds_up else 0


def _strides(dims: Sequence[int], operand: Sequence[int]) -> tuple[int, int, int]:
    """Strides of an operand along the axes of the result, aligned at the end; zero to broadcast."""
    padded = [1] * (len(dims) - len(operand)) + list(operand)
    steps, step = [], 1
    for size in reversed(padded):
        steps.append(step if size > 1 else 0)
        step *= size
    column, row, channel = steps
    return channel, row, column


class Operand(NamedTuple):
    """The fields of the C structure `operand`. values: the symbol of a constant; None for an input."""

    values: str | None
    input: int
    channel: int  # the strides of channels, rows and columns
    row: int
    column: int
    is_map: bool = False


def operand_fields(node: LayerNode, index: int) -> Operand:
    """Return the fields of an input."""
    dims, shape = node.layer.shape.dims, node.inputs[index]
    if shape.is_map:
        if len(dims) != 3:
            raise node.refusal("of feature maps and a tensor of more axes")
        channel, row, column = (int(size > 1) for size in shape.dims)
    elif len(dims) == 3:
        channel, row, column = _strides(dims, shape.dims)
    elif shape.elements in (1, node.layer.shape.elements):
        channel, row, column = int(shape.elements > 1), 0, 0
    else:
        raise node.refusal("whose inputs repeat along an axis of tensors that are no maps")
    return Operand(None, index, channel, row, column, shape.is_map)


def constant_fields(node: LayerNode, constant: Array, role: str) -> Operand:
    """Return the fields of a constant operand, as operand_fields does."""
    dims = node.layer.shape.dims
    if len(dims) == 3:
        steps = _strides(dims, constant.shape)
        return Operand(node.symbol(role, constant), 0, *steps)
    spread = np.broadcast_to(constant, dims) if constant.size > 1 else constant
    return Operand(node.symbol(role, spread), 0, int(constant.size > 1), 0, 0)


def operands(
    node: LayerNode, operator: op.Elementwise, constant: str | None
) -> tuple[list[Operand], int]:
    """Return the fields of all operands in order, as operand_fields does, and the number of blocks.

    constant: the symbol of the constant operand, if any. A result that is no feature map is split
    into contiguous blocks. Each operand has either as many blocks or one, which is broadcast; each of
    its blocks has either the size of a block of the result or one element.
    """
    dims, dims_of_operands = node.layer.shape.dims, [shape.dims for shape in node.inputs]
    place = 0 if operator.constant_first else len(dims_of_operands)
    if operator.constant is not None:
        dims_of_operands.insert(place, operator.constant)
    places, steps = (1, []) if len(dims) == 3 else _places(node, dims, dims_of_operands)
    operands: list[Operand] = []
    for index, operand_dims in enumerate(dims_of_operands):
        if operator.constant is not None and index == place:
            own_steps = steps[index] if steps else _strides(dims, operand_dims)
            operands.append(Operand(constant, 0, *own_steps))
        else:
            number = sum(operand.values is None for operand in operands)
            operands.append(
                Operand(None, number, *steps[index]) if steps else operand_fields(node, number)
            )
    return operands, places


def _places(
    node: LayerNode, dims: Dims, operands: Sequence[Dims]
) -> tuple[int, list[tuple[int, int, int]]]:
    """The number of contiguous blocks, and the strides of each operand: channel, row, column."""
    padded = [(1,) * (len(dims) - len(operand)) + operand for operand in operands]
    for cut in range(len(dims) + 1):
        outer, inner = prod(dims[:cut]), prod(dims[cut:])
        parts = [(prod(lengths[:cut]), prod(lengths[cut:])) for lengths in padded]
        if all(first in (1, outer) and after in (1, inner) for first, after in parts):
            steps = [(int(after > 1), 0, after if first > 1 else 0) for first, after in parts]
            return outer, steps
    raise node.refusal("whose inputs repeat along several axes of tensors that are no maps")


def _elementwise(node: LayerNode, operator: op.Elementwise) -> KernelCall:
    constant = node.weights.get("constant")
    symbol = None if constant is None else node.symbol("constant", constant)
    fields, places = operands(node, operator, symbol)
    function = operator.function.replace(" ", "_")
    if function not in defined_names("combine.c"):
        raise node.refusal(f"of the function {operator.function!r}")
    is_mean = operator.function == "mean"
    return _combine(node, "combine", function, fields, pixels=places, is_mean=is_mean)


def _combine(
    node: LayerNode,
    kernel: str,
    function: str,
    fields: Sequence[Operand],
    *,
    pixels: int = 1,
    is_mean: bool = False,
) -> KernelCall:
    """The call of a kernel that applies a C function to the operands at each position."""
    table = node.table("operand", "", [operand._asdict() for operand in fields])
    node.tables.wanted.add(function)
    numbers = {"operands": len(fields), "is_mean": is_mean, "pixels": pixels, "each": table}
    return node.call(kernel, "combining", of=function, **numbers)


def _choice(node: LayerNode, operator: op.Choice) -> KernelCall:
    fields = [operand_fields(node, index) for index in range(len(node.inputs))]
    for place, _ in operator.constants:
        array = node.weights[constant_role(place)]
        fields.insert(place, constant_fields(node, array, f"constant_{place}"))
    return _combine(node, "choose", "first_of_two", fields)


def _hybrid(node: LayerNode, operator: op.HybridProduct) -> KernelCall:
    """The call of a product of int8 weights with floating-point inputs, quantised at run time."""
    product = operator.product

    def fields(role: str, weights: Array, *, sums_first: bool = False) -> Fields:
        node.tables.ranges_have_offsets |= operator.has_offset
        flags = {"has_offset": operator.has_offset, "sums_first": sums_first}
        scales = {"by_channel": len(operator.scales) > 1, "scales": node.derived("scales")}
        return flags | scales | {"weights": node.stored(role, weights), **_bias(node, role)}

    bank, units = product.filter_bank, product.dense_units
    if bank is not None:
        kernel = node.weights["kernel"]
        sums_first = operator.has_offset and not is_depthwise(node, product)
        with_kernel = fields("kernel", kernel.transpose(0, 2, 3, 1), sums_first=sums_first)
        groups = bank.groups
        sizes = group_fields(groups, node.inputs[0].channels // groups, bank.filters // groups)
        numbers = {"at": window_fields(bank.window), **sizes, "with": with_kernel}
        return node.call("convolve_hybrid", "hybrid_convolution", **numbers)
    if units is not None:
        with_matrix = fields("matrix", row_order(node.weights["matrix"], node.inputs[0]))
        numbers = {"units": units, "with": with_matrix}
        return node.call("fully_connected_hybrid", "hybrid_matrix", **numbers)
    with_matrix = fields("matrix", node.weights["matrix"].T)
    numbers = {"axes": product_fields(node, node.layer.shape.dims[-1]), "with": with_matrix}
    return node.call("multiply_hybrid", "hybrid_product", **numbers)


def _convolution(node: LayerNode, operator: Any, packed: Array | None = None) -> KernelCall:
    return convolution_call(node, operator, packed_filters, _bias, packed)


STATES = ("state", "cell")


def _recurrence(node: LayerNode, operator: op.Recurrence) -> KernelCall:
    frames, sequences, elements = node.inputs[0].dims
    # Whether each pass is backwards; the C structure has flags of two passes.
    is_backwards = [int(sense < 0) for sense in DIRECTIONS[operator.direction]]
    padded_to_two = (*is_backwards, 0)[:2]
    kind, gives = KINDS[operator.kind], GIVEN[operator.gives]
    node.tables.wanted.update((kind, gives))
    return node.call(
        "recur",
        "recurrence",
        kind=kind,
        gives=gives,
        resets_after=operator.resets_after,
        gates=GATES[operator.kind],
        units=operator.units,
        frames=frames,
        sequences=sequences,
        elements=elements,
        directions=len(is_backwards),
        is_backward=padded_to_two,
        matrix=node.real_weights("matrix", node.weights["matrix"]),
        recurrent=node.real_weights("recurrent matrix", node.weights["recurrent matrix"]),
        bias=node.optional("bias"),
        state=node.optional("state") if operator.has_state else None,
        cell=node.optional("cell") if operator.has_cell else None,
        limit=float("inf") if operator.cell_limit is None else float(operator.cell_limit),
        inputs=[operator.given.index(role) + 1 if role in operator.given else 0 for role in STATES],
    )


COPIED = (op.Activation, op.BatchNormalization, op.LocalResponseNormalization)
_CALLS: dict[type, Emitter] = {
    **dict.fromkeys(
        (*COPIED, op.Identity, op.Output, op.Conversion), lambda node, _: node.call("copy_region")
    ),
    op.Choice: _choice,
    op.Convolution: _convolution,
    op.Elementwise: _elementwise,
    op.FullyConnected: lambda node, operator: fully_connected_call(
        node, operator, packed_filters, _bias
    ),
    op.HybridProduct: _hybrid,
    op.PlaceOfMaximum: lambda node, operator: node.call(
        "place_of_maximum", "pooling", **pooling_fields(operator.window)
    ),
    op.Pooling: pooling_call,
    op.Recurrence: _recurrence,
    op.Unpooling: lambda node, operator: node.call("unpool", "unpooling", size=operator.block),
    op.TransposedConvolution: lambda node, operator: transposed_call(
        node, operator, packed_filters, _bias
    ),
}
register(Numbers.REAL, _CALLS)
