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
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.arrays import Array
from cnn2csdf.dtypes import Element, Quantization
from cnn2csdf.integers import are_kept
from cnn2csdf.network import Layer, Network
from cnn2csdf.operators import Next, Previous
from cnn2csdf.operators.moves import as_it_lies, in_dims
from cnn2csdf.part import HeldRows, OutputRows
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
    consumers, rings = network.consumers, {}
    for previous, following in network.variables:
        window = network.layer(following.inputs[0])
        if (
            window.operator == op.Concatenation(axis=ROWS)
            and not window.epilogue
            and window.shape.is_map
            and len(window.inputs) == 2
            and window.inputs[0] == previous.name != window.inputs[1]
            and consumers[previous.name] == (window.name,)
            and window.inputs[1] not in network.initial_states
            and len({network.layer(name).quantization for name in (*window.inputs, window.name)})
            == 1
        ):
            names = previous.name, window.inputs[1], window.name, following.name
            rings[window.name] = StateRing(*names)
    return rings


def with_rings(model: Model) -> Model:
    """Return the model with variables as rings wherever possible."""
    if not model.network.keeps_state:
        return model
    while (improved := _improved(model)) is not None:
        model = improved
    model = with_views(_with_sequences_by_rows(model))
    while (improved := _with_one_accumulating_dense(model)) is not None:
        model = improved
    return _with_copies(model)


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
        long_axes = [
            [size for size in end_layer.shape.dims if size > 1] for end_layer in (source, end)
        ]
        if (
            long_axes[0] != long_axes[1] and not is_window
        ) or source.quantization != end.quantization:
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
    network = _with_stored_states(replace(network, layers=tuple(layers)))
    return with_rings(replace(model, network=network))


def _with_stored_states(network: Network) -> Network:
    """The network with integers in place of variables that are quantised after each read.

        before: state (float) -> quantise -> window (int8) -> dequantise -> next state (float)
        after:  state (int8) -> window (int8) -> next state (int8)

    Calibrated scales may differ in their last bits: concatenated tensors get the scale of the
    window if that leaves their integers unchanged.
    """
    consumers = network.consumers
    new_layers: dict[str, Layer] = {}
    conversions: dict[str, tuple[Layer, ...]] = {}
    # A reader that quantises a variable, and the integer variable that replaces its result.
    replaced_by: dict[str, str] = {}
    for previous, following in network.variables:
        readers = [network.layer(name) for name in consumers[previous.name]]
        real = network.layer(following.inputs[0])
        integers = network.layer(real.inputs[0]) if real.inputs else real
        types = integers.quantization
        if (
            types is None
            or previous.quantization is not None
            or any(
                layer.operator != op.Conversion() or layer.epilogue for layer in (real, *readers)
            )
            or not all(_stores(network, consumers, reader, types) for reader in readers)
        ):
            continue
        begin = replace(network.initial_states[previous.name], begin=types.zero_point)
        for layer in (
            replace(previous, operator=begin),
            replace(following, inputs=(integers.name,)),
        ):
            new_layers[layer.name] = replace(layer, element=integers.element, quantization=types)
        replaced_by |= {reader.name: previous.name for reader in readers}
        if integers.operator == op.Concatenation(axis=ROWS):
            inputs = []
            for source in map(network.layer, integers.inputs):
                source_types, name = source.quantization, f"{source.name} of {integers.name}"
                has_other_type = source not in readers and source_types != types
                if has_other_type and source_types is not None and are_kept(source_types, types):
                    conversion = replace(source, name=name, operator=op.Conversion(), epilogue=())
                    conversion = replace(
                        conversion, inputs=(source.name,), stored=(), quantization=types
                    )
                    conversions[integers.name] = (*conversions.get(integers.name, ()), conversion)
                    inputs.append(name)
                else:
                    inputs.append(source.name)
            new_layers[integers.name] = replace(integers, inputs=tuple(inputs))
    layers = [
        replace(new_layer, inputs=tuple(replaced_by.get(name, name) for name in new_layer.inputs))
        for layer in network.layers
        for new_layer in (*conversions.get(layer.name, ()), new_layers.get(layer.name, layer))
        if new_layer.name not in replaced_by
    ]
    used_names = {name for layer in layers for name in layer.inputs}
    remaining = [
        layer for layer in layers if layer.name in used_names or layer.operator != op.Conversion()
    ]
    return replace(network, layers=tuple(remaining)) if new_layers else network


