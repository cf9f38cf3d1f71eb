"""Products of matrices and tensors, also of integers whose scale depends on the frame."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod

import numpy as np

from cnn2csdf.arrays import Array
from cnn2csdf.dtypes import Element, Quantization
from cnn2csdf.fixed_point.single_precision import multiplied, product_factors
from cnn2csdf.geometry import Window
from cnn2csdf.integers import centred, channel_ratios, rescaled_products, rescaled_sums
from cnn2csdf.operators.elementwise import broadcast
from cnn2csdf.operators.kernel_loops import CHANNELS_IN_VECTOR, dense_loops, filter_loops
from cnn2csdf.operators.moves import to_memory_order
from cnn2csdf.operators.operands import Constants, operand_readers, operand_shapes, trained_operands
from cnn2csdf.operators.operator import (
    Attention,
    KernelLoops,
    KernelUse,
    Operator,
    RowsNeeded,
    only_input,
    only_row,
    quantized_types,
    same_row,
)
from cnn2csdf.operators.windows import Convolution, OverWholeInput, window_cells
from cnn2csdf.part import CentredRows, KeptState, OutputRows, Types, whole_tensor
from cnn2csdf.shape import Dims, Shape
from csdf.errors import InvalidNetwork

__all__ = [
    "AttentionProduct", "DynamicQuantization", "DynamicRange", "FullyConnected",
    "IntegerConvolution", "IntegerProduct", "MatrixProduct", "StreamedProduct", "TensorProduct",
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class FullyConnected(OverWholeInput):
    """A matrix times all elements of the input, in (channel, row, column) order."""

    weight_role = "matrix"
    half_roles = ("matrix",)
    bias_axis = 0
    mixes_channels = True
    units: int
    has_bias: bool = True

    @property
    def dense_units(self) -> int:
        return self.units

    def kernel_loops(self, use: KernelUse) -> KernelLoops:
        return dense_loops(self.units, use.inputs[0], is_real=use.is_real)

    def with_bias(self) -> FullyConnected:
        return replace(self, has_bias=True)

    def output_dims(self, inputs: Sequence[Shape]) -> Dims:
        only_input(self, inputs)
        return (self.units,)

    def trained(self, inputs: Sequence[Shape]) -> Mapping[str, Dims]:
        """Return the matrix (units, elements of the inputs of all frames), and the bias."""
        matrix = {"matrix": (self.units, self.frames_per_output * inputs[0].elements)}
        return matrix | ({"bias": (self.units,)} if self.has_bias else {})

    def multiply_accumulates(self, inputs: Sequence[Shape], output: Shape) -> int:
        return self.units * self.frames_per_output * inputs[0].elements

    def formula(self, tensors: Sequence[Array], part: OutputRows) -> Array:
        product: Array = part.weights["matrix"] @ tensors[0].reshape(-1)
        return product + part.weights["bias"] if self.has_bias else product

    def computed_in_integers(self, part: OutputRows, types: Types) -> Array:
        """Return the sums, rescaled as those of a convolution are."""
        if "matrix" not in types.weights:
            return super(FullyConnected, self).computed_in_integers(part, types)
        (input_types, result), weights = quantized_types(self, types), types.weights["matrix"]
        vector = centred(whole_tensor(part.inputs[0]).reshape(-1), input_types).astype(np.float64)
        matrix = centred(part.weights["matrix"], weights).astype(np.float64)
        sums = matrix @ vector + (part.weights["bias"] if self.has_bias else 0)
        return rescaled_products(sums, input_types, weights, result, part.weights)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamedProduct(FullyConnected):
    """A matrix times the inputs of the last frames, the oldest first.

    Kept between frames are accumulators for the results of the next frames: the products of the inputs
    until now. They begin with 0, so frames before the first add nothing. The columns of the matrix are
    frame by frame, those of a frame in the order of memory.

    frames: the number of frames of a result.
    """

    frames: int

    @property
    def frames_per_output(self) -> int:
        return self.frames

    def kernel_loops(self, use: KernelUse) -> KernelLoops:
        products, shape = self.multiply_accumulates(use.inputs, use.output), use.output
        counts = {"outputs": shape.elements, "products": products}
        places = shape.height * shape.width if shape.is_map else 1
        return self.kernel, counts | {"sums": self.units * self.frames, "places": places}

    def kept(self, inputs: Sequence[Shape]) -> Mapping[str, KeptState]:
        """Return the accumulators of the next results, the nearest first."""
        return {"sums": KeptState((self.frames - 1, self.units), Element.INT32, 0)}

    def computed_in_integers(self, part: OutputRows, types: Types) -> Array:
        """Return the result that this input ends, and add the input to all later ones."""
        (input_types, result), weights = quantized_types(self, types), types.weights["matrix"]
        vector = centred(to_memory_order(whole_tensor(part.inputs[0])), input_types)
        matrix = centred(part.weights["matrix"], weights)
        # By unit and frame: the input is the last frame of this result, the one before of the next.
        products = matrix.reshape(self.units, self.frames, -1) @ vector
        kept = np.zeros((self.frames - 1, self.units), np.int32)
        if part.kept is not None:
            kept = part.kept["sums"]
        sums = kept[0] + products[:, -1] + (part.weights["bias"] if self.has_bias else 0)
        if part.kept is not None:
            later = np.concatenate([kept[1:], np.zeros((1, self.units), np.int32)])
            part.kept["sums"] = (later + products[:, -2::-1].T).astype(np.int32)
        return rescaled_products(sums, input_types, weights, result, part.weights)


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixProduct(Operator):
    """Product over the last axis of the first input: with the second input, or with weights.

    units: columns of the matrix of weights; None where the matrix is a second input. has_bias: whether
    a number for each column of weights is added.
    """

    depends_on_all = True
    half_roles = ("matrix",)
    units: int | None = None
    has_bias: bool = False

    @property
    def multiplies_inputs(self) -> bool:
        """Whether both matrices are tensors of the frame."""
        return self.units is None

    @property
    def swaps_with_inputs(self) -> bool:
        return self.units is not None

    @property
    def bias_axis(self) -> int | None:
        return None if self.units is None else -1

    def with_bias(self) -> MatrixProduct:
        return self if self.units is None else replace(self, has_bias=True)

    def kernel_loops(self, use: KernelUse) -> KernelLoops:
        shape, inner = use.output, use.inputs[0].dims[-1]
        name = self.kernel if self.units is None else f"{self.kernel}.trained"
        counts = {"outputs": shape.elements, "products": shape.elements * inner}
        if self.units is not None:
            if use.is_real:  # the kernel is a plain loop
                return name, counts
            counts = filter_loops(shape.elements // self.units, 1, inner, self.units)
        return name, counts | {"places": shape.height * shape.width if shape.is_map else 1}

    @property
    def weight_role(self) -> str | None:
        return None if self.units is None else "matrix"

    def output_dims(self, inputs: Sequence[Shape]) -> Dims:
        """Return the rows of the first input, the columns of the matrix."""
        if self.units is not None:
            return (*only_input(self, inputs).dims[:-1], self.units)
        if len(inputs) != 2:
            raise InvalidNetwork(f"a matrix product takes two inputs, found {len(inputs)}")
        left, right = (shape.dims for shape in inputs)
        if len(left) < 2 or len(right) < 2 or left[-1] != right[-2]:
            raise InvalidNetwork(f"a matrix product of {inputs[0]} and {inputs[1]} does not exist")
        return (*broadcast((left[:-2], right[:-2])), left[-2], right[-1])

    def rows_needed(self, index: int, inputs: Sequence[Shape], output: Shape) -> RowsNeeded | None:
        return same_row if self.units is not None and inputs[index].is_map else None

    def trained(self, inputs: Sequence[Shape]) -> Mapping[str, Dims]:
        """Return the matrix (columns of the input, units) and the bias where they are trained."""
        if self.units is None:
            return {}
        matrix = {"matrix": (inputs[0].dims[-1], self.units)}
        return matrix | ({"bias": (self.units,)} if self.has_bias else {})

    def multiply_accumulates(self, inputs: Sequence[Shape], output: Shape) -> int:
        return output.elements * inputs[0].dims[-1]

    def derived_arrays(self, types: Types, output: Shape) -> Mapping[str, Array]:
        """Return in single precision the steps of the second matrix, and of a sum in the output."""
        operand_types = self._of_integers(types)
        if operand_types is None or operand_types[-1].is_fixed_point:
            return super(MatrixProduct, self).derived_arrays(types, output)
        steps, ratios = product_factors(*operand_types)
        return {"steps": steps.astype(np.float32), "ratios": ratios.astype(np.float32)}

    def formula(self, tensors: Sequence[Array], part: OutputRows) -> Array:
        right = part.weights["matrix"] if self.units is not None else tensors[1]
        bias = part.weights["bias"] if self.has_bias else None
        types = None if part.types is None else self._of_integers(part.types)
        if types is None:
            product: Array = np.matmul(tensors[0], right)
            return product if bias is None else product + bias
        input_types, factors, result = types
        if self.units is not None:
            right = centred(right, factors).astype(np.float64)
        if not result.is_fixed_point:
            return multiplied(tensors[0], right, bias, types)
        # In double precision sums of products of integers are exact.
        sums = np.matmul(tensors[0], right) + (0 if bias is None else bias)
        columns = np.moveaxis(sums, -1, 0)
        rescaled = rescaled_products(columns, input_types, factors, result, part.weights)
        return np.moveaxis(rescaled, 0, -1)

    def computed_in_integers(self, part: OutputRows, types: Types) -> Array:
        """Return the sums, rescaled as those of a fully connected layer are."""
        operand_types = self._of_integers(types)
        if operand_types is None:
            return super(MatrixProduct, self).computed_in_integers(part, types)
        readers = [CentredRows(*pair) for pair in zip(part.inputs, operand_types, strict=False)]
        return self.computed(part._replace(inputs=readers))

    def _of_integers(self, types: Types) -> tuple[Quantization, Quantization, Quantization] | None:
        """Types of both matrices and of the result, where all are integers."""
        trained = [types.weights.get("matrix")] if self.units is not None else []
        return _types_of_integers(*types.inputs, *trained, types.output)


def _types_of_integers(
    *types: Quantization | None,
) -> tuple[Quantization, Quantization, Quantization] | None:
    """The types of two operands and of a result; None unless all are integers."""
    match types:
        case (Quantization() as first, Quantization() as second, Quantization() as result):
            return first, second, result
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionProduct(Operator):
    """A product of two maps whose rows are tokens, head by head: scores, or values weighed by them.

    A score (keys x tokens x heads) is the product of the query of a token with a key of the same head.
    A value (channels of a head x tokens x heads) is the sum of the rows of the second map, each times
    its score. Heads of queries, keys and values are the columns, or equal ranges of the channels of a
    map of one column. groups: equal ranges of rows; tokens meet rows of their own group only.
    """

    is_tileable = True
    rereads_rows = True
    by_pixels = True
    gives: str  # "scores" or "values"
    heads: int
    groups: int = 1

    def of_head(self, axis: int, heads: int) -> AttentionProduct | None:
        """Return the product of one head, which is one column of the maps."""
        has_part = (axis, self.heads, self.groups) == (2, heads, 1)
        return replace(self, heads=1) if has_part else None

    def kernel_loops(self, use: KernelUse) -> KernelLoops:
        shape, products = use.output, self.multiply_accumulates(use.inputs, use.output)
        inner, places = products // shape.elements, shape.height * shape.width
        blocks = places * -(-shape.channels // CHANNELS_IN_VECTOR)
        counts = {"outputs": shape.elements, "products": products, "inner": places * inner}
        counts |= {"blocks": blocks, "block rows": blocks * inner, "places": places}
        return f"{self.kernel}.{self.gives}", counts

    @property
    def attention(self) -> Attention:
        return Attention(self.gives, self.heads, self.groups)

    def of_one_group(self) -> AttentionProduct:
        return replace(self, groups=1)

    def output_dims(self, inputs: Sequence[Shape]) -> Dims:
        if len(inputs) != 2 or not all(shape.is_map for shape in inputs):
            raise InvalidNetwork(f"{self.in_words()} of {len(inputs)} tensors, or of no maps")
        left, right = (self._width(shape) for shape in inputs)
        keys, rest = divmod(inputs[1].rows, self.groups)
        meets = left == right if self.gives == "scores" else inputs[0].channels == keys
        columns = inputs[0].width == self.heads or self.gives == "scores"
        if rest or inputs[0].rows % self.groups or not meets or not columns:
            raise InvalidNetwork(f"{self.in_words()} of {inputs[0]} and {inputs[1]}")
        return (keys if self.gives == "scores" else right, inputs[0].rows, self.heads)

    def _width(self, shape: Shape) -> int:
        """Channels of a head."""
        elements = shape.channels * shape.width
        if shape.width not in (1, self.heads) or elements % self.heads:
            raise InvalidNetwork(f"{self.in_words()} of {self.heads} heads, and {shape}")
        return elements // self.heads

    def rows_needed(self, index: int, inputs: Sequence[Shape], output: Shape) -> RowsNeeded:
        """Return the row itself, and all keys and values of its group."""
        if index == 0:
            return same_row
        tokens, keys = output.rows // self.groups, inputs[1].rows // self.groups
        return lambda row: (row // tokens * keys, (row // tokens + 1) * keys)

    def columns_needed(self, index: int, inputs: Sequence[Shape], output: Shape) -> RowsNeeded:
        """Return the column that has the channels of a head."""
        return same_row if inputs[index].width == self.heads else only_row

    def multiply_accumulates(self, inputs: Sequence[Shape], output: Shape) -> int:
        keys = inputs[1].rows // self.groups
        return output.elements * (self._width(inputs[0]) if self.gives == "scores" else keys)

    def formula(self, tensors: Sequence[Array], part: OutputRows) -> Array:
        return self._by_groups(tensors, part, np.matmul)

    def _by_groups(
        self, tensors: Sequence[Array], part: OutputRows, multiply: Callable[[Array, Array], Array]
    ) -> Array:
        """The products of the rows of both tensors, group by group and head by head."""
        left, right = (self._by_heads(tensor) for tensor in tensors)
        tokens, keys = (reader.shape.rows // self.groups for reader in part.inputs)
        products, first_group = [], part.begin // tokens
        for group in range(first_group, (part.end - 1) // tokens + 1):
            begin, end = max(group * tokens, part.begin), min((group + 1) * tokens, part.end)
            left_rows = left[:, begin - part.begin : end - part.begin]
            first_key = (group - first_group) * keys
            right_rows = right[:, first_key : first_key + keys]
            right_rows = right_rows.swapaxes(1, 2) if self.gives == "scores" else right_rows
            products.append(multiply(left_rows, right_rows))
        joined: Array = np.concatenate(products, axis=1).transpose(2, 1, 0)
        return joined

    def _by_heads(self, rows: Array) -> Array:
        """Rows of a map as heads x tokens x channels of a head."""
        if rows.shape[2] == self.heads:
            return rows.transpose(2, 1, 0)
        return rows.reshape(self.heads, -1, rows.shape[1]).swapaxes(1, 2)

    def computed_in_integers(self, part: OutputRows, types: Types) -> Array:
        """Return the sums, rescaled; those of integers are exact in double precision."""
        operand_types = _types_of_integers(*types.inputs, types.output)
        if operand_types is None:
            return super(AttentionProduct, self).computed_in_integers(part, types)
        shapes, tensors, result = [reader.shape for reader in part.inputs], [], operand_types[-1]
        for index, (reader, kind) in enumerate(zip(part.inputs, operand_types, strict=False)):
            needed = self.rows_needed(index, shapes, part.shape)
            first, end = needed(part.begin)[0], needed(part.end - 1)[1]
            tensors.append(CentredRows(reader, kind).rows(first, end))
        if not result.is_fixed_point:
            multiply = partial(multiplied, bias=None, types=operand_types)
            return self._by_groups(tensors, part, multiply)
        sums = self._by_groups(tensors, part, np.matmul).astype(np.int64)
        return rescaled_sums(sums, channel_ratios(*operand_types, 1), result)

    def in_words(self) -> str:
        return f"attention {self.gives}"


STEPS = 255  # between the least and the largest of 8 bits


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicRange(Operator):
    """The scale with which 8-bit integers span all elements of the tensor, or their zero point."""

    depends_on_all = True
    gives: str  # "scale" or "zero point"

    @property
    def run_time_result(self) -> str:
        return self.gives

    def output_dims(self, inputs: Sequence[Shape]) -> Dims:
        only_input(self, inputs)
        return (1,)

    def operations(self, inputs: Sequence[Shape], output: Shape) -> int:
        return 2 * inputs[0].elements

    def formula(self, tensors: Sequence[Array], part: OutputRows) -> Array:
        low = np.minimum(tensors[0].min(), np.float32(0))
        high = np.maximum(tensors[0].max(), np.float32(0))
        scale = np.float32(1) if low == high else np.float32((high - low) / np.float32(STEPS))
        zero = np.rint(np.clip(-low / scale, 0, STEPS))
        return np.array([scale if self.gives == "scale" else zero], np.float32)

    def in_words(self) -> str:
        return f"dynamic {self.gives}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicQuantization(Operator):
    """The first input as 8-bit integers, by the scale and the zero point that follow it."""

    run_time_result = "integers"
    depends_on_all = True
    element_operations = 2

    def output_dims(self, inputs: Sequence[Shape]) -> Dims:
        if len(inputs) != 3 or inputs[1].elements != 1 or inputs[2].elements != 1:
            raise InvalidNetwork("a dynamic quantisation takes a tensor, a scale and a zero point")
        return inputs[0].dims

    def rows_needed(self, index: int, inputs: Sequence[Shape], output: Shape) -> RowsNeeded | None:
        return same_row if index == 0 and output.is_map else None

    def formula(self, tensors: Sequence[Array], part: OutputRows) -> Array:
        values, (scale,), (zero,) = tensors
        steps: Array = np.clip(np.rint(values / scale) + zero, 0, STEPS)
        return steps


def _require_zeros(operator: Operator, zeros: Sequence[Shape], count: int) -> None:
    if len(zeros) != count or any(zero.elements != 1 for zero in zeros):
        raise InvalidNetwork(f"{operator.in_words()} with {len(zeros)} zero points, not {count}")


@dataclass(frozen=True, slots=True, kw_only=True)
class IntegerConvolution(Operator):
    """A convolution of integers, summed exactly; a second input is the zero point of the first.

    The zero point of the trained kernel has been subtracted.
    """

    run_time_result = "sums"
    has_integer_weights = True
    filters: int
    window: Window
    groups: int = 1
    has_zero: bool = True

    @property
    def window_taps(self) -> tuple[int, int]:
        return self.window.kernel

    @property
    def _real(self) -> Convolution:
        return Convolution(
            filters=self.filters, window=self.window, groups=self.groups, has_bias=False
        )

    def output_dims(self, inputs: Sequence[Shape]) -> Dims:
        _require_zeros(self, inputs[1:], int(self.has_zero))
        return self._real.output_dims(inputs[:1])

    def rows_needed(self, index: int, inputs: Sequence[Shape], output: Shape) -> RowsNeeded | None:
        return None if index else self._real.rows_needed(0, inputs[:1], output)

    def trained(self, inputs: Sequence[Shape]) -> Mapping[str, Dims]:
        return self._real.trained(inputs[:1])

    def multiply_accumulates(self, inputs: Sequence[Shape], output: Shape) -> int:
        return self._real.multiply_accumulates(inputs[:1], output)

    def computed(self, part: OutputRows) -> Array:
        zero = float(whole_tensor(part.inputs[1])[0]) if self.has_zero else 0.0
        cells = window_cells(self.window, part, fill=zero).astype(np.float64) - zero
        kernel = part.weights["kernel"].astype(np.float64)
        return self._real.summed(cells, {"kernel": kernel}, part).astype(np.float32)

    def in_words(self) -> str:
        return f"integer {self._real.in_words()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class IntegerProduct(Operator):
    """A product of matrices of integers, summed exactly; zero points are inputs after them.

    units: columns of a trained matrix, whose zero point has been subtracted; None for a second input.
    has_zeros: for each matrix, whether its zero point is an input.
    """

    run_time_result = "sums"
    has_integer_weights = True
    depends_on_all = True
    words = "integer matrix product"
    units: int | None = None
    has_zeros: tuple[bool, bool] = (True, False)

    @property
    def _real(self) -> MatrixProduct:
        return MatrixProduct(units=self.units)

    @property
    def _operands(self) -> int:
        return 1 if self.units is not None else 2

    def output_dims(self, inputs: Sequence[Shape]) -> Dims:
        _require_zeros(self, inputs[self._operands :], sum(self.has_zeros))
        return self._real.output_dims(inputs[: self._operands])

    def rows_needed(self, index: int, inputs: Sequence[Shape], output: Shape) -> RowsNeeded | None:
        operands = inputs[: self._operands]
        return None if index else self._real.rows_needed(0, operands, output)

    def trained(self, inputs: Sequence[Shape]) -> Mapping[str, Dims]:
        return self._real.trained(inputs[: self._operands])

    def multiply_accumulates(self, inputs: Sequence[Shape], output: Shape) -> int:
        return output.elements * inputs[0].dims[-1]

    def formula(self, tensors: Sequence[Array], part: OutputRows) -> Array:
        zeros = [float(tensor[0]) for tensor in tensors[self._operands :]]
        second = part.weights["matrix"] if self.units is not None else tensors[1]
        left, right = (
            tensor.astype(np.float64) - (zeros.pop(0) if has_zero else 0.0)
            for tensor, has_zero in zip((tensors[0], second), self.has_zeros, strict=True)
        )
        sums: Array = np.matmul(left, right)
        return sums.astype(np.float32)


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorProduct(Operator):
    """Sums of products over the axes that share a letter: `abc,acd->abd` is a matrix product.

    terms: the letters of each operand's axes. constants: operands that are parameters.
    """

    depends_on_all = True
    terms: tuple[str, ...]
    result: str
    constants: Constants = ()

    def output_dims(self, inputs: Sequence[Shape]) -> Dims:
        sizes = self._sizes(inputs)
        return tuple(sizes[letter] for letter in self.result) or (1,)

    def _sizes(self, inputs: Sequence[Shape]) -> dict[str, int]:
        shapes = operand_shapes(inputs, self.constants)
        sizes: dict[str, int] = {}
        if len(shapes) != len(self.terms):
            raise InvalidNetwork(f"{self.in_words()} of {len(shapes)} tensors")
        for term, shape in zip(self.terms, shapes, strict=True):
            if len(term) != len(shape.dims):
                raise InvalidNetwork(f"{self.in_words()}: {term!r} does not fit {shape}")
            for letter, size in zip(term, shape.dims, strict=True):
                if sizes.setdefault(letter, size) != size:
                    raise InvalidNetwork(
                        f"{self.in_words()}: axis {letter!r} has {sizes[letter]} and {size} places"
                    )
        return sizes

    def trained(self, inputs: Sequence[Shape]) -> Mapping[str, Dims]:
        return trained_operands(self.constants)

    def multiply_accumulates(self, inputs: Sequence[Shape], output: Shape) -> int:
        """Return the products of all letters' sizes, for each operand after the first."""
        return prod(self._sizes(inputs).values()) * (len(self.terms) - 1)

    def computed(self, part: OutputRows) -> Array:
        """Return the rows of the part, from whole operands."""
        readers = operand_readers(part, self.constants)
        return super(TensorProduct, self).computed(part._replace(inputs=readers))

    def formula(self, tensors: Sequence[Array], part: OutputRows) -> Array:
        equation = f"{','.join(self.terms)}->{self.result}"
        product = np.einsum(equation, *tensors, optimize=len(tensors) > 1)
        return np.asarray(product, np.float32)

    def in_words(self) -> str:
        return f"einsum {','.join(self.terms)}->{self.result}"
