"""A network as a chain of sections: between two of them a single tensor is alive."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cnn2csdf.granularity import require_few_parts
from cnn2csdf.network import Layer, Network
from cnn2csdf.operators import Input, Output
from csdf.errors import InvalidNetwork, counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Layers that can only be fused together: one tensor goes in, one comes out.

    source: the layer that writes what goes in; the last layer writes what comes out.
    """

    source: str
    layers: tuple[str, ...]

    @property
    def result(self) -> str:
        """The layer whose tensor comes out."""
        return self.layers[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """A network with one input and one output, cut wherever a single tensor is alive."""

    network: Network
    sections: tuple[Section, ...]

    def layers(self, first: int, upto: int) -> tuple[Layer, ...]:
        """The layers of sections [first, upto), in order."""
        return tuple(
            self.network.layer(name)
            for section in self.sections[first:upto]
            for name in section.layers
        )

    @property
    def frame(self) -> str:
        """The input layer."""
        return self.sections[0].source

    @property
    def result(self) -> str:
        """The layer whose tensor is the output of the network."""
        return self.sections[-1].result


def chain_of(network: Network) -> Chain:
    """Return the network as a chain of the shortest sections.

    Raises InvalidNetwork for several inputs or outputs, for a layer that nobody reads, and for rows
    that are too many to be listed.
    """
    require_few_parts(network)
    if len(network.inputs) != 1 or len(network.outputs) != 1:
        raise InvalidNetwork(
            f"network {network.name!r} has {counted(len(network.inputs), 'input')} and "
            f"{counted(len(network.outputs), 'output')}; fused tiles need one of each"
        )
    layers = [layer for layer in network.layers if not isinstance(layer.operator, Output)]
    if network.outputs[0].inputs != (layers[-1].name,):
        raise InvalidNetwork(
            f"network {network.name!r}: its output is not that of its last layer, "
            f"{layers[-1].name!r}"
        )
    cuts = [place for place in _cuts(layers) if place > 0]
    if not isinstance(layers[0].operator, Input) or not cuts:
        raise InvalidNetwork(f"network {network.name!r} has no layer between input and output")
    return Chain(network=network, sections=tuple(_sections(layers, cuts)))


def _cuts(layers: Sequence[Layer]) -> list[int]:
    """Places of layers after which nothing but their own tensor is alive."""
    place = {layer.name: number for number, layer in enumerate(layers)}
    last_read = list(range(len(layers)))
    for number, layer in enumerate(layers):
        for source in layer.inputs:
            last_read[place[source]] = number
    for number, read in enumerate(last_read[:-1]):
        if read == number:
            raise InvalidNetwork(f"layer {layers[number].name!r} is read by nobody")
    cuts, alive = [], 0
    for number, read in enumerate(last_read):
        if alive <= number:
            cuts.append(number)
        alive = max(alive, read)
    return cuts


def _sections(layers: Sequence[Layer], cuts: Sequence[int]) -> list[Section]:
    return [
        Section(
            source=layers[before].name,
            layers=tuple(layer.name for layer in layers[before + 1 : end + 1]),
        )
        for before, end in zip((0, *cuts[:-1]), cuts, strict=True)
    ]
