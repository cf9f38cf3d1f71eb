"""Inputs and parameters that a layer certainly reads for a set of its output elements.

A set of elements is a union of boxes (planners.traffic.fused.group) of feature maps, rows and
columns; a tensor of another rank counts as feature maps of one pixel. The sets are used in lower
bounds: for a layer whose dependences are not known exactly the set is empty, never too large. For
example, rows 0-1 of a 3x3 convolution without padding read rows 0-3 of its input.
"""

from __future__ import annotations

from cnn2csdf.geometry import PositionSet, Window, position_set
from cnn2csdf.network import Layer, Network, Shape
from cnn2csdf.operators.operator import SlicedRange
from planners.traffic.fused.group import Box, Boxes, FusedLayer, count, union


def all_elements(shape: Shape) -> Boxes:
    """Return all elements of a tensor, as one box."""
    maps, rows, columns = maps_of(shape)
    return ((position_set(0, maps), position_set(0, rows), position_set(0, columns)),)


def elements_read(network: Network, layer: Layer, index: int, outputs: Boxes) -> Boxes:
    """Return the elements of one input of a layer that these output elements certainly depend on."""
    source = network.layer(layer.inputs[index]).shape
    window = window_of(network, layer)
    if window is not None:
        return union(
            (_channels_read(window, maps), window.rows.needed(down), window.columns.needed(across))
            for maps, down, across in outputs
        )
    operator = layer.operator
    if source == layer.shape and (operator.is_elementwise or layer.is_output):
        return outputs
    if operator.joined_axis == 0:
        channels_before = [maps_of(shape)[0] for shape in network.input_shapes(layer)[:index]]
        mask = position_set(0, maps_of(source)[0])
        return union((maps >> sum(channels_before) & mask, *area) for maps, *area in outputs)
    if operator.sliced_range is not None and source.is_map:
        cut = operator.sliced_range
        return union(_before_cut(cut, box) for box in outputs)
    is_whole = outputs == all_elements(layer.shape) and operator.reads_all(source, layer.shape)
    return all_elements(source) if is_whole else ()


def parameters_read(network: Network, layer: Layer, outputs: Boxes, parameters: int) -> int:
    """Return a lower bound on the parameters that a layer reads for these output elements.

    Layers with a window: the weights that take part. Other layers: all `parameters` if the entire
    output is requested, else none.
    """
    window = window_of(network, layer)
    if window is None:
        operator, source = layer.operator, network.input_shapes(layer)[0]
        reads_all = not operator.scatters_products or operator.reads_all(source, layer.shape)
        return parameters if outputs == all_elements(layer.shape) and reads_all else 0
    if not window.has_weights:
        return 0
    kernels = union(
        (maps, window.rows.live_kernel(down), window.columns.live_kernel(across))
        for maps, down, across in outputs
    )
    return count(kernels) * window.channels // window.groups


def _channels_read(window: FusedLayer, filters: PositionSet) -> PositionSet:
    """The input maps that these filters read, as a set of positions."""
    if window.groups == 1:
        return position_set(0, window.channels) if filters else 0
    if window.is_channelwise:
        return filters
    channels_each, filters_each = window.channels // window.groups, window.filters // window.groups
    active = (
        group
        for group in range(window.groups)
        if filters >> group * filters_each & position_set(0, filters_each)
    )
    return sum(position_set(group * channels_each, (group + 1) * channels_each) for group in active)


def _before_cut(cut: SlicedRange, box: Box) -> Box:
    """The elements of a tensor that appear in a box of its slice."""
    axis, start, _, step = cut
    positions = range(box[axis].bit_length())
    source_positions = sum(
        1 << start + step * position for position in positions if box[axis] >> position & 1
    )
    return (*box[:axis], source_positions, *box[axis + 1 :])


def window_of(network: Network, layer: Layer) -> FusedLayer | None:
    """Return the window of a layer over its input; None if it has no window, or crops its input."""
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
    """Return a window from one tensor to another; without `groups` it has no weights."""
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
    """Return feature maps, rows and columns of a tensor; other ranks are maps of one pixel."""
    if not shape.is_map:
        return shape.elements, 1, 1
    return shape.channels, shape.height, shape.width
