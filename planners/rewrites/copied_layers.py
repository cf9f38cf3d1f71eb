"""Checker of a network with copies of layers: whether it computes the same as the original network.

Layer by layer, the checker determines the origin of each tensor: the layer of the original network that
it holds, whole or a part of it. A part is a group of rows that needs only its own rows; a range of
columns with the input columns that it needs; a range of channels that are computed from the same
channels; or one attention head. A head is a channel block of a convolution, or a column block of
attention, together with layers that read nothing else. The parts of a layer are joined by a
concatenation. The checker shares no code with the rewrites that copy layers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.geometry import Range
from cnn2csdf.network import Layer, Network
from csdf.errors import InvalidPlan

COPY = re.compile(
    r"(?P<original>.*)(?: again(?: \d+)?"
    r"|, (?P<part>head|group|columns|channels) (?P<number>\d+)(?: \d+)?)",
    re.DOTALL,
)
CHANNELS, ROWS, COLUMNS = range(3)  # axes
# Operators that compute an element, a channel, or a head from the same of each input.
OF_ELEMENTS = (op.Activation, op.Conversion, op.Elementwise, op.Identity)
OF_CHANNELS = (*OF_ELEMENTS, op.BatchNormalization, op.GlobalPooling, op.Pooling)
OF_HEADS = (*OF_ELEMENTS, op.Softmax, op.LayerNormalization, op.AttentionProduct)


class _Origin(NamedTuple):
    """The original layer of a tensor, and the part of it.

    group, head: numbers from 1 on; 0 for all. columns, channels: the first and one past the last; None
    for all.
    """

    layer: str
    group: int = 0
    head: int = 0
    columns: Range | None = None
    channels: Range | None = None


def require_same(network: Network, rewritten: Network) -> None:
    """Raise InvalidPlan unless the network with copies of layers is equivalent to the original."""
    _CopyProof(network, rewritten).require_equivalent()


def _rows_of(original: Layer, layer: Layer, group: int) -> range | None:
    """The rows of the original that a copy for a group has; None where the rows do not divide."""
    height, rows = original.shape.rows, layer.shape.rows
    is_part = original.shape.is_map and layer.shape.is_map and height % rows == 0
    return range((group - 1) * rows, group * rows) if is_part and group * rows <= height else None


class _CopyProof:
    """Proof that a network with copies of layers computes the same as the original network."""

    def __init__(self, network: Network, rewritten: Network) -> None:
        self._network, self._rewritten = network, rewritten
        self._originals = {layer.name: layer for layer in network.layers}

    def require_equivalent(self) -> None:
        """Raise InvalidPlan for a layer that is no copy, and for a layer without a copy."""
        name = self._network.name
        origins: dict[str, _Origin] = {}
        for layer in self._rewritten.layers:
            sources = [origins.get(source, _Origin("")) for source in layer.inputs]
            origin = self._origin(layer, sources)
            if origin is None:
                raise InvalidPlan(f"layer {layer.name!r} is no copy of a layer of {name!r}")
            origins[layer.name] = origin
        computed = {origin.layer for origin in origins.values()}
        for layer in self._network.layers:
            # A concatenation computes nothing: its readers may read its inputs instead.
            is_needed = layer.operator.joined_axis != 0 or not layer.inputs
            if layer.name not in computed and is_needed:
                raise InvalidPlan(
                    f"layer {layer.name!r} of {name!r} is missing, and so are copies of it"
                )

    def _origin(self, layer: Layer, sources: list[_Origin]) -> _Origin | None:
        """The original, or part of it, that a layer computes from its sources; None for no copy."""
        part = self._channels_of(layer, sources) or self._columns_of(layer, sources)
        if part is not None:
            return part
        # The name only says what is to be proved, such as "dense, group 2, head 1".
        name, numbers = layer.name, {"group": 0, "head": 0}
        while name not in self._originals and (match := COPY.fullmatch(name)):
            name = match["original"]
            if match["part"] and match["part"] in numbers:
                numbers[match["part"]] = int(match["number"])
        origin = _Origin(name, numbers["group"], numbers["head"])
        original = self._originals.get(name)
        is_proved = (
            original is not None
            and _is_copy(layer, original, operator=layer.operator, epilogue=layer.epilogue)
            and self._computes_part(layer, origin, sources)
        )
        return origin if is_proved else None

    def _computes_part(self, layer: Layer, origin: _Origin, sources: list[_Origin]) -> bool:
        """Whether a copy computes its part of its original from the same parts of the inputs."""
        if any(self._joins(layer, origin, sources, axis) for axis in (COLUMNS, ROWS)):
            return True
        original = self._originals[origin.layer]
        if origin.group and sources == [_Origin(original.name)]:
            rows = _rows_of(original, layer, origin.group)
            if rows is None:
                return False
            cut = op.Slice(axis=ROWS, start=rows.start, stop=rows.stop)
            return _is_copy(layer, original, operator=cut, epilogue=())
        of_group = [_Origin(name, origin.group) for name in original.inputs]
        if origin.group and not self._needs_own_rows(layer, origin):
            return False
        if not origin.head:
            operator = original.operator.of_one_group() if origin.group else original.operator
            has_shape = layer.shape.dims == original.shape.dims or bool(origin.group)
            is_copy = _is_copy(layer, original, operator=operator)
            return has_shape and sources == of_group and is_copy
        return self._is_of_head(layer, origin, sources)

    def _joins(self, layer: Layer, origin: _Origin, sources: list[_Origin], axis: int) -> bool:
        """Whether a layer concatenates all heads (COLUMNS), or groups (ROWS), of the original."""
        original = self._originals[origin.layer]
        is_join = _is_copy(layer, original, operator=op.Concatenation(axis=axis), epilogue=())
        if not is_join or origin.head or not layer.inputs:
            return False
        shape, count = layer.shape.dims, len(layer.inputs)
        shapes = {self._rewritten.layer(name).shape.dims for name in layer.inputs}
        part = (*shape[:axis], shape[axis] // count, *shape[axis + 1 :])
        if axis == ROWS:
            wanted = [_Origin(original.name, number + 1) for number in range(count)]
            is_all = shape == original.shape.dims and not origin.group
        else:
            wanted = [origin._replace(head=number + 1) for number in range(count)]
            is_all = count == original.shape.width
        return (
            is_all and shape[axis] == part[axis] * count and shapes == {part} and sources == wanted
        )

    def _needs_own_rows(self, layer: Layer, origin: _Origin) -> bool:
        """Whether the rows of a group need only the rows of the same group of each input."""
        original, group = self._originals[origin.layer], origin.group
        rows = _rows_of(original, layer, group)
        shapes = self._network.input_shapes(original)
        constants = [step.constant_dims for step in (original.operator, *original.epilogue)]
        if rows is None or any(dims and len(dims) == 3 and dims[1] > 1 for dims in constants):
            return False
        groups = original.shape.rows // len(rows)
        for index, shape in enumerate(shapes):
            needed = original.operator.rows_needed(index, shapes, original.shape)
            size = shape.rows // groups
            if needed is None or shape.rows % groups:
                return False
            spans = [needed(row) for row in rows]
            if min(spans)[0] < (group - 1) * size or max(end for _, end in spans) > group * size:
                return False
        return True

    def _channels_of(self, layer: Layer, sources: list[_Origin]) -> _Origin | None:
        """The original channels that a layer computes or joins; None where it does neither."""
        ranges = [source.channels for source in sources if source.channels]
        if layer.operator.joined_axis == CHANNELS and len(sources) == len(ranges) > 0:
            return self._joined(layer, sources, ranges, CHANNELS)
        part = self._named_part(layer, "channels")
        if part is None:
            return None
        original, first = part
        channels = first, first + layer.shape.channels
        if original.operator.joined_axis == 0 and layer.operator == original.operator:
            is_alike = _is_copy(layer, original) and not original.epilogue and len(sources) == 1
            is_part = is_alike and (sources[0], channels) in self._requantised_inputs(original)
        else:
            is_part = self._computes_channels(original, layer, sources, channels)
        return _Origin(original.name, channels=channels) if is_part else None

    def _joined(
        self, layer: Layer, sources: list[_Origin], ranges: list[Range], axis: int
    ) -> _Origin | None:
        """The original that a layer joins of all its columns or channels; None if it does not.

        ranges: the columns or channels of each source.
        """
        original = self._originals.get(layer.name)
        is_joined = (
            original is not None
            and {source.layer for source in sources} == {layer.name}
            and _follow_up_to(original.shape.dims[axis], ranges)
            and _is_copy(layer, original, operator=op.Concatenation(axis=axis), epilogue=())
            and layer.shape == original.shape
        )
        return _Origin(layer.name) if is_joined else None

    def _named_part(self, layer: Layer, kind: str) -> tuple[Layer, int] | None:
        """The original and the number in the name of a copy of columns or channels; None for others."""
        match = COPY.fullmatch(layer.name)
        if match is None or match["part"] != kind or match["original"] not in self._originals:
            return None
        return self._originals[match["original"]], int(match["number"])

    def _computes_channels(
        self, original: Layer, layer: Layer, sources: list[_Origin], channels: Range
    ) -> bool:
        """Whether a layer computes channels of the original from the channels that these need."""
        shapes = self._network.input_shapes(original)
        if not shapes or len(sources) != len(shapes):
            return False
        whole = shapes[0].channels
        scale, rest = divmod(original.shape.channels, whole)  # channels computed from each channel
        first, end = channels
        if rest or first % scale or end % scale:
            return False
        wanted = first // scale, end // scale
        for name, shape, source in zip(original.inputs, shapes, sources, strict=True):
            has_channels = shape.is_map and shape.channels == whole
            if not has_channels or (source, wanted) not in self._channels_in(name, sources):
                return False
        count = layer.shape.channels
        return (
            len(layer.epilogue) == len(original.epilogue)
            and _is_on_channels(original.operator, layer.operator, whole=whole, count=count)
            and all(
                _is_on_channels(*steps, whole=whole * scale, count=count)
                for steps in zip(original.epilogue, layer.epilogue, strict=True)
            )
            and _is_copy(layer, original, operator=layer.operator, epilogue=layer.epilogue)
            and layer.shape.dims[1:] == original.shape.dims[1:]
        )

    def _channels_in(self, name: str, sources: list[_Origin]) -> Iterator[tuple[_Origin, Range]]:
        """Yield the sources that hold channels of a tensor of the network, with these channels.

        They are parts of it, and of the tensors that it concatenates without another scale.
        """
        tensor, first = self._network.layer(name), 0
        for source in sources:
            if source == _Origin(name, channels=source.channels):
                yield source, source.channels or (0, tensor.shape.channels)
        if tensor.operator.joined_axis != 0 or tensor.epilogue:
            return
        for part in map(self._network.layer, tensor.inputs):
            if (part.element, part.quantization) == (tensor.element, tensor.quantization):
                for source, (begin, end) in self._channels_in(part.name, sources):
                    yield source, (first + begin, first + end)
            first += part.shape.channels

    def _requantised_inputs(self, joined: Layer) -> Iterator[tuple[_Origin, Range]]:
        """Yield the inputs of a concatenation that it requantises one by one, with their channels.

        The inputs of an input are included if that is a concatenation of the same type.
        """
        first, types = 0, joined.quantization
        for part in map(self._network.layer, joined.inputs):
            end = first + part.shape.channels
            if (
                types is not None
                and part.quantization is not None
                and part.element is joined.element
            ):
                if types.arithmetic is part.quantization.arithmetic:
                    yield _Origin(part.name), (first, end)
                if (part.quantization, part.operator, part.epilogue) == (
                    types,
                    joined.operator,
                    (),
                ):
                    for origin, (begin, stop) in self._requantised_inputs(part):
                        yield origin, (first + begin, first + stop)
            first = end

    def _columns_of(self, layer: Layer, sources: list[_Origin]) -> _Origin | None:
        """The original columns that a layer slices, computes or joins; None for other layers."""
        if not sources or any(
            source.layer not in self._originals or source.group or source.head or source.channels
            for source in sources
        ):
            return None
        originals = [self._originals[source.layer] for source in sources]
        spans = [
            source.columns or (0, original.shape.width)
            for source, original in zip(sources, originals, strict=True)
        ]
        source, (begin, end) = originals[0], spans[0]
        cut = layer.operator.sliced_range
        if cut and (cut.axis, cut.step) == (COLUMNS, 1) and layer.name not in self._originals:
            is_slice = (
                _is_copy(layer, source, operator=layer.operator, epilogue=())
                and 0 <= cut.start < cut.stop <= end - begin
                and layer.shape.dims == (*source.shape.dims[:2], cut.stop - cut.start)
            )
            columns = begin + cut.start, begin + cut.stop
            return sources[0]._replace(columns=columns) if is_slice else None
        if layer.operator.joined_axis == COLUMNS and all(part.columns for part in sources):
            return self._joined(layer, sources, spans, COLUMNS)
        part = self._named_part(layer, "columns")
        if part is None:
            return None
        original, _ = part
        if [source.layer for source in sources] != list(original.inputs):
            return None
        computed = self._computed_columns(original, layer, spans)
        return None if computed is None else _Origin(original.name, columns=computed)

    def _computed_columns(self, original: Layer, layer: Layer, spans: list[Range]) -> Range | None:
        """The columns of the original that a copy computes; None where it computes others.

        spans: the columns of each input of the copy.
        """
        first, operator = self._begins_at(original, layer, spans)
        end = first + layer.shape.width
        if not (
            _is_copy(layer, original, operator=operator)
            and 0 <= first < end <= original.shape.width
            and layer.shape.dims[:2] == original.shape.dims[:2]
        ):
            return None
        width = self._network.input_shapes(original)[0].width
        for column in range(first, end):
            wanted = _columns_read(original, column, width)
            if not all(begin <= position < stop for begin, stop in spans for position in wanted):
                return None
        return first, end

    def _begins_at(
        self, original: Layer, layer: Layer, spans: list[Range]
    ) -> tuple[int, op.Operator | None]:
        """The first column that a copy of a layer computes from input columns, and the copy's operator.

        spans: the columns of each input of the copy. The operator is None where no copy computes
        columns of the layer from these spans.
        """
        begin, end = spans[0]
        width, is_flat = layer.shape.width, set(spans) == {(begin, end)}
        shapes = self._network.input_shapes(original)
        constants = [step.constant_dims for step in (original.operator, *original.epilogue)]
        if any(dims and dims[-1] > 1 for dims in constants):
            return 0, None
        window, window_of_copy = original.operator.sliding_window, layer.operator.sliding_window
        if window is not None and window_of_copy is not None:
            columns = window.columns
            left, right = window_of_copy.columns.before, window_of_copy.columns.after
            padding = window.rows.before, left, window.rows.after, right
            first, rest = divmod(begin - left + columns.before, columns.stride)
            room = end - begin + left + right - columns.extent
            if (
                rest
                or min(padding) < 0
                or any(window.overhang)
                or width != room // columns.stride + 1
            ):
                return 0, None
            return first, original.operator.with_window(replace(window, padding=padding))
        match original.operator, layer.operator:
            case op.Resize(function="nearest"), op.Resize():
                times = original.shape.width // shapes[0].width
                for axis in original.operator.axes(shapes[0]):
                    places = list(range(axis.size))
                    if axis.nearest(np.array(places)).tolist() != [at // times for at in places]:
                        return 0, None
                size = layer.shape.height, (end - begin) * times
                return begin * times, op.Resize(size=size, function="nearest")
        is_kept = original.operator.keeps_columns and all(
            shape.width == original.shape.width for shape in shapes
        )
        return begin, original.operator if is_kept and is_flat and width == end - begin else None

    def _is_of_head(self, layer: Layer, origin: _Origin, sources: list[_Origin]) -> bool:
        """Whether a layer computes the channels or columns of one head of the original."""
        original, head = self._originals[origin.layer], origin.head
        whole, part = original.shape.dims, layer.shape.dims
        axes = [
            axis for axis in (CHANNELS, COLUMNS) if len(part) == 3 and part[axis] != whole[axis]
        ]
        if len(axes) != 1 or whole[axes[0]] % part[axes[0]]:
            return False
        (axis,) = axes
        heads = whole[axis] // part[axis]
        if head > heads or len(layer.epilogue) != len(original.epilogue):
            return False
        steps = (original.operator, *original.epilogue), (layer.operator, *layer.epilogue)
        if not all(_is_on_head(*pair, axis, heads) for pair in zip(*steps, strict=True)):
            return False
        if original.operator.splits_filters:
            return sources == [_Origin(name, origin.group) for name in original.inputs]
        is_attention = original.operator.rereads_rows
        is_even = all(shape.dims == whole for shape in self._network.input_shapes(original))
        of_head = [_Origin(name, origin.group, head) for name in original.inputs]
        return sources == of_head and (is_attention or is_even)


def _is_copy(layer: Layer, original: Layer, **parts: Any) -> bool:
    """Whether a layer is the original but for its name, inputs, arrays, shape, and these parts."""
    named = replace(original, name=layer.name, inputs=layer.inputs, stored=layer.stored)
    return layer == replace(named, shape=layer.shape, **parts)


def _follow_up_to(size: int, ranges: list[Range]) -> bool:
    """Whether ranges follow one another from 0 to a size."""
    ends = [0, *(end for _, end in ranges)]
    return [begin for begin, _ in ranges] == ends[:-1] and ends[-1] == size


def _is_on_channels(original: op.Operator, part: op.Operator, *, whole: int, count: int) -> bool:
    """Whether operator `part` is the original on `count` of the channels of its result."""
    match original:
        case op.Convolution(groups=groups, filters=filters):
            taken = count * groups // filters
            return groups == whole and part == replace(original, filters=count, groups=taken)
        case op.Elementwise(constant=(channels, height, width)) if channels > 1:
            return channels == whole and part == replace(original, constant=(count, height, width))
    return part == original and isinstance(original, OF_CHANNELS)


def _columns_read(layer: Layer, column: int, width: int) -> list[int]:
    """The input columns from which a column of a layer is computed. width: of the first input."""
    window = layer.operator.sliding_window
    if window is None:  # the column itself, or the column that a resize repeats
        return [column * width // layer.shape.width]
    axis = window.columns
    first = column * axis.stride - axis.before
    columns = [first + tap * axis.dilation for tap in range(axis.kernel)]
    return [column for column in columns if 0 <= column < width]


def _is_on_head(original: op.Operator, part: op.Operator, axis: int, heads: int) -> bool:
    """Whether operator `part` is the original restricted to one head along an axis."""
    match original:
        case op.Convolution(groups=1, filters=filters) if axis == CHANNELS:
            return part == replace(original, filters=filters // heads)
        case op.AttentionProduct(heads=all_heads) if axis == COLUMNS:
            return all_heads == heads and part == replace(original, heads=1, groups=1)
        case op.Elementwise(constant=tuple(dims)) if len(dims) <= 3:
            # Dims of a constant are aligned with the last of the map.
            of_map = [*(1,) * (3 - len(dims)), *dims]
            of_map[axis] = max(1, of_map[axis] // heads)
            dims_of_head = tuple(of_map[3 - len(dims) :])
            if dims_of_head != dims:
                return part == replace(original, constant=dims_of_head)
    return part == original and isinstance(original, OF_HEADS if axis == COLUMNS else OF_ELEMENTS)
