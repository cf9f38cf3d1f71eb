"""Input and output, and operators that move elements: slices, concatenations, blocks.

Dims and axes of a feature map are channels, rows, columns (C, H, W); arrays of numpy have this order.
In memory the elements are stored row by row, in a row column by column, in a pixel channel by channel
(H, W, C). For a map of 2 channels, 1 row and 3 columns: c0 c1 of column 0, c0 c1 of column 1, ...

`Move` and `RowMove` are for operators that change no element; a `RowMove` needs the input row of the
same number for each output row. `computed` returns some rows, of inputs that are read by rows; an
operator that defines `formula` instead is given arrays of the rows that it needs. Class attributes such
as `is_view`, `reads_once` and `by_pixels` answer the questions of `operator.Operator`, by default no.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import lcm, prod
from typing import Literal, Self

import numpy as np

from cnn2csdf.arrays import Array
from cnn2csdf.dtypes import Element, Quantization
from cnn2csdf.integers import centred, dequantized, multiplier, quantized, rescaled, stored
from cnn2csdf.operators.operands import (
    Constants,
    operand_place,
    operand_readers,
    operand_shapes,
    trained_operands,
)
from cnn2csdf.operators.operator import (
    AlongOneAxis,
    KernelLoops,
    KernelUse,
    Move,
    Operator,
    RowByRow,
    RowMove,
    RowsNeeded,
    SlicedRange,
    map_dims,
    moved_elements,
    only_input,
    only_row,
    require_groups,
    same_row,
    strided_row,
)
from cnn2csdf.part import OutputRows, RowReader, Types, rows_of_part, same_rows, whole_tensor
from cnn2csdf.shape import Dims, Shape
from csdf.errors import InvalidNetwork, counted

__all__ = [
    "ChannelShuffle", "Concatenation", "ConstantConcatenation", "Conversion", "DepthToSpace",
    "Gather", "GatherPoints", "Identity", "Input", "Next", "Output", "PlaceOrder", "Previous", "Repeat",
    "Reshape", "Slice", "SpaceToDepth", "Transpose", "View",
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Input(Move):
    """An input of the network.

    file_dims: the dimensions of the frames in the file, if these are reshaped to `dims`.
    """

    is_input = True
    dims: Dims
    file_dims: Dims | None = None

    def output_dims(self, inputs: Sequence[Shape]) -> Dims:
        if inputs:
            raise InvalidNetwork(f"an input reads nothing, found {counted(len(inputs), 'input')}")
        return self.dims

    def tensor_of_frame(self, array: Array) -> Array:
        is_as_in_the_file = array.shape == self.file_dims
        return from_memory_order(array.reshape(-1), self.dims) if is_as_in_the_file else array

    def computed(self, part: OutputRows) -> Array:
        return same_rows(part)


@dataclass(frozen=True, slots=True, kw_only=True)
class Output(RowMove):
    """An output of the network.

    dims: the dimensions of the output, if it is a feature map reshaped in memory order (HWC).
    """

    picks_elements = False
    is_output = True
    dims: Dims | None = None

    def output_dims(self, inputs: Sequence[Shape]) -> Dims:
        return only_input(self, inputs).dims if self.dims is None else self.dims

    def rows_needed(self, index: int, inputs: Sequence[Shape], output: Shape) -> RowsNeeded | None:
        return same_row if self.dims is None else None

    def computed(self, part: OutputRows) -> Array:
        if self.dims is None:
            return same_rows(part)
        elements = to_memory_order(whole_tensor(part.inputs[0]))
        return rows_of_part(from_memory_order(elements, self.dims), part)


@dataclass(frozen=True, slots=True, kw_only=True)
class Previous(Input):
    """The numbers that a variable holds when a frame begins.

    begin: the number with which the variable is filled before the first frame, as it is stored; None
    if the numbers differ, and are parameters.
    """

    is_state = True
    variable: str
    begin: int | None = 0

    @property
    def state_variable(self) -> str:
        return self.variable

    def on_signed_integers(self, offset: int, *, is_fixed_point: bool) -> Previous:
        return self if self.begin is None else replace(self, begin=self.begin - offset)

    def trained(self, inputs: Sequence[Shape]) -> Mapping[str, Dims]:
        return {} if self.begin is not None else {"initial": self.dims}


@dataclass(frozen=True, slots=True, kw_only=True)
class Next(Output):
    """The numbers that a variable holds after a frame: as many of the last rows as it has."""

    is_state = True
    variable: str

    @property
    def state_variable(self) -> str:
        return self.variable


class SameNumbers(RowByRow):
    """An operator that writes the numbers of its input, each at its position."""

    __slots__ = ()
    swaps_with_inputs = True
    is_tileable = True
    is_elementwise = True
    reads_once = True
    by_pixels = True

    def of_channels(self, count: int) -> Self:
        return self

    def of_head(self, axis: int, heads: int) -> Self:
        return self

    def computed(self, part: OutputRows) -> Array:
        return same_rows(part)


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity(SameNumbers, RowMove):
    """The input as it is: dropout, or another layer that does nothing at inference."""

    is_channelwise = True
    is_view = True
    can_be_fused = True
    keeps_order = True
    copies_masks = True
    kind: str = "identity"

    def in_words(self) -> str:
        return self.kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversion(SameNumbers):
    """The same numbers in elements of another type: as integers, or as floating-point numbers."""

    words = "convert"
    converts = True

    def computed_in_integers(self, part: OutputRows, types: Types) -> Array:
        """Return integers for real numbers, real numbers for integers, or integers rescaled."""
        input_types, result, values = types.inputs[0], types.output, same_rows(part)
        if input_types is None:
            return values if result is None else quantized(values, result)
        if result is None:
            return dequantized(values, input_types)
        if not result.is_fixed_point:
            return quantized(dequantized(values, input_types), result)
        ratio = multiplier(input_types.scale / result.scale)
        return stored(rescaled(centred(values, input_types), *ratio), result)


@dataclass(frozen=True, slots=True)
class _RescaledRows:
    """The rows of a tensor of uint8 in the scale of a concatenation of uint8.

    Source: tensorflow/tensorflow, tensorflow/lite/kernels/internal/reference/concatenation.h.
    """

    reader: RowReader
    source: Quantization
    result: Quantization

    @property
    def shape(self) -> Shape:
        """Shape of the tensor."""
        return self.reader.shape

    def rows(self, first: int, upto: int) -> Array:
        """Return rows [first, upto), rescaled in single precision; halves round away from zero."""
        values = self.reader.rows(first, upto)
        if self.source == self.result:
            return values
        # int8 tensors stored as uint8 - 128 are rescaled as uint8.
        offset = 0 if self.result.element is Element.UINT8 else 128
        scale = np.float32(self.source.scale) * (np.float32(1) / np.float32(self.result.scale))
        shift = np.float32(-self.source.zero_point - offset) * scale
        exact = ((values.astype(np.float32) + offset) * scale + shift).astype(np.float64)
        rounded = np.trunc(exact + np.copysign(0.5, exact)).astype(np.int64)
        whole: Array = np.clip(rounded + self.result.zero_point, -offset, 255 - offset)
        return whole.astype(self.result.element.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveAlongAxis(Move):
    """A move along one axis; along the channels it can be cut into rows and columns."""

    is_view = True
    reads_once = True
    by_pixels = True
    axis: int

    @property
    def swaps_with_inputs(self) -> bool:
        return self.axis == 2

    @property
    def keeps_columns(self) -> bool:
        return self.axis == 0

    @property
    def is_tileable(self) -> bool:
        return self.axis == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Concatenation(MoveAlongAxis):
    """The inputs in sequence along an axis."""

    depends_on_all = True
    words = "concat"
    axis: int = 0

    def kernel_loops(self, use: KernelUse) -> KernelLoops:
        """Return the elements and the pieces: along the channels, those of each input for a pixel."""
        counts = moved_elements(use.inputs, use.output)
        counts["pieces"] = counts["places"] * (len(use.inputs) if self.axis == 0 else 1)
        return self.kernel, counts

    @property
    def joined_axis(self) -> int:
        return self.axis

    def output_dims(self, inputs: Sequence[Shape]) -> Dims:
        """Return the dims of the inputs, added up along the axis."""
        axis = self.axis
        if not inputs or not 0 <= axis < len(inputs[0].dims):
            raise InvalidNetwork(
                f"a concatenation along axis {axis} of {counted(len(inputs), 'input')}"
            )
        rest = {(shape.dims[:axis], shape.dims[axis + 1 :]) for shape in inputs}
        if len(rest) > 1 or any(axis >= len(shape.dims) for shape in inputs):
            listed = ", ".join(str(shape) for shape in inputs)
            raise InvalidNetwork(f"shapes {listed} do not fit along axis {axis}")
        first, total = inputs[0].dims, sum(shape.dims[axis] for shape in inputs)
        return (*first[:axis], total, *first[axis + 1 :])

    def rows_needed(self, index: int, inputs: Sequence[Shape], output: Shape) -> RowsNeeded | None:
        if not output.is_map:
            return None
        before = sum(shape.rows for shape in inputs[:index]) if self.axis == 1 else 0
        return strided_row(-before)

    def formula(self, tensors: Sequence[Array], part: OutputRows) -> Array:
        return np.concatenate(tensors, self.axis)

    def computed_in_integers(self, part: OutputRows, types: Types) -> Array:
        """Return integers as they are stored; those of uint8 with other scales are rescaled."""
        all_types = (*types.inputs, types.output)
        unsigned_types = [
            of_tensor
            for of_tensor in all_types
            if of_tensor is not None
            and (of_tensor.element is Element.UINT8 or of_tensor.is_unsigned)
        ]
        if len(unsigned_types) < len(all_types) or not unsigned_types[-1].is_fixed_point:
            return super(Concatenation, self).computed_in_integers(part, types)
        *sources, result = unsigned_types
        readers = [
            _RescaledRows(reader, source, result)
            for reader, source in zip(part.inputs, sources, strict=True)
        ]
        return self.computed(part._replace(inputs=readers))


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice(MoveAlongAxis, AlongOneAxis):
    """Elements start, start + step, ... before stop along an axis; step is positive."""

    copies_masks = True
    start: int
    stop: int
    step: int = 1

    @property
    def sliced_range(self) -> SlicedRange:
        return SlicedRange(self.axis, self.start, self.stop, self.step)

    def row_elements_read(self, source: Shape, output: Shape) -> int:
        return output.row_elements

    def size_of(self, source: Shape) -> int:
        if self.start < 0 or self.step < 1:
            raise InvalidNetwork(f"{self.in_words()} by {self.step} of {source}")
        return len(range(self.start, min(self.stop, source.dims[self.axis]), self.step))

    def rows_needed(self, index: int, inputs: Sequence[Shape], output: Shape) -> RowsNeeded | None:
        if not inputs[index].is_map:
            return None
        return strided_row(self.start, self.step) if self.axis == 1 else same_row

    def formula(self, tensors: Sequence[Array], part: OutputRows) -> Array:
        is_along_rows = part.shape.is_map and self.axis == 1  # the tensor begins with the first row
        start, stop = (None, None) if is_along_rows else (self.start, self.stop)
        return tensors[0][*(slice(None),) * self.axis, start : stop : self.step]

    def in_words(self) -> str:
        return f"slice {axis_in_words(self.axis)} {self.start}:{self.stop}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelShuffle(RowMove):
    """The feature maps of `groups` groups, interleaved."""

    keeps_columns = True
    is_tileable = True
    depends_on_all = True
    by_pixels = True
    groups: int

    def output_dims(self, inputs: Sequence[Shape]) -> Dims:
        dims = map_dims(self, inputs)
        require_groups(dims[0], dims[0], self.groups)
        return dims

    def computed(self, part: OutputRows) -> Array:
        maps = same_rows(part)
        channels, rows, columns = maps.shape
        dealt = maps.reshape(self.groups, channels // self.groups, rows, columns)
        return dealt.swapaxes(0, 1).reshape(maps.shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceToDepth(Move):
    """Blocks of block x block pixels become channels.

    order: "block first" (ONNX): new channel = position in the block * channels + channel; or
    "darknet" (the reorg layer of YOLOv2).
    """

    depends_on_all = True
    by_pixels = True
    block: int
    order: Literal["block first", "darknet"] = "block first"

    @property
    def is_tileable(self) -> bool:
        return self.order == "block first"

    def output_dims(self, inputs: Sequence[Shape]) -> Dims:
        channels, height, width = map_dims(self, inputs)
        block = self.block
        if height % block or width % block:
            raise InvalidNetwork(f"blocks of {block}x{block} do not divide {height}x{width}")
        return (channels * block * block, height // block, width // block)

    def rows_needed(self, index: int, inputs: Sequence[Shape], output: Shape) -> RowsNeeded | None:
        """Return the rows of the blocks; None for Darknet's order, which mixes rows."""
        block = self.block
        is_local = self.order == "block first"
        return (lambda row: (row * block, row * block + block)) if is_local else None

    def formula(self, tensors: Sequence[Array], part: OutputRows) -> Array:
        """Return blocks as channels; Darknet reshapes the map into fewer, larger channels before."""
        (maps,), block = tensors, self.block
        channels, rows, width = maps.shape[0], maps.shape[1] // block, part.shape.width
        dims = (channels, rows, block, width, block)
        if self.order == "darknet":
            dims = (channels // block**2, maps.shape[1], block, maps.shape[2], block)
        return maps.reshape(dims).transpose(2, 4, 0, 1, 3).reshape(-1, rows, width)


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthToSpace(Move):
    """Channels become blocks of block x block pixels.

    order: "block first" (ONNX mode DCR) or "channel first" (mode CRD).
    """

    depends_on_all = True
    by_pixels = True
    block: int
    order: Literal["block first", "channel first"] = "block first"

    def output_dims(self, inputs: Sequence[Shape]) -> Dims:
        channels, height, width = map_dims(self, inputs)
        block = self.block
        if channels % (block * block):
            raise InvalidNetwork(
                f"blocks of {block}x{block} do not divide {counted(channels, 'channel')}"
            )
        return (channels // (block * block), height * block, width * block)

    def rows_needed(self, index: int, inputs: Sequence[Shape], output: Shape) -> RowsNeeded:
        return lambda row: (row // self.block, row // self.block + 1)

    def formula(self, tensors: Sequence[Array], part: OutputRows) -> Array:
        """Return channels as blocks. The part may begin and end within a row of blocks."""
        (maps,), block, channels = tensors, self.block, part.shape.channels
        if self.order == "block first":
            split = maps.reshape(block, block, channels, *maps.shape[1:]).transpose(2, 3, 0, 4, 1)
        else:
            split = maps.reshape(channels, block, block, *maps.shape[1:]).transpose(0, 3, 1, 4, 2)
        spread = split.reshape(channels, -1, part.shape.width)
        return spread[:, part.begin % block :][:, : part.rows]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reshape(Move):
    """The same elements in the same order under other dims."""

    depends_on_all = True
    is_view = True
    keeps_order = True
    rearranges_axes = True
    copies_masks = True
    dims: Dims

    def output_dims(self, inputs: Sequence[Shape]) -> Dims:
        shape = only_input(self, inputs)
        if prod(self.dims) != shape.elements:
            wanted = "x".join(str(size) for size in self.dims)
            raise InvalidNetwork(f"{shape} has {shape.elements} elements, not those of {wanted}")
        return self.dims

    def formula(self, tensors: Sequence[Array], part: OutputRows) -> Array:
        return tensors[0].reshape(self.dims)


@dataclass(frozen=True, slots=True, kw_only=True)
class View(Move):
    """The same elements in the order of memory under other dims; of a map that is pixel by pixel."""

    is_view = True
    reads_once = True
    overwrites_input = True
    keeps_memory_order = True
    rearranges_axes = True
    copies_masks = True
    dims: Dims

    def kernel_loops(self, use: KernelUse) -> KernelLoops:
        """Return the elements, and the pieces in which they are copied: within a row of both."""
        elements, rows = use.output.elements, (use.inputs[0].row_elements, use.output.row_elements)
        # A piece ends with a row of the input or of the output; rows of both may end together.
        pieces = sum(elements // row for row in rows) - elements // lcm(*rows)
        return self.kernel, {"read": elements, "pieces": pieces}

    def output_dims(self, inputs: Sequence[Shape]) -> Dims:
        return Reshape(dims=self.dims).output_dims(inputs)

    def rows_needed(self, index: int, inputs: Sequence[Shape], output: Shape) -> RowsNeeded | None:
        """Return, between two maps, the input rows that hold the elements of an output row."""
        if not (inputs[index].is_map and output.is_map):
            return None
        read, written = inputs[index].row_elements, output.row_elements
        return lambda row: (row * written // read, ((row + 1) * written - 1) // read + 1)

    def formula(self, tensors: Sequence[Array], part: OutputRows) -> Array:
        elements, source = to_memory_order(tensors[0]), part.inputs[0].shape
        if not (source.is_map and part.shape.is_map):
            return from_memory_order(elements, self.dims)
        written = part.shape.row_elements
        first = part.begin * written % source.row_elements
        rows = elements[first : first + part.rows * written]
        return from_memory_order(rows, (part.shape.channels, part.rows, part.shape.width))


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceOrder(Move):
    """The pixels of a map in another order, each with its channels.

    The pixels of the input, row by row, are a tensor of dims `sizes`. Its transposition by
    `permutation` has the pixels of the output, of `height` and `width`, row by row. Sizes (2, 3) and
    permutation (1, 0) turn 2 rows of 3 pixels, 0 1 2 3 4 5, into 3 rows of 2: 0 3 1 4 2 5.
    """

    scatters_rows = True
    words = "reorder places"
    sizes: Dims
    permutation: tuple[int, ...]
    height: int
    width: int

    def output_dims(self, inputs: Sequence[Shape]) -> Dims:
        channels, *places = map_dims(self, inputs)
        is_order = sorted(self.permutation) == list(range(len(self.sizes)))
        if not is_order or {prod(places), prod(self.sizes)} != {self.height * self.width}:
            raise InvalidNetwork(
                f"places {self.sizes} in the order {self.permutation} of {inputs[0]}"
            )
        return (channels, self.height, self.width)

    def formula(self, tensors: Sequence[Array], part: OutputRows) -> Array:
        axes = (0, *(axis + 1 for axis in self.permutation))
        return tensors[0].reshape(-1, *self.sizes).transpose(axes)


def to_memory_order(tensor: Array) -> Array:
    """Return the elements of a tensor in the order of memory: of a map pixel by pixel."""
    return (tensor.transpose(1, 2, 0) if tensor.ndim == 3 else tensor).reshape(-1)


def from_memory_order(elements: Array, dims: Dims) -> Array:
    """Return the tensor of these dims that has these elements in the order of memory."""
    if len(dims) != 3:
        return elements.reshape(dims)
    return elements.reshape(dims[1], dims[2], dims[0]).transpose(2, 0, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transpose(Move):
    """Axes in another order."""

    depends_on_all = True
    rearranges_axes = True
    permutation: tuple[int, ...]

    @property
    def axis_order(self) -> tuple[int, ...]:
        return self.permutation

    def output_dims(self, inputs: Sequence[Shape]) -> Dims:
        dims = only_input(self, inputs).dims
        if sorted(self.permutation) != list(range(len(dims))):
            raise InvalidNetwork(f"{self.permutation} does not reorder the axes of {inputs[0]}")
        return tuple(dims[axis] for axis in self.permutation)

    def rows_needed(self, index: int, inputs: Sequence[Shape], output: Shape) -> RowsNeeded | None:
        keeps_rows = inputs[index].is_map and self.permutation[1] == 1  # axis 1 of a map: its rows
        return same_row if keeps_rows else None

    def formula(self, tensors: Sequence[Array], part: OutputRows) -> Array:
        return tensors[0].transpose(self.permutation)


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeat(AlongOneAxis, Move):
    """The tensor several times, in sequence along an axis."""

    depends_on_all = True
    copies_masks = True
    axis: int
    times: int

    def size_of(self, source: Shape) -> int:
        if self.times < 1:
            raise InvalidNetwork(f"{self.times} times {source} along axis {self.axis}")
        return source.dims[self.axis] * self.times

    def rows_needed(self, index: int, inputs: Sequence[Shape], output: Shape) -> RowsNeeded | None:
        """Return the same row, or the only row; None if several rows are repeated."""
        if not inputs[index].is_map:
            return None
        if self.axis != 1:
            return same_row
        return only_row if inputs[index].rows == 1 else None

    def formula(self, tensors: Sequence[Array], part: OutputRows) -> Array:
        is_one_row = part.shape.is_map and self.axis == 1 and tensors[0].shape[1] == 1
        return np.concatenate(list(tensors) * (part.rows if is_one_row else self.times), self.axis)

    def in_words(self) -> str:
        return f"tile {axis_in_words(self.axis)} {self.times} times"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gather(AlongOneAxis, Move):
    """Elements at a list of positions (`places`) along an axis, in the order of the list."""

    axis: int
    places: tuple[int, ...]

    def size_of(self, source: Shape) -> int:
        for position in self.places:
            if not 0 <= position < source.dims[self.axis]:
                raise InvalidNetwork(f"place {position} along axis {self.axis} of {source}")
        return len(self.places)

    def rows_needed(self, index: int, inputs: Sequence[Shape], output: Shape) -> RowsNeeded | None:
        """Return the row at the listed position; None where positions along the rows decrease."""
        if not inputs[index].is_map:
            return None
        if self.axis != 1:
            return same_row
        ascends = list(self.places) == sorted(self.places)
        return (lambda row: same_row(self.places[row])) if ascends else None

    def formula(self, tensors: Sequence[Array], part: OutputRows) -> Array:
        places = np.array(self.places)
        if self.axis == 1 and self.rows_needed(0, [part.inputs[0].shape], part.shape):
            # The tensor begins with the row that the first row of the part needs.
            places = places[part.begin : part.end] - places[part.begin]
        return np.take(tensors[0], places, axis=self.axis)

    def in_words(self) -> str:
        return f"gather {len(self.places)} of {axis_in_words(self.axis)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class GatherPoints(Operator):
    """Elements of the first input, or slices of its last axes, at positions in the second input.

    The last axis of the positions has a coordinate for each of the first axes of the values. A negative
    coordinate counts from the end; one beyond the ends is the coordinate of the end.
    """

    words = "gather points"

    def output_dims(self, inputs: Sequence[Shape]) -> Dims:
        if len(inputs) != 2:
            raise InvalidNetwork(f"gather points takes two inputs, found {len(inputs)}")
        values, positions = (shape.dims for shape in inputs)
        axes = positions[-1]
        if not 0 < axes <= len(values):
            raise InvalidNetwork(f"positions of {axes} coordinates in {inputs[0]}")
        return (*positions[:-1], *values[axes:]) or (1,)

    def formula(self, tensors: Sequence[Array], part: OutputRows) -> Array:
        values, positions = tensors
        index = []
        for coordinates, size in zip(np.moveaxis(positions, -1, 0), values.shape, strict=False):
            numbers = coordinates.astype(np.int64)
            counted_from_start = np.where(numbers < 0, numbers + size, numbers)
            index.append(np.clip(counted_from_start, 0, size - 1))
        gathered: Array = values[tuple(index)]
        return gathered

    def computed_in_integers(self, part: OutputRows, types: Types) -> Array:
        """Return integers as they are stored, where the result is stored as the values are."""
        values, positions = types.inputs
        if values == types.output and positions is None:
            return self.computed(part)
        return super(GatherPoints, self).computed_in_integers(part, types)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstantConcatenation(Operator):
    """Inputs and parameters in sequence along an axis, such as a class token before other tokens."""

    depends_on_all = True
    allows_stored_integers = True
    words = "concat with constants"
    constants: Constants
    axis: int = 0

    def output_dims(self, inputs: Sequence[Shape]) -> Dims:
        return Concatenation(axis=self.axis).output_dims(operand_shapes(inputs, self.constants))

    def rows_needed(self, index: int, inputs: Sequence[Shape], output: Shape) -> RowsNeeded | None:
        shapes = operand_shapes(inputs, self.constants)
        place = operand_place(index, self.constants)
        return Concatenation(axis=self.axis).rows_needed(place, shapes, output)

    def trained(self, inputs: Sequence[Shape]) -> Mapping[str, Dims]:
        return trained_operands(self.constants)

    def computed_in_integers(self, part: OutputRows, types: Types) -> Array:
        """Return integers as they are stored, where all operands are stored as the result is."""
        if {*types.inputs, *types.weights.values()} == {types.output}:
            return self.computed(part)
        return super(ConstantConcatenation, self).computed_in_integers(part, types)

    def computed(self, part: OutputRows) -> Array:
        readers = operand_readers(part, self.constants)
        return Concatenation(axis=self.axis).computed(part._replace(inputs=readers))


def axis_in_words(axis: int) -> str:
    """Return the letter of an axis of feature maps, the number of a later one."""
    return "CHW"[axis] if axis < 3 else str(axis)
