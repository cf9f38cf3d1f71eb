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
from cnn2csdf.arrays import Array
from cnn2csdf.dtypes import Element, Quantization
from cnn2csdf.integers import are_kept
from cnn2csdf.network import Layer, Network
from cnn2csdf.operators import Next, Previous
from cnn2csdf.operators.moves import from_memory_order, to_memory_order
from cnn2csdf.part import HeldRows, OutputRows
from cnn2csdf.rewriting import Arrays, Draft, Edit, exhausted, rewritten
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
    if (
        window.operator == op.Concatenation(axis=ROWS)
        and not window.epilogue
        and window.shape.is_map
        and len(window.inputs) == 2
        and window.inputs[0] == previous.name != window.inputs[1]
        and consumers[previous.name] == (window.name,)
        and window.inputs[1] not in network.initial_states
        and len({network.layer(name).quantization for name in (*window.inputs, window.name)}) == 1
    ):
        return StateRing(previous.name, window.inputs[1], window.name, following.name)
    return None


def _following(draft: Draft, layer: Layer) -> Layer | None:
    """The layer that writes a variable, from the layer that reads it; None for any other layer."""
    if not (layer.is_input and layer.operator.is_state):
        return None
    return next(following for previous, following in draft.network.variables if previous == layer)


def _ring_of(draft: Draft, layer: Layer) -> StateRing | None:
    """The ring of a variable, from the layer that reads it."""
    if (following := _following(draft, layer)) is None:
        return None
    return _ring(draft.network, draft.consumers, layer, following)


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

    pairs: for each input, the output that follows it. State begins with zeros. If the output has
    more rows than the input, the state is its last rows (keys and values that end with those of a
    new token). If both are dequantised integers, the state is integers. Raises InvalidNetwork for
    an unknown input or output, and for a pair of different shapes or types.
    """
    network = model.network
    inputs = {layer.name: layer for layer in network.inputs}
    outputs = {output.name: output for output in network.outputs}
    changed = {}
    for input_name, output_name in pairs.items():
        output_name = output_name if output_name in outputs else f"{output_name} output"
        for name, candidates, role in (
            (input_name, inputs, "input"),
            (output_name, outputs, "output"),
        ):
            if name not in candidates:
                listed = ", ".join(map(repr, candidates))
                raise InvalidNetwork(
                    f"state {input_name!r}: there is no {role} {name!r}, only {listed}"
                )
        source, end = inputs[input_name], outputs[output_name]
        if output_name in changed:
            raise InvalidNetwork(
                f"state {input_name!r}: the output {output_name!r} is the state "
                "of another input already"
            )
        is_window = _grows(source.shape, end.shape)
        # Dims of 1 may differ.
        source_dims, end_dims = (
            [size for size in layer.shape.dims if size > 1] for layer in (source, end)
        )
        is_like = source_dims == end_dims or is_window
        if not is_like or source.quantization != end.quantization:
            raise InvalidNetwork(
                f"state {input_name!r}: the input is {source.shape}, the output "
                f"{output_name!r} is {end.shape}; "
                "expected the same shape and type, or the rows of the input and new ones behind them"
            )
        begin = 0 if source.quantization is None else source.quantization.zero_point
        operator = Previous(dims=source.shape.dims, variable=input_name, begin=begin)
        changed[input_name] = replace(source, operator=operator)
        shape = end.shape if is_window else source.shape
        changed[output_name] = replace(end, operator=Next(variable=input_name), shape=shape)
    if changed and len(inputs) == len(pairs):
        raise InvalidNetwork("every input is a state; expected one that comes with each frame")
    layers: list[Layer] = []
    for layer in network.layers:
        layer = changed.get(layer.name, layer)
        if layer.is_output and layer.name in changed:
            producer = network.layer(layer.inputs[0])
            if producer.shape != layer.shape:
                name = f"{layer.name} reshape"
                reshape = op.Reshape(dims=layer.shape.dims)
                layers.append(replace(layer, name=name, operator=reshape))
                layer = replace(layer, inputs=(name,))
        layers.append(layer)
    with_variables = replace(model, network=replace(network, layers=tuple(layers)))
    return with_rings(rewritten(with_variables, stored_as_integers))


def stored_as_integers(draft: Draft, previous: Layer) -> Edit | None:
    """Integers in place of a variable that is quantised after each read.

    In a model of quantise and dequantise nodes the variable has real numbers: its readers quantise
    them, and the layer that writes it dequantises integers. Calibrated scales may differ in their last
    bits: inputs of a concatenation get the scale of the window if that leaves their integers unchanged.

    before: state 2x3x1 -> integers 2x3x1; new 2x1x1; integers, new -> window 2x4x1 -> numbers 2x4x1
            -> last 2x3x1; numbers -> next 2x4x1
    after:  state 2x3x1; new 2x1x1; state, new -> window 2x4x1 -> numbers 2x4x1 -> last 2x3x1;
            window -> next 2x4x1
    """
    following = _following(draft, previous)
    if following is None or previous.quantization is not None:
        return None
    readers, dequantising = draft.readers(previous.name), draft.layer(following.inputs[0])
    integers = draft.layer(dequantising.inputs[0]) if dequantising.inputs else dequantising
    types = integers.quantization
    conversions = (dequantising, *readers)
    if (
        types is None
        or any(layer.operator != op.Conversion() or layer.epilogue for layer in conversions)
        or not all(_stores(draft, reader, types) for reader in readers)
    ):
        return None
    begin = replace(draft.network.initial_states[previous.name], begin=types.zero_point)
    as_integers = partial(replace, element=integers.element, quantization=types)
    rescaled: dict[str, Layer] = {}  # inputs of the window in its types
    if integers.operator == op.Concatenation(axis=ROWS):
        for source in map(draft.layer, integers.inputs):
            source_types = source.quantization
            # Readers of the variable are replaced by the variable, which has the types of the window.
            if source in readers or source_types is None or source_types == types:
                continue
            if are_kept(source_types, types):
                rescaled[source.name] = replace(
                    source,
                    name=f"{source.name} of {integers.name}",
                    operator=op.Conversion(),
                    inputs=(source.name,),
                    epilogue=(),
                    stored=(),
                    quantization=types,
                )
    inputs = tuple(rescaled[name].name if name in rescaled else name for name in integers.inputs)
    return Edit(
        layers={
            previous.name: (as_integers(previous, operator=begin),),
            following.name: (as_integers(following, inputs=(integers.name,)),),
            integers.name: (*rescaled.values(), replace(integers, inputs=inputs)),
            **{reader.name: () for reader in readers},
        },
        sources={reader.name: previous.name for reader in readers},
    )


def _stores(draft: Draft, layer: Layer, types: Quantization) -> bool:
    """Whether a reader quantises a variable to this type, or to one with equal integers."""
    if layer.quantization is None or layer.quantization == types:
        return layer.quantization == types
    return are_kept(layer.quantization, types) and all(
        reader.operator.joined_axis is not None and reader.quantization == types
        for reader in draft.readers(layer.name)
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
    previous, new, window, following = map(draft.layer, ring)
    state = draft.network.initial_states[previous.name]
    operators = [reader.operator for reader in draft.readers(window.name)]
    if state.begin is None or not any(
        operator.axis_order is not None or operator == op.MatrixProduct() for operator in operators
    ):
        return None
    state_shape, new_shape, window_shape = (
        Shape(dims=layer.shape.dims[::-1]) for layer in (previous, new, window)
    )
    state = replace(state, dims=state_shape.dims)
    transposition = replace(window, operator=op.Transpose(permutation=(2, 1, 0)), stored=())
    new_transposed = replace(
        transposition, name=f"{window.name} new", inputs=(new.name,), shape=new_shape
    )
    rows = replace(
        window,
        name=f"{window.name} rows",
        inputs=(previous.name, new_transposed.name),
        shape=window_shape,
    )
    return Edit(
        layers={
            previous.name: (replace(previous, operator=state, shape=state_shape),),
            window.name: (new_transposed, rows, replace(transposition, inputs=(rows.name,))),
            following.name: (replace(following, inputs=(rows.name,), shape=window_shape),),
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
    name, view = f"{source} for {output.name}", op.View(dims=layer.shape.dims)
    copy = replace(layer, name=name, operator=view, inputs=(source,), epilogue=(), stored=())
    return Edit(layers={output.name: (copy, replace(output, inputs=(name,)))})


def without_stored_slice(draft: Draft, previous: Layer) -> Edit | None:
    """A variable of all rows of a window, of which a slice was stored.

    before: previous 1x4x1; new 1x1x1; previous, new -> window 1x5x1 -> last 1x4x1 -> next 1x4x1
    after:  previous 1x4x1; new 1x1x1; previous, new -> window 1x5x1 -> next 1x5x1
    """
    following = _following(draft, previous)
    if following is None or not previous.shape.is_map:
        return None
    source = draft.layer(following.inputs[0])
    if _first_row(source) is None:
        return None
    shape = draft.layer(source.inputs[0]).shape
    return Edit(layers={following.name: (replace(following, inputs=source.inputs, shape=shape),)})


def without_oldest_rows(draft: Draft, previous: Layer) -> Edit | None:
    """A variable or a ring without the oldest rows, which no consumer needs.

    Either all readers of the variable are slices without its first rows; or the variable is a ring, and
    all readers of its window are: then window and variable lose equally many rows.

    before: previous 1x4x1; new 1x1x1; previous, new -> window 1x5x1 -> last 1x3x1; window -> next
            1x5x1
    after:  previous 1x2x1; new 1x1x1; previous, new -> window 1x3x1 -> next 1x3x1
    """
    if _following(draft, previous) is None:
        return None
    readers, edited = draft.readers(previous.name), []
    first = _unread_rows(readers)
    if not first and (ring := _ring_of(draft, previous)) is not None:
        _, _, window, following = map(draft.layer, ring)
        readers = [layer for layer in draft.readers(window.name) if layer != following]
        first = _unread_rows(readers)
        if first >= previous.shape.rows:
            return None
        shape = with_rows(window.shape, window.shape.rows - first)
        edited = [replace(window, shape=shape), replace(following, shape=shape)]
    if not first:
        return None
    shape = with_rows(previous.shape, previous.shape.rows - first)
    state = replace(draft.network.initial_states[previous.name], dims=shape.dims)
    edited.append(replace(previous, operator=state, shape=shape))
    layers: dict[str, tuple[Layer, ...]] = {layer.name: (layer,) for layer in edited}
    sources = {}
    for reader in readers:
        cut = reader.operator.sliced_range
        assert cut is not None
        if cut.start > first:
            earlier = op.Slice(axis=cut.axis, start=cut.start - first, stop=cut.stop - first)
            layers[reader.name] = (replace(reader, operator=earlier),)
        else:
            layers[reader.name], sources[reader.name] = (), reader.inputs[0]
    arrays, weights = draft.arrays(previous.name), {}
    if arrays:
        weights[previous.name] = {"initial": arrays["initial"][:, first:]}
    return Edit(layers=layers, sources=sources, weights=weights)


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


def _are_parts(readers: Sequence[Layer]) -> bool:
    """Whether all layers are slices of channels, disjoint ones."""
    spans = []
    for reader in readers:
        cut = reader.operator.sliced_range
        if cut is None or (cut.axis, cut.step) != (CHANNELS, 1) or reader.epilogue:
            return False
        spans.append((cut.start, cut.stop))
    spans.sort()
    return bool(spans) and all(span[1] <= following[0] for span, following in pairwise(spans))


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
    previous, new, window, following = map(draft.layer, ring)
    readers = [reader for reader in draft.readers(window.name) if reader != following]
    if not _are_parts(readers):
        return None
    state, arrays = draft.network.initial_states[previous.name], draft.arrays(previous.name)
    rings, next_layers, weights = [], [], {}
    for number, reader in enumerate(readers):
        cut = reader.operator.sliced_range
        assert cut is not None
        dims = (reader.shape.dims[0], *previous.shape.dims[1:])
        variable = f"{state.variable}, part {number}"
        part_of_previous = replace(
            previous,
            name=f"{previous.name}, part {number}",
            operator=replace(state, dims=dims, variable=variable),
            shape=Shape(dims=dims),
        )
        part_of_new = replace(
            new,
            name=f"{new.name}, part {number} of {window.name}",
            operator=reader.operator,
            inputs=(new.name,),
            shape=Shape(dims=(dims[0], *new.shape.dims[1:])),
            epilogue=(),
            stored=(),
        )
        part_of_window = replace(
            window,
            name=reader.name,
            inputs=(part_of_previous.name, part_of_new.name),
            shape=reader.shape,
        )
        rings += [part_of_previous, part_of_new, part_of_window]
        next_layers.append(
            replace(
                following,
                name=f"{following.name}, part {number}",
                operator=Next(variable=variable),
                inputs=(part_of_window.name,),
                shape=part_of_window.shape,
            )
        )
        if arrays:
            initial = arrays["initial"][cut.start : cut.stop]
            weights[part_of_previous.name] = {"initial": initial}
    replaced = (previous.name, *(reader.name for reader in readers))
    return Edit(
        layers={
            **dict.fromkeys(replaced, ()),
            window.name: tuple(rings),
            following.name: tuple(next_layers),
        },
        weights=weights,
    )


def with_views(model: Model) -> Model:
    """Return the model with moves that keep the order of memory replaced by views, or removed.

    A view of an input becomes the input itself. A fully connected layer reads the tensor before a
    view, with the columns of its matrix permuted.

        before: map (8 x 4 x 1) -> transpose (4 x 1 x 8) -> reshape (32) -> fully connected
        after:  map (8 x 4 x 1) -> fully connected, its matrix with permuted columns
    """
    with_views = rewritten(model, without_identity, partial(as_view, {}), read_before_view)
    return rewritten(with_views, input_with_dims_of_view)


def without_identity(draft: Draft, layer: Layer) -> Edit | None:
    """No layer in place of a move that leaves each element where it is, in the same type.

    before: map 8x4x1 -> dropout 8x4x1
    after:  map 8x4x1
    """
    if not (layer.operator.moves and layer.operator.is_elementwise) or layer.epilogue:
        return None
    source = draft.layer(layer.inputs[0])
    if (source.quantization, source.element) != (layer.quantization, layer.element):
        return None
    return Edit(layers={layer.name: ()}, sources={layer.name: source.name})


# For a move after moves: the tensor before all of them and, for each element of the move in memory
# order, its position in that tensor in memory order. For example, a transpose of a 2 x 2 matrix `a`
# that is read by another transpose: {"first": ("a", [0, 2, 1, 3]), "second": ("a", [0, 1, 2, 3])}.
Origins = dict[str, tuple[str, Array]]


def as_view(origins: Origins, draft: Draft, layer: Layer) -> Edit | None:
    """A view, or no layer, in place of a move that keeps the order of memory.

    A view of the dims of its source is no layer. origins: of the moves so far, to which the move is
    added: a rewriting visits sources before their consumers.

    before: map 8x4x1 -> turned 4x1x8 -> line 32
    after:  map 8x4x1 -> line 32
    """
    if not layer.operator.rearranges_axes or layer.epilogue:
        return None
    source = draft.layer(layer.inputs[0])
    if (source.quantization, source.element) != (layer.quantization, layer.element):
        return None
    origin, elements = origins.get(source.name, (source.name, np.arange(source.shape.elements)))
    held = HeldRows(shape=source.shape, array=from_memory_order(elements, source.shape.dims))
    rows = OutputRows((held,), {}, layer.shape, 0, layer.shape.rows)
    positions = to_memory_order(layer.operator.computed(rows))
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
    if not view.operator.keeps_memory_order:
        return None
    source, arrays = draft.layer(view.inputs[0]), draft.arrays(layer.name)
    numbers = np.arange(view.shape.elements).reshape(view.shape.dims)
    order = from_memory_order(to_memory_order(numbers), source.shape.dims).reshape(-1)
    return Edit(
        layers={layer.name: (replace(layer, inputs=(source.name,)),)},
        weights={layer.name: with_columns(arrays, order)} if arrays else {},
    )


def with_columns(arrays: Arrays, order: Array) -> Arrays:
    """Return the weights of a fully connected layer with the columns of its matrix in an order."""
    return {**arrays, "matrix": np.ascontiguousarray(arrays["matrix"][:, order])}


def input_with_dims_of_view(draft: Draft, view: Layer) -> Edit | None:
    """An input in the dims of the view that is its only consumer.

    before: input 32 -> map 1x4x8
    after:  input 1x4x8
    """
    if not view.operator.keeps_memory_order:
        return None
    source = draft.network.layer(view.inputs[0])
    if not source.is_input or source.operator.is_state or len(draft.consumers[source.name]) > 1:
        return None
    return input_in_place(source, view)


def input_in_place(source: Layer, view: Layer) -> Edit:
    """Return the edit that puts an input in place of the view that reads it."""
    in_dims_of_view = replace(source, operator=op.Input(dims=view.shape.dims), shape=view.shape)
    return Edit(
        layers={source.name: (in_dims_of_view,), view.name: ()}, sources={view.name: source.name}
    )


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
    names = f"{layer.name} by rows", f"{layer.name} rows"
    read, result = (Shape(dims=(size, steps, 1)) for size in (elements, dims[1]))
    view = replace(
        source,
        name=names[0],
        operator=op.View(dims=read.dims),
        inputs=(source.name,),
        shape=read,
        epilogue=(),
        stored=(),
    )
    by_rows = replace(layer, name=names[1], inputs=names[:1], shape=result)
    matrix = replace(layer, operator=op.View(dims=dims), inputs=names[1:], stored=())
    return Edit(
        layers={layer.name: (view, by_rows, matrix)},
        weights={layer.name: {}, names[1]: draft.arrays(layer.name) or {}},
    )


def _are_int8_fixed_point(*quantizations: Quantization | None) -> bool:
    """Whether all tensors are int8 in fixed-point arithmetic."""
    return all(
        types is not None and types.element is Element.INT8 and types.is_fixed_point
        for types in quantizations
    )


def with_accumulators(draft: Draft, previous: Layer) -> Edit | None:
    """A fully connected layer that keeps accumulators instead of the window that it reads.

    Applies if the accumulators (4 bytes per unit) take fewer bytes than a row, and the rows begin
    at their zero point, so that they contribute nothing at first.

    before: previous 9x7x1; new 9x1x1; previous, new -> window 9x8x1 -> dense 2; window -> next
            9x8x1
    after:  new 9x1x1 -> dense 2
    """
    if (ring := _ring_of(draft, previous)) is None:
        return None
    _, new, window, following = map(draft.layer, ring)
    readers = [reader for reader in draft.readers(window.name) if reader != following]
    if len(readers) != 1:
        return None
    (layer,) = readers
    types, matrix = new.quantization, layer.stored_as("matrix").quantization
    if (
        type(layer.operator) is not op.FullyConnected
        or new.shape.rows > 1
        or types is None
        or not _are_int8_fixed_point(types, layer.quantization, matrix)
        or (matrix or types).zero_point
        or draft.network.initial_states[previous.name].begin != types.zero_point
        or 4 * layer.operator.units >= new.shape.row_elements
    ):
        return None
    operator = op.StreamedProduct(
        units=layer.operator.units, has_bias=layer.operator.has_bias, places=window.shape.rows
    )
    arrays = draft.arrays(layer.name)
    order = to_memory_order(np.arange(window.shape.elements).reshape(window.shape.dims))
    return Edit(
        layers={
            **dict.fromkeys((previous.name, window.name, following.name), ()),
            layer.name: (replace(layer, operator=operator, inputs=(new.name,)),),
        },
        weights={layer.name: with_columns(arrays, order)} if arrays else {},
    )
