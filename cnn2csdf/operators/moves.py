"""Operators that move elements and change none.

Elements repeated, and elements picked from a list of places; joins with parameters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod

import numpy as np

from cnn2csdf.arrays import Array
from cnn2csdf.operators.operands import (
    Constants,
    operand_place,
    operand_readers,
    operand_shapes,
    trained_operands,
)
from cnn2csdf.operators.operator import (
    Move,
    Operator,
    RowMove,
    RowsNeeded,
    map_dims,
    only_input,
    only_row,
    require_groups,
    same_row,
    strided_row,
)
from cnn2csdf.part import Part, cut, same_rows, whole_tensor
from cnn2csdf.shape import Dims, Shape
from csdf.errors import InvalidNetwork, counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Concatenation(Move):
    """The inputs one after another along an axis."""

    axis: int = 0

    def output_dims(self, inputs: Sequence[Shape]) -> Dims:
        """Return the dims of the inputs, added up along the axis."""
        axis = self.axis
        if not inputs or axis >= len(inputs[0].dims):
            raise InvalidNetwork(
                f"a concatenation along axis {axis} of {counted(len(inputs), 'input')}"
            )
        rest = {(*shape.dims[:axis], *shape.dims[axis + 1 :]) for shape in inputs}
        if len(rest) > 1:
            listed = ", ".join(str(shape) for shape in inputs)
            raise InvalidNetwork(f"shapes {listed} do not fit along axis {axis}")
        total = sum(shape.dims[axis] for shape in inputs)
        first = inputs[0].dims
        return (*first[:axis], total, *first[axis + 1 :])

    def rows_needed(self, index: int, inputs: Sequence[Shape], output: Shape) -> RowsNeeded | None:
        if not output.is_map:
            return None
        before = sum(shape.rows for shape in inputs[:index]) if self.axis == 1 else 0
        return strided_row(-before)

    def computed(self, part: Part) -> Array:
        if not part.shape.is_map:
            return np.concatenate([whole_tensor(reader) for reader in part.inputs], self.axis)
        if self.axis != 1:
            found = [reader.rows(part.begin, part.end) for reader in part.inputs]
            return np.concatenate(found, self.axis)
        pieces, before = [], 0
        for reader in part.inputs:
            first = max(part.begin - before, 0)
            upto = min(part.end - before, reader.shape.height)
            if first < upto:
                pieces.append(reader.rows(first, upto))
            before += reader.shape.height
        return np.concatenate(pieces, axis=1)

    def in_words(self) -> str:
        return "concat"


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice(Move):
    """Elements start, start + step, ... before stop along an axis; step is positive."""

    axis: int
    start: int
    stop: int
    step: int = 1

    def output_dims(self, inputs: Sequence[Shape]) -> Dims:
        dims = only_input(self, inputs).dims
        if self.axis >= len(dims):
            raise InvalidNetwork(f"a slice along axis {self.axis} of {inputs[0]}")
        length = len(range(self.start, min(self.stop, dims[self.axis]), self.step))
        return (*dims[: self.axis], length, *dims[self.axis + 1 :])

    def rows_needed(self, index: int, inputs: Sequence[Shape], output: Shape) -> RowsNeeded | None:
        if not inputs[index].is_map:
            return None
        return strided_row(self.start, self.step) if self.axis == 1 else same_row

    def computed(self, part: Part) -> Array:
        chosen = slice(self.start, self.stop, self.step)
        if not part.shape.is_map:
            return whole_tensor(part.inputs[0])[*(slice(None),) * self.axis, chosen]
        if self.axis == 0:
            return same_rows(part)[chosen]
        if self.axis == 2:
            return same_rows(part)[:, :, chosen]
        first = self.start + part.begin * self.step
        upto = self.start + (part.end - 1) * self.step + 1
        return part.inputs[0].rows(first, upto)[:, :: self.step]

    def in_words(self) -> str:
        axis = "CHW"[self.axis] if self.axis < 3 else self.axis
        return f"slice {axis} {self.start}:{self.stop}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelShuffle(RowMove):
    """Feature maps of `groups` groups, dealt out in turn."""

    groups: int

    def output_dims(self, inputs: Sequence[Shape]) -> Dims:
        dims = map_dims(self, inputs)
        require_groups(dims[0], dims[0], self.groups)
        return dims

    def computed(self, part: Part) -> Array:
        maps = same_rows(part)
        channels, rows, columns = maps.shape
        dealt = maps.reshape(self.groups, channels // self.groups, rows, columns)
        return dealt.swapaxes(0, 1).reshape(maps.shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceToDepth(Move):
    """Blocks of block x block places become channels.

    order: "block first" (ONNX: the place in the block is the slow part of the new channel) or
    "darknet" (the reorg layer of YOLOv2).
    """

    block: int
    order: str = "block first"

    def output_dims(self, inputs: Sequence[Shape]) -> Dims:
        channels, height, width = map_dims(self, inputs)
        block = self.block
        if height % block or width % block:
            raise InvalidNetwork(f"blocks of {block}x{block} do not divide {height}x{width}")
        return (channels * block * block, height // block, width // block)

    def rows_needed(self, index: int, inputs: Sequence[Shape], output: Shape) -> RowsNeeded | None:
        """Return the rows of the blocks; Darknet's order takes elements of many rows."""
        block = self.block
        is_local = self.order == "block first"
        return (lambda row: (row * block, row * block + block)) if is_local else None

    def computed(self, part: Part) -> Array:
        if self.order == "darknet":
            return cut(_darknet_blocks(whole_tensor(part.inputs[0]), self.block), part)
        block = self.block
        maps = part.inputs[0].rows(part.begin * block, part.end * block)
        split = maps.reshape(len(maps), part.rows, block, part.shape.width, block)
        return split.transpose(2, 4, 0, 1, 3).reshape(-1, part.rows, part.shape.width)