def _stores(
    network: Network, consumers: Mapping[str, Sequence[str]], layer: Layer, types: Quantization
) -> bool:
    """Whether a reader quantises a variable to this type, or to one with equal integers."""
    if layer.quantization is None or layer.quantization == types:
        return layer.quantization == types
    readers = [network.layer(name) for name in consumers[layer.name]]
    return are_kept(layer.quantization, types) and all(
        reader.operator.joined_axis is not None and reader.quantization == types
        for reader in readers
    )


def _grows(smaller: Shape, larger: Shape) -> bool:
    """Whether a map has the rows of another one, and further rows."""
    has_more_rows = smaller.is_map and larger.is_map and larger.rows > smaller.rows
    return has_more_rows and _with_rows(larger, smaller.rows) == smaller


def with_heads_as_columns(model: Model) -> Model:
    """Return the model with heads as columns in rings of keys and values.

    Files store heads x tokens x width. If a product of two tensors reads such a window, each row
    of its ring gets the order in which the layer before it computes a token: columns are heads.
    With 4 heads, a window of 9 tokens and a width of 16:

        before: window (4 x 9 x 16) = previous (4 x 8 x 16), new (4 x 1 x 16)
        after:  rows (16 x 9 x 4) = previous (16 x 8 x 4), transposed new (16 x 1 x 4)
                window (4 x 9 x 16) = transposed rows
    """
    network, consumers = model.network, model.network.consumers
    new_layers: dict[str, list[Layer]] = {}
    for ring in rings_of(network).values():
        reading_operators = [network.layer(name).operator for name in consumers[ring.window]]
        previous, new = network.layer(ring.previous), network.layer(ring.new)
        state = network.initial_states[previous.name]
        if state.begin is None or not any(
            operator.axis_order is not None or operator == op.MatrixProduct()
            for operator in reading_operators
        ):
            continue
        window, following = network.layer(ring.window), network.layer(ring.following)
        state_shape, new_shape, window_shape = (
            Shape(dims=layer.shape.dims[::-1]) for layer in (previous, new, window)
        )
        operator = replace(state, dims=state_shape.dims)
        transposition = replace(window, operator=op.Transpose(permutation=(2, 1, 0)), stored=())
        new_transposed = replace(
            transposition, name=f"{window.name} new", inputs=(new.name,), shape=new_shape
        )
        inputs = previous.name, new_transposed.name
        window_rows = replace(window, name=f"{window.name} rows", inputs=inputs, shape=window_shape)
        new_layers[previous.name] = [replace(previous, operator=operator, shape=state_shape)]
        new_layers[window.name] = [
            new_transposed,
            window_rows,
            replace(transposition, inputs=(window_rows.name,)),
        ]
        new_layers[following.name] = [
            replace(following, inputs=(window_rows.name,), shape=window_shape)
        ]
    layers = tuple(
        new_layer for layer in network.layers for new_layer in new_layers.get(layer.name, [layer])
    )
    return replace(model, network=replace(network, layers=layers)) if new_layers else model


