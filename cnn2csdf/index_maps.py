"""Mixed-radix index maps: the position in a feature map of each element of a tensor of any dims.

The index along a dim of the tensor is written in digits of a mixed radix, the slowest first. A digit of
size s and step t is (index // t) % s of a channel, row or column of the map. A reshape splits and joins
digits, a transposition permutes dims; neither moves an element.

Example: a matrix of 8 tokens and 4 numbers is a map of 8 rows, one column and 4 channels. Reshaped into
8 x 2 x 2, which are tokens, heads and numbers of a head, its last two dims are digits of the channel:
the head is (channel // 2) % 2, the number of the head channel % 2.

>>> matrix = (of_axis("Y", 8), of_axis("C", 4))
>>> tokens, heads, numbers = cut_up([digit for dim in matrix for digit in dim], (8, 2, 2))
>>> heads, numbers
((Digits(axis='C', step=2, size=2),), (Digits(axis='C', step=1, size=2),))

Heads first, the form after a transposition, is (heads, tokens, numbers). Reshaped back into a matrix,
heads and numbers join to the whole channel again: `joined([*heads, *numbers]) == of_axis("C", 4)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from cnn2csdf.arrays import Array
from cnn2csdf.shape import Dims, Shape

AXES = "CYX"  # channels, rows, columns, as in the dims of a map
IN_MEMORY = "YXC"


class Digits(NamedTuple):
    """A digit of an index along an axis of a map: (index // step) % size."""

    axis: str
    step: int
    size: int


Dim = tuple[Digits, ...]  # from the slowest to the fastest
Form = tuple[Dim, ...]  # of all dims of a tensor


class NoForm(Exception):
    """A tensor or layer has no form among maps; it stays as in the file."""


def whole_form(dims: Dims) -> Form:
    """Return the form of a map under its own dims."""
    return tuple(of_axis(axis, size) for axis, size in zip(AXES, dims, strict=True))


def of_axis(axis: str, size: int) -> Dim:
    """Return the dim that is an axis of a map; one of size 1 has no digit."""
    return (Digits(axis, 1, size),) if size > 1 else ()


def joined(digits: Sequence[Digits]) -> Dim:
    """Return the digits with neighbours of one axis joined where the slower continues the faster."""
    dims: list[Digits] = []
    for digit in digits:
        if dims and dims[-1].axis == digit.axis and dims[-1].step == digit.step * digit.size:
            dims[-1] = Digits(digit.axis, digit.step, digit.size * dims[-1].size)
        elif digit.size > 1:
            dims.append(digit)
    return tuple(dims)


def size_of(dim: Sequence[Digits]) -> int:
    """Return the size of a dim."""
    return prod(digit.size for digit in dim)


def cut_up(digits: Sequence[Digits], dims: Dims) -> Form:
    """Return the form of a reshape: the digits, slowest first, grouped into dims of these sizes.

    Raises NoForm where a size divides no digit: its elements have no digits of their own.
    """
    left, form = list(digits), []
    for size in dims:
        dim: list[Digits] = []
        while size > 1:
            digit = left.pop(0)
            if size % digit.size == 0:
                dim.append(digit)
                size //= digit.size
            elif digit.size % size == 0:
                rest = digit.size // size
                dim.append(Digits(digit.axis, digit.step * rest, size))
                left.insert(0, Digits(digit.axis, digit.step, rest))
                size = 1
            else:
                raise NoForm
        form.append(joined(dim))
    return tuple(form)


def axis_digits(axis: str, digits: Sequence[Digits], shape: Shape) -> list[Digits]:
    """Return the digits of an axis, the slowest first. Raises NoForm unless they cover the axis."""
    digits_of_axis = sorted(
        (digit for digit in digits if digit.axis == axis), key=lambda digit: -digit.step
    )
    size = shape.dims[AXES.index(axis)]
    if joined(digits_of_axis) != of_axis(axis, size):
        raise NoForm
    return digits_of_axis


def digits_by_axis(form: Form, shape: Shape) -> list[Digits]:
    """Return the digits of all dims of a tensor as channels, rows, columns of a map."""
    digits = [digit for dim in form for digit in dim]
    return [digit for axis in AXES for digit in axis_digits(axis, digits, shape)]


def groups_and_heads(batch: Form, shape: Shape) -> tuple[int, int]:
    """Return groups of rows and heads of dims in front of a matrix. Raises NoForm for others."""
    groups = heads = 1
    for digit in (digit for dim in batch for digit in dim):
        is_outer_row = digit.axis == "Y" and digit.step * digit.size * groups == shape.height
        is_outer_channel = digit.axis == "C" and digit.step * digit.size == shape.channels
        if is_outer_row and heads == 1:
            groups *= digit.size
        elif digit == Digits("X", 1, shape.width) or (shape.width == 1 and is_outer_channel):
            heads *= digit.size
        else:
            raise NoForm
    return groups, heads


def in_memory(shape: Shape) -> Dim:
    """Return the digits of a map in the order of memory."""
    return joined(
        [digit for axis in IN_MEMORY for digit in of_axis(axis, shape.dims[AXES.index(axis)])]
    )


def repeated_channels(
    form: Form, axis: int, times: int, shape: Shape
) -> tuple[tuple[int, ...], Form]:
    """Return the channel of a map for each of another, and the form there with a dim repeated.

    axis: of the dim, which has one place. Channels of the other map follow the dims of the tensor.
    Raises NoForm where the tensor does not have all channels of the map.
    """
    channels = [digit for dim in form for digit in dim if digit.axis == "C"]
    if joined(sorted(channels, reverse=True)) != of_axis("C", shape.channels):
        raise NoForm
    dims: list[Dim] = []
    places, step = [0], 1
    for number, dim in reversed(list(enumerate(form))):
        digits: list[Digits] = []
        for digit in reversed(dim if number != axis else (Digits("C", 0, times),)):
            made = digit
            if digit.axis == "C":
                places = [
                    count * digit.step + rest for count in range(digit.size) for rest in places
                ]
                made, step = Digits("C", step, digit.size), step * digit.size
            digits.insert(0, made)
        dims.insert(0, joined(digits))
    return tuple(places), tuple(dims)


def laid_out(array: Array, form: Form, shape: Shape) -> Array:
    """Return the elements of a tensor of the file in the dims of the map."""
    digits = [digit for dim in form for digit in dim]
    torn = [digit for axis in AXES for digit in axis_digits(axis, digits, shape)]
    order = [digits.index(digit) for digit in torn]
    laid_out_array: Array = (
        array.reshape([digit.size for digit in digits]).transpose(order).reshape(shape.dims)
    )
    return laid_out_array


def digits_of(axis: str, form: Form) -> list[Digits]:
    """Return the digits of an axis, in the order of the dims."""
    return [digit for dim in form for digit in dim if digit.axis == axis]


def widest_form(forms: Sequence[Form], dims: Dims) -> Form:
    """Return the form of a result whose operands are repeated along dims, the last of them channels.

    Raises NoForm where sizes do not agree.
    """
    widest: list[Dim] = []
    for place, size in enumerate(dims, -len(dims)):
        dims_at = (form[place] for form in forms if len(form) >= -place)
        dim = next((dim_ for dim_ in dims_at if dim_), ())
        if size > 1 and not dim and place == -1:
            dim = of_axis("C", size)
        if size_of(dim) != size:
            raise NoForm
        widest.append(dim)
    return tuple(widest)


def varying_dims(constant: Dims, form: Form, shape: Shape) -> Dims:
    """Return the dims of a constant on a map: 1 along the axes along which it does not change."""
    constant = (1,) * (len(form) - len(constant)) + constant
    axes = {
        digit.axis for size, dim in zip(constant, form, strict=True) if size > 1 for digit in dim
    }
    return tuple(size if axis in axes else 1 for axis, size in zip(AXES, shape.dims, strict=True))


def renumbered(one: Digits, cut: Digits, count: int) -> Digits:
    """Return digits of a map whose positions along some digits are selected."""
    if one.axis != "C" or one.step < cut.step * cut.size:
        return one
    return Digits("C", one.step // cut.size * count, one.size)
