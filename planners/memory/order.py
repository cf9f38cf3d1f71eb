"""Topological order of a network, and its separators: places where a single tensor is live."""

from __future__ import annotations

from dataclasses import dataclass

from cnn2csdf.granularity import require_few_parts
from cnn2csdf.network import Layer, Network
from cnn2csdf.operators import Input, Output
from csdf.arguments import public
from csdf.errors import InvalidNetwork, counted


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologicalOrder:
    """The layers of a network in order, its first input in front, without its outputs.

    separators: places of the layers after which only their own tensor is needed any more;
    first that of the input, last that of the last layer. Sections lie between them. results: tensors
    that go out, which always lie whole. others: inputs besides the first; they lie whole from the start
    and are read before the next separator.
    """

    network: Network
    layers: tuple[str, ...]
    separators: tuple[int, ...]
    results: frozenset[str]
    others: tuple[str, ...]

    @property
    def sections(self) -> int:
        """How many sections there are."""
        return len(self.separators) - 1

    def at(self, cut: int) -> str:
        """The layer whose tensor is live at a separator."""
        return self.layers[self.separators[cut]]

    def between(self, first: int, upto: int) -> tuple[Layer, ...]:
        """The layers of sections [first, upto), in order."""
        names = self.layers[self.separators[first] + 1 : self.separators[upto] + 1]
        return tuple(map(self.network.layer, names))


def topological_order(network: Network) -> TopologicalOrder:
    """Return the order of a network, with as many separators as its order of layers has.

    Raises InvalidNetwork where there is no layer between input and output.
    """
    if network.keeps_state:
        raise InvalidNetwork(
            f"network {network.name!r} keeps a state from frame to frame; fit() plans it"
        )
    first, *others = network.inputs
    layers = [
        first,
        *(one for one in network.layers if not isinstance(one.operator, Input | Output)),
    ]
    if len(layers) == 1:
        raise InvalidNetwork(f"network {network.name!r} has no layer between input and output")
    place = {layer.name: number for number, layer in enumerate(layers)}
    results = frozenset(source for layer in network.outputs for source in layer.inputs)
    last_read = dict(place) | {layer.name: 0 for layer in others}
    for layer in layers:
        for source in layer.inputs:
            last_read[source] = max(last_read[source], place[layer.name])
    last_read |= {name: len(layers) for name in results}
    cuts, alive = [0], max((last_read[layer.name] for layer in others), default=0)
    for number, layer in enumerate(layers[:-1]):
        if number > 0 and alive <= number:
            cuts.append(number)
        alive = max(alive, last_read[layer.name])
    return TopologicalOrder(
        network=network,
        layers=tuple(layer.name for layer in layers),
        separators=(*cuts, len(layers) - 1),
        results=results,
        others=tuple(layer.name for layer in others),
    )


@public
def chain_of(network: Network) -> TopologicalOrder:
    """Return the order of a network with one input and one output, each layer of which is read.

    Raises InvalidNetwork for other networks, and for rows that are too many to be listed.
    """
    require_few_parts(network)
    if len(network.inputs) != 1 or len(network.outputs) != 1:
        raise InvalidNetwork(
            f"network {network.name!r} has {counted(len(network.inputs), 'input')} and "
            f"{counted(len(network.outputs), 'output')}; fused tiles need one of each"
        )
    course = topological_order(network)
    if network.outputs[0].inputs != (course.layers[-1],):
        raise InvalidNetwork(
            f"network {network.name!r}: its output is not that of its last layer, "
            f"{course.layers[-1]!r}"
        )
    for name in course.layers:
        if not network.consumers[name]:
            raise InvalidNetwork(f"layer {name!r} is read by nobody")
    return course
