"""Kernel calls of layers, selected by data type: floating point, int8 or int16, dynamic range.

A quantised network may contain floating-point layers, and layers that quantise with a scale computed
from the frame (dynamic range). A library of integers therefore has two sets of tables: its own, and
those of its floating-point layers (`RealTables`), in which functions and types are renamed.

`LayerCalls` selects the calls of a stage. The layers of a stage tiled by channel compute one block of
channels (`ChannelBlocks`) at a time, by variants of the kernels. Elementwise operators after a layer
become steps on its output rows, in place (`steps_of`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

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

    unit: bytes of an element of the arena. is_short: whether all integers are int16; is_single: whether
    they are requantised in single precision. steps, real_steps: initialisers of the steps after layers
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
        are_in_fixed_point = {quantization.is_fixed_point for quantization in types}
        if len(are_in_fixed_point) == 2:
            raise UnsupportedOperator(
                f"network {self._network.name!r}: no C code for layers rounded in fixed point, as "
                "TensorFlow Lite does, beside some in single precision, as ONNX Runtime does"
            )
        self.is_single = bool(self._dynamic) or False in are_in_fixed_point
        has_bytes = bool(self._dynamic) or any(
            quantization.element is not Element.INT16 for quantization in types
        )
        self.is_short = self.is_integer and not has_bytes
        self.unit = REAL
        if self.is_integer:
            self.unit = 1 if has_bytes else 2  # an int16 tensor takes two units of one byte
        self.steps: list[str] = []
        self.real_steps: list[str] = []
        tables.weights_have_zeros = sums_have_zeros(self._network)
        tables.some_weights_are_halves = any(
            any(map(layer.reads_halves, layer.operator.half_roles))
            for layer in self._network.layers
        )
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
        """Return the units of the arena that an element takes: 4 for float in an int8 library."""
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

        mode: of the stage, as frame.c enumerates modes. In BY_PARTS layers compute a block of channels
        at a time, up to the accumulating layer; in INTO_SUMS a layer accumulates its input row by row;
        in BY_CHANNELS, and in INTO_SUMS of two layers, a convolution and a reduction compute channel by
        channel; in all others layers compute rows. blocks: the channel blocks of layers in stages of
        mode BY_PARTS. is_stored: whether the result is stored in slow memory.
        """
        calls: Sequence[KernelCall]
        first = nodes[0]
        match mode:
            case "BY_PARTS":
                calls = [self._call(node, blocks.get(node.layer.name)) for node in nodes]
            case "INTO_SUMS" if len(nodes) == 1:
                calls = [sums_call(first) if first.is_real else integer_sums_call(first)]
            case "BY_CHANNELS" | "INTO_SUMS":
                calls = (channels_calls if first.is_real else integer_channels_calls)(*nodes)
            case _:
                calls = [self._call(node) for node in nodes]
                # CMSIS-NN computes whole rows of int8 in fixed point, in a stage of a single layer.
                is_int8 = not (self.is_single or self.is_short)
                if self._cmsis_nn is not None and is_int8 and len(nodes) == 1 and not is_stored:
                    calls = [self._cmsis_nn.call(first, calls[0])]
        return [self._as_written(node, call) for node, call in zip(nodes, calls, strict=True)]

    def _call(self, node: LayerNode, blocks: ChannelBlocks | None = None) -> KernelCall:
        """Return the call that computes rows of a layer, or of one of its channel blocks."""
        return self._whole_call(node) if blocks is None else self._block_call(node, blocks)

    def _whole_call(self, node: LayerNode, packed: Array | None = None) -> KernelCall:
        """Return the call that computes rows of all channels.

        packed: filters in the order of the kernel; None for the usual order.
        """
        operator, tensors = node.layer.operator, {node.layer.name, *node.layer.inputs}
        if operator.run_time_result is None and tensors.isdisjoint(self._dynamic):
            return (call_of if node.is_real else integer_call)(node, packed)
        emitter = emitter_of(operator, Numbers.RUN_TIME)
        if emitter is not None:
            return emitter(node, operator)
        if operator.moves:
            return call_of(node)
        raise node.refusal(
            "of integers whose scale depends on the frame; leave its input in real numbers"
        )

    def _as_written(self, node: LayerNode, call: KernelCall) -> KernelCall:
        """Return the call with the names of its function and type in the library, which then has them.

        In a quantised library, kernels of floating point have names of their own. A layer that converts
        integers to floating point calls a variant of its kernel that also runs the floating-point steps
        after the layer, if there are any.
        """
        converts_to_reals = self._gives_reals(node.layer) and not node.is_real
        if converts_to_reals and node.layer.epilogue:
            with_steps = KernelCall(f"{call.function}_and_finish", call.parameters)
            self.tables.wanted |= {call.function, with_steps.function}
            self.real_tables.wanted.add("finish_behind")
            return with_steps
        if call.function != NULL:
            node.tables.wanted.add(call.function)
        if self.is_integer and node.is_real:
            return KernelCall(as_real(call.function), as_real(call.parameters))
        return call

    def _block_call(self, node: LayerNode, blocks: ChannelBlocks) -> KernelCall:
        """Return the call that computes a channel block of a layer.

        It refers to the parameters of the whole layer, with filters packed block by block. Raises
        UnsupportedOperator for a kernel without a variant for channel blocks.
        """
        bank, packed = node.layer.operator.filter_bank, None
        if bank is not None:
            packing = packed_filters if node.is_real else packed_rows
            filters_of_blocks = blocks.filters_of_each(node.weights["kernel"], bank.groups)
            packed = np.concatenate([packing(filters, 1) for filters in filters_of_blocks])
        whole = self._whole_call(node, packed)
        function = "sum_parts" if blocks.accumulates else BLOCK_KERNELS.get(whole.function)
        if function is None:
            raise node.refusal("in parts of its channels")
        # In C the structure of a layer in channel blocks is `sliced`; `share` has their channels.
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
    # The inputs after the matrices are the zero points that the product has: of the left, of the right.
    has_left, has_right = operator.has_zeros
    first = 2 if units is None else 1
    left_zero = first if has_left else -1  # indices of inputs; -1: no zero point
    right_zero = first + has_left if has_right else -1
    zeros = {"left_zero": left_zero, "right_zero": right_zero, "zero_with": zero}
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


