"""Rules that replace moves by views where the elements keep their order in memory.

In memory the elements of a feature map are stored pixel by pixel, those of any other tensor in the
order of its dims (`operators.moves.to_memory_order`, and its inverse `from_memory_order`). A chain
of reshapes and transpositions that leaves this order as it is moves no element in memory: a view of
the first tensor replaces it, or no layer at all.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.arrays import Array
from cnn2csdf.dtypes import Stored
from cnn2csdf.network import Layer
from cnn2csdf.operators.moves import from_memory_order, to_memory_order
from cnn2csdf.part import HeldRows, OutputRows
from cnn2csdf.rewriting import Arrays, Draft, Edit, rewritten
from cnn2csdf.weights import Model

MOST_ELEMENTS = 2**24  # of a move that is examined: its positions take 128 MiB


def moves_as_views(model: Model) -> Model:
    """Return the model with moves that keep the order of memory replaced by views, or removed.

    A fully connected layer reads the tensor before a view, with the columns of its matrix permuted.
    """
    return rewritten(model, without_identity, partial(as_view, {}), read_before_view)


def with_views(model: Model) -> Model:
    """Return the model as `moves_as_views` does, with each view of an input as the input itself.

    Frames of such an input have the dims of the view, or `Input.file_dims`.
    """
    return rewritten(moves_as_views(model), input_with_dims_of_view)


def without_identity(draft: Draft, layer: Layer) -> Edit | None:
    """Leave out a move that leaves each element where it is, in the same type.

    before: map 8x4x1 -> dropout 8x4x1
    after:  map 8x4x1
    """
    if not (layer.operator.moves and layer.operator.is_elementwise) or layer.epilogue:
        return None
    source = draft.layer(layer.inputs[0])
    if not have_one_type(source, layer):
        return None
    return Edit(layers={layer.name: ()}, sources={layer.name: source.name})


def have_one_type(source: Layer, layer: Layer) -> bool:
    """Return whether two layers store the same numbers for the same elements."""
    return (source.quantization, source.element) == (layer.quantization, layer.element)


# By the name of a move: the tensor before a chain of moves that ends with this move, the origin, and
# for each element of the result, in memory order, its position in the memory of the origin. A matrix
# `a` of 2 x 2 that is transposed twice: {"first": ("a", [0, 2, 1, 3]), "second": ("a", [0, 1, 2, 3])}.
Origins = dict[str, tuple[str, Array]]


def as_view(origins: Origins, draft: Draft, layer: Layer) -> Edit | None:
    """Replace a move by a view of its origin if the chain of moves keeps the order of memory.

    If the origin has the same dims, consumers read the origin itself. origins: of the moves before, to
    which the move is added; a rewriting visits sources before their consumers.

    before: map 8x4x1 -> turned 4x1x8 -> line 32
    after:  map 8x4x1 -> line 32
    """
    if not layer.operator.rearranges_axes or layer.epilogue:
        return None
    source = draft.layer(layer.inputs[0])
    if not have_one_type(source, layer):
        return None
    if layer.shape.elements > MOST_ELEMENTS:
        return None
    own_positions = np.arange(source.shape.elements)
    origin, positions_read = origins.get(source.name, (source.name, own_positions))
    # The move is computed with positions as elements.
    tensor_read = from_memory_order(positions_read, source.shape.dims)
    held = HeldRows(shape=source.shape, array=tensor_read)
    whole = OutputRows((held,), {}, layer.shape, 0, layer.shape.rows)
    positions = to_memory_order(layer.operator.computed(whole))
    origins[layer.name] = origin, positions
    if not np.array_equal(positions, np.arange(positions.size)):
        return None
    if layer.shape == draft.layer(origin).shape:
        return Edit(layers={layer.name: ()}, sources={layer.name: origin})
    view = replace(layer, operator=op.View(dims=layer.shape.dims), inputs=(origin,))
    return Edit(layers={layer.name: (view,)})


def read_before_view(draft: Draft, layer: Layer) -> Edit | None:
    """A fully connected layer that reads the tensor before a view, with permuted columns.

    before: map 8x4x1 -> line 32 -> classes 2
    after:  map 8x4x1 -> classes 2
    """
    if layer.operator.dense_units is None:
        return None
    view = draft.layer(layer.inputs[0])
    if not view.operator.keeps_memory_order or view.epilogue:
        return None
    source, arrays = draft.layer(view.inputs[0]), draft.arrays(layer.name)
    if not have_one_type(source, view):
        return None
    numbers = np.arange(view.shape.elements).reshape(view.shape.dims)
    order = from_memory_order(to_memory_order(numbers), source.shape.dims).reshape(-1)
    stored = layer.stored
    if not np.array_equal(order, np.arange(order.size)):
        stored = with_matrix_renamed(layer, f"columns of {view.shape} as {source.shape}")
    return Edit(
        layers={layer.name: (replace(layer, inputs=(source.name,), stored=stored),)},
        weights={layer.name: with_columns(arrays, order)} if arrays else {},
    )


def with_columns(arrays: Arrays, order: Array) -> Arrays:
    """Return the weights of a fully connected layer with the columns of its matrix in an order."""
    return {**arrays, "matrix": np.ascontiguousarray(arrays["matrix"][:, order])}


def with_matrix_renamed(layer: Layer, order: str) -> tuple[Stored, ...]:
    """Return the stored arrays, the matrix under a name that only matrices in this order have.

    Layers whose arrays have one name share the array.
    """
    return tuple(
        replace(stored, name=stored.name and f"{stored.name}, {order}")
        if stored.role == "matrix"
        else stored
        for stored in layer.stored
    )


def input_with_dims_of_view(draft: Draft, view: Layer) -> Edit | None:
    """An input in the dims of the view that is its only consumer.

    before: input 32 -> map 1x4x8
    after:  input 1x4x8
    """
    if not view.operator.keeps_memory_order or view.epilogue:
        return None
    source = draft.network.layer(view.inputs[0])
    if not source.is_input or source.operator.is_state or len(draft.consumers[source.name]) > 1:
        return None
    if not have_one_type(source, view):
        return None
    return input_in_place(source, view)


def input_in_place(source: Layer, view: Layer) -> Edit:
    """Return the edit that replaces a view of an input by the input in the dims of the view."""
    operator: Any = source.operator  # an Input
    operator = replace(operator, dims=view.shape.dims)
    in_dims_of_view = replace(source, operator=operator, shape=view.shape)
    return Edit(
        layers={source.name: (in_dims_of_view,), view.name: ()}, sources={view.name: source.name}
    )
