"""What every schedule moves, fused or not, in a buffer of any size: what must cross, once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from cnn2csdf import operators as op
from cnn2csdf.network import Layer, Network
from planners.traffic.fused.axis_cuts import COLUMNS, ROWS, axis_cut
from planners.traffic.fused.group import FusedGroup, FusedLayer
from planners.traffic.fused.reach import Places, Reach, places
from planners.traffic.fused.stages import VIEWS, Stage, window_of

Area = tuple[Places, Places]  # rows, columns


def least_moved(group: FusedGroup) -> int:
    """Return the elements every schedule of a group moves: inputs, weights and outputs, once.

    Of the input, and of operands from beside, only the places that the results depend on by the
    reader that asks for most.
    """
    needed = [_size(area) for area in _areas(group)]
    beside = sum(
        layer.beside * layer.filters * needed[number]
        for number, layer in enumerate(group.layers, 1)
    )
    written = sum(map(group.elements, group.outputs))
    return group.dims(0)[0] * needed[0] + beside + group.weights + written


def _areas(group: FusedGroup) -> list[Area]:
    """Of each map, places that the outputs of the group depend on: what one of its readers needs."""
    readers = group.readers
    found: list[Area] = [(0, 0)] * (group.length + 1)
    for number in range(group.length, -1, -1):
        _, rows, columns = group.dims(number)
        asked = [found[layer] for source, layer in group.skips if source == number]
        for reader in readers[number]:
            layer, (down, across) = group.layers[reader - 1], found[reader]
            asked.append((layer.rows.needed(down), layer.columns.needed(across)))
        is_whole = number in group.written or not asked
        found[number] = (places(0, rows), places(0, columns)) if is_whole else max(asked, key=_size)
    return found


def makes_what_it_writes(group: FusedGroup) -> bool:
    """Whether all of each map that others read is made: no window skips a place of it."""
    if not group.written:
        return True
    cuts = [axis_cut(group, axis, 1, makes_once=True, reads_once=True) for axis in (ROWS, COLUMNS)]
    return all(
        cut.needed[number][0].bit_count() == size
        for number in group.written
        for cut, size in zip(cuts, group.dims(number)[1:], strict=True)
    )


def seen_elements(layer: FusedLayer) -> int:
    """Return the elements of the input that some window of a layer sees."""
    return layer.channels * _seen(layer.rows) * _seen(layer.columns)


def _seen(reach: Reach) -> int:
    return reach.needed(places(0, reach.outputs)).bit_count()


def least_of_network(network: Network, stages: Sequence[Stage]) -> int:
    """Return the elements every schedule of a network moves: frames, weights and results, once.

    Of a frame only the places that the results depend on by the reader that asks for most.
    """
    needed = _needed_places(network)
    weights = sum(
        stage.parameters if stage.window is None else stage.window.weights for stage in stages
    )
    frames = sum(_needed_elements(layer, needed) for layer in network.inputs)
    written: dict[str, int] = {}
    for name in {name for layer in network.outputs for name in layer.inputs}:
        for tensor, elements in _written(network, name):
            written[tensor] = max(written.get(tensor, 0), elements)
    return weights + frames + sum(written.values())


def _needed_places(network: Network) -> dict[str, Area]:
    """For each tensor, places that the results depend on: those that one of its readers needs.

    Where it is not plain what a reader needs, nothing is said to be needed.
    """
    found: dict[str, Area] = {}
    for layer in reversed(network.layers):
        whole = _whole(layer)
        if isinstance(layer.operator, op.Output):
            found[layer.name] = whole
        own = found.get(layer.name, (0, 0))
        for index, source in enumerate(layer.inputs):
            wanted = _read(network, layer, index, own)
            found[source] = max(found.get(source, (0, 0)), wanted, key=_size)
    return found


def _read(network: Network, layer: Layer, index: int, own: Area) -> Area:
    """What a layer reads of one input for some of its output."""
    source = network.layer(layer.inputs[index])
    window = window_of(network, layer)
    if window is not None:
        return window.rows.needed(own[0]), window.columns.needed(own[1])
    keeps_places = source.shape == layer.shape and isinstance(layer.operator, _SAME_PLACES)
    if keeps_places or isinstance(layer.operator, op.Output):
        return own
    if isinstance(layer.operator, op.Concatenation) and layer.operator.axis == 0:
        return own
    is_whole = own == _whole(layer) and isinstance(layer.operator, _ALL_OR_NOTHING)
    return _whole(source) if is_whole else (0, 0)


_SAME_PLACES = (op.Activation, op.BatchNormalization, op.Elementwise, op.Identity)
_ALL_OR_NOTHING = (
    op.Concatenation,
    op.LocalResponseNormalization,
    op.MatrixProduct,
    op.Reshape,
    op.Softmax,
)


def _whole(layer: Layer) -> Area:
    return places(0, layer.shape.height), places(0, layer.shape.width)


def _size(area: Area) -> int:
    return area[0].bit_count() * area[1].bit_count()


def _needed_elements(frame: Layer, needed: Mapping[str, Area]) -> int:
    maps = frame.shape.elements // (frame.shape.height * frame.shape.width)
    return maps * _size(needed.get(frame.name, (0, 0)))


def _written(network: Network, name: str) -> Iterator[tuple[str, int]]:
    """The tensors that a result shows, with elements of each that are written.

    None of a frame that goes out as it came in; of a slice of another view, none for certain.
    """
    layer = network.layer(name)
    match layer.operator:
        case op.Input():
            return
        case op.Concatenation() | op.Reshape() | op.Identity():
            for one in layer.inputs:
                yield from _written(network, one)
        case op.Slice():
            source = network.layer(layer.inputs[0])
            if not isinstance(source.operator, (op.Input, *VIEWS)):
                yield source.name, layer.shape.elements
        case _:
            yield name, layer.shape.elements
