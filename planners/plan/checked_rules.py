"""Rules of layers and tensors that the checker of plans derives without code of planners or C.

They say which layers may accumulate their input, by rows or by channel blocks, or run in tiles, and
which tensors may be aliases inside a host. They also give the bytes of weights and states, and the
group after which the rows of a variable are copied.
"""

from __future__ import annotations

from math import prod

from cnn2csdf import operators as op
from cnn2csdf.dtypes import Element
from cnn2csdf.network import Layer, Network
from cnn2csdf.rings import rings_of
from planners.plan.plan import StreamingPlan

OF_ONE_PIXEL = (  # that read and write pixel by pixel, whatever lies between two pixels
    *(op.Activation, op.AttentionProduct, op.BatchNormalization, op.ChannelShuffle),
    *(op.Concatenation, op.Conversion, op.Convolution, op.DepthToSpace, op.Elementwise),
    *(op.GlobalPooling, op.Identity, op.LocalResponseNormalization, op.Pad, op.Pooling),
    *(op.Reduction, op.Resize, op.Slice, op.SpaceToDepth, op.TransposedConvolution),
)
CHANNELS, ROWS, COLUMNS = range(3)  # axes of a map
SINGLE_BYTES = 4  # of a weight of a layer that computes in floating point


def has_wide_accumulators(network: Network, layer: Layer) -> bool:
    """Return whether sums of a layer need more than the 32 bits of an accumulator: of int16 inputs."""
    types = network.layer(layer.inputs[0]).quantization
    return types is not None and types.element is Element.INT16


def adds_up_rows(network: Network, layer: Layer) -> bool:
    """Return whether a layer reduces all rows of a map to its one row, by sums or maxima."""
    if not layer.inputs or layer.shape.rows != 1:
        return False
    source = network.layer(layer.inputs[0]).shape
    if not source.is_map or source.rows < 2:
        return False
    match layer.operator:
        case op.GlobalPooling():
            return True
        case op.FullyConnected():
            return not has_wide_accumulators(network, layer)
        case op.Reduction(function=function, axes=axes):
            return function in ("mean", "sum", "max") and sorted(set(axes)) == [ROWS, COLUMNS]
        case op.Pooling(window=window):
            is_plain = window.dilation == (1, 1) and not any((*window.padding, *window.overhang))
            return is_plain and layer.shape.width == 1
    return False


def may_accumulate(network: Network, layer: Layer) -> bool:
    """Return whether a layer may be an accumulating stage, which reads one input row per firing."""
    return layer.operator.scatters_rows or adds_up_rows(network, layer)


def _is_fusible(operator: op.Operator) -> bool:
    """Return whether an operator computes each element from that element, as an epilogue."""
    return operator.is_elementwise and operator.can_be_fused


def works_on_blocks(layer: Layer, *, is_first: bool) -> bool:
    """Return whether a channel block of the result needs only the same channel block of the input.

    is_first: whether the layer is the first of its stage, whose input may be read in all channels.
    """
    if not all(map(_is_fusible, layer.epilogue)):
        return False
    bank = layer.operator.filter_bank
    if bank is not None:
        return is_first or bank.groups == bank.filters > 1
    return layer.operator.sliding_window is not None or _is_fusible(layer.operator)


def makes_rectangles(network: Network, layer: Layer) -> bool:
    """Return whether each rectangle of a map is computed from one rectangle of each input."""
    shapes = [network.layer(name).shape for name in layer.inputs] + [layer.shape]
    if not all(shape.is_map for shape in shapes):
        return False
    for step in (layer.operator, *layer.epilogue):
        constant = step.constant_dims
        if constant and any(size > 1 for size in constant[-2:]):
            return False
    match layer.operator:
        case op.Convolution(window=window) | op.Pooling(window=window):
            return all(size >= 0 for size in window.padding)
        case op.Pad(mode=mode, padding=padding):
            return mode == "constant" and all(size >= 0 for size in padding)
        case op.Concatenation(axis=axis) | op.Slice(axis=axis):
            return axis == CHANNELS
        case op.SpaceToDepth(order=order):
            return order == "block first"
        case op.LayerNormalization(axis=axis, last=last):
            return axis == last == CHANNELS
        case op.Softmax(axis=axis, last=last):
            return axis == CHANNELS and last is None
        case op.Reduction(axes=axes, keeps=keeps):
            return axes == (CHANNELS,) and bool(keeps)
        case op.ChannelShuffle() | op.AttentionProduct() | op.LocalResponseNormalization():
            return True
    return layer.operator.is_elementwise


