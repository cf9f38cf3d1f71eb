"""Variables as rings of rows: what a window needs of earlier frames, and nothing else.

Files keep the rows of a window in a variable, join new rows to it, and cut off what the next frame
needs. As a ring, a variable has the rows that the next frame needs of the channels that a layer
reads; joining and cutting move nothing:

    window = previous rows, then new ones; next = the last rows of the window

Here variables of other forms are stored whole.
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

ROWS, CHANNELS = 1, 0  # axes


class StateWindow(NamedTuple):
    """A window of rows by the names of layers: those kept from frames before, and new ones."""

    previous: str
    new: str
    window: str
    following: str


def rings_of(network: Network) -> dict[str, StateWindow]:
    """Return the rings, by the layers that join their rows."""
    consumers, rings_found = network.consumers, {}
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
            rings_found[window.name] = StateWindow(*names)
    return rings_found


def with_rings(model: Model) -> Model:
    """Return the model in which variables are rings wherever they can be."""
    if not model.network.keeps_state:
        return model
    while (improved := _improved(model)) is not None:
        model = improved
    model = with_views(_with_sequences_by_rows(model))
    while (improved := _streamed(model)) is not None:
        model = improved
    return _with_copies(model)


@public
def with_states(model: Model, pairs: Mapping[str, str]) -> Model:
    """Return the model with inputs as variables: an output of a frame is the input of the next.

    pairs: outputs by inputs. A variable begins with zeros; of an output with more rows it has the last
    ones, as of keys and values that end with those of a new token. Where both are stored as integers at
    once, so is the variable. Raises InvalidNetwork, naming the existing ones, for an input or output
    that the network has not, and for two of different shapes or types.
    """
    network = model.network
    inputs = {input_.name: input_ for input_ in network.inputs}
    outputs = {output.name: output for output in network.outputs}
    changed = {}
    for input_name, taken in pairs.items():
        taken = taken if taken in outputs else f"{taken} output"
        for name, ends_known, what in ((input_name, inputs, "input"), (taken, outputs, "output")):
            if name not in ends_known:
                listed = ", ".join(map(repr, ends_known))
                raise InvalidNetwork(
                    f"state {input_name!r}: there is no {what} {name!r}, only {listed}"
                )
        source, end = inputs[input_name], outputs[taken]
        if taken in changed:
            raise InvalidNetwork(
                f"state {input_name!r}: the output {taken!r} is the state of another input already"
            )
        is_window = _grows(source.shape, end.shape)
        sizes = [[size for size in end_layer.shape.dims if size > 1] for end_layer in (source, end)]
        if (sizes[0] != sizes[1] and not is_window) or source.quantization != end.quantization:
            raise InvalidNetwork(
                f"state {input_name!r}: the input is {source.shape}, the output "
                f"{taken!r} is {end.shape}; "
                "expected the same shape and type, or the rows of the input and new ones behind them"
            )
        begin = 0 if source.quantization is None else source.quantization.zero_point
        operator = Previous(dims=source.shape.dims, variable=input_name, begin=begin)
        changed[input_name] = replace(source, operator=operator)
        shape = end.shape if is_window else source.shape
        changed[taken] = replace(end, operator=Next(variable=input_name), shape=shape)
    if changed and len(inputs) == len(pairs):
        raise InvalidNetwork("every input is a state; expected one that comes with each frame")
    layers: list[Layer] = []
    for layer in network.layers:
        layer = changed.get(layer.name, layer)
        if layer.is_output and layer.name in changed:
            made = network.layer(layer.inputs[0])
            if made.shape != layer.shape:
                name = f"{layer.name} reshape"
                reshape = op.Reshape(dims=layer.shape.dims)
                layers.append(replace(layer, name=name, operator=reshape))
                layer = replace(layer, inputs=(name,))
        layers.append(layer)
    network = _with_stored_states(replace(network, layers=tuple(layers)))
    return with_rings(replace(model, network=network))


def _with_stored_states(network: Network) -> Network:
    """The network whose variables are integers where these are made real and stored as before.

    Scales of a calibration differ in their last bits: joined tensors have the scale of the window where
    its integers stay the same.
    """
    consumers = network.consumers
    changed: dict[str, Layer] = {}
    before: dict[str, tuple[Layer, ...]] = {}
    gone: dict[str, str] = {}  # what stores a variable: the variable itself
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
            changed[layer.name] = replace(layer, element=integers.element, quantization=types)
        gone |= {reader.name: previous.name for reader in readers}
        if integers.operator == op.Concatenation(axis=ROWS):
            inputs = []
            for source in map(network.layer, integers.inputs):
                source_types, name = source.quantization, f"{source.name} of {integers.name}"
                is_other = source not in readers and source_types != types
                if is_other and source_types is not None and are_kept(source_types, types):
                    plain = replace(source, name=name, operator=op.Conversion(), epilogue=())
                    plain = replace(plain, inputs=(source.name,), stored=(), quantization=types)
                    before[integers.name] = (*before.get(integers.name, ()), plain)
                    inputs.append(name)
                else:
                    inputs.append(source.name)
            changed[integers.name] = replace(integers, inputs=tuple(inputs))
    layers = [
        replace(layer_, inputs=tuple(gone.get(name, name) for name in layer_.inputs))
        for layer in network.layers
        for layer_ in (*before.get(layer.name, ()), changed.get(layer.name, layer))
        if layer_.name not in gone
    ]
    read = {name for layer in layers for name in layer.inputs}
    left = [layer for layer in layers if layer.name in read or layer.operator != op.Conversion()]
    return replace(network, layers=tuple(left)) if changed else network


def _stores(
    network: Network, consumers: Mapping[str, Sequence[str]], layer: Layer, types: Quantization
) -> bool:
    """Whether a layer stores a variable as integers of a type, or its integers are joined to these."""
    if layer.quantization is None or layer.quantization == types:
        return layer.quantization == types
    readers = [network.layer(name) for name in consumers[layer.name]]
    return are_kept(layer.quantization, types) and all(
        reader.operator.joined_axis is not None and reader.quantization == types
        for reader in readers
    )


def _grows(given: Shape, made: Shape) -> bool:
    """Whether a map has the rows of another, and more."""
    is_wider = given.is_map and made.is_map and made.rows > given.rows
    return is_wider and _with_rows(made, given.rows) == given


def with_heads_as_columns(model: Model) -> Model:
    """The model whose rings of keys and values have the heads as columns: a token's numbers in order.

    Files have heads x tokens x width; where a product of two tensors reads such a window, each row of
    its ring lies as the layer that makes it has it.
    """
    network, consumers = model.network, model.network.consumers
    made: dict[str, list[Layer]] = {}
    for ring in rings_of(network).values():
        kinds = [network.layer(name).operator for name in consumers[ring.window]]
        previous, new = network.layer(ring.previous), network.layer(ring.new)
        state = network.initial_states[previous.name]
        if state.begin is None or not any(
            kind.axis_order is not None or kind == op.MatrixProduct() for kind in kinds
        ):
            continue
        window, following = network.layer(ring.window), network.layer(ring.following)
        kept, rows, all_rows = (
            Shape(dims=layer.shape.dims[::-1]) for layer in (previous, new, window)
        )
        operator = replace(state, dims=kept.dims)
        turn = replace(window, operator=op.Transpose(permutation=(2, 1, 0)), stored=())
        turned = replace(turn, name=f"{window.name} new", inputs=(new.name,), shape=rows)
        inputs = previous.name, turned.name
        joined = replace(window, name=f"{window.name} rows", inputs=inputs, shape=all_rows)
        made[previous.name] = [replace(previous, operator=operator, shape=kept)]
        made[window.name] = [turned, joined, replace(turn, inputs=(joined.name,))]
        made[following.name] = [replace(following, inputs=(joined.name,), shape=all_rows)]
    layers = tuple(layer_ for layer in network.layers for layer_ in made.get(layer.name, [layer]))
    return replace(model, network=replace(network, layers=layers)) if made else model


def _with_copies(model: Model) -> Model:
    """The model in which no output or other variable takes a variable or window that is taken over."""
    network = model.network
    rings = rings_of(network)
    state_names = {previous.name for previous, _ in network.variables} | set(rings)
    layers: list[Layer] = []
    for layer in network.layers:
        source = layer.inputs[0] if layer.inputs else ""
        is_following = source in rings and rings[source].following == layer.name
        if layer.is_output and source in state_names and not is_following:
            shown = network.layer(source)
            view = op.View(dims=shown.shape.dims)
            name = f"{source} for {layer.name}"
            layers.append(
                replace(shown, name=name, operator=view, inputs=(source,), epilogue=(), stored=())
            )
            layer = replace(layer, inputs=(name,))
        layers.append(layer)
    return replace(model, network=replace(network, layers=tuple(layers)))


def _improved(model: Model) -> Model | None:
    """The model with one variable a step further; None where none goes further."""
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
            taking = replace(network.layer(ring.following), shape=shape)
            return _changed(model, [*shorter, *_earlier(readers, first), taking])
        if _are_parts(readers):
            return _split(model, ring, readers)
    return None


def _first_row(layer: Layer) -> int | None:
    """The row from which on a layer takes all rows of what it reads; None where it is another."""
    cut = layer.operator.cut
    if cut is None or (cut.axis, cut.step) != (1, 1) or not layer.shape.is_map or layer.epilogue:
        return None
    return cut.start


def _with_rows(shape: Shape, rows: int) -> Shape:
    return Shape(dims=(shape.dims[0], rows, shape.dims[2]))


def _without_rows(network: Network, previous: Layer, first: int) -> Layer:
    """Return the initial state of a variable without its oldest rows."""
    shape = _with_rows(previous.shape, previous.shape.rows - first)
    operator = replace(network.initial_states[previous.name], dims=shape.dims)
    return replace(previous, operator=operator, shape=shape)


def _earlier(readers: Sequence[Layer], first: int) -> list[Layer]:
    """Slices of a tensor that has lost its first rows."""
    readers_moved = []
    for reader in readers:
        cut = reader.operator.cut
        assert cut is not None
        start, stop = cut.start - first, cut.stop - first
        operator = op.Slice(axis=cut.axis, start=start, stop=stop) if start else op.Identity()
        readers_moved.append(replace(reader, operator=operator))
    return readers_moved


def _are_parts(readers: Sequence[Layer]) -> bool:
    """Whether layers take parts of the channels that have none in common."""
    spans = []
    for reader in readers:
        cut = reader.operator.cut
        if cut is None or (cut.axis, cut.step) != (0, 1) or reader.epilogue:
            return False
        spans.append((cut.start, cut.stop))
    spans.sort()
    return bool(spans) and all(span[1] <= following[0] for span, following in pairwise(spans))


def _split(model: Model, ring: StateWindow, readers: Sequence[Layer]) -> Model:
    """Give each reader of some channels a ring of its own, of the channels that it reads."""
    network, made, ends = model.network, [], []
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
        old = replace(
            previous,
            name=f"{previous.name}, part {number}",
            operator=operator,
            shape=Shape(dims=dims),
        )
        part = Shape(dims=(dims[0], *new.shape.dims[1:]))
        fresh = replace(
            new,
            name=f"{new.name}, part {number} of {window.name}",
            operator=reader.operator,
            inputs=(new.name,),
            shape=part,
            epilogue=(),
            stored=(),
        )
        joined = replace(
            window, name=reader.name, inputs=(old.name, fresh.name), shape=reader.shape
        )
        made += [old, fresh, joined]
        end = replace(
            following,
            name=f"{following.name}, part {number}",
            operator=Next(variable=variable),
            inputs=(joined.name,),
            shape=joined.shape,
        )
        ends.append(end)
        if weights is not None and state.begin is None:
            weights[old.name] = {"initial": weights[previous.name]["initial"][channels]}
    taken = {previous.name, following.name, *(reader.name for reader in readers)}
    layers: list[Layer] = []
    for layer in network.layers:
        if layer.name == window.name:
            layers += made
        elif layer.name not in taken:
            layers.append(layer)
    return Model(network=Network(name=network.name, layers=(*layers, *ends)), weights=weights)


def _changed(model: Model, changed: Sequence[Layer]) -> Model:
    """The model with other layers of the same names, without moves that do nothing or are unread."""
    by_name = {layer.name: layer for layer in changed}
    layers = [by_name.get(layer.name, layer) for layer in model.network.layers]
    weights = None if model.weights is None else dict(model.weights)
    for name, state in model.network.initial_states.items():
        if name in by_name and state.begin is None and weights:
            initial = weights[name]["initial"]
            weights[name] = {"initial": initial[:, initial.shape[1] - by_name[name].shape.rows :]}
    instead = {
        layer.name: layer.inputs[0]
        for layer in layers
        if layer.name in by_name and layer.operator == op.Identity()
    }
    read = {instead.get(name, name) for layer in layers for name in layer.inputs}
    left = [
        replace(layer, inputs=tuple(instead.get(name, name) for name in layer.inputs))
        for layer in layers
        if layer.name not in instead and (layer.name in read or layer.operator.cut is None)
    ]
    return Model(network=Network(name=model.network.name, layers=tuple(left)), weights=weights)


def with_views(model: Model) -> Model:
    """The model in which moves that leave elements where they lie are views, or gone.

    Views of an input are the input itself; a fully connected layer reads what a view shows.
    """
    weights = None if model.weights is None else dict(model.weights)
    layers: dict[str, Layer] = {}
    places: dict[str, tuple[str, Array]] = {}  # of a move: its source, and where its elements lie
    same: dict[str, str] = {}  # of a layer that does nothing: the one that it reads
    for layer in model.network.layers:
        layer = replace(layer, inputs=tuple(same.get(input_, input_) for input_ in layer.inputs))
        if layer.operator.moves and layer.operator.is_elementwise and not layer.epilogue:
            before = layers[layer.inputs[0]]
            if (before.quantization, before.element) == (layer.quantization, layer.element):
                same[layer.name] = before.name
                continue
        if layer.operator.rearranges_axes and not layer.epilogue:
            source = layer.inputs[0]
            before = layers[source]
            if before.quantization == layer.quantization and before.element == layer.element:
                first, elements = places.get(source, (source, np.arange(before.shape.elements)))
                moved = layer.operator.computed(_part(in_dims(elements, before.shape.dims), layer))
                lying = as_it_lies(moved).reshape(-1)
                places[layer.name] = first, lying
                if np.array_equal(lying, np.arange(lying.size)):
                    if layer.shape == layers[first].shape:
                        same[layer.name] = first
                        continue
                    shown = op.View(dims=layer.shape.dims)
                    layer = replace(layer, operator=shown, inputs=(first,))
        elif (
            layer.operator.dense_units is not None
            and layers[layer.inputs[0]].operator.keeps_memory_order
        ):
            view = layers[layer.inputs[0]]
            seen = layers[view.inputs[0]]
            if weights is not None:
                arrays = dict(weights[layer.name])
                numbers = np.arange(view.shape.elements).reshape(view.shape.dims)
                order = in_dims(as_it_lies(numbers).reshape(-1), seen.shape.dims).reshape(-1)
                arrays["matrix"] = np.ascontiguousarray(arrays["matrix"][:, order])
                weights[layer.name] = arrays
            layer = replace(layer, inputs=(seen.name,))
        layers[layer.name] = layer
    network = Network(name=model.network.name, layers=tuple(layers.values()))
    return _without_unread_moves(Model(network=network, weights=weights))


def _with_sequences_by_rows(model: Model) -> Model:
    """The model in which LSTMs that keep their states read and make sequences as maps of one column.

    So they work row by row.
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
            frames, elements = source.shape.dims
            read_shape, made = (Shape(dims=(size, frames, 1)) for size in (elements, shape.dims[1]))
            view = op.View(dims=read_shape.dims)
            names = f"{layer.name} by rows", f"{layer.name} rows"
            before = replace(
                source, name=names[0], operator=view, inputs=(source.name,), shape=read_shape
            )
            layers.append(replace(before, epilogue=(), stored=()))
            layers.append(replace(layer, name=names[1], inputs=names[:1], shape=made))
            back = op.View(dims=shape.dims)
            layer = replace(layer, operator=back, inputs=names[1:], stored=())
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
    held = HeldRows(shape=Shape(dims=tensor.shape), array=tensor)
    return OutputRows((held,), {}, layer.shape, 0, layer.shape.rows)