def _with_copies(model: Model) -> Model:
    """The model with a view before each output that would otherwise read a variable or window.

    The variable is overwritten for the next frame; the output needs elements of its own.

        before: window -> output
        after:  window -> view -> output
    """
    network = model.network
    rings = rings_of(network)
    state_names = {previous.name for previous, _ in network.variables} | set(rings)
    layers: list[Layer] = []
    for layer in network.layers:
        source = layer.inputs[0] if layer.inputs else ""
        is_following = source in rings and rings[source].following == layer.name
        if layer.is_output and source in state_names and not is_following:
            source_layer = network.layer(source)
            view = op.View(dims=source_layer.shape.dims)
            name = f"{source} for {layer.name}"
            layers.append(
                replace(
                    source_layer, name=name, operator=view, inputs=(source,), epilogue=(), stored=()
                )
            )
            layer = replace(layer, inputs=(name,))
        layers.append(layer)
    return replace(model, network=replace(network, layers=tuple(layers)))


def _improved(model: Model) -> Model | None:
    """The model after one rewrite of one variable; None if no variable can be improved.

    The rewrites, with an example each:

        drop a slice before a variable
            before: window (5 rows) -> rows 1-4 -> next
            after:  window (5 rows) -> next
        drop the oldest rows that no reader needs, of a variable or of a ring
            before: previous (4 rows) -> rows 1-3 -> reader
            after:  previous (3 rows) -> reader
        split a ring whose readers slice disjoint channels
            before: window (8 channels) -> channels 0-3, channels 4-7
            after:  two windows of 4 channels each
    """
    network = model.network
    consumers = network.consumers
    for previous, following in network.variables:
        source = network.layer(following.inputs[0])
        if _first_row(source) is not None and previous.shape.is_map:
            shape = network.layer(source.inputs[0]).shape
            return _changed(model, [replace(following, inputs=source.inputs, shape=shape)])
        readers = [network.layer(name) for name in consumers[previous.name]]
        first = min((_first_row(reader) or 0 for reader in readers), default=0)
        if first:
            return _changed(
                model, [_without_rows(network, previous, first), *_earlier(readers, first)]
            )
    for ring in rings_of(network).values():
        names = [name for name in consumers[ring.window] if name != ring.following]
        readers = [network.layer(name) for name in names]
        previous = network.layer(ring.previous)
        first = min((_first_row(reader) or 0 for reader in readers), default=0)
        if 0 < first < previous.shape.rows:
            window = network.layer(ring.window)
            shape = _with_rows(window.shape, window.shape.rows - first)
            shorter = [_without_rows(network, previous, first), replace(window, shape=shape)]
            kept_rows = replace(network.layer(ring.following), shape=shape)
            return _changed(model, [*shorter, *_earlier(readers, first), kept_rows])
        if _are_parts(readers):
            return _split(model, ring, readers)
    return None


def _first_row(layer: Layer) -> int | None:
    """The first row of a slice of rows; None for any other layer."""
    cut = layer.operator.cut
    if cut is None or (cut.axis, cut.step) != (ROWS, 1) or not layer.shape.is_map or layer.epilogue:
        return None
    return cut.start


def _with_rows(shape: Shape, rows: int) -> Shape:
    """The shape with another number of rows."""
    return Shape(dims=(shape.dims[0], rows, shape.dims[2]))


def _without_rows(network: Network, previous: Layer, first: int) -> Layer:
    """The initial state of a variable without its oldest rows."""
    shape = _with_rows(previous.shape, previous.shape.rows - first)
    operator = replace(network.initial_states[previous.name], dims=shape.dims)
    return replace(previous, operator=operator, shape=shape)


def _earlier(readers: Sequence[Layer], first: int) -> list[Layer]:
    """The slices of a tensor, after its first rows have been dropped."""
    shifted = []
    for reader in readers:
        cut = reader.operator.cut
        assert cut is not None
        start, stop = cut.start - first, cut.stop - first
        operator = op.Slice(axis=cut.axis, start=start, stop=stop) if start else op.Identity()
        shifted.append(replace(reader, operator=operator))
    return shifted


