"""State variables as ring buffers of rows.

A streaming model keeps the rows of a window in a variable: each frame it appends new rows, and
keeps the last rows for the next frame. With 2 rows kept and 1 new row a frame,

    window = concatenation of previous (2 rows) and new (1 row)
    next = rows 1-2 of the window

the variable is a ring buffer of rows: appending and cutting then move nothing. `with_rings`
rewrites a model until its variables have this form: a variable keeps only rows and channels that
a layer reads, and slices before a variable become slices of its readers. Variables of any other
form are stored whole. `rings_of` lists the rings of a network.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.dtypes import Element, Quantization
from cnn2csdf.integers import keeps_integers
from cnn2csdf.moves_as_views import with_columns, with_matrix_renamed, with_views
from cnn2csdf.network import Layer, Network
from cnn2csdf.operators import Next, Previous
from cnn2csdf.operators.moves import to_memory_order
from cnn2csdf.rewriting import Draft, Edit, exhausted, layer_after, rewritten
from cnn2csdf.shape import Shape
from cnn2csdf.weights import Model
from csdf.arguments import public
from csdf.errors import InvalidNetwork

ROWS, CHANNELS = 1, 0  # axes of a feature map


class StateRing(NamedTuple):
    """A ring buffer of rows, as names of layers.

    previous: the rows of earlier frames.
    new: the rows of this frame.
    window: the concatenation of both.
    following: the layer that keeps the rows for the next frame.
    """

    previous: str
    new: str
    window: str
    following: str


class RingLayers(NamedTuple):
    """The layers of a ring buffer of rows, as `StateRing` names them."""

    previous: Layer
    new: Layer
    window: Layer
    following: Layer


def rings_of(network: Network) -> dict[str, StateRing]:
    """Return the variables of a network that are rings, by the layer of their window."""
    consumers = network.consumers
    rings = (
        _ring(network, consumers, previous, following) for previous, following in network.variables
    )
    return {ring.window: ring for ring in rings if ring is not None}


def _ring(
    network: Network, consumers: Mapping[str, Sequence[str]], previous: Layer, following: Layer
) -> StateRing | None:
    """The ring of a variable, from the layers that read and write it; None if it has another form."""
    window = network.layer(following.inputs[0])
    if window.operator != op.Concatenation(axis=ROWS) or len(window.inputs) != 2:
        return None
    first, new = map(network.layer, window.inputs)
    is_ring = (
        first == previous != new
        and consumers[previous.name] == (window.name,)
        and new.name not in network.initial_states
        and window.shape.is_map
        and not window.epilogue
        and previous.quantization == new.quantization == window.quantization
    )
    return StateRing(previous.name, new.name, window.name, following.name) if is_ring else None


def _following(draft: Draft, layer: Layer) -> Layer | None:
    """The layer that writes a variable, from the layer that reads it; None for any other layer."""
    if not (layer.is_input and layer.operator.is_state):
        return None
    return next(following for previous, following in draft.network.variables if previous == layer)


def _ring_of(draft: Draft, layer: Layer) -> RingLayers | None:
    """The ring of a variable, from the layer that reads it."""
    following = _following(draft, layer)
    ring = following and _ring(draft.network, draft.consumers, layer, following)
    return RingLayers(*map(draft.layer, ring)) if ring else None


def with_rings(model: Model) -> Model:
    """Return the model with variables as rings wherever possible."""
    if not model.network.keeps_state:
        return model
    # The rules for slices enable one another, and are repeated until none applies.
    model = exhausted(model, without_stored_slice, without_oldest_rows, split_by_readers)
    # Sequences get views before and after their LSTM; `with_views` merges these with other moves.
    model = with_views(rewritten(model, sequence_by_rows))
    # Without views, a fully connected layer reads a window itself, and may keep accumulators instead.
    # The views of outputs come last: `with_views` would remove them again.
    return rewritten(rewritten(model, with_accumulators), view_before_output)


@public
def with_states(model: Model, pairs: Mapping[str, str]) -> Model:
    """Return the model with some inputs as state: outputs of a frame are inputs of the next.

    pairs: for each input, the output that follows it: its name, or that of the layer it reads. State
    begins with zeros. If the output has more rows than the input, the state is its last rows (keys and
    values that end with those of a new token). If both are dequantised integers, the state is integers.

    Another input whose only consumer is a view has the dims of the view afterwards; frames have the
    dims of `network.inputs` of the new model. Raises InvalidNetwork for an unknown input or output, and
    for a pair of different shapes, types or quantisations.
    """
    network = model.network
    output_names = {output.name for output in network.outputs}
    draft = Draft(model)
    changed: dict[str, tuple[Layer, ...]] = {}
    for input_name, output_name in pairs.items():
        if f"{output_name} output" in output_names and output_name not in output_names:
            output_name = f"{output_name} output"
        source = _end_named(network.inputs, input_name, "input", input_name)
        end = _end_named(network.outputs, output_name, "output", input_name)
        if output_name in changed:
            raise InvalidNetwork(
                f"state {input_name!r}: the output {output_name!r} is the state "
                "of another input already"
            )
        changed |= _variable_of_ends(draft, source, end)
    if changed and len(network.inputs) == len(pairs):
        raise InvalidNetwork("every input is a state; expected one that comes with each frame")
    draft.apply(Edit(layers=changed))
    return with_rings(rewritten(draft.model(), stored_as_integers))


def _variable_of_ends(draft: Draft, source: Layer, end: Layer) -> dict[str, tuple[Layer, ...]]:
    """The layers that replace an input and an output of a network if both are a state variable.

    An output of other dims of 1 than the input is reshaped first. Raises InvalidNetwork if the shapes
    differ otherwise, or if the types or quantisations differ.
    """
    source_sizes, end_sizes = (
        [size for size in layer.shape.dims if size > 1] for layer in (source, end)
    )
    is_window = _grows(source.shape, end.shape)
    types = [(layer.element, layer.quantization) for layer in (source, end)]
    if not (is_window or source_sizes == end_sizes) or types[0] != types[1]:
        raise InvalidNetwork(
            f"state {source.name!r}: the input is {source.shape} of {source.element.value}, the output "
            f"{end.name!r} is {end.shape} of {end.element.value}; "
            "expected the same shape and type, or the rows of the input and new ones behind them"
        )
    begin = 0 if source.quantization is None else source.quantization.zero_point
    variable = draft.new_variable(source.name)
    operator = Previous(dims=source.shape.dims, variable=variable, begin=begin)
    previous = replace(source, operator=operator)
    following = replace(end, operator=Next(variable=variable))
    in_place_of_end = [following]
    if not is_window and end.shape != source.shape:
        name = draft.new_name(f"{end.name} reshape")
        reshape = op.Reshape(dims=source.shape.dims)
        reshaped = replace(end, name=name, operator=reshape, shape=source.shape)
        in_place_of_end = [reshaped, replace(following, inputs=(name,), shape=source.shape)]
    return {source.name: (previous,), end.name: tuple(in_place_of_end)}


def _end_named(ends: Sequence[Layer], name: str, role: str, state: str) -> Layer:
    """The input or output of this name. Raises InvalidNetwork, naming the state, if it is missing."""
    by_name = {layer.name: layer for layer in ends}
    if name not in by_name:
        listed = f", only {', '.join(map(repr, by_name))}" if by_name else ""
        raise InvalidNetwork(f"state {state!r}: there is no {role} {name!r}{listed}")
    return by_name[name]


def stored_as_integers(draft: Draft, previous: Layer) -> Edit | None:
    """A variable of integers instead of real numbers that are quantised after each read.

    In a model of quantise and dequantise nodes the variable has real numbers: all its readers quantise
    them, and the layer that it stores dequantises the integers of a window. The window then reads the
    variable, and the variable stores the window. Calibrated scales may differ in their last bits: other
    inputs of the window are converted to its type if that leaves their integers unchanged. A variable
    that begins with other numbers than zeros stays one of real numbers.

    before: state 2x3x1 -> integers 2x3x1; new 2x1x1; integers, new -> window 2x4x1 -> numbers 2x4x1
            -> last 2x3x1; numbers -> next 2x4x1
    after:  state 2x3x1; new 2x1x1; state, new -> window 2x4x1 -> numbers 2x4x1 -> last 2x3x1;
            window -> next 2x4x1
    """
    following = _following(draft, previous)
    if following is None or previous.quantization is not None:
        return None
    initial = draft.network.initial_states[previous.name]
    if initial.begin != 0:
        return None
    readers, numbers = draft.readers(previous.name), draft.layer(following.inputs[0])
    if any(layer.operator != op.Conversion() or layer.epilogue for layer in (numbers, *readers)):
        return None
    window = draft.layer(numbers.inputs[0])
    types = window.quantization
    if types is None or not all(_stores(draft, reader, types) for reader in readers):
        return None
    begin = replace(initial, begin=types.zero_point)
    as_integers = partial(replace, element=window.element, quantization=types)
    removed = {reader.name for reader in readers}
    conversions = {
        source.name: replace(
            layer_after(source, draft.new_name(f"{source.name} of {window.name}"), op.Conversion()),
            quantization=types,
        )
        for source in map(draft.layer, window.inputs)
        if source.name not in removed and _is_converted(source, window)
    }
    inputs = tuple(
        conversions[name].name if name in conversions else name for name in window.inputs
    )
    return Edit(
        layers={
            previous.name: (as_integers(previous, operator=begin),),
            following.name: (as_integers(following, inputs=(window.name,)),),
            window.name: (*conversions.values(), replace(window, inputs=inputs)),
            **dict.fromkeys(removed, ()),
        },
        sources=dict.fromkeys(removed, previous.name),
    )


def _is_converted(source: Layer, window: Layer) -> bool:
    """Whether an input of a concatenation of rows has another type, but the same integers in both."""
    types, types_of_window = source.quantization, window.quantization
    return (
        window.operator == op.Concatenation(axis=ROWS)
        and types is not None
        and types_of_window is not None
        and types != types_of_window
        and keeps_integers(types, types_of_window)
    )


def _stores(draft: Draft, reader: Layer, types: Quantization) -> bool:
    """Whether a reader quantises a variable to this type.

    Or to another type with the same integers, which only concatenations of this type read.
    """
    if reader.quantization is None or reader.quantization == types:
        return reader.quantization == types
    return keeps_integers(reader.quantization, types) and all(
        joined.operator.joined_axis is not None and joined.quantization == types
        for joined in draft.readers(reader.name)
    )


def _grows(smaller: Shape, larger: Shape) -> bool:
    """Whether a map has the rows of another one, and further rows."""
    has_more_rows = smaller.is_map and larger.is_map and larger.rows > smaller.rows
    return has_more_rows and with_rows(larger, smaller.rows) == smaller


def with_heads_as_columns(model: Model) -> Model:
    """Return the model with heads as columns in rings of keys and values."""
    return rewritten(model, heads_as_columns)


def heads_as_columns(draft: Draft, layer: Layer) -> Edit | None:
    """A ring of keys or values with heads as columns, where a product of two tensors reads its window.

    Each row then has the order in which the layer before it computes a token. Files store heads x
    tokens x width: here 4 heads, a window of 9 tokens and a width of 16.

    before: previous 4x8x16; new 4x1x16; previous, new -> window 4x9x16 -> keys 4x16x9; window ->
            next 4x9x16
    after:  previous 16x8x4; new 4x1x16 -> window new 16x1x4; previous, window new -> window rows
            16x9x4 -> window 4x9x16 -> keys 4x16x9; window rows -> next 16x9x4
    """
    if (ring := _ring_of(draft, layer)) is None:
        return None
    window = ring.window
    state = draft.network.initial_states[ring.previous.name]
    operators = [reader.operator for reader in draft.readers(window.name)]
    if state.begin is None or not any(
        operator.axis_order is not None or operator == op.MatrixProduct() for operator in operators
    ):
        return None
    state_shape, new_shape, window_shape = (
        Shape(dims=layer.shape.dims[::-1]) for layer in (ring.previous, ring.new, window)
    )
    state = replace(state, dims=state_shape.dims)
    transposition = replace(window, operator=op.Transpose(permutation=(2, 1, 0)), stored=())
    new_transposed = replace(
        transposition,
        name=draft.new_name(f"{window.name} new"),
        inputs=(ring.new.name,),
        shape=new_shape,
    )
    rows = replace(
        window,
        name=draft.new_name(f"{window.name} rows"),
        inputs=(ring.previous.name, new_transposed.name),
        shape=window_shape,
    )
    return Edit(
        layers={
            layer.name: (replace(ring.previous, operator=state, shape=state_shape),),
            window.name: (new_transposed, rows, replace(transposition, inputs=(rows.name,))),
            ring.following.name: (
                replace(ring.following, inputs=(rows.name,), shape=window_shape),
            ),
        }
    )


def view_before_output(draft: Draft, output: Layer) -> Edit | None:
    """A view before an output that would otherwise read a variable or window.

    The variable is overwritten for the next frame; the output needs elements of its own.

    before: previous 1x2x1; new 1x1x1; previous, new -> window 1x3x1 -> next 1x3x1; window -> result
            1x3x1
    after:  previous 1x2x1; new 1x1x1; previous, new -> window 1x3x1 -> next 1x3x1; window -> window
            for result 1x3x1 -> result 1x3x1
    """
    if not output.is_output:
        return None
    rings, (source,) = rings_of(draft.network), output.inputs
    is_following = source in rings and rings[source].following == output.name
    if is_following or source not in {*rings, *draft.network.initial_states}:
        return None
    layer = draft.layer(source)
    name = draft.new_name(f"{source} for {output.name}")
    view = layer_after(layer, name, op.View(dims=layer.shape.dims))
    return Edit(layers={output.name: (view, replace(output, inputs=(view.name,)))})


def without_stored_slice(draft: Draft, previous: Layer) -> Edit | None:
    """A variable of all rows of a window instead of its last rows.

    before: previous 1x4x1; new 1x1x1; previous, new -> window 1x5x1 -> last 1x4x1 -> next 1x4x1
    after:  previous 1x4x1; new 1x1x1; previous, new -> window 1x5x1 -> next 1x5x1
    """
    following = _following(draft, previous)
    if following is None or not previous.shape.is_map:
        return None
    source = draft.layer(following.inputs[0])
    first = _first_row(source)
    if first is None:
        return None
    shape = draft.layer(source.inputs[0]).shape
    if first + source.shape.rows < shape.rows:
        return None
    return Edit(layers={following.name: (replace(following, inputs=source.inputs, shape=shape),)})


def without_oldest_rows(draft: Draft, previous: Layer) -> Edit | None:
    """A variable or a ring without the oldest rows, which no consumer needs.

    Either all readers of the variable are slices without its first rows; or the variable is a ring, and
    all readers of its window are such slices: window and variable then lose equally many rows.

    before: previous 1x4x1; new 1x1x1; previous, new -> window 1x5x1 -> last 1x3x1; window -> next
            1x5x1
    after:  previous 1x2x1; new 1x1x1; previous, new -> window 1x3x1 -> next 1x3x1
    """
    if _following(draft, previous) is None:
        return None
    sliced, readers = previous, draft.readers(previous.name)
    shortened = [previous]
    if not _unread_rows(readers) and (ring := _ring_of(draft, previous)) is not None:
        sliced = ring.window
        readers = _readers_of_window(draft, ring)
        shortened = [previous, sliced, ring.following]
    unread = _unread_rows(readers)
    if not 0 < unread < previous.shape.rows:
        return None
    layers: dict[str, tuple[Layer, ...]] = {}
    for layer in shortened:
        shape, operator = with_rows(layer.shape, layer.shape.rows - unread), layer.operator
        if layer == previous:
            operator = replace(draft.network.initial_states[previous.name], dims=shape.dims)
        layers[layer.name] = (replace(layer, operator=operator, shape=shape),)
    sources = {}
    for reader in readers:
        if reader.shape.rows == sliced.shape.rows - unread:  # all rows that remain
            layers[reader.name], sources[reader.name] = (), sliced.name
        else:
            start = (_first_row(reader) or 0) - unread
            operator = op.Slice(axis=ROWS, start=start, stop=start + reader.shape.rows)
            layers[reader.name] = (replace(reader, operator=operator),)
    arrays, weights = draft.arrays(previous.name), {}
    if arrays:
        weights[previous.name] = {"initial": arrays["initial"][:, unread:]}
    return Edit(layers=layers, sources=sources, weights=weights)


def _readers_of_window(draft: Draft, ring: RingLayers) -> list[Layer]:
    """The layers that read the window of a ring in this frame."""
    readers = draft.readers(ring.window.name)
    return [layer for layer in readers if layer.name != ring.following.name]


def _unread_rows(readers: Sequence[Layer]) -> int:
    """The number of first rows of a tensor that none of its readers, if slices of rows, needs."""
    return min((_first_row(reader) or 0 for reader in readers), default=0)


def _first_row(layer: Layer) -> int | None:
    """The first row of a slice of rows; None for any other layer."""
    cut = layer.operator.sliced_range
    if cut is None or (cut.axis, cut.step) != (ROWS, 1) or not layer.shape.is_map or layer.epilogue:
        return None
    return cut.start


def with_rows(shape: Shape, rows: int) -> Shape:
    """Return the shape of a feature map with another number of rows."""
    return Shape(dims=(shape.dims[0], rows, shape.dims[2]))


def _read_disjoint_channels(readers: Sequence[Layer]) -> bool:
    """Whether all layers are slices of channels, and no two of them overlap."""
    ranges = []
    for reader in readers:
        cut = reader.operator.sliced_range
        if cut is None or (cut.axis, cut.step) != (CHANNELS, 1) or reader.epilogue:
            return False
        ranges.append((cut.start, cut.stop))
    ranges.sort()
    return bool(ranges) and all(stop <= start for (_, stop), (start, _) in pairwise(ranges))


def split_by_readers(draft: Draft, layer: Layer) -> Edit | None:
    """A ring of its own for each reader of a window, of the channels that the reader slices.

    before: previous 8x2x1; new 8x1x1; previous, new -> window 8x3x1 -> first 4x3x1; window ->
            second 4x3x1; window -> next 8x3x1
    after:  new 8x1x1; 'previous, part 0' 4x2x1; new -> 'new, part 0 of window' 4x1x1;
            'previous, part 0', 'new, part 0 of window' -> first 4x3x1; 'previous, part 1' 4x2x1;
            new -> 'new, part 1 of window' 4x1x1; 'previous, part 1', 'new, part 1 of window' ->
            second 4x3x1; first -> 'next, part 0' 4x3x1; second -> 'next, part 1' 4x3x1
    """
    if (ring := _ring_of(draft, layer)) is None:
        return None
    readers = _readers_of_window(draft, ring)
    if not _read_disjoint_channels(readers):
        return None
    arrays, weights = draft.arrays(layer.name), {}
    parts = [_ring_of_part(draft, ring, number, reader) for number, reader in enumerate(readers)]
    for part, reader in zip(parts, readers, strict=True):
        channels = reader.operator.sliced_range
        if arrays and channels is not None:
            initial = arrays["initial"][channels.start : channels.stop]
            weights[part.previous.name] = {"initial": initial}
    until_windows = [tensor for part in parts for tensor in (part.previous, part.new, part.window)]
    return Edit(
        layers={
            **dict.fromkeys((layer.name, *(reader.name for reader in readers)), ()),
            ring.window.name: tuple(until_windows),
            ring.following.name: tuple(part.following for part in parts),
        },
        weights=weights,
    )


def _ring_of_part(draft: Draft, ring: RingLayers, number: int, reader: Layer) -> RingLayers:
    """The ring of the channels that a reader slices.

    Its window has the name of the reader, and replaces the reader. number: of the reader, for the other
    names.
    """
    channels, part = reader.shape.channels, f"part {number}"
    state = draft.network.initial_states[ring.previous.name]
    variable = draft.new_variable(f"{state.variable}, {part}")
    previous_dims = (channels, *ring.previous.shape.dims[1:])
    new_dims = (channels, *ring.new.shape.dims[1:])
    previous = replace(
        ring.previous,
        name=draft.new_name(f"{ring.previous.name}, {part}"),
        operator=replace(state, dims=previous_dims, variable=variable),
        shape=Shape(dims=previous_dims),
    )
    new_name = draft.new_name(f"{ring.new.name}, {part} of {ring.window.name}")
    new = layer_after(ring.new, new_name, reader.operator, Shape(dims=new_dims))
    inputs = previous.name, new.name
    window = replace(ring.window, name=reader.name, inputs=inputs, shape=reader.shape)
    following = replace(
        ring.following,
        name=draft.new_name(f"{ring.following.name}, {part}"),
        operator=Next(variable=variable),
        inputs=(window.name,),
        shape=window.shape,
    )
    return RingLayers(previous, new, window, following)


def sequence_by_rows(draft: Draft, layer: Layer) -> Edit | None:
    """A stateful LSTM that reads and computes a sequence as a feature map of one column.

    Such an LSTM executes row by row: a row is a time step.

    before: steps 10x8 -> lstm 10x16
    after:  steps 10x8 -> lstm by rows 8x10x1 -> lstm rows 16x10x1 -> lstm 10x16
    """
    dims = layer.shape.dims
    if not layer.operator.is_stateful_sequence or len(dims) != 2 or dims[0] == 1 or layer.epilogue:
        return None
    source = draft.network.layer(layer.inputs[0])
    steps, elements = source.shape.dims
    read, result = (Shape(dims=(size, steps, 1)) for size in (elements, dims[1]))
    view_name = draft.new_name(f"{layer.name} by rows")
    view = layer_after(source, view_name, op.View(dims=read.dims), read)
    name = draft.new_name(f"{layer.name} rows")
    by_rows = replace(layer, name=name, inputs=(view.name,), shape=result)
    matrix = layer_after(by_rows, layer.name, op.View(dims=dims), layer.shape)
    return Edit(
        layers={layer.name: (view, by_rows, matrix)},
        weights={layer.name: {}, by_rows.name: draft.arrays(layer.name) or {}},
    )


def _is_int8_in_fixed_point(types: Quantization) -> bool:
    return types.element is Element.INT8 and types.is_fixed_point


def with_accumulators(draft: Draft, previous: Layer) -> Edit | None:
    """A fully connected layer of int8 that keeps accumulators instead of the window that it reads.

    Applies if the accumulators (4 bytes per unit) take fewer bytes than a row, and the variable begins
    with the zero point, so that rows before the first frame contribute nothing to a sum.

    before: previous 9x7x1; new 9x1x1; previous, new -> window 9x8x1 -> dense 2; window -> next
            9x8x1
    after:  new 9x1x1 -> dense 2
    """
    if (ring := _ring_of(draft, previous)) is None:
        return None
    readers, new, window = _readers_of_window(draft, ring), ring.new, ring.window
    if len(readers) != 1:
        return None
    (layer,) = readers
    types, matrix = new.quantization, layer.stored_as("matrix").quantization
    if types is None or matrix is None or layer.quantization is None:
        return None
    if (
        type(layer.operator) is not op.FullyConnected
        or new.shape.rows > 1
        or not all(map(_is_int8_in_fixed_point, (types, matrix, layer.quantization)))
        or matrix.zero_point
        or draft.network.initial_states[previous.name].begin != types.zero_point
        or 4 * layer.operator.units >= new.shape.row_elements
    ):
        return None
    operator = op.StreamedProduct(
        units=layer.operator.units, has_bias=layer.operator.has_bias, frames=window.shape.rows
    )
    arrays = draft.arrays(layer.name)
    order = to_memory_order(np.arange(window.shape.elements).reshape(window.shape.dims))
    stored = with_matrix_renamed(layer, f"columns of {window.shape} in memory")
    return Edit(
        layers={
            **dict.fromkeys((previous.name, window.name, ring.following.name), ()),
            layer.name: (replace(layer, operator=operator, inputs=(new.name,), stored=stored),),
        },
        weights={layer.name: with_columns(arrays, order)} if arrays else {},
    )
