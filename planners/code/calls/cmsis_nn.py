"""Layers that CMSIS-NN computes with the same bits: their calls, and the scratch that these take.

A firing of a stage of one layer makes rows of its result, a block. Where the rows that it reads and
those that it makes lie one behind the other, one call of CMSIS-NN makes the block: a pointer to the
first row that is there, and as padding the rows above it that are not. Rows that lie apart, as those
of a line that bends, are copied to the scratch if that has room. All other blocks, and layers
whose arithmetic differs or is not known to be equal, keep the kernels of this package.

Equal are: sums in 32 bits, rescaled in two steps (a product with a multiplier, halves up, then a power
of two, halves away from zero) as far as no factor is above one; means of the places that are there,
halves away from zero; sums of two tensors as products with 2 ** 20.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cnn2csdf import operators as op
from cnn2csdf.dtypes import Element
from cnn2csdf.fixed_point.arithmetic import SUM_BITS
from cnn2csdf.fixed_point.flash import sum_ratios
from cnn2csdf.geometry import Range, Window
from cnn2csdf.integers import multipliers
from cnn2csdf.network import Layer, Network
from cnn2csdf.parameters import multiply_accumulates
from csdf.errors import UnsupportedOperator
from planners.code.c_text import NULL
from planners.code.calls.rescaling import given_types, result_types
from planners.code.layer_descriptor import Described, KernelCall
from planners.code.parts import COMMIT
from planners.plan.executor import PlanMachine
from planners.plan.plan import Kind, StreamingPlan
from planners.plan.rematerialisation import worked_network
from planners.plan.running_stage import RunningStage
from planners.plan.shadow_arena import HeldTensor

FUNCTIONS = {  # the kernel of this package: the one that calls CMSIS-NN, and what that calls
    "convolve": ("cmsis_convolve", "arm_convolve_s8"),
    "depthwise_conv": ("cmsis_depthwise_conv", "arm_depthwise_conv_wrapper_s8"),
    "average_pool": ("cmsis_average_pool", "arm_avgpool_s8"),
    "max_pool": ("cmsis_max_pool", "arm_max_pool_s8"),
    "add_tensors": ("cmsis_add", "arm_elementwise_add_s8"),
    "fully_connected": ("cmsis_fully_connected", "arm_fully_connected_s8"),
}
TARGETS = {  # what has scratch of its own, and how compilers say it
    "mve": "defined(__ARM_FEATURE_MVE) && (__ARM_FEATURE_MVE & 1)",
    "dsp": "defined(__ARM_FEATURE_DSP) && (__ARM_FEATURE_DSP == 1)",
    "plain": "",
}
TARGET_OF = {"m55": "mve", "m4": "dsp"}  # of the kernels of a core; plain for others
Exponents = NDArray[np.int64]
LEAST_EXPONENT = -30  # of a factor, for shifts of 32 bits
MOST_PLACE, MOST_PRODUCTS = 2**15 - 1, 2**16 - 1  # that it counts, in 16 bits
MVE_CHANNELS, MVE_COLUMNS, MVE_BYTES = 124, 4, 16  # that its kernels take at once


class FiringRows(NamedTuple):
    """Rows that a firing makes: how many, rows of padding above, bytes of the rows that it reads.

    lies_together: whether all lie one behind the other. can_gather: whether they do once those that it
    reads are copied.
    """

    rows: int
    above: int
    size: int
    lies_together: bool
    can_gather: bool


class ScratchLimit(NamedTuple):
    """The bytes that there are for scratch, None: any; and the target that counts, None: each."""

    size: int | None = None
    target: str | None = None


ANY = ScratchLimit()


def blocks_of(network: Network, plan: StreamingPlan) -> dict[str, list[FiringRows]]:
    """Return the blocks of all layers that are stages of their own, by carrying out the plan."""
    blocks: dict[str, list[FiringRows]] = {}
    moved = {
        buffer.tensor for buffer in plan.buffers if buffer.kind in (Kind.WEIGHTS, Kind.RESIDENT)
    }

    def watch(
        layer: Layer, rows: Range, needed: Mapping[str, Range], tensors: Mapping[str, HeldTensor]
    ) -> None:
        """Note a block."""
        result, spans = tensors[layer.name], [needed[source] for source in layer.inputs]
        input_types = [tensors[source] for source in layer.inputs]
        fits = _lie_together(result, rows, None)
        pairs = list(zip(input_types, spans, strict=True))
        together = fits and all(_lie_together(input_, span, layer.name) for input_, span in pairs)
        above = size = 0
        can_gather = together
        if (window := getattr(layer.operator, "window", None)) is not None:
            (begin, end), source = spans[0], input_types[0]
            above = begin - rows[0] * window.stride[0] + window.padding[0]
            size = (end - begin) * source.layer.shape.row_elements
            can_gather = fits and begin < end and _has_places_together(source)
        block = FiringRows(rows[1] - rows[0], above, size, together, can_gather)
        blocks.setdefault(layer.name, []).append(block)

    PlanMachine(worked_network(network, plan.rematerialised), plan, watch=watch).run()
    return {name: blocks for name, blocks in blocks.items() if name not in moved}


def _has_places_together(tensor: HeldTensor) -> bool:
    """Whether the places of a row, of elements of a byte, lie one behind the other."""
    return tensor.place_bytes * tensor.layer.shape.width == tensor.layer.shape.row_elements


def _lie_together(tensor: HeldTensor, rows: Range, reader: str | None) -> bool:
    """Whether rows of a tensor lie one behind the other, place by place."""
    size = tensor.layer.shape.row_elements
    if rows[0] >= rows[1] or not _has_places_together(tensor):
        return False
    first = tensor.place(rows[0], reader)
    return all(tensor.place(row, reader) == first + (row - rows[0]) * size for row in range(*rows))


def _in_words(size: int) -> int:
    """Return the bytes of whole words, at least one, that have room for so many bytes."""
    return -(-max(size, 1) // 4) * 4


class CmsisNN:
    """CMSIS-NN at work in a plan: what it computes, and the scratch that this takes."""

    def __init__(self, network: Network, plan: StreamingPlan, room: ScratchLimit) -> None:
        """Take a network, a plan of it, and the room for scratch."""
        self._network, self._room = network.name, room
        self._blocks = blocks_of(network, plan)
        self._moves_rings = bool(network.variables)  # whose rows lie elsewhere in each frame
        worked = worked_network(network, plan.rematerialised)
        stages = [stage for group in plan.groups for stage in group.stages]
        self.firings = sum(len(RunningStage(stage, worked, None).targets) for stage in stages)
        self.functions: dict[str, str] = {}  # of CMSIS-NN, by layer
        self._gathering: set[str] = set()  # layers whose rows are copied where they lie apart
        self.multiply_accumulates, self._all = 0, plan.multiply_accumulates
        self.scratch = dict.fromkeys(TARGETS, 0)

    def call(self, one: Described, own: KernelCall) -> KernelCall:
        """Return the call for a layer that is a stage of its own: its own, or one of CMSIS-NN.

        Rows that lie apart are copied if the scratch has room. A layer of which CMSIS-NN would make
        less than half of the rows keeps its own kernel: a few rows are not worth scratch and code.
        """
        name, rows = one.layer.name, one.layer.shape.rows
        if own.function not in FUNCTIONS or not _has_equal_bits(one, own.function):
            return own
        for gathers in (True, False):
            made = sum(call.rows for call in self._made(name, gathers=gathers))
            sizes = self._sizes(one, own.function, gathers=gathers)
            if made and 2 * made >= rows and self._has_room(sizes):
                break
        else:
            return own
        self.scratch = {target: max(size, sizes[target]) for target, size in self.scratch.items()}
        function, self.functions[name] = FUNCTIONS[own.function]
        self._gathering |= {name} if gathers else set()
        self.multiply_accumulates += multiply_accumulates(one.layer, one.inputs) * made // rows
        one.tables.wanted.add(own.function)
        fields = (own.function, own.parameters, *_channels(one), int(gathers))
        return one.call(function, "shared_layer", *fields)

    def _made(self, name: str, *, gathers: bool) -> list[FiringRows]:
        """The blocks of a layer that CMSIS-NN makes."""
        return [
            block
            for block in self._blocks.get(name, ())
            if block.lies_together or (gathers and block.can_gather)
        ]

    def _sizes(self, one: Described, function: str, *, gathers: bool) -> dict[str, int]:
        """The scratch that the blocks of a layer take, with copied rows."""
        sizes = dict.fromkeys(TARGETS, 0)
        for block in self._blocks.get(one.layer.name, ()):
            is_copied = gathers and (self._moves_rings or not block.lies_together)
            copied = -(-block.size // 4) * 4 if is_copied and block.can_gather else 0
            for target, size in _scratch(one, function, block.above).items():
                sizes[target] = max(sizes[target], size + copied)
        return sizes

    def _has_room(self, sizes: Mapping[str, int]) -> bool:
        target, room = self._room.target, self._room.size
        size = sizes[target] if target else max(sizes.values())
        return room is None or _in_words(size) <= room

    def require_work(self, own_scratch: int) -> None:
        """Raise UnsupportedOperator where it computes nothing; make room for bytes of other layers."""
        if not self.functions:
            raise UnsupportedOperator(
                f"network {self._network!r}: CMSIS-NN computes no layer of this plan with the same "
                "bits and the scratch that there is (it takes layers of int8 in fixed point that are "
                "stages of their own); leave out --kernels"
            )
        for target, size in self.scratch.items():
            self.scratch[target] = _in_words(max(size, own_scratch))

    @property
    def own_work(self) -> int:
        """The multiply-accumulates that it leaves to this package's kernels."""
        return self._all - self.multiply_accumulates

    @property
    def shared(self) -> Counter[bool]:
        """How many blocks of the layers that call CMSIS-NN it makes (true), and how many not."""
        made = sum(
            len(self._made(name, gathers=name in self._gathering)) for name in self.functions
        )
        calls_all = sum(len(self._blocks[name]) for name in self.functions)
        return Counter({True: made, False: calls_all - made})

    @property
    def copied(self) -> int:
        """How many blocks have their rows copied in the first frame."""
        blocks = [block for name in self._gathering for block in self._made(name, gathers=True)]
        return sum(not block.lies_together for block in blocks)

    def to_json(self) -> dict[str, Any]:
        """Return what it computes, and its scratch, as a JSON value."""
        firings = {"cmsis_nn": self.shared[True], "copied": self.copied, "all": self.firings}
        return {
            "library": "CMSIS-NN",
            "commit": COMMIT,
            "scratch_bytes": self.scratch,
            "multiply_accumulates": {"cmsis_nn": self.multiply_accumulates, "all": self._all},
            "firings": firings,
            "layers": [
                {
                    "layer": name,
                    "function": function,
                    "firings": len(self._made(name, gathers=name in self._gathering)),
                    "all": len(self._blocks[name]),
                }
                for name, function in self.functions.items()
            ],
        }

    def in_words(self) -> str:
        """Return what it computes in a line."""
        sizes = ", ".join(f"{size} B ({target})" for target, size in self.scratch.items())
        copied = f", {self.copied} with copied rows" if self.copied else ""
        return (
            f"CMSIS-NN makes {self.shared[True]} of {self.firings} firings{copied}, "
            f"{100 * self.multiply_accumulates // max(self._all, 1)}% of the MACs; scratch {sizes}"
        )