def _darknet_blocks(maps: Array, block: int) -> Array:
    """Darknet's order: the elements are taken as fewer, larger maps, blocks of which are channels.

    An element of the result comes from another row than its own, so no part is cheaper than all.
    """
    channels, height, width = maps.shape
    large = maps.reshape(channels // block**2, height, block, width, block)
    return large.transpose(2, 4, 0, 1, 3).reshape(-1, height // block, width // block)


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthToSpace(Move):
    """Channels become blocks of block x block places.

    order: "block first" (ONNX mode DCR) or "channel first" (mode CRD).
    """

    block: int
    order: str = "block first"

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

    def computed(self, part: Part) -> Array:
        block = self.block
        first, upto = part.begin // block, -(-part.end // block)
        maps = part.inputs[0].rows(first, upto)
        channels, rows, columns = part.shape.channels, upto - first, maps.shape[2]
        if self.order == "block first":
            split = maps.reshape(block, block, channels, rows, columns).transpose(2, 3, 0, 4, 1)
        else:
            split = maps.reshape(channels, block, block, rows, columns).transpose(0, 3, 1, 4, 2)
        spread = split.reshape(channels, rows * block, columns * block)
        return spread[:, part.begin - first * block : part.end - first * block]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reshape(Move):
    """The same elements in the same order under other dims."""

    dims: Dims

    def output_dims(self, inputs: Sequence[Shape]) -> Dims:
        shape = only_input(self, inputs)
        if prod(self.dims) != shape.elements:
            wanted = "x".join(str(size) for size in self.dims)
            raise InvalidNetwork(f"{shape} has {shape.elements} elements, not those of {wanted}")
        return self.dims

    def computed(self, part: Part) -> Array:
        if part.inputs[0].shape == part.shape:
            return same_rows(part)
        return cut(whole_tensor(part.inputs[0]).reshape(self.dims), part)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transpose(Move):
    """Axes in another order."""

    permutation: tuple[int, ...]

    def output_dims(self, inputs: Sequence[Shape]) -> Dims:
        dims = only_input(self, inputs).dims
        if sorted(self.permutation) != list(range(len(dims))):
            raise InvalidNetwork(f"{self.permutation} does not reorder the axes of {inputs[0]}")
        return tuple(dims[axis] for axis in self.permutation)

    def rows_needed(self, index: int, inputs: Sequence[Shape], output: Shape) -> RowsNeeded | None:
        return same_row if inputs[index].is_map and self.permutation[1] == 1 else None

    def computed(self, part: Part) -> Array:
        if part.shape.is_map and self.permutation[1] == 1:
            return same_rows(part).transpose(self.permutation)
        return cut(whole_tensor(part.inputs[0]).transpose(self.permutation), part)


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeat(Operator):
    """The tensor several times, one after another along an axis."""

    axis: int
    times: int

    def output_dims(self, inputs: Sequence[Shape]) -> Dims:
        dims = only_input(self, inputs).dims
        if not 0 <= self.axis < len(dims) or self.times < 1:
            raise InvalidNetwork(f"{self.times} times {inputs[0]} along axis {self.axis}")
        return (*dims[: self.axis], dims[self.axis] * self.times, *dims[self.axis + 1 :])

    def rows_needed(self, index: int, inputs: Sequence[Shape], output: Shape) -> RowsNeeded | None:
        """Return the row itself, or the only one; several rows repeated come back from above."""
        if not inputs[index].is_map:
            return None
        if self.axis != 1:
            return same_row
        return only_row if inputs[index].rows == 1 else None

    def computed(self, part: Part) -> Array:
        if not part.shape.is_map:
            return self._repeated(whole_tensor(part.inputs[0]))
        if self.axis != 1:
            return self._repeated(same_rows(part))
        places = np.arange(part.begin, part.end) % part.inputs[0].shape.rows
        return whole_tensor(part.inputs[0])[:, places]

    def _repeated(self, values: Array) -> Array:
        return np.concatenate([values] * self.times, axis=self.axis)

    def in_words(self) -> str:
        return f"repeat {axis_in_words(self.axis)} {self.times} times"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gather(Operator):
    """Elements at a list of places along an axis, in the order of the list."""

    axis: int
    places: tuple[int, ...]

    def output_dims(self, inputs: Sequence[Shape]) -> Dims:
        dims = only_input(self, inputs).dims
        if not 0 <= self.axis < len(dims):
            raise InvalidNetwork(f"places along axis {self.axis} of {inputs[0]}")
        size = dims[self.axis]
        for place in self.places:
            if not 0 <= place < size:
                raise InvalidNetwork(f"place {place} along axis {self.axis} of {inputs[0]}")
        return (*dims[: self.axis], len(self.places), *dims[self.axis + 1 :])

    def rows_needed(self, index: int, inputs: Sequence[Shape], output: Shape) -> RowsNeeded | None:
        """Return the row picked; where rows change their order all are needed."""
        if not inputs[index].is_map:
            return None
        if self.axis != 1:
            return same_row
        rises = all(before <= behind for before, behind in pairwise(self.places))
        return (lambda row: same_row(self.places[row])) if rises else None

    def computed(self, part: Part) -> Array:
        if not part.shape.is_map:
            return np.take(whole_tensor(part.inputs[0]), self.places, axis=self.axis)
        if self.axis != 1:
            return np.take(same_rows(part), self.places, axis=self.axis)
        rows = np.array(self.places[part.begin : part.end])
        first = int(rows.min())
        return part.inputs[0].rows(first, int(rows.max()) + 1)[:, rows - first]

    def in_words(self) -> str:
        return f"gather {len(self.places)} of {axis_in_words(self.axis)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstantConcatenation(Operator):
    """Inputs and parameters one after another along an axis, as a token in front of others."""

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

    def computed(self, part: Part) -> Array:
        readers = operand_readers(part, self.constants)
        return Concatenation(axis=self.axis).computed(part._replace(inputs=readers))

    def in_words(self) -> str:
        return "concat with constants"


def axis_in_words(axis: int) -> str:
    """Return the letter of an axis of feature maps, the number of a later one."""
    return "CHW"[axis] if axis < 3 else str(axis)


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorProduct(Operator):
    """Sums of products over the axes that share a letter: `abc,acd->abd` is a matrix product.

    terms: the letters of each operand's axes. constants: operands that are parameters.
    """

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
        """Return the products of all letters' sizes, for each operand behind the first."""
        count = 1
        for size in self._sizes(inputs).values():
            count *= size
        return count * (len(self.terms) - 1)

    def computed(self, part: Part) -> Array:
        """Return the rows of the part, from whole operands."""
        tensors = [whole_tensor(reader) for reader in operand_readers(part, self.constants)]
        equation = f"{','.join(self.terms)}->{self.result}"
        product: Array = np.einsum(equation, *tensors, optimize=len(tensors) > 1)
        return cut(np.asarray(product, np.float32).reshape(part.shape.dims), part)

    def in_words(self) -> str:
        return f"einsum {','.join(self.terms)}->{self.result}"
