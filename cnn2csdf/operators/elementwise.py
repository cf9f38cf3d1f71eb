"""Functions of the elements at one position of several tensors, reductions, argmax, top k, cumsum."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import prod

import numpy as np

from cnn2csdf.arrays import Array
from cnn2csdf.fixed_point.arithmetic import IN_INTEGERS
from cnn2csdf.fixed_point.single_precision import averaged
from cnn2csdf.integers import centred, mean_multiplier, multiplier, rescaled, stored
from cnn2csdf.operators.kernel_loops import combined_loops
from cnn2csdf.operators.operands import (
    Constants,
    constant_role,
    operand_readers,
    operand_shapes,
    trained_operands,
)
from cnn2csdf.operators.operator import (
    AlongOneAxis,
    KernelLoops,
    KernelUse,
    Operator,
    RowsNeeded,
    only_input,
    only_row,
    same_row,
)
from cnn2csdf.part import OutputRows, RowReader, Types, whole_tensor
from cnn2csdf.shape import Dims, Shape
from csdf.errors import InvalidNetwork

__all__ = [
    "ELEMENTWISE", "REDUCTIONS", "Choice", "Elementwise", "ExtremePlace", "Ranking", "Reduction",
    "RunningSum",
]  # fmt: skip


def _floor_quotient(numerator: Array, divisor: Array) -> Array:
    """Return quotients rounded down; in double precision, so that integers below 2**24 are exact."""
    quotient = np.divide(numerator, divisor, dtype=np.float64)
    return np.floor(quotient).astype(np.float32)


ELEMENTWISE: dict[str, Callable[[Sequence[Array]], Array]] = {
    "add": lambda operands: reduce(np.add, operands),
    "subtract": lambda operands: reduce(np.subtract, operands),
    "multiply": lambda operands: reduce(np.multiply, operands),
    "divide": lambda operands: reduce(np.divide, operands),
    "maximum": lambda operands: reduce(np.maximum, operands),
    "minimum": lambda operands: reduce(np.minimum, operands),
    "mean": lambda operands: reduce(np.add, operands) / np.float32(len(operands)),
    "power": lambda operands: reduce(np.power, operands),
    "floor divide": lambda operands: _floor_quotient(*operands),
    "floor modulo": lambda operands: np.mod(*operands),
    "arc tangent": lambda operands: np.arctan2(*operands),
    "squared difference": lambda operands: np.square(np.subtract(*operands)),
    "greater": lambda operands: np.greater(*operands).astype(np.float32),
    "greater or equal": lambda operands: np.greater_equal(*operands).astype(np.float32),
    "less": lambda operands: np.less(*operands).astype(np.float32),
    "less or equal": lambda operands: np.less_equal(*operands).astype(np.float32),
    "equal": lambda operands: np.equal(*operands).astype(np.float32),
    "not equal": lambda operands: np.not_equal(*operands).astype(np.float32),
    "and": lambda operands: np.logical_and(*operands).astype(np.float32),
    "or": lambda operands: np.logical_or(*operands).astype(np.float32),
    "exclusive or": lambda operands: np.logical_xor(*operands).astype(np.float32),
}
REDUCTIONS: dict[str, Callable[..., Array]] = {
    "mean": np.mean,
    "sum": np.sum,
    "max": np.max,
    "min": np.min,
    "l2": lambda values, **along: np.sqrt(np.sum(values * values, **along)),
}


class Broadcast(Operator):
    """An operator on the elements at one position in all operands; axes of size one are repeated."""

    __slots__ = ()

    def rows_needed(self, index: int, inputs: Sequence[Shape], output: Shape) -> RowsNeeded | None:
        """Return the row of the same number, or the only row."""
        if not output.is_map:
            return None
        return same_row if inputs[index].rows == output.rows else only_row


@dataclass(frozen=True, slots=True, kw_only=True)
class Elementwise(Broadcast):
    """A function of the elements at one position in all inputs.

    constant: dims of a trained operand that comes after the inputs (before them where
    `constant_first`), None where there is none.
    """

    depends_on_all = True
    is_elementwise = True
    reads_once = True
    by_pixels = True
    has_real_weights = True
    function: str
    constant: Dims | None = None
    constant_first: bool = False

    def of_head(self, axis: int, heads: int) -> Elementwise:
        """Return the function with the part of its constant that the head reads."""
        return self._with_constant_of(axis, lambda size: size // heads)

    def kernel_loops(self, use: KernelUse) -> KernelLoops:
        return f"Elementwise.{self.function}", combined_loops(use, self.constant)

    @property
    def elementwise_function(self) -> str:
        return self.function

    @property
    def swaps_with_inputs(self) -> bool:
        return (1, 1, 1, *(self.constant or ()))[-3:-1] == (1, 1)

    def of_channels(self, count: int) -> Elementwise | None:
        """Return the function with a constant of other channels; None for several inputs."""
        return None if self.constant is None else self.on_channels(count, count)

    def on_channels(self, count: int, whole: int) -> Elementwise:
        """Return the function with a constant of `count` channels, where it has one for each."""
        return self._with_constant_of(0, lambda _: count)

    def _with_constant_of(self, axis: int, resized: Callable[[int], int]) -> Elementwise:
        """The function on maps with another size along an axis, along which its constant may vary."""
        dims = list(self.constant or ())
        axis += len(dims) - 3  # axes are aligned at the end
        if axis < 0 or dims[axis] == 1:
            return self
        dims[axis] = resized(dims[axis])
        return replace(self, constant=tuple(dims))

    def elements_in_flash(self, role: str, dims: Dims, output: Shape, *, is_fused: bool) -> int:
        return broadcast_elements(dims, output) if is_fused else prod(dims)

    def scales_channels(self, source: Shape) -> bool:
        """Return whether it adds, or multiplies by, a constant with a number for each channel."""
        if self.constant is None or self.function not in ("add", "multiply"):
            return False
        constant = (1,) * (len(source.dims) - len(self.constant)) + self.constant
        rest = (1,) * (len(source.dims) - 1)
        return constant[1:] == rest and constant[0] in (1, source.dims[0])

    def factors_and_offsets(self, weights: Mapping[str, Array]) -> tuple[Array, Array]:
        constant = weights["constant"].reshape(-1)
        if self.function == "add":
            return np.ones_like(constant), constant
        return constant, np.zeros_like(constant)

    @property
    def constant_dims(self) -> Dims | None:
        return self.constant

    @property
    def is_tileable(self) -> bool:
        """Whether its constant, if it has one, is the same at every pixel."""
        return self.constant is None or all(size == 1 for size in self.constant[-2:])

    def __post_init__(self) -> None:
        if self.function not in ELEMENTWISE:
            raise InvalidNetwork(f"there is no elementwise function {self.function!r}")

    @property
    def is_scalar_function(self) -> bool:
        """Whether its second operand is a constant of one element."""
        return self.constant is not None and prod(self.constant) == 1

    def output_dims(self, inputs: Sequence[Shape]) -> Dims:
        """Return the dims that all operands fit when axes of size one are repeated."""
        dims = [shape.dims for shape in inputs]
        return broadcast(dims if self.constant is None else [*dims, self.constant])

    def trained(self, inputs: Sequence[Shape]) -> Mapping[str, Dims]:
        return {} if self.constant is None else {"constant": self.constant}

    def operations(self, inputs: Sequence[Shape], output: Shape) -> int:
        return output.elements * (len(inputs) - (self.constant is None))

    def computed(self, part: OutputRows) -> Array:
        return ELEMENTWISE[self.function](self._operands(part))

    def _operands(self, part: OutputRows) -> list[Array]:
        """The rows of all operands that meet those of the part, in their order."""
        operands = [operand(reader, part) for reader in part.inputs]
        if self.constant is not None:
            constant = _matching_rows(part.weights["constant"], part)
            operands.insert(0 if self.constant_first else len(operands), constant)
        return operands

    def computed_in_integers(self, part: OutputRows, types: Types) -> Array:
        """Return sums, differences and products of two operands, rescaled."""
        operand_types = list(types.inputs)
        if self.constant is not None:
            place = 0 if self.constant_first else len(operand_types)
            operand_types.insert(place, types.weights.get("constant"))
        types_known = [
            types_of_operand for types_of_operand in operand_types if types_of_operand is not None
        ]
        if (
            types.output is None
            or not types.output.is_fixed_point
            or not len(types_known) == len(operand_types) == 2
            or self.function not in IN_INTEGERS
        ):
            return super(Elementwise, self).computed_in_integers(part, types)
        return IN_INTEGERS[self.function](self._operands(part), types_known, types.output)

    def in_words(self) -> str:
        return self.function


def broadcast(shapes: Sequence[Dims]) -> Dims:
    """Return the dims of an elementwise result: axes are aligned at the end, size one repeats."""
    rank = max((len(dims) for dims in shapes), default=0)
    padded = [(1,) * (rank - len(dims)) + dims for dims in shapes]
    result = []
    for sizes in zip(*padded, strict=True):
        wide = {size for size in sizes if size != 1}
        if len(wide) > 1:
            listed = " and ".join(str(Shape(dims=dims)) for dims in shapes)
            raise InvalidNetwork(f"shapes {listed} do not fit one another element by element")
        result.append(wide.pop() if wide else 1)
    return tuple(result)


def operand(reader: RowReader, part: OutputRows) -> Array:
    """Return the rows of an input that meet those of the part; an input of one row meets all."""
    if reader.shape.is_map and part.shape.is_map and reader.shape.height > 1:
        return reader.rows(part.begin, part.end)
    return _matching_rows(whole_tensor(reader), part)


def broadcast_elements(dims: Dims, output: Shape) -> int:
    """Return the elements of a trained operand, which C repeats where the output is no map."""
    is_repeated = len(output.dims) != 3 and prod(dims) > 1
    return output.elements if is_repeated else prod(dims)


def _matching_rows(tensor: Array, part: OutputRows) -> Array:
    has_rows = part.shape.is_map and tensor.ndim >= 2 and tensor.shape[-2] > 1
    return tensor[..., part.begin : part.end, :] if has_rows else tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduction(Operator):
    """A reduction to one element along some axes; the axes stay, with size one, where `keeps`."""

    depends_on_all = True
    by_pixels = True
    writes_by_pixels = False  # results are written in one piece
    function: str
    axes: tuple[int, ...]
    keeps: bool = True

    @property
    def kernel(self) -> str:
        return f"{type(self).__name__}.{self.function}"

    @property
    def reduction(self) -> str:
        return self.function

    @property
    def allows_stored_integers(self) -> bool:
        return self.function in ("max", "min")

    @property
    def swaps_with_inputs(self) -> bool:
        return self.keeps and len({0, 1} & set(self.axes)) != 1

    @property
    def is_tileable(self) -> bool:
        return self.axes == (0,) and self.keeps

    def accumulates_rows(self, source: Shape, output: Shape) -> bool:
        return self.function in ("mean", "sum", "max") and set(self.axes) == {1, 2}

    def __post_init__(self) -> None:
        if self.function not in REDUCTIONS:
            raise InvalidNetwork(f"there is no reduction {self.function!r}")

    def output_dims(self, inputs: Sequence[Shape]) -> Dims:
        """Return the dims without the reduced axes, or with size one along them."""
        kept = [
            (1 if axis in self.axes else size)
            for axis, size in enumerate(only_input(self, inputs).dims)
            if self.keeps or axis not in self.axes
        ]
        return tuple(kept) or (1,)

    def rows_needed(self, index: int, inputs: Sequence[Shape], output: Shape) -> RowsNeeded | None:
        return same_row if inputs[index].is_map and self.keeps and 1 not in self.axes else None

    def operations(self, inputs: Sequence[Shape], output: Shape) -> int:
        return inputs[0].elements

    def formula(self, tensors: Sequence[Array], part: OutputRows) -> Array:
        return REDUCTIONS[self.function](tensors[0], axis=self.axes, keepdims=self.keeps)

    def computed_in_integers(self, part: OutputRows, types: Types) -> Array:
        """Return sums rescaled, for means by a multiplier that was divided by their number."""
        input_types, result = types.inputs[0], types.output
        is_sum = self.function in ("mean", "sum")
        is_picked = self.function in ("max", "min") and result is not None and result.is_fixed_point
        if input_types is None or result is None or not (is_sum or is_picked):
            return super(Reduction, self).computed_in_integers(part, types)
        if is_picked:
            return self.computed(part)

        def sums_or_means(tensors: Sequence[Array], _part: OutputRows) -> Array:
            values, is_mean = centred(tensors[0], input_types), self.function == "mean"
            count = prod(values.shape[axis] for axis in self.axes)
            sums = values.sum(axis=self.axes, keepdims=self.keeps)
            if not result.is_fixed_point:
                return averaged(sums, count if is_mean else 1, input_types, result)
            ratio = input_types.scale / result.scale
            pair = mean_multiplier(ratio, count) if is_mean else multiplier(ratio)
            return stored(rescaled(sums, *pair), result)

        return self.computed_by(sums_or_means, part)

    def in_words(self) -> str:
        return f"reduce {self.function}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice(Broadcast):
    """At each position the second operand if the first is not zero, else the third.

    constants: operands that are parameters.
    """

    depends_on_all = True
    words = "where"
    element_operations = 1
    copies_masks = True
    constants: Constants = ()

    def output_dims(self, inputs: Sequence[Shape]) -> Dims:
        """Return the dims that all three operands fit."""
        shapes = operand_shapes(inputs, self.constants)
        if len(shapes) != 3:
            raise InvalidNetwork(f"a choice takes three operands, found {len(shapes)}")
        return broadcast([shape.dims for shape in shapes])

    def trained(self, inputs: Sequence[Shape]) -> Mapping[str, Dims]:
        return trained_operands(self.constants)

    def elements_in_flash(self, role: str, dims: Dims, output: Shape, *, is_fused: bool) -> int:
        return broadcast_elements(dims, output)

    def computed_in_integers(self, part: OutputRows, types: Types) -> Array:
        """Return the integers chosen, where both operands are stored as the result is."""
        operands = [*types.inputs]
        for place, _ in self.constants:
            operands.insert(place, types.weights.get(constant_role(place)))
        if operands == [None, types.output, types.output]:
            return self.computed(part)
        return super(Choice, self).computed_in_integers(part, types)

    def computed(self, part: OutputRows) -> Array:
        readers = operand_readers(part, self.constants)
        condition, wanted, otherwise = (operand(reader, part) for reader in readers)
        return np.where(condition != 0, wanted, otherwise)


class CombinedAlongAxis(AlongOneAxis):
    """An operator that combines the elements along its axis."""

    __slots__ = ()

    def rows_needed(self, index: int, inputs: Sequence[Shape], output: Shape) -> RowsNeeded | None:
        """Return the row itself, unless rows are combined."""
        return same_row if inputs[index].is_map and self.axis != 1 else None

    def operations(self, inputs: Sequence[Shape], output: Shape) -> int:
        return inputs[0].elements


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtremePlace(CombinedAlongAxis):
    """The index along an axis of the largest or the smallest element; the axis stays, with size one.

    takes_last: of equal elements, whether the last or the first index is returned.
    """

    depends_on_all = True
    allows_stored_integers = True
    function: str  # "max" or "min"
    axis: int
    takes_last: bool = False

    def size_of(self, source: Shape) -> int:
        return 1

    def computed_in_integers(self, part: OutputRows, types: Types) -> Array:
        """Return the positions of extremes among stored integers, which are in the order of numbers."""
        if types.output is None and types.inputs[0] is not None:
            return self.computed(part)
        return super(ExtremePlace, self).computed_in_integers(part, types)

    def formula(self, tensors: Sequence[Array], part: OutputRows) -> Array:
        (values,), axis = tensors, self.axis
        ordered = np.flip(values, axis) if self.takes_last else values
        indices = (np.argmax if self.function == "max" else np.argmin)(ordered, axis=axis)
        places = values.shape[axis] - 1 - indices if self.takes_last else indices
        return np.expand_dims(places, axis).astype(np.float32)

    def in_words(self) -> str:
        return f"arg{self.function}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking(CombinedAlongAxis):
    """The `count` largest or smallest elements along an axis, sorted, or their indices.

    Equal elements are sorted by their indices.
    """

    depends_on_all = True
    allows_stored_integers = True
    axis: int
    count: int
    takes_largest: bool = True
    gives_places: bool = False

    def size_of(self, source: Shape) -> int:
        if not 0 < self.count <= source.dims[self.axis]:
            raise InvalidNetwork(f"the first {self.count} along axis {self.axis} of {source}")
        return self.count

    def formula(self, tensors: Sequence[Array], part: OutputRows) -> Array:
        (values,), axis = tensors, self.axis
        order = np.argsort(-values if self.takes_largest else values, axis=axis, kind="stable")
        places = np.take(order, np.arange(self.count), axis=axis)
        if self.gives_places:
            return places.astype(np.float32)
        return np.take_along_axis(values, places, axis=axis)

    def in_words(self) -> str:
        return f"top {self.count} {'largest' if self.takes_largest else 'smallest'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningSum(CombinedAlongAxis):
    """At each position the sum of the elements up to this position along an axis.

    is_exclusive: without the element at the position. is_reversed: sums begin at the end.
    """

    depends_on_all = True
    axis: int
    is_exclusive: bool = False
    is_reversed: bool = False

    def formula(self, tensors: Sequence[Array], part: OutputRows) -> Array:
        (values,), axis = tensors, self.axis
        ordered = np.flip(values, axis) if self.is_reversed else values
        sums = np.cumsum(ordered, axis=axis)
        if self.is_exclusive:
            sums = sums - ordered
        return np.flip(sums, axis) if self.is_reversed else sums