def _has_equal_bits(one: Described, function: str) -> bool:
    """Whether CMSIS-NN gives the same integers as a kernel of this package."""
    layer, operator = one.layer, one.layer.operator
    types = [*one.given, layer.quantization]
    if any(kind is None or kind.element is not Element.INT8 for kind in types):
        return False
    if not all(kind is not None and kind.is_fixed_point for kind in types):
        return False
    match operator:
        case op.Convolution(window=window, groups=groups):
            is_plain = function == "depthwise_conv" or groups == 1
            beside = (*window.padding, *window.overhang)
            is_within = not any(beside) if window.kernel == (1, 1) else min(beside) >= 0
            is_read = function == "convolve" or _has_what_is_read(window, one)
            is_counted = _is_counted_in_16_bits(window, groups, one)
            is_like = is_plain and is_within and is_read and is_counted
            return is_like and _has_plain_sums(one, "kernel")
        case op.Pooling(window=window):
            return (
                not (operator.counts_padding or operator.rounds_up)
                and window.dilation == (1, 1)
                and _has_places(window, one)
            )
        case op.Elementwise(constant=None):
            are_equal = all(shape.dims == layer.shape.dims for shape in one.inputs)
            return operator.function == "add" and are_equal and _are_below_one(_of_sum(one))
        case op.FullyConnected():
            return _has_plain_sums(one, "matrix") and _sums_fit(one)
    return False


