"""Networks with their layers in other execution orders, which may need fewer bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from importlib import import_module
from itertools import islice
from operator import or_
from random import Random

from cnn2csdf.network import Layer, Network
from csdf.status import Ended
from csdf.time_limit import Stop
from planners.memory.order import is_chain, topological_order
from planners.memory.stages import StageTable
from planners.order.heuristics import breadth_first, random_order
from planners.order.problem import OrderProblem, Step

FILE_ORDER = "file"
SEARCHED_ORDER = "search"
ORDERS = (SEARCHED_ORDER, FILE_ORDER)
MOST_ORDERS = 24  # of layers, all of which are tried in several memories
# Layers between two separators from which on random orders and the breadth-first order are planned:
# at least 12, and a quarter of all layers, with 2 inputs beyond the first of each layer. Blocks of
# ResNet have up to 11 layers, and the local search over stages finds their orders. GoogLeNet has 14 of
# 140 layers, and YOLOv2 27 with one branch: they gain nothing in 8 and 14 s.
LONG_SECTION = 12
LONG_PART = 4
FEWEST_JOINS = 2
# Random orders: NASNet with activations takes 302,592 bytes in the second, and 376,320 in the first
# two canonical orders. A search of 480 layers in all takes about 2 s.
RANDOM_ORDERS = 6
RANDOM_LAYERS = 480


def canonical_orders(
    network: Network, table: StageTable, stop: Stop
) -> tuple[list[Network], list[Network]]:
    """Return the network in layer orders that depend only on operators and inputs of its layers.

    The first list has the orders of the lowest peak, and depth first; the second has random orders
    and breadth first, if a section between separators is long. Row by row, any of them may need the
    fewest bytes. The orders do not depend on names or on the order of the file. The peak counts whole
    tensors, by their bytes in the arena. A chain has one order. stop: of the search for the lowest
    peak. Raises KeyboardInterrupt if Ctrl-C ends this search.
    """
    depth_first = depth_first_order(network)
    if is_chain(network):
        return [in_order(network, depth_first)], []
    rank = {name: number for number, name in enumerate(depth_first)}
    ends = (layer.name for layer in network.inputs)
    names = (*ends, *depth_first)
    results = network.results
    graph = OrderProblem(
        name=network.name,
        sizes={name: table.arena_bytes(name) for name in names},
        steps=tuple(
            Step(name=name, reads=tuple(dict.fromkeys(network.layer(name).inputs)), writes=(name,))
            for name in depth_first
        ),
        outputs=tuple(sorted(results, key=lambda name: rank.get(name, -1))),
    )
    plan = import_module("planners.order.search").plan_order(graph, budget=stop)  # slow to import
    if plan.reason.has(Ended.INTERRUPTED):
        raise KeyboardInterrupt
    lowest_peak = plan.order
    first = list(dict.fromkeys((lowest_peak, depth_first)))
    further_orders: list[tuple[str, ...]] = []
    if _has_long_section(network, depth_first):
        for seed in range(min(RANDOM_ORDERS, RANDOM_LAYERS // len(depth_first))):
            order = random_order(graph.numbered.before, Random(seed))
            further_orders.append(_through_separators(network, graph.named(order)))
        steps = {step.name: step for step in graph.steps}
        ranked = replace(graph, steps=tuple(steps[name] for name in lowest_peak))
        further_orders.append(
            _through_separators(network, ranked.named(breadth_first(ranked.numbered)))
        )
    return (
        [in_order(network, order) for order in first],
        [in_order(network, order) for order in dict.fromkeys(further_orders) if order not in first],
    )


def _has_long_section(network: Network, order: Sequence[str]) -> bool:
    """Whether a section between two separators has many layers with several inputs."""
    layer_order = topological_order(in_order(network, order))
    sections = (layer_order.between(number, number + 1) for number in range(layer_order.sections))
    return any(
        len(layers) >= max(LONG_SECTION, len(order) // LONG_PART)
        and sum(len(set(layer.inputs)) - 1 for layer in layers) >= FEWEST_JOINS
        for layers in sections
    )


def depth_first_order(network: Network) -> tuple[str, ...]:
    """Return the postorder of a depth-first search from the outputs.

    Inputs of a layer are visited in their order. A concatenation is moved directly before its first
    reader: its inputs can be read by rows until then. So is a sum that only a sum with no other sum
    reads: both can be one stage. A layer that a separator does not need follows the separator.
    Inputs and outputs of the network are omitted.
    """
    unread = [layer.name for layer in network.layers if not network.consumers[layer.name]]
    outputs = {layer.name: None for layer in network.outputs}
    if len(unread) > len(outputs):
        unread.sort(key=structural_keys(network).__getitem__)
    waiting = list(reversed(dict.fromkeys((*outputs, *unread))))
    inputs = {layer.name: None for layer in network.inputs}
    order = dict(inputs)
    while waiting:
        missing = [name for name in network.layer(waiting[-1]).inputs if name not in order]
        if missing:
            waiting += reversed(missing)
        else:
            order[waiting.pop()] = None
    place = {name: number for number, name in enumerate(order)}
    readers = network.consumers
    for name in reversed(order):
        if _waits_for_reader(network, name, readers[name]):
            place[name] = min((place[reader] for reader in readers[name]), default=place[name])
    in_turn = sorted(order, key=lambda name: place[name])
    steps = [name for name in in_turn if name not in inputs and name not in outputs]
    return _through_separators(network, steps)


def _waits_for_reader(network: Network, name: str, readers: Sequence[str]) -> bool:
    """Whether a layer is a concatenation, or a sum whose only reader sums it and no other sum."""

    def is_sum(layer: Layer) -> bool:
        return layer.operator.elementwise_function is not None and len(layer.inputs) > 1

    layer = network.layer(name)
    if len(layer.inputs) < 2 or layer.operator.is_view:
        return layer.operator.is_view and len(layer.inputs) > 1
    if len(readers) != 1 or not is_sum(network.layer(readers[0])):
        return False
    sums = [source for source in network.layer(readers[0]).inputs if is_sum(network.layer(source))]
    return sums == [name]


def structural_keys(network: Network) -> dict[str, str]:
    """Return a digest of each layer: of its operator, its shape, and the digests of its inputs.

    Layers with equal keys compute the same values from the same inputs, whatever their names.
    """
    keys: dict[str, str] = {}
    inputs = {layer.name: number for number, layer in enumerate(network.inputs)}
    for layer in network.layers:
        sources = inputs.get(layer.name, [keys[name] for name in layer.inputs])
        content = repr((layer.operator, layer.epilogue, layer.shape, layer.element, sources))
        keys[layer.name] = hashlib.sha256(content.encode()).hexdigest()
    return keys


def _through_separators(network: Network, steps: Sequence[str]) -> tuple[str, ...]:
    """Return the layers that the first separator needs, then those of the second, and so on.

    A separator is a layer after which only its own tensor is read, once the separator and the layers
    that it needs have been computed. Inputs besides the first do not count, as in topological_order.
    """
    if len(network.inputs) == 1:
        return tuple(steps)  # what a separator does not need reads the separator
    place = {layer.name: 0 for layer in network.inputs}
    place |= {name: 1 << number for number, name in enumerate(steps)}
    place |= dict.fromkeys((layer.name for layer in network.outputs), 1 << len(steps))
    first = min(network.inputs, key=lambda layer: not network.consumers[layer.name]).name
    readers = {name: _union(place[reader] for reader in network.consumers[name]) for name in place}
    needed = dict.fromkeys(place, 0)  # the layer itself, and all that it is computed from
    read = dict.fromkeys(place, readers[first])  # the readers of all that it is computed from
    inputs_of_network = {layer.name for layer in network.inputs}
    for name in steps:
        sources = set(network.layer(name).inputs) - inputs_of_network
        needed[name] = place[name] | _union(needed[source] for source in sources)
        read[name] |= _union(read[source] | readers[source] for source in sources)
    ordered: dict[str, None] = {}
    for name in steps:
        if not read[name] & ~needed[name]:
            ordered |= dict.fromkeys(step for step in steps if needed[name] & place[step])
    return tuple(ordered | dict.fromkeys(steps))


def _union(sets: Iterable[int]) -> int:
    """Return the union of sets of layers, each the bits of an integer."""
    return reduce(or_, sets, 0)


def in_order(network: Network, order: Sequence[str]) -> Network:
    """Return the network with its layers in this order, between its inputs and its outputs."""
    inputs = [layer for layer in network.layers if layer.is_input]
    outputs = [layer for layer in network.layers if layer.is_output]
    return replace(network, layers=(*inputs, *map(network.layer, order), *outputs))


def few_orders(network: Network) -> Iterator[Network]:
    """Yield a network with its layers in all topological orders, its own first, if they are few.

    If they are many, yield its own order and two orders result by result, from the first and the last.
    """
    layers = [layer for layer in network.layers if not layer.is_end]
    ordered_layers = list(islice(_orders(layers), MOST_ORDERS + 1))
    if len(ordered_layers) > MOST_ORDERS:
        ordered_layers = [layers, _result_by_result(network), _result_by_result(network, -1)]
    for order in ordered_layers:
        yield in_order(network, [layer.name for layer in order])


def _result_by_result(network: Network, step: int = 1) -> list[Layer]:
    """The layers in the order of the network's results; with step -1 from the last result."""
    inputs = {layer.name for layer in network.inputs}
    ordered: dict[str, Layer] = {}
    waiting = [network.layer(name) for output in network.outputs for name in output.inputs][::-step]
    waiting = [layer for layer in network.layers[::-1] if layer not in network.outputs] + waiting
    while waiting:
        layer = waiting[-1]
        missing = [name for name in layer.inputs if name not in ordered and name not in inputs]
        if missing:
            waiting.append(network.layer(missing[0]))
            continue
        waiting.pop()
        if layer.name not in inputs:
            ordered[layer.name] = layer
    return list(ordered.values())


def _orders(layers: Sequence[Layer]) -> Iterator[list[Layer]]:
    """All topological orders, beginning with the order of the layers."""
    if not layers:
        yield []
    left = {layer.name for layer in layers}
    for layer in layers:
        if left.isdisjoint(layer.inputs):
            for rest in _orders([following for following in layers if following is not layer]):
                yield [layer, *rest]
