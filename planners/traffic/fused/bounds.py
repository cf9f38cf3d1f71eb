"""Lower bounds of all schedules, fused or not, in a buffer of any size: each element moves once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from cnn2csdf.geometry import ReceptiveField, places
from cnn2csdf.network import Network
from cnn2csdf.parameters import ElementSizes
from planners.traffic.fused.group import (
    INPUT,
    PART_OF_OTHERS,
    Boxes,
    FusedGroup,
    FusedLayer,
    count,
    union,
)
from planners.traffic.fused.reading import parameters_read, read_of, whole_of
from planners.traffic.fused.stages import TraversalStep, operands_of


def least_moved(group: FusedGroup) -> int:
    """Return the bytes every schedule of a group moves: inputs, weights and outputs, once.

    Only elements on which an output depends are counted. Dependences are followed from each layer
    back to its inputs, for weights as for elements of maps: a weight that meets only padding, or whose
    products no output needs, is not counted.
    """
    needed, operands = _needed_areas(group)
    weights = sum(
        layer.weights(made) * layer.weight_bytes
        for layer, made in zip(group.layers, needed[1:], strict=True)
    )
    written = sum(map(group.bytes, group.outputs))
    maps = group.dims(0)[0] if group.maps_apart is None else group.maps_apart
    return maps * count(needed[0]) * group.input_bytes + operands + weights + written


def _needed_areas(group: FusedGroup) -> tuple[list[Boxes], int]:
    """Of each map, places that the outputs of the group depend on; bytes of other operands."""
    readers, operands = group.readers, _operands(group)
    boxes_of: list[Boxes] = [()] * (group.length + 1)
    for number in range(group.length, -1, -1):
        asked = [
            box for source, reader in group.skips if source == number for box in boxes_of[reader]
        ]
        if number == 0:
            asked += [box for reader, _ in operands.pop(INPUT, ()) for box in boxes_of[reader]]
        for reader in readers[number]:
            layer = group.layers[reader - 1]
            asked += [
                (layer.rows.needed(rows), layer.columns.needed(columns))
                for rows, columns in boxes_of[reader]
            ]
        _, rows, columns = group.dims(number)
        is_whole = number in group.written or number in group.ends
        boxes_of[number] = ((places(0, rows), places(0, columns)),) if is_whole else union(asked)
    operands.pop(PART_OF_OTHERS, None)
    beside = sum(
        group.dims(uses[0][0])[0]
        * uses[0][1]
        * count(union(box for reader, _ in uses for box in boxes_of[reader]))
        for uses in operands.values()
    )
    return boxes_of, beside


def _operands(group: FusedGroup) -> dict[int, list[tuple[int, int]]]:
    """The layers that read each operand from beside, with its bytes an element, by its number."""
    skips: dict[int, list[tuple[int, int]]] = {}
    fresh = iter(range(1, sum(layer.beside for layer in group.layers) + 1))
    for reader, layer in enumerate(group.layers, 1):
        numbers = group.operands[reader - 1] if group.operands else islice(fresh, layer.beside)
        for number, size in zip(numbers, layer.beside_bytes, strict=False):
            skips.setdefault(number, []).append((reader, size))
    return skips


def least_of_stage(stage: TraversalStep) -> tuple[int, int]:
    """Return the bytes every schedule of one stage moves, and those of operands apart from it.

    As in a group, with all of its output needed: one rule for a layer and for a group.
    """
    layer, (numbers,) = stage.window, operands_of([stage], ())
    if layer is None:
        return stage.least_reads + stage.output_bytes, 0
    seen = union(
        (layer.rows.needed(rows), layer.columns.needed(columns)) for rows, columns in layer.whole
    )
    if INPUT in numbers:
        seen = union([*seen, *layer.whole])
    sizes = dict(zip(numbers, layer.beside_bytes, strict=True))
    apart = layer.outputs * sum(
        size for number, size in sizes.items() if number not in (INPUT, PART_OF_OTHERS)
    )
    least = stage.maps_apart * count(seen) * stage.source_bytes
    least += layer.weights(layer.whole) * layer.weight_bytes
    return least + stage.output_bytes + apart, apart


def seen_elements(layer: FusedLayer) -> int:
    """Return the elements of the input that some window of a layer sees."""
    return layer.channels * _seen(layer.rows) * _seen(layer.columns)


def _seen(reach: ReceptiveField) -> int:
    return reach.needed(places(0, reach.outputs)).bit_count()


def least_of_network(network: Network, stages: Sequence[TraversalStep], sizes: ElementSizes) -> int:
    """Return the bytes every schedule of a network moves: frames, weights and results, once.

    Of frames and weights only the elements on which the results depend. Elements of a frame that a
    result merely shows again are where they are.
    """
    read, shown = _needed_elements(network)
    weights = sum(
        parameters_read(network, layer, union((*read[name], *shown[name])), stage.parameters)
        * (1 if stage.window is None else stage.window.weight_bytes)
        for stage in stages
        for name in stage.layers[:1]
        for layer in [network.layer(name)]
    )
    frames = sum(count(read[layer.name]) * sizes.of(layer.name) for layer in network.inputs)
    written: dict[str, int] = {}
    for name in {name for layer in network.outputs for name in layer.inputs}:
        for tensor, elements in _written(network, name):
            written[tensor] = max(written.get(tensor, 0), elements)
    results = sum(elements * sizes.of(tensor) for tensor, elements in written.items())
    return weights + frames + results


def _needed_elements(network: Network) -> tuple[dict[str, Boxes], dict[str, Boxes]]:
    """For each tensor, the elements that the results certainly depend on: read, or shown in them."""
    read: dict[str, Boxes] = {layer.name: () for layer in network.layers}
    shown = dict(read)
    for layer in reversed(network.layers):
        if layer.is_output:
            shown[layer.name] = whole_of(layer.shape)
        elif not (layer.is_input or layer.operator.is_view):
            read[layer.name] = union((*read[layer.name], *shown[layer.name]))
            shown[layer.name] = ()
        for shown_boxes in (read, shown):
            for index, source in enumerate(layer.inputs):
                wanted = read_of(network, layer, index, shown_boxes[layer.name])
                shown_boxes[source] = union((*shown_boxes[source], *wanted))
    return read, shown


def _written(network: Network, name: str) -> Iterator[tuple[str, int]]:
    """The tensors that a result shows, with elements of each that are written.

    None of a frame that goes out as it came in; of a slice of another view, none for certain.
    """
    layer = network.layer(name)
    if layer.is_input:
        return
    if layer.operator.cut is not None:
        source = network.layer(layer.inputs[0])
        if not (source.is_input or source.operator.is_view):
            yield source.name, layer.shape.elements
    elif layer.operator.is_view:
        for input_name in layer.inputs:
            yield from _written(network, input_name)
    else:
        yield name, layer.shape.elements
