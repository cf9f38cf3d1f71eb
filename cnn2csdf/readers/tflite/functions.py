"""Functions of elements, reductions and conversions of a TensorFlow Lite graph as layers."""

from __future__ import annotations

from math import prod

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.readers.tflite.assembly import Assembly, refusal
from cnn2csdf.readers.tflite.model_file import Node
from cnn2csdf.readers.tflite.moves import reshape_steps
from cnn2csdf.readers.tflite.options import fused_behind, options_of, our_axis
from csdf.errors import UnreadableFile


def elementwise(node: Node, assembly: Assembly, *, function: str) -> None:
    """Add a function of two tensors, one of which may be a constant."""
    dynamic = [index for index in (0, 1) if assembly.is_dynamic(node, index)]
    if not dynamic:
        raise refusal(node, "both operands are constants")
    sources = [assembly.source(node, index) for index in dynamic]
    if len(dynamic) == 2:
        sources = _with_as_many_axes(node, assembly, sources)
        operator, trained = op.Elementwise(function=function), []
    else:
        place = 1 - dynamic[0]
        rank = len(assembly.tensor(node, dynamic[0]).dims)
        value = assembly.constant(node, place)
        value = value.reshape((1,) * (rank - value.ndim) + value.shape)
        value = np.moveaxis(value[0], 2, 0) if rank == 4 else value[0] if rank > 1 else value
        trained = [assembly.trained(node, place, "constant", value)]
        operator = op.Elementwise(
            function=function, constant=value.shape or (1,), constant_first=place == 0
        )
    assembly.add(node, operator, sources=sources, trained=trained, fused=fused_behind(node, 0))


def _with_as_many_axes(node: Node, assembly: Assembly, sources: list[str]) -> list[str]:
    """The operands; one with fewer axes than the other gets axes of size one in front."""
    dims = [assembly.tensor(node, index).dims for index in (0, 1)]
    if len(dims[0]) == len(dims[1]):
        return sources
    short = 0 if len(dims[0]) < len(dims[1]) else 1
    full = (1,) * (len(dims[1 - short]) - len(dims[short])) + dims[short]
    steps = reshape_steps(assembly.shape(node, short), full)
    sources[short] = assembly.prepared(node, sources[short], *steps)
    return sources


def activation(
    node: Node, assembly: Assembly, *, function: str, parameters: tuple[float, ...] = ()
) -> None:
    """Add a function of single elements."""
    operator = op.Activation(function=function, parameters=parameters)
    assembly.add(node, operator, sources=[assembly.source(node, 0)])


def leaky_relu(node: Node, assembly: Assembly) -> None:
    """Add a rectifier with a slope."""
    slope = float(str(np.float32(options_of(node).real(0))))
    activation(node, assembly, function="leaky relu", parameters=(slope,))


def prelu(node: Node, assembly: Assembly) -> None:
    """Add a rectifier with a trained slope for each channel."""
    slope, shape = assembly.constant(node, 1), assembly.shape(node, 0)
    if slope.size != shape.channels or slope.size != prod(slope.shape[-1:]):
        raise refusal(node, f"slopes of shape {slope.shape}, expected one for each channel")
    trained = [assembly.trained(node, 1, "slope", slope.reshape(-1))]
    operator = op.Activation(function="prelu")
    assembly.add(node, operator, sources=[assembly.source(node, 0)], trained=trained)


def softmax(node: Node, assembly: Assembly, *, is_logarithm: bool = False) -> None:
    """Add a softmax over the last axis, that of the channels in maps."""
    if not is_logarithm and options_of(node).real(0) != 1.0:
        raise refusal(node, f"beta is {options_of(node).real(0)}, expected 1")
    shape = assembly.shape(node, 0)
    axis = 0 if shape.is_map else len(shape.dims) - 1
    operator = op.Softmax(axis=axis, is_logarithm=is_logarithm)
    assembly.add(node, operator, sources=[assembly.source(node, 0)])


def conversion(node: Node, assembly: Assembly) -> None:
    """Add a layer that stores the same numbers in another way."""
    assembly.add(node, op.Conversion(), sources=[assembly.source(node, 0)])


def reduction(node: Node, assembly: Assembly, *, function: str) -> None:
    """Add a mean, sum or extreme over some axes; where an axis goes, the rest may change places."""
    tensor = assembly.tensor(node, 0)
    rank, keeps = len(tensor.dims), bool(options_of(node).integer(0, "b"))
    gone = {axis % rank for axis in assembly.integers(node, 1) if -rank <= axis < rank}
    if not gone or 0 in gone:
        raise refusal(node, "a reduction over no axis, or over the batch")
    axes = tuple(sorted(our_axis(node, rank, axis) for axis in gone))
    steps: list[op.Operator] = [op.Reduction(function=function, axes=axes, keeps=keeps)]
    left = [axis for axis in range(1, rank) if axis not in gone]
    if not keeps and rank == 4 and len(left) == 2:
        now = sorted(left, key=lambda axis: our_axis(node, rank, axis))
        if now != left:
            steps.append(op.Transpose(permutation=(1, 0)))
    assembly.add(node, *steps, sources=[assembly.source(node, 0)])


def extreme_place(node: Node, assembly: Assembly, *, function: str) -> None:
    """Add where along an axis the largest or smallest element is; the axis goes."""
    rank = len(assembly.tensor(node, 0).dims)
    axes = assembly.integers(node, 1)
    if len(axes) != 1:
        raise UnreadableFile(f"{node}: {len(axes)} axes; expected one")
    operator = op.ExtremePlace(function=function, axis=our_axis(node, rank, axes[0]))
    shape = operator.output_shape([assembly.shape(node, 0)])
    steps = reshape_steps(shape, assembly.output(node).dims)
    assembly.add(node, operator, *steps, sources=[assembly.source(node, 0)])


def cast(node: Node, assembly: Assembly) -> None:
    """Add a change of type; what is not quantised is computed in single precision anyway."""
    given, result = assembly.tensor(node, 0), assembly.output(node)
    if given.quantization() is not None or result.quantization() is not None:
        raise refusal(node, "a cast of quantised integers")
    is_cut = result.element is not None and result.element.is_integer
    is_real = given.element is None or not given.element.is_integer
    step = op.Activation(function="truncate") if is_cut and is_real else op.Identity()
    assembly.add(node, step, sources=[assembly.source(node, 0)])
