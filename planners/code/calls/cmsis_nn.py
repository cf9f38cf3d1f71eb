"""Calls of CMSIS-NN for layers with bit-identical results, and the scratch memory of these calls.

A firing of a stage of a single layer computes a block of output rows. If the input rows and the output
rows of a block are contiguous in memory, one call of CMSIS-NN computes the block. The call gets a
pointer to the first stored input row, and the missing rows above it as padding. Input rows that are not
contiguous, as in a line buffer that wraps around, are copied to the scratch if it has room. All other
blocks use the kernels of this package, as do layers whose arithmetic is not proved to be equal.

Contents: `blocks_of` lists the blocks of a plan; `CmsisNN` chooses layers and counts their scratch;
`_has_equal_bits` has the conditions of equal results; `_scratch` has the formulas of scratch bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cnn2csdf import operators as op
from cnn2csdf.dtypes import Element
from cnn2csdf.fixed_point.arithmetic import addition_ratios
from cnn2csdf.fixed_point.flash import derived_arrays
from cnn2csdf.geometry import Range, Window
from cnn2csdf.integers import multipliers
from cnn2csdf.network import Layer, Network
from cnn2csdf.parameters import multiply_accumulates
from csdf.errors import UnsupportedOperator
from planners.code.c_text import NULL
from planners.code.calls.rescaling import input_type, result_type
from planners.code.layer_descriptor import KernelCall, LayerNode
from planners.code.parts import COMMIT
from planners.plan.executor import PlanMachine
from planners.plan.held_tensors import HeldTensor
from planners.plan.plan import Kind, StreamingPlan
from planners.plan.running_stage import RunningStage
from planners.rewrites.rematerialisation import executed_network

FUNCTIONS = {  # kernel of this package: the function of CMSIS-NN
    "convolve": "arm_convolve_s8",
    "depthwise_conv": "arm_depthwise_conv_wrapper_s8",
    "average_pool": "arm_avgpool_s8",
    "max_pool": "arm_max_pool_s8",
    "add_tensors": "arm_elementwise_add_s8",
    "fully_connected": "arm_fully_connected_s8",
}
WRAPPERS = {kernel: f"cmsis_{kernel}" for kernel in FUNCTIONS} | {"add_tensors": "cmsis_add"}
TARGETS = {  # targets that differ in scratch sizes, and their conditions in C
    "mve": "defined(__ARM_FEATURE_MVE) && (__ARM_FEATURE_MVE & 1)",
    "dsp": "defined(__ARM_FEATURE_DSP) && (__ARM_FEATURE_DSP == 1)",
    "plain": "",
}
TARGET_OF = {"m55": "mve", "m4": "dsp"}  # of the kernels of a core; plain for others
Exponents = NDArray[np.int64]
LEAST_EXPONENT = -30  # of a factor, for shifts of 32 bits
MOST_PLACE, MOST_PRODUCTS = 2**15 - 1, 2**16 - 1  # limits of 16-bit counters of CMSIS-NN
MVE_CHANNELS, MVE_COLUMNS, MVE_BYTES = 124, 4, 16  # block sizes of its Helium kernels


class FiringRows(NamedTuple):
    """A block of output rows: number of rows, rows of padding above, bytes of the input rows.

    is_contiguous: whether input rows and output rows are contiguous. can_gather: whether they are
    contiguous after the input rows are copied.
    """

    rows: int
    padding_above: int
    input_bytes: int
    is_contiguous: bool
    can_gather: bool


class Share(NamedTuple):
    """The part of a layer that CMSIS-NN computes, and the scratch bytes of its calls on each target.

    function: of CMSIS-NN. rows, multiply_accumulates: of all blocks. gathers: whether CMSIS-NN copies
    input rows that are not contiguous to scratch.
    """

    function: str
    blocks: Sequence[FiringRows]
    rows: int
    multiply_accumulates: int
    scratch: Mapping[str, int]
    gathers: bool


class ScratchLimit(NamedTuple):
    """The limit on scratch bytes (None: unlimited), and the target that it applies to (None: all)."""

    size: int | None = None
    target: str | None = None


ANY = ScratchLimit()


def blocks_of(network: Network, plan: StreamingPlan) -> dict[str, list[FiringRows]]:
    """Return the blocks of each single-layer stage, by executing the plan in shadow memory.

    Layers whose weights are moved into the arena are left out.
    """
    blocks: dict[str, list[FiringRows]] = {}
    moved = {
        buffer.tensor for buffer in plan.buffers if buffer.kind in (Kind.WEIGHTS, Kind.RESIDENT)
    }

    def watch(
        layer: Layer, rows: Range, needed: Mapping[str, Range], tensors: Mapping[str, HeldTensor]
    ) -> None:
        """Record a block."""
        result, spans = tensors[layer.name], [needed[source] for source in layer.inputs]
        sources = [tensors[source] for source in layer.inputs]
        is_result_contiguous = _is_contiguous(result, rows, None)
        is_contiguous = is_result_contiguous and all(
            _is_contiguous(source, span, layer.name)
            for source, span in zip(sources, spans, strict=True)
        )
        padding_above = input_bytes = 0
        can_gather = is_contiguous
        if (window := getattr(layer.operator, "window", None)) is not None:
            (first, last), source = spans[0], sources[0]
            padding_above = first - rows[0] * window.stride[0] + window.padding[0]
            input_bytes = (last - first) * source.layer.shape.row_elements
            can_gather = is_result_contiguous and first < last and _has_contiguous_rows(source)
        begin, end = rows
        block = FiringRows(end - begin, padding_above, input_bytes, is_contiguous, can_gather)
        blocks.setdefault(layer.name, []).append(block)

    PlanMachine(executed_network(network, plan.rematerialised), plan, watch=watch).run()
    return {name: blocks for name, blocks in blocks.items() if name not in moved}


def _has_contiguous_rows(tensor: HeldTensor) -> bool:
    """Whether the pixels of a row are contiguous, for elements of one byte."""
    return tensor.column_bytes * tensor.layer.shape.width == tensor.layer.shape.row_elements


def _is_contiguous(tensor: HeldTensor, rows: Range, reader: str | None) -> bool:
    """Whether rows of a tensor are contiguous in memory, and the pixels of each row as well."""
    size = tensor.layer.shape.row_elements
    begin, end = rows
    if begin >= end or not _has_contiguous_rows(tensor):
        return False
    first = tensor.row_offset(begin, reader)
    return all(
        tensor.row_offset(row, reader) == first + (row - begin) * size for row in range(begin, end)
    )


def _in_words(size: int) -> int:
    """Round a size up to a multiple of four."""
    return -(-size // 4) * 4


class CmsisNN:
    """The share of CMSIS-NN in a plan: the layers and blocks it computes, and its scratch."""

    def __init__(self, network: Network, plan: StreamingPlan, room: ScratchLimit) -> None:
        """room: the limit on the scratch memory."""
        self._network, self._room = network.name, room
        self._blocks = blocks_of(network, plan)
        # Rows of state variables are at another position of their ring in each frame, so that any block
        # may have to copy them.
        self._moves_rings = bool(network.variables)
        worked = executed_network(network, plan.rematerialised)
        stages = [stage for group in plan.groups for stage in group.stages]
        self.firings = sum(len(RunningStage(stage, worked, None).targets) for stage in stages)
        self._shares: dict[str, Share] = {}  # by layer
        self._all = plan.multiply_accumulates
        self.scratch = dict.fromkeys(TARGETS, 0)

    def call(self, node: LayerNode, own: KernelCall) -> KernelCall:
        """Return the call for a single-layer stage: `own`, or a call of CMSIS-NN."""
        share = self._share(node, own.function)
        if share is None:
            return own
        self._shares[node.layer.name] = share
        self.scratch = {
            target: max(size, share.scratch[target]) for target, size in self.scratch.items()
        }
        node.tables.wanted.add(own.function)
        bias, exponents = _channels(node)
        return node.call(
            WRAPPERS[own.function],
            "shared_layer",
            own=own.function,
            numbers=own.parameters,
            bias=bias,
            exponents=exponents,
            gathers=int(share.gathers),
        )

    def _share(self, node: LayerNode, kernel: str) -> Share | None:
        """Return the part of a layer that CMSIS-NN computes; None if the layer keeps its own kernel.

        Copies of input rows let CMSIS-NN compute more blocks, in more scratch; without room for them
        it computes the contiguous blocks only. Less than half of the rows is not worth the scratch
        and the code of a second kernel.
        """
        if kernel not in FUNCTIONS or not _has_equal_bits(node, kernel):
            return None
        for gathers in (True, False):
            share = self._candidate(node, kernel, gathers=gathers)
            is_worth = share.rows > 0 and 2 * share.rows >= node.layer.shape.rows
            if is_worth and self._has_room(share.scratch):
                return share
        return None

    def _candidate(self, node: LayerNode, kernel: str, *, gathers: bool) -> Share:
        """Return the share of CMSIS-NN in a layer, with or without copies of input rows."""
        blocks = self._blocks.get(node.layer.name, ())
        scratch = dict.fromkeys(TARGETS, 0)
        for block in blocks:
            is_copied = gathers and (self._moves_rings or not block.is_contiguous)
            copied = _in_words(block.input_bytes) if is_copied and block.can_gather else 0
            for target, size in _scratch(node, kernel, block.padding_above).items():
                scratch[target] = max(scratch[target], size + copied)
        computed = [
            block for block in blocks if block.is_contiguous or (gathers and block.can_gather)
        ]
        rows = sum(block.rows for block in computed)
        work = multiply_accumulates(node.layer, node.inputs)
        return Share(
            function=FUNCTIONS[kernel],
            blocks=computed,
            rows=rows,
            multiply_accumulates=work * rows // node.layer.shape.rows,
            scratch=scratch,
            gathers=gathers,
        )

    def _has_room(self, scratch: Mapping[str, int]) -> bool:
        target, room = self._room.target, self._room.size
        size = scratch[target] if target else max(scratch.values())
        return room is None or _in_words(max(size, 1)) <= room  # an array of C is not empty

    def require_work(self, own_scratch: int) -> None:
        """Raise UnsupportedOperator if CMSIS-NN computes no layer; else fix the scratch sizes.

        own_scratch: bytes of scratch of the other layers, a minimum for each target.
        """
        if not self._shares:
            raise UnsupportedOperator(
                f"network {self._network!r}: CMSIS-NN computes no layer of this plan with the same "
                "bits and the scratch that there is (it takes layers of int8 in fixed point that are "
                "stages of their own); leave out --kernels"
            )
        for target, size in self.scratch.items():
            self.scratch[target] = _in_words(max(size, own_scratch, 1))

    @property
    def multiply_accumulates(self) -> int:
        """The MACs that CMSIS-NN computes."""
        return sum(share.multiply_accumulates for share in self._shares.values())

    @property
    def own_work(self) -> int:
        """The MACs that the kernels of this package compute."""
        return self._all - self.multiply_accumulates

    @property
    def computed_blocks(self) -> int:
        """The number of blocks that CMSIS-NN computes."""
        return sum(len(share.blocks) for share in self._shares.values())

    @property
    def own_blocks(self) -> int:
        """The number of blocks of the same layers that the kernels of this package compute."""
        return sum(len(self._blocks[name]) for name in self._shares) - self.computed_blocks

    @property
    def copied(self) -> int:
        """The number of blocks whose input rows are copied in the first frame."""
        blocks = [block for share in self._shares.values() for block in share.blocks]
        return sum(not block.is_contiguous for block in blocks)

    def to_json(self) -> dict[str, Any]:
        """Return the layers that CMSIS-NN computes, and its scratch, as a JSON value."""
        firings = {"cmsis_nn": self.computed_blocks, "copied": self.copied, "all": self.firings}
        return {
            "library": "CMSIS-NN",
            "commit": COMMIT,
            "scratch_bytes": self.scratch,
            "multiply_accumulates": {"cmsis_nn": self.multiply_accumulates, "all": self._all},
            "firings": firings,
            "layers": [
                {
                    "layer": name,
                    "function": share.function,
                    "firings": len(share.blocks),
                    "all": len(self._blocks[name]),
                }
                for name, share in self._shares.items()
            ],
        }

    def in_words(self) -> str:
        """Return a summary in one line: firings, MACs and scratch."""
        sizes = ", ".join(f"{size} B ({target})" for target, size in self.scratch.items())
        copied = f", {self.copied} with copied rows" if self.copied else ""
        return (
            f"CMSIS-NN makes {self.computed_blocks} of {self.firings} firings{copied}, "
            f"{100 * self.multiply_accumulates // max(self._all, 1)}% of the MACs; scratch {sizes}"
        )


def _has_equal_bits(node: LayerNode, kernel: str) -> bool:
    """Whether CMSIS-NN computes the same integers as the kernel of this package.

    Tensors are int8 in fixed point: then both requantise accumulators of 32 bits in two roundings, a
    product with a multiplier, halves up, and a power of two, halves away from zero.
    """
    layer, operator = node.layer, node.layer.operator
    types = (*node.input_types, layer.quantization)
    if not all(
        kind is not None and kind.element is Element.INT8 and kind.is_fixed_point for kind in types
    ):
        return False
    match operator:
        case op.Convolution():
            return _convolves_equally(node, operator, kernel)
        case op.Pooling(window=window):
            # CMSIS-NN divides by the pixels inside the input, which must be one at least, and rounds
            # halves away from zero. It reads no dilation.
            return (
                not (operator.counts_padding or operator.rounds_up)
                and window.dilation == (1, 1)
                and _covers_pixels(window, node)
            )
        case op.Elementwise(constant=None):
            if operator.function != "add" or any(
                shape.dims != layer.shape.dims for shape in node.inputs
            ):
                return False
            ratios = addition_ratios([input_type(node, 0), input_type(node, 1)], result_type(node))
            _, exponents = multipliers(ratios)
            return _are_below_one(exponents)
        case op.FullyConnected():
            return _has_plain_sums(node, "matrix") and _has_initial_sums(node)
    return False


def _convolves_equally(node: LayerNode, operator: op.Convolution, kernel: str) -> bool:
    """Whether CMSIS-NN computes the same integers as `convolve` or `depthwise_conv`."""
    window, paddings = operator.window, (*operator.window.padding, *operator.window.overhang)
    if kernel == "convolve" and operator.groups > 1:
        return False  # the own kernel packs the filters of groups in another order
    if window.kernel == (1, 1) and any(paddings):
        return False  # the function for pointwise layers reads no padding
    if min(paddings) < 0:
        return False  # input rows or columns before the first window or after the last are cropped
    if kernel != "convolve" and not _depthwise_covers_pixels(window, node):
        return False
    return _fits_16_bits(window, operator.groups, node) and _has_plain_sums(node, "kernel")


def _has_plain_sums(node: LayerNode, role: str) -> bool:
    """Whether accumulators are rounded twice, weights have zero point 0, and no factor exceeds one."""
    weights = node.layer.stored_as(role).quantization
    is_plain = weights is not None and not (weights.zero_point or weights.rounds_sums_once)
    return is_plain and _are_below_one(_exponents(node))


def _are_below_one(exponents: Exponents) -> bool:
    """Whether factors only shift to the right; a shift to the left may exceed 32 bits."""
    return bool(exponents.max() <= 0 and exponents.min() >= LEAST_EXPONENT)


def _exponents(node: LayerNode) -> Exponents:
    """Return the exponents of the requantisation factors of the output channels."""
    return derived_arrays(node.layer, node.input_types)["exponents"].astype(np.int64)


def _has_initial_sums(node: LayerNode) -> bool:
    """Whether the initial accumulators of Helium fit 32 bits: bias minus zero point times weights.

    The library stores them only if no weights of the network have zero points.
    """
    if node.tables.has_helium and node.tables.weights_have_zeros:
        return False
    weights = node.weights["matrix"].astype(np.int64).sum(axis=1)
    sums = node.weights.get("bias", np.int64(0)) - input_type(node).zero_point * weights
    return bool(np.abs(sums).max() < 2**31)


def _depthwise_covers_pixels(window: Window, node: LayerNode) -> bool:
    """Whether each depthwise window covers an input pixel, a 3 x 3 window in its middle column."""
    if window.dilation != (1, 1):  # the kernel for dilated windows does not assume this
        return True
    last = (node.layer.shape.width - 1) * window.stride[1] - window.padding[1]
    return _covers_pixels(window, node) and (
        window.kernel != (3, 3) or last + 1 < node.inputs[0].width
    )


def _fits_16_bits(window: Window, groups: int, node: LayerNode) -> bool:
    """Whether positions, output channels and products of a convolution fit 16-bit counters."""
    source, filters = node.inputs[0], node.layer.shape.channels
    last = max(source.height, source.width) + max(*window.padding, *window.overhang)
    products = prod(window.kernel) * source.channels // groups
    return last <= MOST_PLACE and max(filters, products) <= MOST_PRODUCTS


def _covers_pixels(window: Window, node: LayerNode) -> bool:
    """Whether each window covers at least one pixel of the input."""
    source, result = node.inputs[0], node.layer.shape
    top, left, *_ = window.padding
    sizes = (source.height, source.width), (result.height, result.width)
    return min(window.padding) >= 0 and all(
        before < taps and (last - 1) * stride - before < size
        for size, last, before, taps, stride in zip(
            *sizes, (top, left), window.kernel, window.stride, strict=True
        )
    )


def _channels(node: LayerNode) -> tuple[str, str]:
    """Return the symbols of the arrays of biases and exponents that CMSIS-NN reads."""
    if node.layer.operator.bias_axis != 0:
        return NULL, NULL
    ratios = (
        node.layer.operator.sum_ratios(node.layer.types(node.input_types), node.layer.shape) or []
    )
    if "bias" in node.weights:
        bias = node.symbol("bias", node.weights["bias"].astype(np.int32))
    else:
        bias = node.computed("bias", np.zeros(len(ratios), np.int32))
    if node.layer.operator.dense_units is not None and len(set(ratios)) == 1:
        return bias, NULL
    return bias, node.computed("shifts", _exponents(node).astype(np.int32))


def _scratch(node: LayerNode, kernel: str, padding_above: int) -> dict[str, int]:
    """Return the scratch bytes of a call on each target, as the get_buffer_size functions do.

    A fully connected layer on Helium reads sums of its weights, 4 bytes an output, from the buffer of
    the call. TensorFlow Lite Micro computes them in its arena (`planners.formats.kernel_libraries`);
    here the buffer is a constant array, the initial sums of `rescaling.scaling`, and no scratch.
    padding_above: rows of padding above the block.
    """
    none = dict.fromkeys(TARGETS, 0)
    channels, window = node.inputs[0].channels, node.layer.operator.sliding_window
    if kernel == "average_pool":
        return {**none, "dsp": 4 * channels}  # the accumulators of a pixel
    if kernel not in ("convolve", "depthwise_conv"):
        return none
    assert window is not None
    taps, left = prod(window.kernel), window.padding[1]
    if kernel == "convolve":
        if taps == 1 and not left and not padding_above:
            return none  # pointwise layers read the input in place
        products = taps * channels
        two_columns = 2 * 2 * _in_words(products)  # im2col of two pixels in 16 bits
        vectors = -(-products // MVE_BYTES)
        columns = MVE_COLUMNS * vectors * MVE_BYTES
        return {"mve": columns, "dsp": two_columns, "plain": two_columns}
    if window.dilation != (1, 1):
        return none
    # A kernel without scratch computes windows of 3 x 3.
    is_three = window.kernel == (3, 3) and padding_above <= 1 and left <= 1
    column = 0 if is_three else 2 * channels * taps  # im2col of a pixel in 16 bits
    return {"mve": MVE_COLUMNS * MVE_CHANNELS * taps, "dsp": column, "plain": 0}