def _has_plain_sums(one: Described, role: str) -> bool:
    """Whether sums are rounded twice, without a zero point of weights or a factor above one."""
    weights = one.layer.stored_as(role).quantization
    is_plain = weights is not None and not (weights.zero_point or weights.rounds_sums_once)
    return is_plain and _are_below_one(_exponents(one))


def _are_below_one(exponents: Exponents) -> bool:
    return bool(exponents.max() <= 0 and exponents.min() >= LEAST_EXPONENT)


def _of_sum(one: Described) -> Exponents:
    """Return the exponents of the factors of a sum of two tensors."""
    scales = [kind.scale for kind in (*one.given, one.layer.quantization) if kind is not None]
    step = 2 * max(scales[:2])
    ratios = [scales[0] / step, scales[1] / step, step / (2 ** SUM_BITS[Element.INT8] * scales[2])]
    return np.asarray(multipliers(ratios)[1])


def _exponents(one: Described) -> Exponents:
    """Return the exponents of the factors of filters or units."""
    ratios = sum_ratios(one.layer, given_types(one), result_types(one))
    return np.asarray(multipliers(ratios or [])[1])


def _sums_fit(one: Described) -> bool:
    """Whether sums less zero points, with which those of Helium begin, have 32 bits."""
    matrix = one.weights["matrix"].astype(np.int64)
    sums = one.weights.get("bias", np.int64(0)) - given_types(one).zero_point * matrix.sum(axis=1)
    return bool(np.abs(sums).max() < 2**31)


