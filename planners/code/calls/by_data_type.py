"""Kernel calls of layers, selected by data type: floating point, int8 or int16, dynamic range.

A quantised network may contain floating-point layers, and layers that quantise with a scale computed
from the frame (dynamic range). A library of integers therefore has two sets of tables: its own, and
those of its floating-point layers (`RealTables`), in which functions and types are renamed.

Contents: `LayerCalls` selects the calls of a stage; `dynamic_call` has those of dynamic range;
`ChannelBlocks` are the numbers of a stage tiled by channel, which calls variants of the kernels;
`steps_of` has the elementwise operators after a layer, which become steps on its output rows, in place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.dtypes import Element
from cnn2csdf.fixed_point.flash import parameters_in_flash, sums_have_zeros
from cnn2csdf.network import Layer, Network
from cnn2csdf.stored_tensors import stored_at_run_time
from cnn2csdf.weights import Array, Model
from csdf.errors import UnsupportedOperator
from planners.code.c_text import NULL, Tables
from planners.code.calls.cmsis_nn import CmsisNN
from planners.code.calls.emitters import Numbers, emitter_of, register
from planners.code.calls.integer_layers import (
    integer_call,
    integer_channels_calls,
    integer_steps,
    integer_sums_call,
)
from planners.code.calls.layers import (
    call_of,
    channels_calls,
    constant_fields,
    convolution_fields,
    packed_filters,
    step_initialiser,
    sums_call,
)
from planners.code.calls.reductions import product_fields
from planners.code.calls.rescaling import (
    bias_after_initial_sums,
    layer_rounds_once,
    packed_rows,
)
from planners.code.extensions import StepInC, c_of
from planners.code.layer_descriptor import KernelCall, LayerNode, RealTables
from planners.code.parts import as_real, defined_names
from planners.plan.plan import Stage

REAL = 4  # bytes of a floating-point number


class LayerCalls:
    """Emitter of the kernel calls of the layers of a network, and of the steps after them.

    unit: bytes of an element of the arena. steps, real_steps: initialisers of the steps after layers
    of the element type of the arena, and after floating-point layers of a quantised network.
    """

    def __init__(self, model: Model, tables: Tables, cmsis_nn: CmsisNN | None = None) -> None:
        """model: with weights. cmsis_nn: computes the layers that it can; None: unused."""
        self._cmsis_nn = cmsis_nn
        self._network: Network = model.network
        self._weights = model.weights or {}
        self.tables, self.real_tables = tables, RealTables(tables)
        types = [
            layer.quantization for layer in self._network.layers if layer.quantization is not None
        ]
        # Integer tensors with a scale of the frame.
        self._dynamic = stored_at_run_time(self._network)
        self.is_integer = bool(types or self._dynamic)
        if len({quantization.is_fixed_point for quantization in types}) == 2:
            raise UnsupportedOperator(
                f"network {self._network.name!r}: no C code for layers rounded in fixed point, as "
                "TensorFlow Lite does, beside some in single precision, as ONNX Runtime does"
            )
        is_fixed_point = all(quantization.is_fixed_point for quantization in types)
        self.is_single = bool(self._dynamic) or not is_fixed_point
        # A library with int8 tensors has an arena of bytes; its int16 tensors take two elements each.
        is_short = all(quantization.element is Element.INT16 for quantization in types)
        self.is_short = self.is_integer and is_short and not self._dynamic
        self.unit = (2 if self.is_short else 1) if self.is_integer else REAL
        self.steps: list[str] = []
        self.real_steps: list[str] = []
        tables.weights_have_zeros = sums_have_zeros(self._network)
        tables.some_weights_are_halves = any(map(_has_halves, self._network.layers))
        tables.sums_round_once = any(map(layer_rounds_once, self._network.layers))

    @property
    def has_reals(self) -> bool:
        """Whether a quantised network has floating-point layers."""
        return bool(self.real_tables.wanted)

    def node(self, layer: Layer) -> LayerNode:
        """Return a layer with what its kernel call is emitted from."""
        element = Element.INT16 if self.is_short else Element.INT8
        tables: Tables | RealTables = self.tables
        if self._is_real(layer):
            element = Element.FLOAT32
            tables = self.real_tables if self.is_integer else self.tables
        inputs, types = self._network.input_shapes(layer), self._network.input_types(layer)
        return LayerNode(
            layer=layer,
            inputs=inputs,
            weights=self._weights.get(layer.name, {}),
            tables=tables,
            input_types=types,
            element=element,
            number=self._network.layers.index(layer) + 1,
            flash=parameters_in_flash(layer, inputs, types),
        )

    def _is_real(self, layer: Layer) -> bool:
        """Whether all inputs and the output of the layer are floating point."""
        layers = (layer, *(self._network.layer(name) for name in layer.inputs))
        if layer.operator.run_time_result is not None:
            return False
        return all(map(self._gives_reals, layers))

    def _gives_reals(self, layer: Layer) -> bool:
        """Whether the output of the layer is floating point."""
        return layer.quantization is None and layer.name not in self._dynamic

    def element_bytes(self, layer: Layer) -> int:
        """Return the bytes of an element of the result of a layer in C."""
        return REAL if self._gives_reals(layer) else layer.element_bytes

    def slots(self, node: LayerNode) -> int:
        """Return arena elements per computed element: 4 for float in an int8 library."""
        return node.element.bytes // self.unit

    def stage_calls(
        self,
        mode: str,
        nodes: Sequence[LayerNode],
        blocks: Mapping[str, ChannelBlocks],
        *,
        is_stored: bool = False,
    ) -> list[KernelCall]:
        """Return the calls of the layers of a stage.

        mode: of the stage, as frame.c enumerates them. In BY_PARTS layers compute channel by channel
        block, in INTO_SUMS a layer accumulates its input row by row, in BY_CHANNELS a convolution and
        a reduction compute channel by channel; in the others each layer computes rows. blocks: the
        channel blocks of layers in stages of mode BY_PARTS. is_stored: whether blocks of the result
        are stored in slow memory.
        """
        calls: Sequence[KernelCall]
        first = nodes[0]
        match mode:
            case "BY_PARTS":
                calls = [self._blocks_call(node, blocks.get(node.layer.name)) for node in nodes]
            case "INTO_SUMS":
                calls = [sums_call(first) if first.is_real else integer_sums_call(first)]
            case "BY_CHANNELS":
                calls = (channels_calls if first.is_real else integer_channels_calls)(*nodes[:2])
            case _:
                calls = [self._call(node) for node in nodes]
                # CMSIS-NN computes whole rows of int8 in fixed point, in a stage of a single layer.
                is_int8 = not (self.is_single or self.is_short)
                if self._cmsis_nn is not None and is_int8 and len(nodes) == 1 and not is_stored:
                    calls = [self._cmsis_nn.call(first, calls[0])]
        return [self._as_written(node, call) for node, call in zip(nodes, calls, strict=True)]

    def _call(self, node: LayerNode, packed: Array | None = None) -> KernelCall:
        """Return the call of a layer that computes rows. packed: filters in the order of the kernel."""
        names = {node.layer.name, *node.layer.inputs}
        is_at_run_time = node.layer.operator.run_time_result is not None
        if is_at_run_time or not names.isdisjoint(self._dynamic):
            return dynamic_call(node)
        return (call_of if node.is_real else integer_call)(node, packed)

    def _as_written(self, node: LayerNode, call: KernelCall) -> KernelCall:
        """Return the call with the names of functions and types in the library."""
        if node.layer.epilogue and self._gives_reals(node.layer) and not node.is_real:
            # The layer converts integers to floating point; floating-point steps follow it.
            self.tables.wanted.add(call.function)
            self.real_tables.wanted.add("finish_behind")
            finishing = KernelCall(f"{call.function}_and_finish", call.parameters)
            self.tables.wanted.add(finishing.function)
            return finishing
        if call.function != NULL:
            node.tables.wanted.add(call.function)
        return KernelCall(*map(as_real, call)) if self.is_integer and node.is_real else call

    def _blocks_call(self, node: LayerNode, blocks: ChannelBlocks | None) -> KernelCall:
        """Return the call for a layer of a stage tiled by channel; blocks: None for a whole layer.

        The call has the parameters of the whole layer, with filters packed block by block. Raises
        UnsupportedOperator for a kernel without a variant for channel blocks.
        """
        if blocks is None:
            return self._call(node)
        bank, kernel = node.layer.operator.filter_bank, None
        if bank is not None:
            filters = node.weights["kernel"]
            if blocks.accumulates:
                pieces = [filters[:, first:end] for first, end in pairwise(blocks.bounds)]
            else:  # blocks do not cross the bounds of groups
                groups = range(0, len(filters), len(filters) // bank.groups)
                bounds = sorted({*blocks.bounds, *groups})
                pieces = [filters[first:end] for first, end in pairwise(bounds)]
            packing = packed_filters if node.is_real else packed_rows
            kernel = np.concatenate([packing(piece, 1) for piece in pieces])
        whole = self._call(node, kernel)
        function = "sum_parts" if blocks.accumulates else BLOCK_KERNELS.get(whole.function)
        if function is None:
            raise node.refusal("in parts of its channels")
        return node.call(
            function,
            "sliced",
            channels=blocks.channels,
            share=blocks.block_channels,
            parts=blocks.count,
            adds_up=blocks.accumulating_index,
            of=whole.parameters,
        )

    def epilogue_steps(self, node: LayerNode) -> tuple[str, int]:
        """Add the steps after a layer to their table; return the address of the first, and a count."""
        is_real = self._gives_reals(node.layer)
        name, table = "steps", self.steps
        if is_real and self.is_integer:
            name, table = "real_steps", self.real_steps
            node = replace(node, tables=self.real_tables)
            initialisers = [as_real(text) for text in steps_of(node)]
        else:
            initialisers = steps_of(node) if is_real else integer_steps(node)
        if not initialisers:
            return NULL, 0
        first = f"&{name}[{len(table)}]"
        table += [f"{initialiser}," for initialiser in initialisers]
        node.tables.wanted.add("step")
        return first, len(initialisers)


def _has_halves(layer: Layer) -> bool:
    """Whether the layer reads weights of two bytes in floating point."""
    return any(map(layer.reads_halves, layer.operator.half_roles))


def dynamic_call(node: LayerNode) -> KernelCall:
    """Return the call for a layer whose input or output has a scale computed at run time."""
    operator = node.layer.operator
    emitter = emitter_of(operator, Numbers.RUN_TIME)
    if emitter is not None:
        return emitter(node, operator)
    if operator.moves:
        return call_of(node)
    raise node.refusal(
        "of integers whose scale depends on the frame; leave its input in real numbers"
    )


def _integer_convolution(node: LayerNode, operator: op.IntegerConvolution) -> KernelCall:
    values, zero = _in_bytes(node, "kernel")
    fields = convolution_fields(node, operator, packed_rows(values, operator.groups))
    # The kernel stores sums as they are, and reads the zero point of the input from another input.
    unused = dict.fromkeys(("zero_in", "zero_out", "least", "most"), 0)
    bias = bias_after_initial_sums(node, NULL, NULL)
    scaling = {"bias": bias, "factors": None, **unused, "zero_with": zero}
    return node.call("convolve_by_range", "convolution", **fields, to=scaling)


def _integer_product(node: LayerNode, operator: op.IntegerProduct) -> KernelCall:
    units, symbol, zero = operator.units, None, 0
    if units is not None:
        values, zero = _in_bytes(node, "matrix")
        symbol = node.symbol("matrix", values)
    # Zero points are the inputs after the matrices; -1 stands for a missing zero point.
    indices = iter(range(2 if units is None else 1, len(node.inputs)))
    left, right = (next(indices) if has else -1 for has in operator.has_zeros)
    zeros = {"left_zero": left, "right_zero": right, "zero_with": zero}
    axes = product_fields(node, units, REAL)
    return node.call("multiply_by_range", "product_by_range", axes=axes, values=symbol, **zeros)


def _in_bytes(node: LayerNode, role: str) -> tuple[Array, int]:
    """Return weights minus their zero points as signed bytes, and the zero point of these bytes."""
    array = node.weights[role]
    least, most = int(array.min()), int(array.max())
    zero = 0 if least >= -128 and most <= 127 else -128 - least
    if most + zero > 127:
        raise node.refusal(f"whose {role} takes more than 8 bits less its zero points")
    return (array + zero).astype(np.int8), zero


BLOCK_KERNELS = {  # the kernel of a layer: its variant for a channel block
    "convolve": "convolve_share",
    "convolve_as_reals": "convolve_as_reals_share",
    "depthwise_conv": "depthwise_conv_share",
    "max_pool": "max_pool_share",
    "average_pool": "average_pool_share",
    "copy_region": "copy_share",
    "look_up_region": "look_up_share",
    "slope_region": "slope_share",
    "pool_scaled": "pool_scaled_share",
    "change_region": "change_share",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelBlocks:
    """The channel blocks of a layer in a stage tiled by channel.

    channels: the tiled channels, of the result or, for the accumulating layer, of the input.
    block_channels: channels of each block but perhaps the last. count: the number of blocks.
    accumulating_index: of the accumulating layer in the stage; accumulates: whether it is this layer.
    """

    channels: int
    block_channels: int
    count: int
    accumulating_index: int
    accumulates: bool

    @property
    def bounds(self) -> tuple[int, ...]:
        """Return the first channel of each block, and the end of the last block."""
        return (*range(0, self.channels, self.block_channels), self.channels)


def channel_blocks(network: Network, stage: Stage) -> dict[str, ChannelBlocks]:
    """Return the channel blocks of the layers up to the accumulating layer; empty if not tiled."""
    if stage.accumulating_layer is None:
        return {}
    accumulating_index = stage.layers.index(stage.accumulating_layer)
    blocks = {}
    for index, name in enumerate(stage.layers[: accumulating_index + 1]):
        accumulates = index == accumulating_index
        tiled = network.layer(stage.layers[index - 1] if accumulates else name)
        blocks[name] = ChannelBlocks(
            channels=tiled.shape.channels,
            block_channels=-(-tiled.shape.channels // stage.channel_blocks),
            count=stage.channel_blocks,
            accumulating_index=accumulating_index,
            accumulates=accumulates,
        )
    return blocks


def is_step(operator: op.Operator) -> bool:
    """Return whether an operator is a step on rows in place: its kernel copies, then takes it."""
    return operator.can_be_fused and not operator.moves


def steps_of(node: LayerNode) -> list[str]:
    """Return the initialisers of the in-place steps after a layer; first the layer if it is a step."""
    steps = []
    if is_step(node.layer.operator):
        steps.append(_step(node, node.layer.operator, node.weights, ""))
    for position, operator in enumerate(node.layer.epilogue):
        prefix = f"{position}."
        weights = {
            role.removeprefix(prefix): array
            for role, array in node.weights.items()
            if role.startswith(prefix)
        }
        steps.append(_step(node, operator, weights, prefix))
    return steps


def most_neighbours(node: LayerNode) -> int:
    """Return the maximum number of preceding channels that a normalisation of the layer reads."""
    return max(step.channels_before for step in (node.layer.operator, *node.layer.epilogue))


def _step(node: LayerNode, operator: op.Operator, weights: Mapping[str, Array], prefix: str) -> str:
    """Return the initialiser of an elementwise step: a function of steps.c and its parameters.

    prefix: of the roles of weights, the position of a fused operator.
    """
    shape, functions = node.layer.shape, defined_names("steps.c")
    numbers: tuple[float, ...] = ()  # at most two
    arrays: tuple[str | None, ...] = ()  # at most two
    strides = (0, 0)

    def by_channel(role: str, values: Array) -> str:
        """Return the symbol of a parameter per channel of a map, or per element of other tensors."""
        spread = values if shape.is_map else np.repeat(values, shape.elements // len(values))
        return node.symbol(f"{prefix}{role}", spread)

    match operator:
        case op.Activation(function="prelu"):
            function, arrays = "prelu", (by_channel("slope", weights["slope"]),)
        case op.Activation(function=function, parameters=numbers):
            pass
        case op.BatchNormalization():
            function, affine = "affine", operator.factors_and_offsets(weights)
            arrays = tuple(
                by_channel(role, array.astype(np.float32))
                for role, array in zip(("scale", "shift"), affine, strict=True)
            )
        case op.LocalResponseNormalization(size=size):
            if not shape.is_map and shape.elements != shape.channels:
                raise node.refusal("with a normalisation over channels, on a tensor that is no map")
            function, numbers = "neighbours", (operator.beta, operator.bias)
            arrays = (None, node.derived(f"{prefix}factor"))
            strides = (size, (size - 1) // 2)  # channels of a sum, and those before its own
        case op.Elementwise(constant=tuple()):
            constant = constant_fields(node, weights["constant"], f"{prefix}constant")
            arrays, strides = (str(constant.values),), (constant.channel, constant.column)
            function = f"constant {operator.function}"
            if operator.constant_first and _step_name(f"{function} first") in functions:
                function += " first"
        case op.Softmax():
            function = "softmax"
        case op.Identity():
            function, numbers = "clip", (-np.inf, np.inf)
        case _:  # an operator of another package, whose C is an expression
            source = c_of(operator)
            if not isinstance(source, StepInC):
                fused = f"with {type(operator).__name__} fused behind it"
                raise node.refusal(fused if prefix else "as a step on elements")
            function, numbers = source.name, source.numbers(operator)
            functions |= {_step_name(function)}
    name = _step_name(function)
    if name not in functions:
        raise node.refusal(f"of the function {name.removeprefix('step_')!r}")
    node.tables.wanted.add(name)
    both = [float(number) for number in (*numbers, 0, 0)[:2]]
    return step_initialiser(name, both, (*arrays, None, None)[:2], strides)


def _step_name(function: str) -> str:
    """Return the C function of a step."""
    return f"step_{function.replace(' ', '_')}"


register(
    Numbers.RUN_TIME,
    {
        op.DynamicQuantization: lambda node, _: node.call("quantize_by_range"),
        op.DynamicRange: lambda node, operator: node.call(
            "find_range", "ranging", gives_zero=operator.gives != "scale"
        ),
        op.IntegerConvolution: _integer_convolution,
        op.IntegerProduct: _integer_product,
    },
)
