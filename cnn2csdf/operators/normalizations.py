"""Normalisation: by trained statistics, by those of the tensor, by neighbouring maps; softmax."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from cnn2csdf.arrays import Array
from cnn2csdf.dtypes import Element
from cnn2csdf.fixed_point.functions import (
    exponential_table,
    inverse_root,
    reciprocal_table,
    softmax_int8,
    softmax_int16,
)
from cnn2csdf.fixed_point.single_precision import power_table, softmax_by_table, standardised
from cnn2csdf.integers import centred, dequantized, quantized, rescaled
from cnn2csdf.operators.operator import (
    Pointwise,
    RowByRow,
    RowsNeeded,
    SameDims,
    channel_array_elements,
    quantized_types,
    same_row,
)
from cnn2csdf.part import OutputRows, Types, along_channels, same_rows
from cnn2csdf.shape import Dims, Shape

__all__ = [
    "BatchNormalization", "InstanceNormalization", "LayerNormalization",
    "LocalResponseNormalization", "Softmax", "UnitLength",
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchNormalization(Pointwise):
    """Each feature map minus its mean, over its deviation, times a scale, plus a shift."""

    is_scalar_function = False
    words = "batch norm"
    epsilon: float = 1e-5

    def trained(self, inputs: Sequence[Shape]) -> Mapping[str, Dims]:
        return dict.fromkeys(("scale", "shift", "mean", "variance"), (inputs[0].channels,))

    def elements_in_flash(self, role: str, dims: Dims, output: Shape, *, is_fused: bool) -> int:
        """Return the elements of a factor or an offset, into which all parameters fold."""
        return channel_array_elements(dims, output) if role in ("scale", "shift") else 0

    def scales_channels(self, source: Shape) -> bool:
        return source.is_map

    def factors_and_offsets(self, weights: Mapping[str, Array]) -> tuple[Array, Array]:
        factors = weights["scale"] / np.sqrt(weights["variance"] + np.float32(self.epsilon))
        return factors, weights["shift"] - weights["mean"] * factors

    def computed(self, part: OutputRows) -> Array:
        values, affine = same_rows(part), self.factors_and_offsets(part.weights)
        factor, offset = (along_channels(array, values.ndim) for array in affine)
        result = values * factor
        result += offset
        return result


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalResponseNormalization(RowByRow):
    """Each element over a power of the sum of squares of `size` channels around it, at its pixel."""

    is_tileable = True
    depends_on_all = True
    words = "local response norm"
    normalizes_responses = True
    can_be_fused = True
    by_pixels = True
    size: int
    alpha: float = 1e-4
    beta: float = 0.75
    bias: float = 1.0

    @property
    def channels_before(self) -> int:
        return (self.size - 1) // 2

    def operations(self, inputs: Sequence[Shape], output: Shape) -> int:
        return output.elements * 2 * self.size

    def derived_arrays(self, types: Types, output: Shape) -> Mapping[str, Array]:
        return {"factor": np.asarray([self.alpha / self.size], np.float32)}

    def computed(self, part: OutputRows) -> Array:
        """Return the rows of the part, with as many channels before each as in ONNX."""
        values = same_rows(part)
        channels, before = len(values), self.channels_before
        squares = np.zeros((channels + self.size - 1, *values.shape[1:]), np.float32)
        np.multiply(values, values, out=squares[before : before + channels])
        sums = squares[:channels].copy()
        for shift in range(1, self.size):
            sums += squares[shift : shift + channels]
        scale = self.bias + self.alpha / self.size * sums
        return (values / np.power(scale, self.beta)).astype(np.float32, copy=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceNormalization(SameDims):
    """Each feature map normalised by its own mean and variance, then scaled and shifted."""

    depends_on_all = True
    element_operations = 3  # two for the statistics, one to apply them
    epsilon: float = 1e-5

    def trained(self, inputs: Sequence[Shape]) -> Mapping[str, Dims]:
        return dict.fromkeys(("scale", "shift"), (inputs[0].channels,))

    def formula(self, tensors: Sequence[Array], part: OutputRows) -> Array:
        standard = _standard(tensors[0], tuple(range(1, tensors[0].ndim)), self.epsilon)
        scale, shift = (
            along_channels(part.weights[role], standard.ndim) for role in ("scale", "shift")
        )
        return standard * scale + shift


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerNormalization(SameDims):
    """The axes from `axis` to `last` normalised by their mean and variance, then scaled and shifted.

    last: by default the last axis of the tensor.
    """

    depends_on_all = True
    has_real_weights = True
    element_operations = 3
    axis: int
    last: int | None = None
    epsilon: float = 1e-5
    has_bias: bool = True

    @property
    def is_tileable(self) -> bool:
        return self.axis == self.last == 0

    @property
    def swaps_with_inputs(self) -> bool:
        return self.axis == 2

    def of_head(self, axis: int, heads: int) -> LayerNormalization | None:
        return self if axis == 2 and axis not in range(self.axis, self._end(3)) else None

    def _end(self, rank: int) -> int:
        return rank if self.last is None else self.last + 1

    def rows_needed(self, index: int, inputs: Sequence[Shape], output: Shape) -> RowsNeeded | None:
        return (
            same_row if inputs[index].is_map and 1 not in range(self.axis, self._end(3)) else None
        )

    def trained(self, inputs: Sequence[Shape]) -> Mapping[str, Dims]:
        roles = ("scale", "shift") if self.has_bias else ("scale",)
        dims = inputs[0].dims
        return dict.fromkeys(roles, dims[self.axis : self._end(len(dims))])

    def formula(self, tensors: Sequence[Array], part: OutputRows) -> Array:
        rank = tensors[0].ndim
        end = self._end(rank)
        behind = (1,) * (rank - end)
        result = _standard(tensors[0], tuple(range(self.axis, end)), self.epsilon)
        result *= part.weights["scale"].reshape(*part.weights["scale"].shape, *behind)
        if self.has_bias:
            result += part.weights["shift"].reshape(*part.weights["shift"].shape, *behind)
        return result

    def computed_in_integers(self, part: OutputRows, types: Types) -> Array:
        """Return integers as the runtime computes them from real numbers in single precision."""
        input_types, result = types.inputs[0], types.output
        if input_types is None or result is None or result.is_fixed_point:
            return super(LayerNormalization, self).computed_in_integers(part, types)
        scale, shift = part.weights["scale"].reshape(-1), part.weights.get("shift")
        shift = None if shift is None else shift.reshape(-1)

        def in_single_precision(tensors: Sequence[Array], _part: OutputRows) -> Array:
            values = dequantized(tensors[0], input_types)
            outer, size = prod(values.shape[: self.axis]), scale.size
            vectors = values.reshape(outer, size, -1).swapaxes(1, 2)
            integers = quantized(standardised(vectors, scale, shift, self.epsilon), result)
            return integers.swapaxes(1, 2).reshape(values.shape)

        return self.computed_by(in_single_precision, part)


def _standard(values: Array, axes: tuple[int, ...], epsilon: float) -> Array:
    """Values with mean zero and variance one along the axes."""
    centred = values - values.mean(axis=axes, keepdims=True)
    variance = np.mean(centred * centred, axis=axes, keepdims=True)
    result: Array = centred / np.sqrt(variance + epsilon)
    return result


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitLength(SameDims):
    """Vectors along an axis, divided by their lengths.

    Integers become 128ths, by an inverse root in fixed point. Source: tensorflow/tensorflow,
    tensorflow/lite/kernels/internal/reference/l2normalization.h.
    """

    element_operations = 3
    axis: int

    def rows_needed(self, index: int, inputs: Sequence[Shape], output: Shape) -> RowsNeeded | None:
        return same_row if inputs[index].is_map and self.axis != 1 else None

    def formula(self, tensors: Sequence[Array], part: OutputRows) -> Array:
        (values,) = tensors
        lengths = np.sqrt(np.sum(values * values, axis=self.axis, keepdims=True))
        result: Array = values / np.maximum(lengths, np.float32(1e-6))
        return result

    def computed_in_integers(self, part: OutputRows, types: Types) -> Array:
        input_types, result = quantized_types(self, types)
        if not result.is_fixed_point or result.element.bytes > 1:
            return super(UnitLength, self).computed_in_integers(part, types)

        def in_128ths(tensors: Sequence[Array], _part: OutputRows) -> Array:
            whole = centred(tensors[0], input_types)
            squares = np.sum(whole * whole, axis=self.axis, keepdims=True)
            roots = [inverse_root(max(int(square), 1)) for square in squares.reshape(-1)]
            integers, exponents = (
                np.array(numbers, np.int64).reshape(squares.shape)
                for numbers in zip(*roots, strict=True)
            )
            limits = np.iinfo(result.element.value)
            middle = (limits.min + limits.max + 1) // 2
            if result.element is Element.UINT8 or result.is_unsigned:
                steps = rescaled(whole * 128, integers, exponents)
            else:
                steps = rescaled(whole, integers, exponents + 7)  # rounded at other bits
            clipped: Array = np.clip(steps + middle, limits.min, limits.max)
            return clipped.astype(limits.dtype)

        return self.computed_by(in_128ths, part)

    def in_words(self) -> str:
        return "unit length"


@dataclass(frozen=True, slots=True, kw_only=True)
class Softmax(SameDims):
    """Exponentials over their sum, over the axes from `axis` to `last` (by default that axis)."""

    depends_on_all = True
    element_operations = 3
    axis: int
    last: int | None = None
    is_logarithm: bool = False

    @property
    def kernel(self) -> str:
        return "Softmax.logarithm" if self.is_logarithm else "Softmax"

    @property
    def is_tileable(self) -> bool:
        return self.axis == 0 and self.last is None

    @property
    def swaps_with_inputs(self) -> bool:
        return self.axis == 2

    def derived_arrays(self, types: Types, output: Shape) -> Mapping[str, Array]:
        """Return the powers of differences of integers: in single precision, or of 16 bits."""
        input_types, result = types.inputs[0], types.output
        if input_types is None or result is None:
            return {}
        if not result.is_fixed_point:
            return {"powers": power_table(input_types.scale).astype(np.int32)}
        if input_types.element.bytes == 1:
            return {}
        tables = {"powers": exponential_table(), "reciprocals": reciprocal_table()}
        return {role: table.astype(np.int32) for role, table in tables.items()}

    @property
    def is_channel_softmax(self) -> bool:
        return self.axis == 0 and self.last in (None, 0) and not self.is_logarithm

    def of_head(self, axis: int, heads: int) -> Softmax | None:
        return self if axis == 2 and axis not in self.axes else None

    def rows_needed(self, index: int, inputs: Sequence[Shape], output: Shape) -> RowsNeeded | None:
        return same_row if inputs[index].is_map and 1 not in self.axes else None

    def formula(self, tensors: Sequence[Array], part: OutputRows) -> Array:
        with np.errstate(invalid="ignore"):  # where a mask leaves out every element
            shifted = tensors[0] - tensors[0].max(axis=self.axes, keepdims=True)
        powers = np.exp(shifted)
        sums = powers.sum(axis=self.axes, keepdims=True)
        result: Array = shifted - np.log(sums) if self.is_logarithm else powers / sums
        return result

    def computed_in_integers(self, part: OutputRows, types: Types) -> Array:
        """Return probabilities in steps of 2 ** -8, 2 ** -15 or 2 ** -16."""
        (input_types, result), axes = quantized_types(self, types), self.axes
        is_short = input_types.element.bytes == 1
        if self.is_logarithm or not (result.is_fixed_point or is_short):
            return super(Softmax, self).computed_in_integers(part, types)

        def probabilities(tensors: Sequence[Array], _part: OutputRows) -> Array:
            values, dtype = tensors[0].astype(np.int64), result.element.value
            if not result.is_fixed_point:
                return softmax_by_table(values, axes, input_types, result).astype(dtype)
            if input_types.element is Element.INT16:
                return softmax_int16(values, input_types.scale, axes).astype(dtype)
            bits = 8 * result.element.bytes
            steps = softmax_int8(values, input_types.scale, axes, bits)
            steps += np.iinfo(dtype).min + 2 ** (bits - 1)
            return steps.astype(dtype)

        return self.computed_by(probabilities, part)

    @property
    def axes(self) -> tuple[int, ...]:
        """The axes over which the shares add up to one."""
        return tuple(range(self.axis, (self.axis if self.last is None else self.last) + 1))
