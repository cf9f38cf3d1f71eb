"""Products of floating point with weights of int8, whose input is quantised by its own range.

As TensorFlow Lite computes weights of a dynamic-range export. Described from tensorflow/tensorflow,
tensorflow/lite/kernels: fully_connected.cc, conv.cc, depthwise_conv.cc, and
internal/reference/portable_tensor_utils.cc.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from cnn2csdf.arrays import Array
from cnn2csdf.operators.kernel_loops import hybrid_loops
from cnn2csdf.operators.operator import SINGLE_BYTES, KernelLoops, KernelUse, Operator
from cnn2csdf.operators.products import FullyConnected, MatrixProduct
from cnn2csdf.operators.windows import Convolution
from cnn2csdf.part import HeldRows, OutputRows, Types, along_channels, rows_of_part, whole_tensor
from cnn2csdf.shape import Dims, Shape

__all__ = ["HybridProduct"]

LOWEST, LARGEST = -128, 127


@dataclass(frozen=True, slots=True, kw_only=True)
class HybridProduct(Operator):
    """A product with weights of int8: of a convolution, a matrix and a vector, or several vectors.

    The input of a convolution is quantised as a whole, so all rows of it are needed; of a matrix each
    vector. scales: of the weights, one or one for each output channel. has_offset: whether the range
    of the input need not be symmetric about zero.
    """

    has_integer_weights = True
    product: Convolution | FullyConnected | MatrixProduct
    scales: tuple[float, ...]
    has_offset: bool

    def derived_arrays(self, types: Types, output: Shape) -> Mapping[str, Array]:
        return {"scales": np.array(self.scales, np.float32)}

    def output_dims(self, inputs: Sequence[Shape]) -> Dims:
        return self.product.output_dims(inputs)

    def trained(self, inputs: Sequence[Shape]) -> Mapping[str, Dims]:
        return self.product.trained(inputs)

    def multiply_accumulates(self, inputs: Sequence[Shape], output: Shape) -> int:
        return self.product.multiply_accumulates(inputs, output)

    def kernel_loops(self, use: KernelUse) -> KernelLoops:
        name = f"HybridProduct.{type(self.product).__name__}"
        return name, hybrid_loops(self.product, use.inputs[0], use.output)

    @property
    def window_taps(self) -> tuple[int, int]:
        return self.product.window_taps

    def scratch_elements(self, inputs: Sequence[Shape]) -> int:
        """Return the bytes of the values that are multiplied at a time, in single precision."""
        return -(-self.values_at_once(inputs) // SINGLE_BYTES)

    def values_at_once(self, inputs: Sequence[Shape]) -> int:
        """Return how many numbers of the input one sum of products reads."""
        match self.product:
            case Convolution(window=window, groups=groups):
                return prod(window.kernel) * (inputs[0].channels // groups)
            case FullyConnected():
                return inputs[0].elements
        return inputs[0].dims[-1]

    def computed(self, part: OutputRows) -> Array:
        values = whole_tensor(part.inputs[0])
        exact = {role: array.astype(np.float64) for role, array in part.weights.items()}
        bias = exact.pop("bias", None)
        product = self.product
        if isinstance(product, Convolution):
            integers, scale = _quantized(values, has_offset=self.has_offset)
            held = HeldRows(shape=part.inputs[0].shape, array=integers)
            sums = self._sums(part._replace(inputs=(held,), weights=exact), product)
            factors = along_channels(np.array(self.scales, np.float32), 3)
            is_depthwise = product.groups == part.inputs[0].shape.channels != 1
            if is_depthwise or not self.has_offset:
                result = sums * (factors * scale)
            else:
                result = sums * factors * scale
            return result if bias is None else result + along_channels(bias.astype(np.float32), 3)
        matrix = exact["matrix"].T if isinstance(product, FullyConnected) else exact["matrix"]
        rows = values.reshape(-1, len(matrix))
        result = np.zeros((len(rows), matrix.shape[1]), np.float32)
        if bias is not None:
            result += bias.astype(np.float32)
        for number, row in enumerate(rows):
            integers, scale = _quantized(row, has_offset=self.has_offset)
            factors = np.array(self.scales, np.float32) * scale
            result[number] += (integers @ matrix).astype(np.float32) * factors
        return rows_of_part(result.reshape(part.shape.dims), part)

    def _sums(self, part: OutputRows, product: Convolution) -> Array:
        """Return the sums of products of integers, which are exact in double precision."""
        without_bias = Convolution(
            filters=product.filters, window=product.window, groups=product.groups, has_bias=False
        )
        return without_bias.computed(part).astype(np.float32)

    def in_words(self) -> str:
        return f"{self.product.in_words()}, weights of int8"


def _quantized(values: Array, *, has_offset: bool) -> tuple[Array, np.float32]:
    """Return integers from -128 to 127 without their zero point, and the scale."""
    if not has_offset:
        limit = np.float32(max(abs(float(values.min())), abs(float(values.max()))))
        if limit == 0:
            return np.zeros(values.shape), np.float32(1)
        rounded = _rounded(values * (np.float32(LARGEST) / limit))
        return np.clip(rounded, -LARGEST, LARGEST), limit / np.float32(LARGEST)
    low, high = min(0.0, float(values.min())), max(0.0, float(values.max()))
    if low == high:
        return np.zeros(values.shape), np.float32(1)
    step = (high - low) / (LARGEST - LOWEST)
    from_low, from_high = LOWEST - low / step, LARGEST - high / step
    is_low_better = abs(LOWEST) + abs(low / step) < abs(LARGEST) + abs(high / step)
    zero = float(
        np.clip(_rounded(np.array(from_low if is_low_better else from_high)), LOWEST, LARGEST)
    )
    scale = np.float32(step)
    rounded = _rounded(np.float32(zero) + values * np.float32(1 / float(scale)))
    return np.clip(rounded, LOWEST, LARGEST) - zero, scale


def _rounded(values: Array) -> Array:
    """Return the nearest integers; halves go away from zero."""
    wide = values.astype(np.float64)
    rounded: Array = np.trunc(wide + np.copysign(0.5, wide))
    return rounded
