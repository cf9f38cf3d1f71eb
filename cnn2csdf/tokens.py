"""Layout of attention by tokens: maps with a token in each row and its numbers in the channels.

Model files write attention with matrices (tokens x width), split into heads by reshapes and
transpositions. This rewriting makes each matrix a map of one column, with the same bytes in memory. A
reshape or transposition then moves no element: it only changes the index map of its result
(cnn2csdf.index_maps). For 8 tokens of width 4 and 2 heads:

    query  8 x 4                      map of 8 rows, 1 column, 4 channels
    Reshape 8 x 2 x 2                 no layer; heads are channel // 2
    Transpose to heads x 8 x 2        no layer; dims are (heads, tokens, numbers)
    MatMul with the keys              a product head by head, one row of scores for each token

Products with weights become 1x1 convolutions; products of two tensors are computed head by head. Each
layer then needs one input row for an output row, or all rows of keys and values. A layer without such a
form keeps the dims of the file, behind a view or moves. Scores, softmax and weighted values are
computed as in the file, so the result does not change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.dtypes import Stored
from cnn2csdf.fixed_point.single_precision import columns_at_once
from cnn2csdf.geometry import Window
from cnn2csdf.index_maps import (
    AXES,
    IN_MEMORY,
    Digits,
    Form,
    NoForm,
    axis_digits,
    cut_up,
    digits_by_axis,
    digits_of,
    groups_and_heads,
    in_memory,
    joined,
    laid_out,
    of_axis,
    renumbered,
    repeated_channels,
    size_of,
    varying_dims,
    whole_form,
    widest_form,
)
from cnn2csdf.masks import with_masks_of_readers
from cnn2csdf.network import Layer
from cnn2csdf.rings import with_heads_as_columns
from cnn2csdf.shape import Dims, Shape
from cnn2csdf.weights import Array, Model
from csdf.names import longer_name


class Held(NamedTuple):
    """A tensor of the file as a map: the layer with its elements, and their index map."""

    layer: str
    form: Form


def tokens_as_rows(model: Model) -> Model:
    """Return the model with attention on maps of tokens; the same model where there is none.

    Names of layers stay; frames and results keep the dims of the file.
    """
    network = model.network
    is_product = any(layer.operator.multiplies_inputs for layer in network.layers)
    if not is_product:
        return model
    rewriting = _Rewriting(with_heads_as_columns(model))
    for layer in rewriting.network.layers:
        rewriting.add(layer)
    return with_masks_of_readers(rewriting.model()) if rewriting.has_attention else model


class _Rewriting:
    """The layers of a network while they are rewritten as maps."""

    def __init__(self, model: Model) -> None:
        self._given = model
        self.network, self.consumers = model.network, model.network.consumers
        self._names = {layer.name for layer in model.network.layers}
        self._layers: dict[str, Layer] = {}
        self._weights: dict[str, dict[str, Array]] | None = None if model.weights is None else {}
        self._held: dict[str, Held] = {}
        self._once: dict[str, Held] = {}  # tensors that are alike along some axes, held once
        self.has_attention = False

    def model(self) -> Model:
        """Return the model of all layers that an output needs."""
        needed = {name for name, layer in self._layers.items() if layer.is_end}
        for layer in reversed(self._layers.values()):
            if layer.name in needed:
                needed.update(layer.inputs)
        layers = tuple(layer for layer in self._layers.values() if layer.name in needed)
        weights = self._weights
        if weights is not None:
            weights = {name: arrays for name, arrays in weights.items() if name in needed}
        return Model(network=replace(self.network, layers=layers), weights=weights)

    def add(self, layer: Layer) -> None:
        """Add a layer of the file, on maps where it has a form there."""
        rule = _RULES.get(type(layer.operator))
        has_parameters = any(not step.is_scalar_function for step in layer.epilogue)
        try:
            if rule is None or has_parameters:
                self.add_as_it_is(layer)
            else:
                rule(self, layer, layer.operator)
            if layer.operator.rearranges_axes:
                self._add_behind_a_move(layer)
                self._put_tokens_on_rows(layer)
        except NoForm:
            self.add_as_it_is(layer)

    def _add_behind_a_move(self, layer: Layer) -> None:
        """Add what a layer does beside a move that only says where its elements lie."""
        held = self._held[layer.name]
        if self._layers[held.layer].quantization != layer.quantization:
            self._put(layer, op.Conversion(), [held.layer], held.form)
        elif layer.epilogue:
            behind = replace(layer, epilogue=layer.epilogue[1:])
            self._put(behind, layer.epilogue[0], [held.layer], held.form)

    def _put_tokens_on_rows(self, layer: Layer) -> None:
        """View the pixels of an image as rows where a matrix has them as its tokens.

        One view behind the patches of a vision transformer serves all its layers. Without it each
        attention would put its operands into rows, and no group of layers would span two of them.
        """
        held, dims = self._held[layer.name], layer.shape.dims
        shape = self.shape_of(held)
        is_image = shape.height > 1 and shape.width > 1
        tokens = joined([*of_axis("Y", shape.height), *of_axis("X", shape.width)])
        if is_image and held.form == (tokens, of_axis("C", shape.channels)):
            view = op.View(dims=(dims[1], dims[0], 1))
            rows = self._moved(held.layer, view, "as rows")
            self._held[layer.name] = Held(rows, (of_axis("Y", dims[0]), of_axis("C", dims[1])))

    def _arrays(self, layer: Layer) -> Mapping[str, Array] | None:
        if self._given.weights is None:
            return None
        return self._given.weights.get(layer.name, {})

    def _put(
        self,
        layer: Layer,
        operator: op.Operator,
        inputs: Sequence[str],
        form: Form | None = None,
        *,
        name: str | None = None,
        weights: Mapping[str, Array] | None = None,
        stored: tuple[Stored, ...] | None = None,
        is_move: bool = False,
    ) -> str:
        """Add a layer instead of one of the file; return its name.

        form: of the tensor of the file in its result. is_move: it moves what the layer has made.
        """
        shapes = [self._layers[input_].shape for input_ in inputs]
        made = replace(
            layer,
            name=name or layer.name,
            operator=operator,
            inputs=tuple(inputs),
            shape=operator.output_shape(shapes),
            epilogue=() if is_move else layer.epilogue,
            stored=() if is_move else layer.stored if stored is None else stored,
        )
        self._layers[made.name] = made
        arrays = self._arrays(layer) if weights is None else weights
        if self._weights is not None and arrays and not is_move:
            self._weights[made.name] = dict(arrays)
        if form is not None:
            self._held[layer.name] = Held(made.name, form)
        return made.name

    def _moved(self, source: str, operator: op.Operator, what: str) -> str:
        """Add a move behind a layer that exists already."""
        layer = self._layers[source]
        name = longer_name(f"{source} {what}", {*self._names, *self._layers}, by=" ")
        return self._put(layer, operator, [source], name=name, is_move=True)

    def add_as_it_is(self, layer: Layer) -> None:
        """Add a layer in the dims of the file."""
        self._put(layer, layer.operator, [self._in_dims(input_) for input_ in layer.inputs])
        dims = layer.shape.dims
        if layer.shape.is_map:
            self._held[layer.name] = Held(layer.name, whole_form(dims))

    def _in_dims(self, name: str) -> str:
        """The layer that has a tensor of the file in its dims."""
        held, dims = self._held.get(name), self.network.layer(name).shape.dims
        if held is None:
            return name
        shape = self._layers[held.layer].shape
        if len(dims) == 3 and held.form == whole_form(dims) and shape.dims == dims:
            return held.layer
        view = self._view(held, dims)
        if view is not None:
            return view
        if len(dims) == 3 and held.form[0] == of_axis("C", shape.channels):
            places = [digit for dim in held.form[1:] for digit in dim]
            return self._reordered(held, places, (dims[1], dims[2]))
        digits = digits_by_axis(held.form, shape)
        permutation = tuple(digits.index(digit) for dim in held.form for digit in dim)
        cut = self._moved(held.layer, op.Reshape(dims=_sizes(digits)), "cut")
        turned = self._moved(cut, op.Transpose(permutation=permutation), "turned")
        return self._moved(turned, op.Reshape(dims=dims), "joined")

    def _view(self, held: Held, dims: Dims) -> str | None:
        """The layer with a tensor in its dims where it already lies so in memory; None elsewhere."""
        order = (held.form[1], held.form[2], held.form[0]) if len(dims) == 3 else held.form
        shape = self._layers[held.layer].shape
        if joined([digit for dim in order for digit in dim]) != in_memory(shape):
            return None
        return self._moved(held.layer, op.View(dims=dims), "x".join(map(str, dims)))

    def held(self, name: str) -> Held:
        """Return where a tensor lies on a map; a matrix becomes one. Raises NoForm for others."""
        if name not in self._held:
            dims = self.network.layer(name).shape.dims
            if len(dims) != 2:
                raise NoForm
            view = self._moved(name, op.View(dims=(dims[1], dims[0], 1)), "as rows")
            self._held[name] = Held(view, (of_axis("Y", dims[0]), of_axis("C", dims[1])))
        return self._held[name]

    def put_once(self, layer: Layer, operator: op.Operator | None = None) -> None:
        """Add a tensor that repeats another along axes also as one that does not, for broadcasts.

        operator: of single elements, between the other tensor and this one; None for a repetition.
        """
        held = self._once.get(layer.inputs[0])
        if operator is None:
            held = held or self._held.get(layer.inputs[0])
        if held is None or len(held.form) != len(layer.shape.dims):
            return
        if operator is not None:
            name = longer_name(f"{layer.name} once", {*self._names, *self._layers}, by=" ")
            held = Held(self._put(layer, operator, [held.layer], name=name), held.form)
        self._once[layer.name] = held

    def operand(self, name: str) -> Held:
        """Return an operand of a function of elements, without repetitions of its own."""
        return self._once.get(name) or self.held(name)

    def shape_of(self, held: Held) -> Shape:
        """The shape of the map."""
        return self._layers[held.layer].shape

    def tokens(self, name: str) -> Held:
        """Return a tensor whose last dim is the channels of a place, the others rows and columns.

        In the order of memory; elsewhere places are put in order first.
        """
        held = self.held(name)
        *lead, last = held.form
        shape = self.shape_of(held)
        ends = {
            of_axis("C", shape.channels),
            joined([*of_axis("X", shape.width), *of_axis("C", shape.channels)]),
        }
        if last not in ends:
            raise NoForm
        places = [digit for dim in lead for digit in dim]
        kept = [
            digit
            for axis in ("YX" if last == of_axis("C", shape.channels) else "Y")
            for digit in of_axis(axis, shape.height if axis == "Y" else shape.width)
        ]
        if joined(places) == joined(kept):
            return held
        return self._in_order(name, held, places)

    def _in_order(self, name: str, held: Held, places: Sequence[Digits]) -> Held:
        """The tensor on a map that has its tokens as rows, in their order."""
        reordered = self._reordered(held, places, (size_of(places), 1))
        *lead, last = held.form
        rows = cut_up((Digits("Y", 1, size_of(places)),), tuple(size_of(dim) for dim in lead))
        self._held[name] = Held(reordered, (*rows, last))
        return self._held[name]

    def _reordered(self, held: Held, places: Sequence[Digits], size: tuple[int, int]) -> str:
        """The layer with the positions of a map in another order, on a map of this height and width."""
        shape = self.shape_of(held)
        if any(place.axis == "C" for place in places):
            raise NoForm
        torn = [digit for axis in "YX" for digit in axis_digits(axis, places, shape)]
        operator = op.PlaceOrder(
            sizes=tuple(digit.size for digit in torn),
            permutation=tuple(torn.index(place) for place in places),
            height=size[0],
            width=size[1],
        )
        return self._moved(held.layer, operator, "in order")

    def one_column(self, held: Held) -> Held:
        """Return tokens on a map of one column, whose channels are all numbers of a token."""
        shape = self.shape_of(held)
        if shape.width == 1:
            return held
        *lead, last = held.form
        channels = size_of(last)
        rows = shape.elements // channels
        view = self._moved(held.layer, op.View(dims=(channels, rows, 1)), "as rows")
        dims = tuple(size_of(dim) for dim in lead)
        return Held(view, (*cut_up((Digits("Y", 1, rows),), dims), of_axis("C", channels)))


def _sizes(digits: Sequence[Digits]) -> Dims:
    return tuple(digit.size for digit in digits) or (1,)


def _input(at: _Rewriting, layer: Layer, _operator: op.Operator) -> None:
    dims = layer.shape.dims
    if len(dims) != 2 or dims[0] == 1:
        raise NoForm
    operator = op.Input(dims=(dims[1], dims[0], 1), file_dims=dims)
    at._put(layer, operator, (), (of_axis("Y", dims[0]), of_axis("C", dims[1])))


def _output(at: _Rewriting, layer: Layer, _operator: op.Operator) -> None:
    held, dims = at.held(layer.inputs[0]), layer.shape.dims
    order = (held.form[1], held.form[2], held.form[0]) if len(dims) == 3 else held.form
    shape = at.shape_of(held)
    if shape.dims == dims and held.form == whole_form(dims):
        at._put(layer, op.Output(), [held.layer])
    elif joined([digit for dim in order for digit in dim]) == in_memory(shape):
        at._put(layer, op.Output(dims=dims), [held.layer])
    else:
        raise NoForm


def _reshape(at: _Rewriting, layer: Layer, _operator: op.Operator) -> None:
    held = at.held(layer.inputs[0])
    digits = [digit for dim in held.form for digit in dim]
    at._held[layer.name] = Held(held.layer, cut_up(digits, layer.shape.dims))


def _as_it_lies(at: _Rewriting, layer: Layer, _operator: op.Operator) -> None:
    """A reshape of elements as they lie: of a map place by place."""
    held, dims = at.held(layer.inputs[0]), layer.shape.dims
    form = held.form
    if len(form) == 3:
        form = (form[1], form[2], form[0])
    digits = [digit for dim in form for digit in dim]
    if len(dims) == 3:
        rows, columns, channels = cut_up(digits, (dims[1], dims[2], dims[0]))
        at._held[layer.name] = Held(held.layer, (channels, rows, columns))
    else:
        at._held[layer.name] = Held(held.layer, cut_up(digits, dims))


def _transpose(at: _Rewriting, layer: Layer, operator: op.Transpose) -> None:
    held = at.held(layer.inputs[0])
    form = tuple(held.form[axis] for axis in operator.permutation)
    at._held[layer.name] = _by_columns(at, layer, Held(held.layer, form))


def _by_columns(at: _Rewriting, layer: Layer, held: Held) -> Held:
    """Heads as columns, where parts of each head's channels are read, as for a rotary embedding."""
    shape, rank = at.shape_of(held), len(held.form)
    parts = [at.network.layer(consumer).operator for consumer in at.consumers[layer.name]]
    heads, last = held.form[0], held.form[-1]
    width = size_of(last)
    if (
        not any(part.cut is not None and part.cut.axis == rank - 1 for part in parts)
        or shape.width > 1
        or rank != 3
        or last != of_axis("C", width)
        or heads != (Digits("C", width, shape.channels // width),)
    ):
        return held
    view = op.View(dims=(width, shape.height, shape.channels // width))
    columns = of_axis("X", shape.channels // width)
    return Held(at._moved(held.layer, view, "by heads"), (columns, held.form[1], last))


def _slice(at: _Rewriting, layer: Layer, operator: op.Slice) -> None:
    size = at.network.input_shapes(layer)[0].dims[operator.axis]
    _picked(at, layer, operator.axis, range(size)[operator.start : operator.stop : operator.step])


def _gather(at: _Rewriting, layer: Layer, operator: op.Gather) -> None:
    _picked(at, layer, operator.axis, operator.places)


def _picked(at: _Rewriting, layer: Layer, axis: int, places: Sequence[int]) -> None:
    """Some places along a dim: rows, or channels, which a convolution makes by their filters alone."""
    held, dims = at.held(layer.inputs[0]), at.network.input_shapes(layer)[0].dims
    shape, dim = at.shape_of(held), held.form[axis]
    if dim == of_axis("C", shape.channels) and shape.width > 1:
        cut = op.Slice(axis=0, start=places[0], stop=places[-1] + 1)
        if list(places) == list(range(places[0], places[-1] + 1)):
            form = (*held.form[:axis], of_axis("C", len(places)), *held.form[axis + 1 :])
            at._put(layer, cut, [held.layer], form)
            return
    if layer.epilogue or (len(dims) == 3 and held.form == whole_form(dims)) or len(dim) != 1:
        raise NoForm
    (digits,) = dim
    if digits.axis == "Y" and dim == of_axis("Y", shape.height):
        step = places[1] - places[0] if len(places) > 1 else 1
        if step < 1 or list(places) != list(range(places[0], places[-1] + 1, step)):
            raise NoForm
        operator = op.Slice(axis=1, start=places[0], stop=places[-1] + 1, step=step)
        form = tuple(of_axis("Y", len(places)) if dim_ == dim else dim_ for dim_ in held.form)
        at._put(layer, operator, [held.layer], form)
        return
    if digits.axis != "C":
        raise NoForm
    numbers = np.arange(shape.channels)
    chosen = numbers[np.isin(numbers // digits.step % digits.size, list(places))]
    if list(places) != sorted(places):
        raise NoForm
    inner, count = digits.step, len(places)
    form = tuple(
        tuple(renumbered(digit, digits, count) for digit in dim_ if digit != digits)
        if dim_ != dim
        else ((Digits("C", inner, count),) if count > 1 else ())
        for dim_ in held.form
    )
    name = _with_channels(at, held.layer, chosen, layer)
    at._held[layer.name] = Held(name, form)


def _with_channels(at: _Rewriting, source: str, chosen: Array, layer: Layer) -> str:
    """The layer that makes some channels of another: by its filters, or a slice of its result."""
    maker = at._layers[source]
    places = tuple(int(number) for number in chosen)
    name = (
        layer.name
        if layer.name not in at._layers
        else longer_name(f"{layer.name} {maker.name}", {*at._names, *at._layers}, by=" ")
    )
    operator = maker.operator.of_channels(len(places))
    if operator is not None and not maker.epilogue and len(maker.inputs) == 1:
        inputs = list(maker.inputs)
        if operator.is_elementwise:
            inputs = [_with_channels(at, inputs[0], chosen, at._layers[inputs[0]])]
        weights = (
            None
            if at._weights is None
            else {
                role: array[list(places)] if array.shape[0] > 1 else array
                for role, array in at._weights.get(source, {}).items()
            }
        )
        made = replace(maker, name=name)
        stored = tuple(_chosen_of(array, places) for array in maker.stored)
        return at._put(made, operator, inputs, name=name, weights=weights or {}, stored=stored)
    if places != tuple(range(places[0], places[-1] + 1)):
        operator_ = op.Gather(axis=0, places=places)
        return at._put(
            replace(maker, epilogue=(), stored=()), operator_, [source], name=name, is_move=True
        )
    cut = op.Slice(axis=0, start=places[0], stop=places[-1] + 1)
    return at._put(replace(maker, epilogue=(), stored=()), cut, [source], name=name, is_move=True)


def _chosen_of(stored: Stored, places: Sequence[int]) -> Stored:
    """How some filters of an array are stored."""
    types = stored.quantization
    if types is not None and len(types.scales) > 1:
        types = replace(types, scales=tuple(types.scales[place] for place in places))
    renamed = stored.name and f"{stored.name} {places[0]}:{places[-1]}:{len(places)}"
    return replace(stored, quantization=types, name=renamed)


def _with_matrix(at: _Rewriting, layer: Layer, operator: op.MatrixProduct) -> None:
    """A product with weights: a convolution of one place, or of all columns of a row."""
    if operator.units is None:
        _product(at, layer)
        return
    held = at.tokens(layer.inputs[0])
    shape, units = at.shape_of(held), operator.units
    *lead, last = held.form
    width = 1 if last == of_axis("C", shape.channels) else shape.width
    made = op.Convolution(
        filters=units,
        window=Window(kernel=(1, width)),
        has_bias=operator.has_bias,
        block=columns_at_once(shape.channels * width, units),
    )
    arrays, weights = at._arrays(layer), None
    if arrays is not None:
        matrix = arrays["matrix"].reshape(width, shape.channels, units)
        weights = {**arrays, "kernel": np.ascontiguousarray(matrix.transpose(2, 1, 0)[:, :, None])}
        del weights["matrix"]
    stored = tuple(
        replace(stored, role="kernel", name=stored.name and f"{stored.name} by filters")
        if stored.role == "matrix"
        else stored
        for stored in layer.stored
    )
    form = (*lead, of_axis("C", units))
    at._put(layer, made, [held.layer], form, weights=weights, stored=stored)


def _product(at: _Rewriting, layer: Layer) -> None:
    """Scores, or values weighed by them: both operands have tokens as rows."""
    left, right = (at.held(name) for name in layer.inputs)
    rank = len(layer.shape.dims)
    if len(left.form) != rank or len(right.form) != rank:
        raise NoForm
    left, right = (
        _with_rows(at, name, held) for name, held in zip(layer.inputs, (left, right), strict=True)
    )
    of_left, of_right = at.shape_of(left), at.shape_of(right)
    batch, rows, inner = left.form[:-2], left.form[-2], left.form[-1]
    other_batch, row, column = right.form[:-2], right.form[-2], right.form[-1]
    groups, heads = groups_and_heads(batch, of_left)
    if (groups, heads) != groups_and_heads(other_batch, of_right):
        raise NoForm
    keys, width = of_right.height // groups, of_right.channels * of_right.width // heads
    tokens = of_left.height // groups
    if rows != of_axis("Y", tokens):
        raise NoForm
    if inner == of_axis("C", of_left.channels * of_left.width // heads) and (row, column) == (
        of_axis("C", width),
        of_axis("Y", keys),
    ):
        operator, size = op.AttentionProduct(gives="scores", heads=heads, groups=groups), keys
    elif (
        inner == of_axis("C", of_left.channels)
        and of_left.width == heads
        and (row, column) == (of_axis("Y", keys), of_axis("C", width))
    ):
        operator, size = op.AttentionProduct(gives="values", heads=heads, groups=groups), width
    else:
        raise NoForm
    moved = tuple(
        tuple(Digits("X", 1, heads) if digit.axis != "Y" else digit for digit in dim)
        for dim in batch
    )
    form = (*moved, rows, of_axis("C", size))
    at._put(layer, operator, [left.layer, right.layer], form)
    at.has_attention = True


def _with_rows(at: _Rewriting, name: str, held: Held) -> Held:
    """An operand whose tokens are rows of a map: where it has columns of tokens, a view or reorder."""
    shape = at.shape_of(held)
    digits = [digit for dim in held.form for digit in dim]
    columns = [digit for digit in digits if digit.axis == "X"]
    if not columns or (
        columns == [Digits("X", 1, shape.width)]
        and len({digit.axis for digit in digits}) == 3 - (shape.height == 1)
        and (Digits("X", 1, shape.width),) in held.form[:-2]
    ):
        return held
    places = [digit for dim in held.form for digit in dim if digit.axis != "C"]
    order = at._reordered(held, places, (size_of(places), 1))
    rows = iter(cut_up((Digits("Y", 1, size_of(places)),), tuple(place.size for place in places)))
    new = dict(zip(places, rows, strict=True))
    form = tuple(
        joined([part for digit in dim for part in new.get(digit, (digit,))]) for dim in held.form
    )
    at._held[name] = Held(order, form)
    return at._held[name]


def _pointwise(at: _Rewriting, layer: Layer, operator: op.Operator) -> None:
    """A function of single elements, wherever they lie."""
    held = at.held(layer.inputs[0])
    if operator.trained(at.network.input_shapes(layer)):  # slopes of channels
        raise NoForm
    at._put(layer, operator, [held.layer], held.form)
    at.put_once(layer, operator)


def _embedding(at: _Rewriting, layer: Layer, operator: op.Operator) -> None:
    """Rows of a table: the numbers of the tokens of each place."""
    held = at.held(layer.inputs[0])
    if at.shape_of(held).dims != at.network.input_shapes(layer)[0].dims:
        raise NoForm
    form = (of_axis("C", layer.shape.channels), *held.form[1:])
    at._put(layer, operator, [held.layer], form)


def _choice(at: _Rewriting, layer: Layer, operator: op.Choice) -> None:
    """A choice by one tensor between two numbers is a function of its elements."""
    if len(layer.inputs) == 1 and all(set(dims) == {1} for _, dims in operator.constants):
        at.put_once(layer, operator)
    raise NoForm


def _repeat(at: _Rewriting, layer: Layer, operator: op.Repeat) -> None:
    """A tensor several times; a single place repeated is also left as it is."""
    axis, times = operator.axis, operator.times
    if at.network.input_shapes(layer)[0].dims[axis] > 1:
        raise NoForm
    at.put_once(layer)
    if len(layer.shape.dims) <= 3:  # else heads of keys or values that several queries share
        raise NoForm
    held = at.held(layer.inputs[0])
    places, form = repeated_channels(held.form, axis, times, at.shape_of(held))
    at._put(layer, op.Gather(axis=0, places=places), [held.layer], form)


def _elementwise(at: _Rewriting, layer: Layer, operator: op.Elementwise) -> None:
    if not all(name in at._held for name in layer.inputs):
        raise NoForm
    helds = [at.operand(name) for name in layer.inputs]
    form = widest_form([h.form for h in helds], layer.shape.dims)
    shape = Shape(dims=tuple(size_of(digits_of(axis, form)) for axis in AXES))
    sources = [_like(at, held, form, shape) for held in helds]
    weights = None
    if operator.constant is not None:
        dims = varying_dims(operator.constant, form, shape)
        arrays = at._arrays(layer)
        if arrays is not None:
            whole = np.broadcast_to(arrays["constant"], layer.shape.dims)
            kept = tuple(slice(size) for size in dims)
            on_map = laid_out(whole, form, shape)[kept]
            weights = {**arrays, "constant": np.ascontiguousarray(on_map)}
        operator = replace(operator, constant=dims)
    stored = tuple(
        replace(stored, name=None) if stored.role == "constant" else stored
        for stored in layer.stored
    )
    at._put(layer, operator, sources, form, weights=weights, stored=stored)


def _like(at: _Rewriting, held: Held, form: Form, shape: Shape) -> str:
    """The layer with an operand that lies as the result does, or is repeated along its axes."""
    form_of, dims = held.form, at.shape_of(held).dims
    form_of = (*((),) * (len(form) - len(form_of)), *form_of)
    is_alike = all(dim_ in ((), wide) for dim_, wide in zip(form_of, form, strict=True))
    if is_alike and all(size in (1, dim) for size, dim in zip(dims, shape.dims, strict=True)):
        return held.layer
    there = tuple(dim if dim_ else () for dim_, dim in zip(form_of, form, strict=True))
    if tuple(map(size_of, form_of)) == tuple(map(size_of, there)):
        axes = {digit.axis for dim in there for digit in dim}
        kept = Shape(
            dims=tuple(n if axis in axes else 1 for axis, n in zip(AXES, shape.dims, strict=True))
        )
        order, wanted = (
            joined([digit for dim in form_ for digit in dim]) for form_ in (form_of, there)
        )
        if order == in_memory(at.shape_of(held)) and wanted == in_memory(kept):
            return at._moved(held.layer, op.View(dims=kept.dims), "as others")
    raise NoForm


def _over_last(at: _Rewriting, layer: Layer, axis: int) -> Held:
    """The tokens of a layer that works on all numbers of each, the last axis of the file."""
    if axis != len(layer.shape.dims) - 1:
        raise NoForm
    if at.held(layer.inputs[0]).form[-1] == of_axis(
        "C", at.shape_of(at.held(layer.inputs[0])).channels
    ):
        return at.tokens(layer.inputs[0])
    return at.one_column(at.tokens(layer.inputs[0]))


def _layer_normalization(at: _Rewriting, layer: Layer, operator: op.LayerNormalization) -> None:
    if operator.last is not None:
        raise NoForm
    held = _over_last(at, layer, operator.axis)
    at._put(layer, replace(operator, axis=0, last=0), [held.layer], held.form)


def _softmax(at: _Rewriting, layer: Layer, operator: op.Softmax) -> None:
    axis = operator.axis
    if operator.last not in (None, axis):
        raise NoForm
    held = at.held(layer.inputs[0])
    if axis != len(layer.shape.dims) - 1 or held.form[-1] != of_axis(
        "C", at.shape_of(held).channels
    ):
        raise NoForm
    at._put(layer, replace(operator, axis=0, last=None), [held.layer], held.form)


def _reduction(at: _Rewriting, layer: Layer, operator: op.Reduction) -> None:
    """A reduction over the numbers of a token, or over all tokens."""
    if layer.inputs[0] not in at._held:
        raise NoForm
    held = at.held(layer.inputs[0])
    shape, axes = at.shape_of(held), set(operator.axes)
    gone = joined(
        sorted(
            (digit for axis in axes for digit in held.form[axis]),
            key=lambda digit: (IN_MEMORY.index(digit.axis), -digit.step),
        )
    )
    over = [(0,), (1, 2)]
    kinds = [
        of_axis("C", shape.channels),
        joined([*of_axis("Y", shape.height), *of_axis("X", shape.width)]),
    ]
    if gone not in kinds or not gone:
        raise NoForm
    form = tuple(
        () if axis in axes else dim
        for axis, dim in enumerate(held.form)
        if operator.keeps or axis not in axes
    )
    operator = replace(operator, axes=over[kinds.index(gone)], keeps=True)
    at._put(layer, operator, [held.layer], form or ((),))


def _concatenation(at: _Rewriting, layer: Layer, operator: Any) -> None:
    """Tensors, and constants, in sequence along tokens or along the numbers of each."""
    if operator.joined_axis is not None and len(layer.shape.dims) == 3:
        sources = [at.held(name) for name in layer.inputs]
        rests = {
            (*source.form[: operator.axis], *source.form[operator.axis + 1 :]) for source in sources
        }
        shapes = [at.shape_of(source) for source in sources]
        forms = [of_axis("C", shape.channels) for shape in shapes]
        if len(rests) > 1 or [source.form[operator.axis] for source in sources] != forms:
            raise NoForm
        channels = list(sources[0].form)
        channels[operator.axis] = of_axis("C", sum(shape.channels for shape in shapes))
        at._put(layer, op.Concatenation(), [source.layer for source in sources], tuple(channels))
        return
    helds = [at.one_column(at.tokens(name)) for name in layer.inputs]
    constants = getattr(operator, "constants", ())
    rank, axis = len(layer.shape.dims), operator.axis
    if rank != 2:
        raise NoForm
    dims = layer.shape.dims
    new_axis = 1 if axis == 0 else 0
    arrays, weights = at._arrays(layer), None
    if constants:
        if arrays is not None:
            weights = {
                role: np.ascontiguousarray(array.T[:, :, None]) for role, array in arrays.items()
            }
        operator = replace(
            operator,
            axis=new_axis,
            constants=tuple((place, (pair[1], pair[0], 1)) for place, pair in constants),
        )
    else:
        operator = replace(operator, axis=new_axis)
    form = (of_axis("Y", dims[0]), of_axis("C", dims[1]))
    stored = tuple(replace(stored, name=None) for stored in layer.stored)
    at._put(layer, operator, [h.layer for h in helds], form, weights=weights, stored=stored)


_RULES: dict[type, Callable[[_Rewriting, Layer, Any], None]] = {
    op.Activation: _pointwise,
    op.Choice: _choice,
    op.Concatenation: _concatenation,
    op.ConstantConcatenation: _concatenation,
    op.Conversion: _pointwise,
    op.Elementwise: _elementwise,
    op.Embedding: _embedding,
    op.Gather: _gather,
    op.Identity: _pointwise,
    op.Input: _input,
    op.LayerNormalization: _layer_normalization,
    op.MatrixProduct: _with_matrix,
    op.Output: _output,
    op.Reduction: _reduction,
    op.Repeat: _repeat,
    op.Reshape: _reshape,
    op.Slice: _slice,
    op.Softmax: _softmax,
    op.Transpose: _transpose,
    op.View: _as_it_lies,
}
