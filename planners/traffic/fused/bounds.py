"""Lower bounds on the DRAM traffic of every schedule, fused or not: each needed element moves once.

The bounds hold for a buffer of any size. The elements that are needed follow from the results
backwards through all layers, as unions of boxes (planners.traffic.fused.group).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from cnn2csdf.geometry import ReceptiveField, position_set
from cnn2csdf.network import Network
from cnn2csdf.parameters import ElementSizes
from planners.traffic.fused.group import (
    ALIASED_OPERAND,
    INPUT,
    Boxes,
    FusedGroup,
    FusedLayer,
    count,
    union,
)
from planners.traffic.fused.reading import all_elements, elements_read, parameters_read
from planners.traffic.fused.stages import TrafficStage, operand_numbers


def group_traffic_bound(group: FusedGroup) -> int:
    """Return a lower bound in bytes for a group: its input, operands, weights and outputs, once each.

    Only elements on which an output depends are counted: a weight that meets nothing but padding,
    or whose products no output needs, is not.
    """
    needed, operand_bytes = _needed_areas(group)
    weights = sum(
        layer.weights(outputs) * layer.weight_bytes
        for layer, outputs in zip(group.layers, needed[1:], strict=True)
    )
    written = sum(map(group.bytes, group.outputs))
    maps = group.dims(0)[0] if group.distinct_maps is None else group.distinct_maps
    return maps * count(needed[0]) * group.input_bytes + operand_bytes + weights + written


def _needed_areas(group: FusedGroup) -> tuple[list[Boxes], int]:
    """For each map, the rows and columns on which outputs depend; and the bytes of needed operands."""
    readers, operands = group.readers, _readers_of_operands(group)
    boxes_of: list[Boxes] = [()] * (group.length + 1)
    for number in range(group.length, -1, -1):
        requested = [
            box for source, reader in group.skips if source == number for box in boxes_of[reader]
        ]
        if number == 0:
            requested += [box for reader, _ in operands.pop(INPUT, ()) for box in boxes_of[reader]]
        for reader in readers[number]:
            layer = group.layers[reader - 1]
            requested += [
                (layer.rows.needed(rows), layer.columns.needed(columns))
                for rows, columns in boxes_of[reader]
            ]
        _, rows, columns = group.dims(number)
        is_written = number in group.written or number in group.ends
        boxes_of[number] = (
            ((position_set(0, rows), position_set(0, columns)),) if is_written else union(requested)
        )
    operands.pop(ALIASED_OPERAND, None)
    operand_bytes = sum(
        group.dims(uses[0][0])[0]
        * uses[0][1]
        * count(union(box for reader, _ in uses for box in boxes_of[reader]))
        for uses in operands.values()
    )
    return boxes_of, operand_bytes


def _readers_of_operands(group: FusedGroup) -> dict[int, list[tuple[int, int]]]:
    """For each operand from DRAM, by its number: its readers, and its bytes per element."""
    readers: dict[int, list[tuple[int, int]]] = {}
    new_numbers = iter(range(1, sum(layer.dram_operands for layer in group.layers) + 1))
    for reader, layer in enumerate(group.layers, 1):
        numbers = (
            group.operands[reader - 1]
            if group.operands
            else islice(new_numbers, layer.dram_operands)
        )
        for number, size in zip(numbers, layer.bytes_by_operand, strict=False):
            readers.setdefault(number, []).append((reader, size))
    return readers


def stage_traffic_bound(stage: TrafficStage) -> tuple[int, int]:
    """Return a lower bound in bytes for one stage, and the share of operands from DRAM in it.

    The rule is that of a group, with the entire output of the stage needed.
    """
    layer, (numbers,) = stage.window, operand_numbers([stage], ())
    if layer is None:
        return stage.minimum_reads + stage.output_bytes, 0
    needed = union(
        (layer.rows.needed(rows), layer.columns.needed(columns)) for rows, columns in layer.full_box
    )
    if INPUT in numbers:
        needed = union([*needed, *layer.full_box])
    sizes = dict(zip(numbers, layer.bytes_by_operand, strict=True))
    operand_bytes = layer.outputs * sum(
        size for number, size in sizes.items() if number not in (INPUT, ALIASED_OPERAND)
    )
    bound = stage.distinct_maps * count(needed) * stage.source_bytes
    bound += layer.weights(layer.full_box) * layer.weight_bytes
    return bound + stage.output_bytes + operand_bytes, operand_bytes


def seen_elements(layer: FusedLayer) -> int:
    """Return the input elements that at least one window of a layer covers."""
    return layer.channels * _seen_positions(layer.rows) * _seen_positions(layer.columns)


def _seen_positions(reach: ReceptiveField) -> int:
    """Input positions along one axis that at least one window covers."""
    return reach.needed(position_set(0, reach.outputs)).bit_count()


def network_traffic_bound(
    network: Network, stages: Sequence[TrafficStage], sizes: ElementSizes
) -> int:
    """Return a lower bound in bytes for a network: its inputs, weights and results, once each.

    Only elements of inputs and weights on which the results depend are counted. Elements of an
    input that a result shows unchanged (through views) need no write.
    """
    computed_from, shown_in = _needed_elements(network)
    weights = sum(
        parameters_read(
            network, layer, union((*computed_from[name], *shown_in[name])), stage.parameters
        )
        * (1 if stage.window is None else stage.window.weight_bytes)
        for stage in stages
        for name in stage.layers[:1]
        for layer in [network.layer(name)]
    )
    input_bytes = sum(
        count(computed_from[layer.name]) * sizes.of(layer.name) for layer in network.inputs
    )
    elements_written: dict[str, int] = {}
    for name in network.results:
        for tensor, elements in _written(network, name):
            elements_written[tensor] = max(elements_written.get(tensor, 0), elements)
    result_bytes = sum(elements * sizes.of(tensor) for tensor, elements in elements_written.items())
    return weights + input_bytes + result_bytes


def _needed_elements(network: Network) -> tuple[dict[str, Boxes], dict[str, Boxes]]:
    """Elements of each tensor that results depend on: those computed from, those shown by views."""
    computed_from: dict[str, Boxes] = {layer.name: () for layer in network.layers}
    shown_in = dict(computed_from)
    for layer in reversed(network.layers):
        if layer.is_output:
            shown_in[layer.name] = all_elements(layer.shape)
        elif not (layer.is_input or layer.operator.is_view):
            computed_from[layer.name] = union((*computed_from[layer.name], *shown_in[layer.name]))
            shown_in[layer.name] = ()
        for boxes_of in (computed_from, shown_in):
            for index, source in enumerate(layer.inputs):
                needed = elements_read(network, layer, index, boxes_of[layer.name])
                boxes_of[source] = union((*boxes_of[source], *needed))
    return computed_from, shown_in


def _written(network: Network, name: str) -> Iterator[tuple[str, int]]:
    """The tensors that a result is a view of, and how many elements of each are certainly written.

    None for an input of the network that is passed on unchanged, nor for a slice of another view.
    """
    layer = network.layer(name)
    if layer.is_input:
        return
    if layer.operator.sliced_range is not None:
        source = network.layer(layer.inputs[0])
        if not (source.is_input or source.operator.is_view):
            yield source.name, layer.shape.elements
    elif layer.operator.is_view:
        for input_name in layer.inputs:
            yield from _written(network, input_name)
    else:
        yield name, layer.shape.elements
