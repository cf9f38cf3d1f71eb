"""Mixed-radix index maps: which element of a feature map holds each element of a tensor.

The tensor may have any dims; the feature map has channels, rows and columns. The index along each
dim of the tensor is written in a mixed radix, most significant digit first. A `Digit` of size s
and stride t along an axis of the feature map is (position // t) % s, for the position along that
axis. A reshape splits and merges digits, a transposition permutes dims; neither moves an element
in memory.

Example: a matrix of 8 tokens and 4 numbers is a feature map of 8 rows, one column and 4 channels.
Reshaped into 8 x 2 x 2 (tokens, heads, numbers of a head), its last two dims are digits of the
channel: the head is (channel // 2) % 2, the number within the head is channel % 2.

>>> matrix = (whole_axis("Y", 8), whole_axis("C", 4))
>>> tokens, heads, numbers = split_digits(flattened(matrix), (8, 2, 2))
>>> heads, numbers
((Digit(axis='C', stride=2, size=2),), (Digit(axis='C', stride=1, size=2),))

A transposition to heads x tokens x numbers gives the index map (heads, tokens, numbers). Reshaped
back into a matrix, heads and numbers merge into the whole channel axis:

>>> merged([*heads, *numbers]) == whole_axis("C", 4)
True
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from cnn2csdf.arrays import Array
from cnn2csdf.shape import Dims, Shape

AXES = "CYX"  # channels, rows, columns: the order of the dims of a feature map
MEMORY_AXES = "YXC"  # from the slowest to the fastest axis in memory


class Digit(NamedTuple):
    """A digit of the position along an axis of a feature map: (position // stride) % size."""

    axis: str
    stride: int
    size: int


DimDigits = tuple[Digit, ...]  # digits of one dim of a tensor, most significant first
IndexMap = tuple[DimDigits, ...]  # digits of every dim of a tensor


class NoIndexMap(Exception):
    """The tensor has no index map on a feature map; its layer keeps the dims of the file."""


def identity_map(dims: Dims) -> IndexMap:
    """Return the index map of a feature map under its own dims."""
    return tuple(whole_axis(axis, size) for axis, size in zip(AXES, dims, strict=True))


def whole_axis(axis: str, size: int) -> DimDigits:
    """Return the digits of a dim that is an entire axis of a feature map; none for size 1."""
    return (Digit(axis, 1, size),) if size > 1 else ()


def flattened(index_map: Sequence[DimDigits]) -> list[Digit]:
    """Return the digits of all dims, most significant first."""
    return [digit for dim in index_map for digit in dim]


def merged(digits: Sequence[Digit]) -> DimDigits:
    """Return the digits in canonical form: consecutive digits of an axis merged, size 1 dropped.

    Two digits merge if the stride of the first is the stride times the size of the second.
    """
    result: list[Digit] = []
    for digit in digits:
        last = result[-1] if result else None
        if last and (last.axis, last.stride) == (digit.axis, digit.stride * digit.size):
            result[-1] = digit._replace(size=digit.size * last.size)
        elif digit.size > 1:
            result.append(digit)
    return tuple(result)


def dim_size(dim: Sequence[Digit]) -> int:
    """Return the size of a dim from its digits."""
    return prod(digit.size for digit in dim)


def split_digits(digits: Sequence[Digit], dims: Dims) -> IndexMap:
    """Return the index map of a reshape: the digits, most significant first, as dims of these sizes.

    Consecutive digits of an axis are merged first: 3 x 4 channels can be reshaped into 2 x 6. A digit
    that is larger than the rest of its dim is split in two. Raises NoIndexMap if neither size divides
    the other: 6 rows x 4 channels, reshaped into 4 x 6, have no such digits.
    """
    remaining, index_map = list(merged(digits)), []
    for size in dims:
        dim: list[Digit] = []
        while size > 1:
            digit = remaining.pop(0)
            if size % digit.size == 0:
                dim.append(digit)
                size //= digit.size
            elif digit.size % size == 0:
                low_size = digit.size // size
                dim.append(Digit(digit.axis, digit.stride * low_size, size))
                remaining.insert(0, Digit(digit.axis, digit.stride, low_size))
                size = 1
            else:
                raise NoIndexMap
        index_map.append(merged(dim))
    return tuple(index_map)


def slowest_first(digits: Iterable[Digit]) -> list[Digit]:
    """Return digits in the order of a feature map in memory, the slowest first."""
    return sorted(digits, key=lambda digit: (MEMORY_AXES.index(digit.axis), -digit.stride))


def covering_digits(axis: str, digits: Sequence[Digit], shape: Shape) -> list[Digit]:
    """Return the digits of one axis by descending stride.

    Raises NoIndexMap unless they cover the axis: a tensor that selects part of an axis does not.
    """
    digits_of_axis = slowest_first(digit for digit in digits if digit.axis == axis)
    size = shape.dims[AXES.index(axis)]
    if merged(digits_of_axis) != whole_axis(axis, size):
        raise NoIndexMap
    return digits_of_axis


def digits_by_axis(index_map: IndexMap, shape: Shape) -> list[Digit]:
    """Return the digits of all dims in the order of the feature map: channels, rows, columns."""
    digits = flattened(index_map)
    return [digit for axis in AXES for digit in covering_digits(axis, digits, shape)]


def groups_and_heads(batch: Sequence[DimDigits], shape: Shape) -> tuple[int, int]:
    """Return the numbers of groups of rows and of heads that the batch dims of a product enumerate.

    Groups are outer digits of the rows, before all heads; heads are all columns, or the outermost digit
    of the channels of a one-column map. Raises NoIndexMap for any other batch dim. For 2 groups of 3
    rows and 4 heads as columns:

    >>> groups_and_heads([(Digit("Y", 3, 2),), (Digit("X", 1, 4),)], Shape(dims=(8, 6, 4)))
    (2, 4)
    """
    rows_of_group, heads = shape.height, 1
    for digit in flattened(batch):
        positions = digit.stride * digit.size  # through which the digit runs before it repeats
        divides_group = digit.axis == "Y" and positions == rows_of_group
        is_outer_channel = digit.axis == "C" and positions == shape.channels
        if divides_group and heads == 1:
            rows_of_group = digit.stride
        elif digit == Digit("X", 1, shape.width) or (is_outer_channel and shape.width == 1):
            heads *= digit.size
        else:
            raise NoIndexMap
    return shape.height // rows_of_group, heads


def pixel_digits(shape: Shape) -> DimDigits:
    """Return the digits that enumerate the pixels of a feature map, row by row."""
    return (*whole_axis("Y", shape.height), *whole_axis("X", shape.width))


def memory_digits(shape: Shape) -> DimDigits:
    """Return the digits of a feature map from the slowest to the fastest in memory."""
    return (*pixel_digits(shape), *whole_axis("C", shape.channels))


def repeated_channels(
    index_map: IndexMap, axis: int, times: int, shape: Shape
) -> tuple[tuple[int, ...], IndexMap]:
    """Repeat a dim of size 1: return the source channel of each new channel, and the new index map.

    The channels of the new feature map follow the order of the tensor's dims. For 2 heads of 3
    numbers, with a dim of size 1 between them that is repeated twice:

    >>> two_heads = (Digit("C", 3, 2),), (), (Digit("C", 1, 3),)
    >>> repeated_channels(two_heads, 1, 2, Shape(dims=(6, 1, 1)))[0]
    (0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5)

    Raises NoIndexMap if the tensor does not cover all channels.
    """
    in_tensor_order = digits_along("C", index_map)
    by_stride = covering_digits("C", in_tensor_order, shape)
    # The numbers of the channels, with an axis for each digit: first by stride, then as the tensor.
    channels = np.arange(shape.channels).reshape([digit.size for digit in by_stride])
    channels = channels.transpose([by_stride.index(digit) for digit in in_tensor_order])
    digits_before = len(digits_along("C", index_map[:axis]))
    repeated = np.repeat(np.expand_dims(channels, digits_before), times, axis=digits_before)
    with_repeated_dim = (*index_map[:axis], (Digit("C", 1, times),), *index_map[axis + 1 :])
    return tuple(repeated.reshape(-1).tolist()), _with_channels_in_order(with_repeated_dim)


def _with_channels_in_order(index_map: IndexMap) -> IndexMap:
    """The index map after a reordering of the channels: the strides of their digits then descend."""
    stride = prod(digit.size for digit in digits_along("C", index_map))
    dims = []
    for dim in index_map:
        digits: list[Digit] = []
        for digit in dim:
            if digit.axis == "C":
                stride //= digit.size
                digits.append(digit._replace(stride=stride))
            else:
                digits.append(digit)
        dims.append(merged(digits))
    return tuple(dims)


def array_on_map(array: Array, index_map: IndexMap, shape: Shape) -> Array:
    """Return the elements of a tensor of the file, arranged as a feature map of this shape."""
    digits = flattened(index_map)
    order = [digits.index(digit) for digit in digits_by_axis(index_map, shape)]
    feature_map: Array = (
        array.reshape([digit.size for digit in digits]).transpose(order).reshape(shape.dims)
    )
    return feature_map


def digits_along(axis: str, index_map: IndexMap) -> list[Digit]:
    """Return the digits of one axis, in the order of the tensor's dims."""
    return [digit for digit in flattened(index_map) if digit.axis == axis]


def broadcast_map(index_maps: Sequence[IndexMap], dims: Dims, constant: Dims | None) -> IndexMap:
    """Return the index map of an elementwise result of these dims from those of its operands.

    Each dim has the digits of the first operand that varies along it; a last dim along which only
    the constant varies is the channels. Raises NoIndexMap if the digits do not have the size of the
    dim, as of operands that are repeated along a dim of the result.

    constant: the dims of a constant operand; None without one.
    """
    result: list[DimDigits] = []
    # Negative positions, because operands of lower rank are aligned at the last dim.
    for position, size in enumerate(dims, -len(dims)):
        operand_dims = (
            index_map[position] for index_map in index_maps if len(index_map) >= -position
        )
        dim = next(filter(None, operand_dims), ())
        if position == -1 and not dim and constant is not None and constant[-1:] == (size,):
            dim = whole_axis("C", size)
        if dim_size(dim) != size:
            raise NoIndexMap
        result.append(dim)
    return tuple(result)


def varying_dims(constant: Dims, index_map: IndexMap, shape: Shape) -> Dims:
    """Return the dims of a constant as a feature map: 1 along each axis where it is the same."""
    aligned = (1,) * (len(index_map) - len(constant)) + constant
    axes = {
        digit.axis
        for size, dim in zip(aligned, index_map, strict=True)
        if size > 1
        for digit in dim
    }
    return tuple(size if axis in axes else 1 for axis, size in zip(AXES, shape.dims, strict=True))


def map_after_selection(index_map: IndexMap, selected: Digit, count: int) -> IndexMap:
    """Return the index map after `count` values of a digit of the channels have been selected.

    Slower digits of the channels have smaller strides then: a value of such a digit has `count`, no
    longer `selected.size`, values of the selected digit. With 2 of 4 numbers selected, a head, which
    was channel // 4, is channel // 2:

    >>> map_after_selection(((Digit("C", 4, 3),), (Digit("C", 1, 4),)), Digit("C", 1, 4), 2)
    ((Digit(axis='C', stride=2, size=3),), (Digit(axis='C', stride=1, size=2),))
    """

    def after(digit: Digit) -> Digit:
        if digit == selected:
            return digit._replace(size=count)
        is_slower = digit.axis == "C" and digit.stride > selected.stride
        return digit._replace(stride=digit.stride // selected.size * count) if is_slower else digit

    return tuple(merged([after(digit) for digit in dim]) for dim in index_map)