def _has_what_is_read(window: Window, one: Described) -> bool:
    """Whether depthwise windows hold a place, those of 3 x 3 in their middle column."""
    if window.dilation != (1, 1):  # without these assumptions
        return True
    last = (one.layer.shape.width - 1) * window.stride[1] - window.padding[1]
    return _has_places(window, one) and (window.kernel != (3, 3) or last + 1 < one.inputs[0].width)


def _is_counted_in_16_bits(window: Window, groups: int, one: Described) -> bool:
    """Whether CMSIS-NN has the bits for the places, filters and products of a convolution."""
    source, filters = one.inputs[0], one.layer.shape.channels
    last = max(source.height, source.width) + max(*window.padding, *window.overhang)
    products = prod(window.kernel) * source.channels // groups
    return last <= MOST_PLACE and max(filters, products) <= MOST_PRODUCTS


def _has_places(window: Window, one: Described) -> bool:
    """Whether a place of the input lies under each window."""
    source, result = one.inputs[0], one.layer.shape
    top, left, *_ = window.padding
    sizes = (source.height, source.width), (result.height, result.width)
    return min(window.padding) >= 0 and all(
        before < taps and (last - 1) * stride - before < size
        for size, last, before, taps, stride in zip(
            *sizes, (top, left), window.kernel, window.stride, strict=True
        )
    )


def _channels(one: Described) -> tuple[str, str]:
    """Return the symbols of biases and exponents of a layer, as CMSIS-NN reads them."""
    if one.layer.operator.bias_axis != 0:
        return NULL, NULL
    ratios = sum_ratios(one.layer, given_types(one), result_types(one)) or []
    bias = one.symbol("bias", one.weights.get("bias", np.zeros(len(ratios))).astype(np.int32))
    if one.layer.operator.dense_units is not None and len(set(ratios)) == 1:
        return bias, NULL
    return bias, one.computed("shifts", _exponents(one).astype(np.int32))


def _scratch(one: Described, function: str, above: int) -> dict[str, int]:
    """Return the bytes of scratch of a call on each target, as get_buffer_size of CMSIS-NN.

    above: rows of padding above the block.
    """
    none = dict.fromkeys(TARGETS, 0)
    channels, window = one.inputs[0].channels, one.layer.operator.sliding_window
    if function == "average_pool":
        return {**none, "dsp": 4 * channels}
    if function not in ("convolve", "depthwise_conv"):
        return none
    assert window is not None
    taps, left = prod(window.kernel), window.padding[1]
    if function == "convolve":
        if taps == 1 and not left and not above:
            return none
        products = taps * channels
        two = 2 * 2 * (-(-products // 4) * 4)  # of 16 bits, for two places
        vectors = -(-products // MVE_BYTES)
        return {"mve": MVE_COLUMNS * vectors * MVE_BYTES, "dsp": two, "plain": two}
    if window.dilation != (1, 1):
        return none
    is_three = window.kernel == (3, 3) and above <= 1 and left <= 1
    at_once = MVE_COLUMNS * MVE_CHANNELS * taps
    return {"mve": at_once, "dsp": 0 if is_three else 2 * channels * taps, "plain": 0}