def _are_parts(readers: Sequence[Layer]) -> bool:
    """Whether all layers are slices of channels, disjoint ones."""
    spans = []
    for reader in readers:
        cut = reader.operator.cut
        if cut is None or (cut.axis, cut.step) != (CHANNELS, 1) or reader.epilogue:
            return False
        spans.append((cut.start, cut.stop))
    spans.sort()
    return bool(spans) and all(span[1] <= following[0] for span, following in pairwise(spans))


def _split(model: Model, ring: StateRing, readers: Sequence[Layer]) -> Model:
    """The model with a ring of its own for each reader, of the channels that the reader slices."""
    network, rings, next_layers = model.network, [], []
    weights = None if model.weights is None else dict(model.weights)
    previous, window = network.layer(ring.previous), network.layer(ring.window)
    following, new = network.layer(ring.following), network.layer(ring.new)
    state = network.initial_states[ring.previous]
    for number, reader in enumerate(readers):
        cut = reader.operator.cut
        assert cut is not None
        channels = slice(cut.start, cut.stop)
        dims = (reader.shape.dims[0], *previous.shape.dims[1:])
        variable = f"{state.variable}, part {number}"
        operator = replace(state, dims=dims, variable=variable)
        part_of_previous = replace(
            previous,
            name=f"{previous.name}, part {number}",
            operator=operator,
            shape=Shape(dims=dims),
        )
        new_shape = Shape(dims=(dims[0], *new.shape.dims[1:]))
        part_of_new = replace(
            new,
            name=f"{new.name}, part {number} of {window.name}",
            operator=reader.operator,
            inputs=(new.name,),
            shape=new_shape,
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
        next_layer = replace(
            following,
            name=f"{following.name}, part {number}",
            operator=Next(variable=variable),
            inputs=(part_of_window.name,),
            shape=part_of_window.shape,
        )
        next_layers.append(next_layer)
        if weights is not None and state.begin is None:
            weights[part_of_previous.name] = {
                "initial": weights[previous.name]["initial"][channels]
            }
    replaced = {previous.name, following.name, *(reader.name for reader in readers)}
    layers: list[Layer] = []
    for layer in network.layers:
        if layer.name == window.name:
            layers += rings
        elif layer.name not in replaced:
            layers.append(layer)
    return Model(
        network=Network(name=network.name, layers=(*layers, *next_layers)), weights=weights
    )


def _changed(model: Model, new_layers: Sequence[Layer]) -> Model:
    """The model with these layers instead of those of the same names, identities removed."""
    by_name = {layer.name: layer for layer in new_layers}
    layers = [by_name.get(layer.name, layer) for layer in model.network.layers]
    weights = None if model.weights is None else dict(model.weights)
    for name, state in model.network.initial_states.items():
        if name in by_name and state.begin is None and weights:
            initial = weights[name]["initial"]
            weights[name] = {"initial": initial[:, initial.shape[1] - by_name[name].shape.rows :]}
    source_of = {
        layer.name: layer.inputs[0]
        for layer in layers
        if layer.name in by_name and layer.operator == op.Identity()
    }
    used_names = {source_of.get(name, name) for layer in layers for name in layer.inputs}
    remaining = [
        replace(layer, inputs=tuple(source_of.get(name, name) for name in layer.inputs))
        for layer in layers
        if layer.name not in source_of and (layer.name in used_names or layer.operator.cut is None)
    ]
    return Model(network=Network(name=model.network.name, layers=tuple(remaining)), weights=weights)


def with_views(model: Model) -> Model:
    """Return the model with moves that keep the order of memory replaced by views, or removed.

    A view of an input becomes the input itself. A fully connected layer reads the tensor before a
    view, with the columns of its matrix permuted.

        before: map (8 x 4 x 1) -> transpose (4 x 1 x 8) -> reshape (32) -> fully connected
        after:  map (8 x 4 x 1) -> fully connected, its matrix with permuted columns
    """
    weights = None if model.weights is None else dict(model.weights)
    layers: dict[str, Layer] = {}
    # For a move, the tensor it comes from, and the position there of each element in memory order.
    origins: dict[str, tuple[str, Array]] = {}
    # For a layer that changes nothing, the layer that it reads.
    replaced_by: dict[str, str] = {}
    for layer in model.network.layers:
        layer = replace(layer, inputs=tuple(replaced_by.get(name, name) for name in layer.inputs))
        if layer.operator.moves and layer.operator.is_elementwise and not layer.epilogue:
            source_layer = layers[layer.inputs[0]]
            if (source_layer.quantization, source_layer.element) == (
                layer.quantization,
                layer.element,
            ):
                replaced_by[layer.name] = source_layer.name
                continue
        if layer.operator.rearranges_axes and not layer.epilogue:
            source = layer.inputs[0]
            source_layer = layers[source]
            if (
                source_layer.quantization == layer.quantization
                and source_layer.element == layer.element
            ):
                origin, elements = origins.get(
                    source, (source, np.arange(source_layer.shape.elements))
                )
                moved = layer.operator.computed(
                    _part(in_dims(elements, source_layer.shape.dims), layer)
                )
                positions = as_it_lies(moved).reshape(-1)
                origins[layer.name] = origin, positions
                if np.array_equal(positions, np.arange(positions.size)):
                    if layer.shape == layers[origin].shape:
                        replaced_by[layer.name] = origin
                        continue
                    view_operator = op.View(dims=layer.shape.dims)
                    layer = replace(layer, operator=view_operator, inputs=(origin,))
        elif (
            layer.operator.dense_units is not None
            and layers[layer.inputs[0]].operator.keeps_memory_order
        ):
            view = layers[layer.inputs[0]]
            source_of_view = layers[view.inputs[0]]
            if weights is not None:
                arrays = dict(weights[layer.name])
                numbers = np.arange(view.shape.elements).reshape(view.shape.dims)
                order = in_dims(as_it_lies(numbers).reshape(-1), source_of_view.shape.dims).reshape(
                    -1
                )
                arrays["matrix"] = np.ascontiguousarray(arrays["matrix"][:, order])
                weights[layer.name] = arrays
            layer = replace(layer, inputs=(source_of_view.name,))
        layers[layer.name] = layer
    network = Network(name=model.network.name, layers=tuple(layers.values()))
    return _without_unread_moves(Model(network=network, weights=weights))


def _with_sequences_by_rows(model: Model) -> Model:
    """The model with stateful LSTMs that read and compute sequences as feature maps of one column.

    Such an LSTM executes row by row: a row is a time step.

        before: steps (10 x 8) -> LSTM (10 x 16)
        after:  steps (10 x 8) -> view (8 x 10 x 1) -> LSTM (16 x 10 x 1) -> view (10 x 16)
    """
    layers: list[Layer] = []
    for layer in model.network.layers:
        operator, shape = layer.operator, layer.shape
        if (
            operator.is_stateful_sequence
            and len(shape.dims) == 2
            and shape.dims[0] > 1
            and not layer.epilogue
        ):
            source = model.network.layer(layer.inputs[0])
            steps, elements = source.shape.dims
            read_shape, result_shape = (
                Shape(dims=(size, steps, 1)) for size in (elements, shape.dims[1])
            )
            view = op.View(dims=read_shape.dims)
            names = f"{layer.name} by rows", f"{layer.name} rows"
            view_of_source = replace(
                source, name=names[0], operator=view, inputs=(source.name,), shape=read_shape
            )
            layers.append(replace(view_of_source, epilogue=(), stored=()))
            layers.append(replace(layer, name=names[1], inputs=names[:1], shape=result_shape))
            to_matrix = op.View(dims=shape.dims)
            layer = replace(layer, operator=to_matrix, inputs=names[1:], stored=())
        layers.append(layer)
    if len(layers) == len(model.network.layers):
        return model
    weights = None if model.weights is None else dict(model.weights)
    if weights is not None:
        for layer in layers:
            if layer.operator.is_stateful_sequence and layer.name not in weights:
                weights[layer.name] = weights.pop(layer.name.removesuffix(" rows"))
    return Model(network=Network(name=model.network.name, layers=tuple(layers)), weights=weights)


def _part(tensor: Array, layer: Layer) -> OutputRows:
    """All output rows of a layer, with this array as its input."""
    held = HeldRows(shape=Shape(dims=tensor.shape), array=tensor)
    return OutputRows((held,), {}, layer.shape, 0, layer.shape.rows)


def _without_unread_moves(model: Model) -> Model:
    """The model without unread moves; an input that only a view reads gets the view's dims."""
    layers = list(model.network.layers)
    while True:
        used_names = {name for layer in layers for name in layer.inputs}
        remaining = [
            layer
            for layer in layers
            if layer.name in used_names or not layer.operator.rearranges_axes
        ]
        if len(remaining) == len(layers):
            break
        layers = remaining
    network = Network(name=model.network.name, layers=tuple(layers))
    consumers, input_of = network.consumers, {}
    for layer in network.inputs:
        readers = consumers[layer.name]
        view = network.layer(readers[0]) if len(readers) == 1 else layer
        if view.operator.keeps_memory_order:
            input_of[view.name] = layer.name
            operator = op.Input(dims=view.shape.dims)
            index = layers.index(layer)
            layers[index] = replace(layer, operator=operator, shape=view.shape)
    remaining = [
        replace(layer, inputs=tuple(input_of.get(name, name) for name in layer.inputs))
        for layer in layers
        if layer.name not in input_of
    ]
    return replace(model, network=Network(name=network.name, layers=tuple(remaining)))


def _are_int8_fixed_point(*quantizations: Quantization | None) -> bool:
    """Whether all tensors are int8 in fixed-point arithmetic."""
    return all(
        types is not None and types.element is Element.INT8 and types.is_fixed_point
        for types in quantizations
    )


def _with_one_accumulating_dense(model: Model) -> Model | None:
    """The model with one more fully connected layer that keeps accumulators instead of a window.

    Applies if the accumulators (4 bytes per unit) take fewer bytes than a row, and the rows begin
    at their zero point, so that they contribute nothing at first. None if no layer qualifies.
    """
    network = model.network
    consumers = network.consumers
    for ring in rings_of(network).values():
        names = [name for name in consumers[ring.window] if name != ring.following]
        layer, new = network.layer(names[0]), network.layer(ring.new)
        window, state = network.layer(ring.window), network.initial_states[ring.previous]
        types = new.quantization
        if (
            len(names) > 1
            or type(layer.operator) is not op.FullyConnected
            or new.shape.rows > 1
            or types is None
            or not _are_int8_fixed_point(types, layer.quantization)
            or not _are_int8_fixed_point(layer.stored_as("matrix").quantization)
            or (layer.stored_as("matrix").quantization or types).zero_point
            or state.begin != types.zero_point
            or 4 * layer.operator.units >= new.shape.row_elements
        ):
            continue
        operator = op.StreamedProduct(
            units=layer.operator.units,
            has_bias=layer.operator.has_bias,
            places=window.shape.rows,
        )
        weights = None if model.weights is None else dict(model.weights)
        if weights is not None:
            arrays = dict(weights[layer.name])
            order = as_it_lies(np.arange(window.shape.elements).reshape(window.shape.dims))
            arrays["matrix"] = np.ascontiguousarray(arrays["matrix"][:, order.reshape(-1)])
            weights[layer.name] = arrays
        removed = (ring.previous, ring.window, ring.following)
        layers = tuple(
            replace(layer, operator=operator, inputs=(new.name,)) if original is layer else original
            for original in network.layers
            if original.name not in removed
        )
        return Model(network=Network(name=network.name, layers=layers), weights=weights)
    return None
