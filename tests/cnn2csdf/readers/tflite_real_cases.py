"""Random files of one operator of real numbers each, and NumPy's answer for the tensors of the file.

A case is the bytes of the file, and a function from its inputs to its outputs.
"""

from __future__ import annotations

import numpy as np

from tests.cnn2csdf.readers.tflite_models import Tensor, constant, one_node


class Draw:
    """Random shapes and constants for one case."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)

    def size(self, low=1, high=5):
        return int(self.random.integers(low, high + 1))

    def dims(self, rank=None):
        rank = self.size(2, 4) if rank is None else rank
        return (1, *(self.size() for _ in range(rank - 1)))

    def narrowed(self, dims):
        """Dims that are repeated to the others: some axes of size one, perhaps fewer axes."""
        narrow = tuple(size if self.size(0, 2) else 1 for size in dims)
        short = narrow[self.size(0, len(dims) - 1) :] if self.size(0, 1) else narrow
        return (1, *short[1:]) if len(short) > 1 else short

    def numbers(self, dims, dtype="float32"):
        """Small whole numbers, so that comparisons meet equal ones."""
        return self.random.integers(-4, 5, dims).astype(dtype)


def two_operands(kind, function, *, of="float32", to="float32", zero_free=False):
    def drawn(d):
        dims = d.dims()
        shapes = [dims, d.narrowed(dims)]
        if d.size(0, 1):
            shapes.reverse()
        place = d.size(0, 2)  # of the constant; 2: none
        place = 1 if zero_free else place
        arrays = {place: d.numbers(shapes[place], of)} if place < 2 else {}
        if zero_free:
            arrays[1][arrays[1] == 0] = 3
        operands = [
            constant(name, arrays[index]) if index in arrays else Tensor(name, shapes[index], of)
            for index, name in enumerate("ab")
        ]
        result = np.broadcast_shapes(*shapes)

        def answer(*frames):
            remaining = list(frames)
            values = [arrays[i] if i in arrays else remaining.pop(0) for i in (0, 1)]
            return [function(*values)]

        return one_node(kind, operands, Tensor("y", result, to)), answer

    return drawn


def one_operand(kind, function, *, of="float32", to="float32", options=()):
    def drawn(d):
        dims = d.dims()
        content = one_node(kind, [Tensor("x", dims, of)], Tensor("y", dims, to), list(options))
        return content, lambda values: [function(values)]

    return drawn


def choice(kind):
    def drawn(d):
        dims = d.dims()
        shapes = [dims] * 3 if kind == "SELECT" else [d.narrowed(dims) for _ in range(2)] + [dims]
        place = d.size(1, 3)
        array = d.numbers(shapes[place]) if place < 3 else None
        operands = [Tensor("c", shapes[0], "bool"), Tensor("a", shapes[1]), Tensor("b", shapes[2])]
        if array is not None:
            operands[place] = constant("k", array)

        def answer(*frames):
            values = list(frames)
            if array is not None:
                values.insert(place, array)
            return [np.where(values[0] != 0, *values[1:])]

        return one_node(kind, operands, Tensor("y", np.broadcast_shapes(*shapes))), answer

    return drawn


def gather_points(d, *, has_constant_positions):
    dims = d.dims()
    count = d.size(1 if has_constant_positions else 2, len(dims))
    lead = tuple(d.size(1, 3) for _ in range(d.size(1, 2)))
    positions = np.stack([d.random.integers(0, size, lead) for size in dims[:count]], -1)
    positions = positions.astype(np.int32)
    indices = constant("p", positions)
    if not has_constant_positions:
        lead = (1, *lead[1:])
        positions = positions[:1]
        indices = Tensor("p", positions.shape, "int32")
    result = (*lead, *dims[count:])

    def answer(values, *_):
        return [values[tuple(np.moveaxis(positions, -1, 0))]]

    content = one_node("GATHER_ND", [Tensor("x", dims), indices], Tensor("y", result))
    return content, answer, positions


def tile(d):
    dims = d.dims()
    times = (1, *(d.size(1, 3) for _ in dims[1:]))
    operands = [Tensor("x", dims), constant("t", np.array(times, np.int32))]
    result = tuple(size * count for size, count in zip(dims, times, strict=True))
    return one_node("TILE", operands, Tensor("y", result)), lambda x: [np.tile(x, times)]


def broadcast(d):
    dims = d.dims()
    narrow = d.narrowed(dims)
    operands = [Tensor("x", narrow), constant("t", np.array(dims, np.int32))]
    return (
        one_node("BROADCAST_TO", operands, Tensor("y", dims)),
        lambda x: [np.broadcast_to(x, dims)],
    )


def running_sum(d):
    dims = d.dims()
    axis, exclusive, backwards = d.size(1, len(dims) - 1), d.size(0, 1), d.size(0, 1)
    operands = [Tensor("x", dims), constant("a", np.array(axis, np.int32))]

    def answer(x):
        ordered = np.flip(x, axis) if backwards else x
        sums = np.cumsum(ordered, axis) - (ordered if exclusive else 0)
        return [np.flip(sums, axis) if backwards else sums]

    options = [(0, "b", exclusive), (1, "b", backwards)]
    return one_node("CUMSUM", operands, Tensor("y", dims), options), answer


def with_constants(d, *, is_new_axis):
    """A concatenation, or a pack, of which an operand is a constant."""
    dims = d.dims(d.size(2, 3) if is_new_axis else None)
    axis = d.size(1, len(dims) - (0 if is_new_axis else 1))
    place, array = d.size(0, 1), d.numbers(dims)
    operands = [Tensor("x", dims), constant("k", array)]
    join = np.stack if is_new_axis else np.concatenate
    result = join([array, array], axis).shape

    def answer(x):
        return [join([x, array] if place else [array, x], axis)]

    kind = "PACK" if is_new_axis else "CONCATENATION"
    options = [(0, "i", 2), (1, "i", axis)] if is_new_axis else [(0, "i", axis)]
    content = one_node(kind, operands if place else operands[::-1], Tensor("y", result), options)
    return content, answer


def reduction(kind, function, *, of="float32"):
    """A reduction over any axes, the batch of one among them, that stay or go."""

    def drawn(d):
        dims = d.dims()
        axes = sorted({d.size(0, len(dims) - 1) for _ in range(d.size(1, 4))})
        keeps = d.size(0, 1)
        listed = [axis - len(dims) if d.size(0, 1) else axis for axis in axes]
        operands = [Tensor("x", dims, of), constant("a", np.array(listed, np.int32))]
        lengths = [1 if axis in axes else size for axis, size in enumerate(dims)]
        left = [size for axis, size in enumerate(lengths) if keeps or axis not in axes]
        content = one_node(kind, operands, Tensor("y", tuple(left), of), [(0, "b", keeps)])

        def answer(x):
            result = np.zeros(lengths, np.float32)
            for place in np.ndindex(*lengths):
                taken = tuple(slice(None) if a in axes else p for a, p in enumerate(place))
                result[place] = function([float(number) for number in x[taken].reshape(-1)])
            return [result.reshape(left)]

        return content, answer

    return drawn


def strided_slice(d):
    """A slice with steps in both directions, an ellipsis, new axes, and axes that go."""
    dims = d.dims()
    index = [slice(0, 1)]
    has_ellipsis = d.size(0, 1)
    for size in dims[1:]:
        kind = d.size(0, 4)
        if kind == 0:
            index.append(d.size(-size, size - 1))
        elif kind == 1:
            index.append(slice(None))
        elif kind == 2:
            index.append(slice(d.size(0, size - 1), None, d.size(1, 3)))
        elif kind == 3:
            index.append(slice(None, None, -d.size(1, 3)))
        else:
            begin = d.size(0, size - 1)
            index.append(slice(begin, d.size(begin + 1, size)))
        if d.size(0, 4) == 0:
            index.append(None)
    if has_ellipsis:
        place = d.size(1, len(index) - 1) if len(index) > 1 else 1
        removed = index[place : place + 1]
        index[place : place + 1] = [..., *[one for one in removed if one is None]]
    begins, ends, steps, masks = [], [], [], [0] * 5
    for position, part in enumerate(index):
        bit = 1 << position
        first, last, step = 0, 0, 1
        if part is ...:
            masks[2] |= bit
        elif part is None:
            masks[3] |= bit
        elif isinstance(part, int):
            first, last = part, part + 1
            masks[4] |= bit
        else:
            step = part.step or 1
            first, last = part.start or 0, part.stop or 0
            masks[0] |= bit * (part.start is None)
            masks[1] |= bit * (part.stop is None)
        begins.append(first)
        ends.append(last)
        steps.append(step)
    answer = lambda x: [x[tuple(index)]]  # noqa: E731
    lists = [np.array(numbers, np.int32) for numbers in (begins, ends, steps)]
    operands = [constant(name, array) for name, array in zip("bes", lists, strict=True)]
    options = [(field, "i", mask) for field, mask in enumerate(masks)]
    result = np.zeros(dims)[tuple(index)].shape
    content = one_node(
        "STRIDED_SLICE", [Tensor("x", dims), *operands], Tensor("y", result), options
    )
    return content, answer


def pooled_squares(d):
    height, width, channels = d.size(2, 6), d.size(2, 6), d.size(1, 4)
    rows, columns = d.size(1, 2), d.size(1, 2)
    result = (1, height // rows, width // columns, channels)
    options = [(0, "b", 1), (1, "i", columns), (2, "i", rows), (3, "i", columns), (4, "i", rows)]

    def answer(x):
        kept = x[:, : result[1] * rows, : result[2] * columns] ** 2
        blocks = kept.reshape(1, result[1], rows, result[2], columns, channels)
        return [np.sqrt(blocks.mean((2, 4), dtype=np.float32))]

    operands = [Tensor("x", (1, height, width, channels))]
    return one_node("L2_POOL_2D", operands, Tensor("y", result), options), answer


def added_tensors(d):
    dims = d.dims()
    operands = [Tensor(name, dims) for name in "abcd"[: d.size(2, 4)]]
    return one_node("ADD_N", operands, Tensor("y", dims)), lambda *xs: [sum(xs[1:], xs[0])]


def _comparison(kind, function):
    return two_operands(kind, function, to="bool")


def _logic(kind, function):
    return two_operands(kind, function, of="bool", to="bool")


CASES = {
    "EQUAL": _comparison("EQUAL", np.equal),
    "NOT_EQUAL": _comparison("NOT_EQUAL", np.not_equal),
    "GREATER": _comparison("GREATER", np.greater),
    "GREATER_EQUAL": _comparison("GREATER_EQUAL", np.greater_equal),
    "LESS": _comparison("LESS", np.less),
    "LESS_EQUAL": _comparison("LESS_EQUAL", np.less_equal),
    "LOGICAL_AND": _logic("LOGICAL_AND", np.logical_and),
    "LOGICAL_OR": _logic("LOGICAL_OR", np.logical_or),
    "LOGICAL_NOT": one_operand("LOGICAL_NOT", np.logical_not, of="bool", to="bool"),
    "FLOOR_DIV": two_operands("FLOOR_DIV", np.floor_divide, zero_free=True),
    "FLOOR_DIV of integers": two_operands(
        "FLOOR_DIV", np.floor_divide, of="int32", to="int32", zero_free=True
    ),
    "DIV of integers": two_operands(
        "DIV", lambda a, b: np.trunc(a / b), of="int32", to="int32", zero_free=True
    ),
    "ATAN2": two_operands("ATAN2", np.arctan2),
    "FLOOR_MOD": two_operands("FLOOR_MOD", np.mod, zero_free=True),
    "SELECT": choice("SELECT"),
    "SELECT_V2": choice("SELECT_V2"),
    "SQUARE": one_operand("SQUARE", np.square),
    "SIGN": one_operand("SIGN", np.sign),
    "RELU_0_TO_1": one_operand("RELU_0_TO_1", lambda x: np.clip(x, 0, 1)),
    "CAST to bool": one_operand("CAST", lambda x: x != 0, to="bool"),
    "CAST to int32": one_operand("CAST", np.trunc, to="int32"),
    "ADD_N": added_tensors,
    "GATHER_ND": lambda d: gather_points(d, has_constant_positions=True)[:2],
    "TILE": tile,
    "BROADCAST_TO": broadcast,
    "CUMSUM": running_sum,
    "MEAN of integers": reduction("MEAN", lambda xs: int(sum(xs) / len(xs)), of="int32"),
    "REDUCE_ALL": reduction("REDUCE_ALL", all, of="bool"),
    "REDUCE_ANY": reduction("REDUCE_ANY", any, of="bool"),
    "REDUCE_MAX": reduction("REDUCE_MAX", max),
    "REDUCE_MIN": reduction("REDUCE_MIN", min),
    "SUM": reduction("SUM", sum),
    "STRIDED_SLICE": strided_slice,
    "L2_POOL_2D": pooled_squares,
    "CONCATENATION with a constant": lambda d: with_constants(d, is_new_axis=False),
    "PACK with a constant": lambda d: with_constants(d, is_new_axis=True),
}


def real_case(kind, seed):
    """A file of that operator, and the function that it computes."""
    return CASES[kind](Draw(seed))