def _without_unread_moves(model: Model) -> Model:
    """The model without moves that no layer reads, and with inputs as their only reader views them."""
    layers = list(model.network.layers)
    while True:
        read = {name for layer in layers for name in layer.inputs}
        left = [
            layer for layer in layers if layer.name in read or not layer.operator.rearranges_axes
        ]
        if len(left) == len(layers):
            break
        layers = left
    network = Network(name=model.network.name, layers=tuple(layers))
    consumers, viewed = network.consumers, {}
    for layer in network.inputs:
        readers = consumers[layer.name]
        view = network.layer(readers[0]) if len(readers) == 1 else layer
        if view.operator.keeps_memory_order:
            viewed[view.name] = layer.name
            operator = op.Input(dims=view.shape.dims)
            place = layers.index(layer)
            layers[place] = replace(layer, operator=operator, shape=view.shape)
    left = [
        replace(layer_, inputs=tuple(viewed.get(name, name) for name in layer_.inputs))
        for layer_ in layers
        if layer_.name not in viewed
    ]
    return replace(model, network=Network(name=network.name, layers=tuple(left)))


def _are_bytes(*found: Quantization | None) -> bool:
    """Whether all are of int8 in fixed point."""
    return all(
        types is not None and types.element is Element.INT8 and types.is_fixed_point
        for types in found
    )


def _streamed(model: Model) -> Model | None:
    """The model in which one more fully connected layer keeps sums instead of rows; None without.

    The sums take less bytes than the rows, which begin at their zero point, and add nothing then.
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
            or not _are_bytes(types, layer.quantization)
            or not _are_bytes(layer.stored_as("matrix").quantization)
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
        gone = (ring.previous, ring.window, ring.following)
        layers = tuple(
            replace(layer_, operator=operator, inputs=(new.name,)) if layer_ is layer else layer_
            for layer_ in network.layers
            if layer_.name not in gone
        )
        return Model(network=Network(name=network.name, layers=layers), weights=weights)
    return None
