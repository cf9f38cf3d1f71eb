"""C calls for reductions, softmax, normalisations by statistics of the tensor, and matrix products."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

from cnn2csdf import operators as op
from cnn2csdf.network import Shape
from planners.code.c_text import NULL, number
from planners.code.calls.moves import strides_of
from planners.code.layer_descriptor import Call, Described


class Axes(NamedTuple):
    """A tensor as three axes; of a map, the step along rows is zero."""

    sizes: tuple[int, int, int]
    steps: tuple[int, int, int]
    is_map: bool


def _axes(shape: Shape, first: int, end: int) -> Axes:
    """The axes of a map, or those before, from `first` to before `end`, and behind of others."""
    if shape.is_map:
        channels, height, width = shape.dims
        return Axes((channels, height, width), (1, 0, channels), is_map=True)
    dims = shape.dims
    sizes = (prod(dims[:first]), prod(dims[first:end]), prod(dims[end:]))
    return Axes(sizes, (sizes[1] * sizes[2], sizes[2], 1), is_map=False)


def _listed(three: Sequence[int]) -> str:
    return "{" + ", ".join(str(int(one)) for one in three) + "}"


def cube_fields(
    one: Described,
    reduced: Sequence[int],
    to: Axes | None = None,
    scales: Sequence[str] = (NULL, NULL, "{0, 0, 0}", "0"),
) -> list[str]:
    """Return the structure of a function over axes of the input that follow one another."""
    shape = one.inputs[0]
    if not shape.is_map and tuple(reduced) != tuple(range(reduced[0], reduced[-1] + 1)):
        raise one.refusal(f"over axes {tuple(reduced)} of {len(shape.dims)}")
    source = _axes(shape, reduced[0], reduced[-1] + 1)
    target = to or source
    flags = [axis in reduced for axis in range(3)] if shape.is_map else [False, True, False]
    ends = (source.steps, int(source.is_map)), (target.steps, int(target.is_map))
    fields = [_listed(source.sizes), _listed(flags)]
    for steps, is_map in ends:
        fields += [_listed(steps), str(is_map)]
    return [*fields, *scales]


def _cube(one: Described, *arguments: Any) -> str:
    """The address of the structure of cube_fields."""
    return one.structure("cube", *cube_fields(one, *arguments))


def _softmax(one: Described, operator: op.Softmax) -> Call:
    last = operator.axis if operator.last is None else operator.last
    function = "log_softmax" if operator.is_logarithm else "softmax"
    return Call(function, _cube(one, range(operator.axis, last + 1)))


def _reduction(one: Described, operator: op.Reduction) -> Call:
    return _reduced(one, operator.function, tuple(sorted(operator.axes)), keeps=operator.keeps)


def reduced_to(one: Described, axes: tuple[int, ...], *, keeps: bool) -> Axes:
    """Return the axes of a result that has one element for all those along some axes."""
    shape, result = one.inputs[0], one.layer.shape
    sizes = _axes(shape, axes[0], axes[-1] + 1).sizes
    flags = [axis in axes for axis in range(3)] if shape.is_map else [False, True, False]
    if shape.is_map and result.is_map and keeps:
        steps = [
            0 if flag else step for flag, step in zip(flags, (1, 0, result.channels), strict=True)
        ]
        to = Axes(sizes, (steps[0], 0, steps[2]), is_map=not flags[1])
    else:
        left = [1 if flag else size for flag, size in zip(flags, sizes, strict=True)]
        steps = [0 if flag else step for flag, step in zip(flags, strides_of(left), strict=True)]
        to = Axes(sizes, (steps[0], steps[1], steps[2]), is_map=False)
    if result.is_map and not shape.is_map:
        raise one.refusal("that makes feature maps of a tensor of more axes")
    return to


def _reduced(one: Described, function: str, axes: tuple[int, ...], *, keeps: bool) -> Call:
    return Call(f"reduce_{function}", _cube(one, axes, reduced_to(one, axes, keeps=keeps)))


def _global_pooling(one: Described, operator: op.GlobalPooling) -> Call:
    function = "max" if operator.function == "max" else "mean"
    return _reduced(one, function, (1, 2), keeps=True)


def _instance(one: Described, operator: op.InstanceNormalization) -> Call:
    axes = range(1, len(one.layer.shape.dims))
    scales = (one.symbol("scale", one.weights["scale"]), one.symbol("shift", one.weights["shift"]))
    steps = "{1, 0, 0}"
    return Call("standardise", _cube(one, axes, None, (*scales, steps, number(operator.epsilon))))


def _layer_normalization(one: Described, operator: op.LayerNormalization) -> Call:
    dims = one.layer.shape.dims
    scales = (one.symbol("scale", one.weights["scale"]), one.optional("shift"))
    steps = [0, 1, 0]
    if len(dims) == 3:
        steps = [step if axis >= operator.axis else 0 for axis, step in enumerate(strides_of(dims))]
    fields = (*scales, _listed(steps), number(operator.epsilon))
    return Call("standardise", _cube(one, range(operator.axis, len(dims)), None, fields))


def _axis_of(one: Described, axis: int) -> int:
    """The axis of the three of a cube."""
    return axis if one.inputs[0].is_map else 1


def _extreme_place(one: Described, operator: op.ExtremePlace) -> Call:
    cube = cube_fields(one, (operator.axis,), reduced_to(one, (operator.axis,), keeps=True))
    fields = (
        "{" + ", ".join(cube) + "}",
        int(operator.function == "min"),
        int(operator.takes_last),
    )
    return Call("place_of_extreme", one.structure("extreme", *fields))


def _running_sum(one: Described, operator: op.RunningSum) -> Call:
    cube = cube_fields(one, (operator.axis,))
    flags = (int(operator.is_exclusive), int(operator.is_reversed))
    fields = ("{" + ", ".join(cube) + "}", _axis_of(one, operator.axis), *flags)
    return Call("running_sum", one.structure("running", *fields))


def _ranking(one: Described, operator: op.Ranking) -> Call:
    axis = operator.axis
    cube = cube_fields(one, (axis,), _axes(one.layer.shape, axis, axis + 1))
    flags = (int(not operator.takes_largest), int(operator.gives_places))
    fields = ("{" + ", ".join(cube) + "}", _axis_of(one, axis), operator.count, *flags)
    return Call("rank_elements", one.structure("ranking", *fields))


def _matrix_product(one: Described, operator: op.MatrixProduct) -> Call:
    is_trained = operator.units is not None
    values = one.symbol("matrix", one.weights["matrix"]) if is_trained else NULL
    fields = product_fields(one, operator.units)
    return Call("multiply_matrices", one.structure("product", *fields, values))


def product_fields(one: Described, units: int | None, elements: int = 1) -> tuple[str | int, ...]:
    """Return sizes and steps of a product of matrices. elements: that one of the result takes."""
    left, result = one.inputs[0], one.layer.shape
    rank = len(left.dims)
    if len(result.dims) != rank or (rank > 3 and units is None):
        raise one.refusal("of tensors of different numbers of axes")
    of_left, of_result = _matrices(left), _matrices(result)
    right = (_listed((0, 0, 0)), 0)
    if units is None:
        other = _matrices(one.inputs[1])
        batch = 0 if other.sizes[0] == 1 else other.steps[0]
        if other.sizes[0] not in (1, of_result.sizes[0]) or of_left.sizes[0] != of_result.sizes[0]:
            raise one.refusal("of batches of different sizes")
        right = (_listed((batch, *other.steps[1:])), int(other.is_map))
    steps = [elements * step for step in of_result.steps]
    return (
        *(of_result.sizes[0], of_result.sizes[1], of_left.sizes[2], of_result.sizes[2]),
        *(_listed(of_left.steps), int(of_left.is_map), *right),
        *(_listed(steps), int(of_result.is_map)),
    )


def _matrices(shape: Shape) -> Axes:
    """Batch, rows and columns."""
    if shape.is_map:
        return _axes(shape, 0, 0)
    dims = (1, 1, *shape.dims)
    sizes = (prod(dims[:-2]), dims[-2], dims[-1])
    return Axes(sizes, (sizes[1] * sizes[2], sizes[2], 1), is_map=False)


FOLDS: dict[type, Callable[[Described, Any], Call]] = {
    op.GlobalPooling: _global_pooling,
    op.MatrixProduct: _matrix_product,
    op.InstanceNormalization: _instance,
    op.LayerNormalization: _layer_normalization,
    op.Softmax: _softmax,
    op.Reduction: _reduction,
    op.ExtremePlace: _extreme_place,
    op.RunningSum: _running_sum,
    op.Ranking: _ranking,
}