BLOCK_KERNELS = {  # the kernel of a whole layer: the kernel of a channel block
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

    channels: all channels of the blocks: of the result or, for the accumulating layer, of the input.
    block_channels: channels of a block; of the last blocks perhaps fewer, or none: 5 channels in 4
    blocks of 2 are 2, 2, 1 and 0.
    count: the number of blocks.
    accumulating_index: of the accumulating layer in the stage; accumulates: whether it is this layer.
    """

    channels: int
    block_channels: int
    count: int
    accumulating_index: int
    accumulates: bool

    def filters_of_each(self, filters: Array, groups: int) -> list[Array]:
        """Return the filters of each block; of the accumulating layer, their weights of its inputs.

        Where a block has filters of several groups, those of each group are an array of their own.
        """
        bounds = {*range(0, self.channels, self.block_channels), self.channels}
        if self.accumulates:
            return [filters[:, first:end] for first, end in pairwise(sorted(bounds))]
        bounds |= {*range(0, len(filters), len(filters) // groups)}
        return [filters[first:end] for first, end in pairwise(sorted(bounds))]


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


class _Step(NamedTuple):
    """An elementwise step in C.

    function: of steps.c, without `step_`. numbers: at most two. arrays: symbols, at most two; None: no
    array. strides: of the first array, from a channel and from a column to the next.
    """

    function: str
    numbers: tuple[float, ...] = ()
    arrays: tuple[str | None, ...] = ()
    strides: tuple[int, int] = (0, 0)

    @property
    def name(self) -> str:
        """Return the C function."""
        return f"step_{self.function.replace(' ', '_')}"


def _step(node: LayerNode, operator: op.Operator, weights: Mapping[str, Array], prefix: str) -> str:
    """Return the initialiser of the step of an elementwise operator.

    prefix: of the roles of its weights in the layer: the position of a fused operator.
    """
    step = _step_of(node, operator, weights, prefix)
    if step.name not in defined_names("steps.c") and not isinstance(c_of(operator), StepInC):
        raise node.refusal(f"of the function {step.name.removeprefix('step_')!r}")
    node.tables.wanted.add(step.name)
    numbers = [float(number) for number in (*step.numbers, 0, 0)[:2]]
    return step_initialiser(step.name, numbers, (*step.arrays, None, None)[:2], step.strides)


def _step_of(
    node: LayerNode, operator: op.Operator, weights: Mapping[str, Array], prefix: str
) -> _Step:
    """Return the step of an elementwise operator, with its arrays among the parameters in C."""
    shape = node.layer.shape

    def by_channel(role: str, values: Array) -> str:
        """Return the symbol of a parameter per channel of a map, or per element of other tensors."""
        spread = values if shape.is_map else np.repeat(values, shape.elements // len(values))
        return node.symbol(f"{prefix}{role}", spread)

    match operator:
        case op.Activation(function="prelu"):
            return _Step("prelu", arrays=(by_channel("slope", weights["slope"]),))
        case op.Activation():
            return _Step(operator.function, operator.parameters)
        case op.BatchNormalization():
            scale, shift = (
                array.astype(np.float32) for array in operator.factors_and_offsets(weights)
            )
            return _Step("affine", arrays=(by_channel("scale", scale), by_channel("shift", shift)))
        case op.LocalResponseNormalization():
            if not shape.is_map and shape.elements != shape.channels:
                raise node.refusal("with a normalisation over channels, on a tensor that is no map")
            return _Step(
                "neighbours",
                numbers=(operator.beta, operator.bias),
                arrays=(None, node.derived(f"{prefix}factor")),
                # Instead of strides: the channels of a sum, and those before its own.
                strides=(operator.size, (operator.size - 1) // 2),
            )
        case op.Elementwise(constant=tuple()):
            constant = constant_fields(node, weights["constant"], f"{prefix}constant")
            strides = constant.channel, constant.column
            step = _Step(f"constant {operator.function}", (), (str(constant.values),), strides)
            first = step._replace(function=f"{step.function} first")
            # Functions that commute have no variant with the constant first.
            has_first = operator.constant_first and first.name in defined_names("steps.c")
            return first if has_first else step
        case op.Softmax():
            return _Step("softmax")
        case op.Identity():
            return _Step("clip", (-np.inf, np.inf))
    source = c_of(operator)  # of an operator of another package: an expression
    if isinstance(source, StepInC):
        return _Step(source.name, source.numbers(operator))
    fused = f"with {type(operator).__name__} fused behind it"
    raise node.refusal(fused if prefix else "as a step on elements")


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