def can_lie_apart(network: Network, layer: Layer) -> bool:
    """Return whether a layer and its readers can address pixels of its result with gaps."""
    if layer.shape.height * layer.shape.width == 1:
        return True
    readers = [network.layer(name) for name in network.consumers[layer.name]]
    reach = all(
        reader.operator.is_elementwise or isinstance(reader.operator, OF_ONE_PIXEL)
        for reader in (layer, *readers)
    )
    return reach and layer.operator.writes_by_pixels


def reads_each_byte_once(network: Network, layer: Layer, source: str) -> bool:
    """Return whether the kernel of a layer reads each byte of an input exactly once.

    A depthwise convolution does that if its one window is the input.
    """
    bank, shape = layer.operator.filter_bank, network.layer(source).shape
    if bank is None or not bank.groups == bank.filters == shape.channels:
        return False
    window = bank.window
    is_dense = window.dilation == (1, 1) and not any((*window.padding, *window.overhang))
    return is_dense and window.kernel == (shape.rows, shape.width)


def joins_columns(layer: Layer) -> bool:
    """Return whether a layer only concatenates feature maps along the columns."""
    return layer.shape.is_map and not layer.epilogue and layer.operator.joined_axis == COLUMNS


def bytes_kept(network: Network, layer: Layer) -> int:
    """Return the bytes of the internal state that a layer retains from frame to frame."""
    states = layer.operator.kept(network.input_shapes(layer))
    return sum(prod(state.dims) * state.element.bytes for state in states.values())


def bytes_of_weight(layer: Layer, element_bytes: int | None) -> int:
    """Return the bytes of each weight of a convolution or a fully connected layer."""
    role = "matrix" if layer.operator.filter_bank is None else "kernel"
    computed = SINGLE_BYTES
    if layer.reads_halves(role) and element_bytes in (None, SINGLE_BYTES):
        return layer.stored_as(role).element.bytes
    if layer.quantization is not None:
        computed = layer.stored_as(role).element.bytes
    return element_bytes or computed


def bytes_of_weights(network: Network, layer: Layer, element_bytes: int | None) -> int:
    """Return the bytes of the filters or the matrix of a layer; 0 for another layer.

    The matrix over several frames of a layer with a state remains in flash and does not count.
    """
    bank, units = layer.operator.filter_bank, layer.operator.dense_units
    if (bank is None and units is None) or layer.operator.frames_per_output > 1:
        return 0
    source = network.layer(layer.inputs[0]).shape
    weights = (units or 0) * source.elements
    if bank is not None:
        weights = bank.filters * (source.channels // bank.groups) * prod(bank.window.kernel)
    return weights * bytes_of_weight(layer, element_bytes)


def variable_updates(network: Network, plan: StreamingPlan) -> list[tuple[int, str, str]]:
    """Return for each variable the group after which it is updated, its name, and the source tensor.

    That is the last group that reads the variable or computes the source, whose last rows are copied.

    The source may be the window of a ring, whose first rows are the variable. Then the update follows
    the last group that reads the variable or the window, or computes the new rows of the window.
    """
    windows, updates = rings_of(network), []
    for previous, following in network.variables:
        source = following.inputs[0]
        layers = {source, *network.consumers[previous.name]}
        if source in windows:
            layers = {windows[source].new, *network.consumers[source]}
        group = 0
        for number, planned in enumerate(plan.groups):
            if any(layers & set(stage.layers) for stage in planned.stages):
                group = number
        updates.append((group, previous.name, source))
    return sorted(updates, key=lambda update: update[0])
