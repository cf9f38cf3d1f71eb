"""A network as a course of layers, and the places where a single tensor is alive between them."""

from __future__ import annotations

from dataclasses import dataclass

from cnn2csdf.network import Network
from cnn2csdf.operators import Input, Output
from csdf.errors import InvalidNetwork


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """The layers of a network in order, its first input in front, without its outputs.

    cuts: places of layers after which only their own tensor is needed any more; first that of the
    input, last that of the last layer. results: tensors that go out, which always lie whole.
    others: inputs beside the first; they lie whole from the start, and are read before the next cut.
    """

    network: Network
    layers: tuple[str, ...]
    cuts: tuple[int, ...]
    results: frozenset[str]
    others: tuple[str, ...]

    def at(self, cut: int) -> str:
        """The layer whose tensor is alive at a cut."""
        return self.layers[self.cuts[cut]]


def course_of(network: Network) -> Course:
    """Return the course of a network, with as many cuts as its order of layers has.

    Raises InvalidNetwork where there is no layer between input and output.
    """
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
    return Course(
        network=network,
        layers=tuple(layer.name for layer in layers),
        cuts=(*cuts, len(layers) - 1),
        results=results,
        others=tuple(layer.name for layer in others),
    )
