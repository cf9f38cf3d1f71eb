"""Reads of a layer of a network, of its inputs and parameters, for some of its output.

Elements of a tensor are boxes of feature maps, rows and columns; a tensor of another rank than
three is maps of one place. Where it is not plain what a layer reads, nothing is said to be read, so
that what is counted is read for certain. Layers of a network as windows that slide over feature
maps.
"""

from __future__ import annotations

from cnn2csdf.geometry import Places, Window, places
from cnn2csdf.network import Layer, Network, Shape
from cnn2csdf.operators.operator import Cut
from planners.traffic.fused.group import Box, Boxes, FusedLayer, count, union


def whole_of(shape: Shape) -> Boxes:
    """Return all elements of a tensor."""
    maps, rows, columns = maps_of(shape)
    return ((places(0, maps), places(0, rows), places(0, columns)),)


def read_of(network: Network, layer: Layer, index: int, own: Boxes) -> Boxes:
    """Return what a layer reads of one of its inputs for these elements of its output."""
    source = network.layer(layer.inputs[index]).shape
    window = window_of(network, layer)
    if window is not None:
        return union(_under_window(window, box) for box in own)
    operator = layer.operator
    if source == layer.shape and (operator.is_elementwise or layer.is_output):
        return own
    if operator.joined_axis == 0:
        before = [maps_of(shape)[0] for shape in network.input_shapes(layer)[:index]]
        mask = places(0, maps_of(source)[0])
        return union((maps >> sum(before) & mask, *area) for maps, *area in own)
    if operator.cut is not None and source.is_map:
        cut = operator.cut
        return union(_before_cut(cut, box) for box in own)
    is_whole = own == whole_of(layer.shape) and operator.reads_all(source, layer.shape)
    return whole_of(source) if is_whole else ()


def parameters_read(network: Network, layer: Layer, own: Boxes, parameters: int) -> int:
    """Return the parameters that a layer reads for these elements of its output, at least.

    Of windows the weights; of other layers all `parameters` where the whole output is asked for.
    """
    window = window_of(network, layer)
    if window is None:
        source = network.input_shapes(layer)[0]
        is_plain = layer.operator.reads_all_weights(source, layer.shape)
        return parameters if own == whole_of(layer.shape) and is_plain else 0
    if not window.has_weights:
        return 0
    kernels = union(
        (maps, window.rows.live_kernel(down), window.columns.live_kernel(across))
        for maps, down, across in own
    )
    return count(kernels) * window.channels // window.groups


def _under_window(window: FusedLayer, box: Box) -> Box:
    filters, down, across = box
    maps = _channels_read(window, filters)
    return maps, window.rows.needed(down), window.columns.needed(across)


def _channels_read(window: FusedLayer, filters: Places) -> Places:
    """The input maps that these filters read."""
    if window.groups == 1:
        return places(0, window.channels) if filters else 0
    if window.is_channelwise:
        return filters
    wide, filters_each = window.channels // window.groups, window.filters // window.groups
    asked = (
        group
        for group in range(window.groups)
        if filters >> group * filters_each & places(0, filters_each)
    )
    return sum(places(group * wide, (group + 1) * wide) for group in asked)


def _before_cut(cut: Cut, box: Box) -> Box:
    """The positions of a tensor that some positions of its slice show."""
    axis, start, _, step = cut
    shown = range(box[axis].bit_length())
    wanted = sum(1 << start + step * place for place in shown if box[axis] >> place & 1)
    return (*box[:axis], wanted, *box[axis + 1 :])


def window_of(network: Network, layer: Layer) -> FusedLayer | None:
    """Return a layer that slides a window over its input as such; None for other kinds."""
    if not layer.inputs:
        return None
    shape = network.layer(layer.inputs[0]).shape
    operator = layer.operator
    window, bank = operator.window_over(shape), operator.filter_bank
    if window is None or min(window.padding) < 0:
        return None
    groups = 1 if operator.dense_units is not None else None
    return fused_layer(shape, layer.shape, window, groups if bank is None else bank.groups)


def fused_layer(
    source: Shape, result: Shape, window: Window, groups: int | None = None
) -> FusedLayer:
    """Return a window over a tensor; without weights where no groups are named."""
    channels, *sizes = maps_of(source)
    filters, *outputs = maps_of(result)
    rows, columns = window.fields((sizes[0], sizes[1]), (outputs[0], outputs[1]))
    return FusedLayer(
        channels=channels,
        filters=filters,
        rows=rows,
        columns=columns,
        groups=channels if groups is None else groups,
        has_weights=groups is not None,
    )


def maps_of(shape: Shape) -> tuple[int, int, int]:
    """Return a tensor as feature maps, rows, columns: one of another rank as maps of one place."""
    if not shape.is_map:
        return shape.elements, 1, 1
    return shape.channels, shape.height, shape.width
