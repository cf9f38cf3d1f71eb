"""A network as a chain of sections: between two of them a single tensor is alive."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from cnn2csdf.granularity import require_few_parts
from cnn2csdf.network import Layer, Network
from cnn2csdf.operators import Output
from csdf.errors import InvalidNetwork, counted
from planners.streaming.course import Course, course_of


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
    course: Course
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
    if len(layers) == 1:
        raise InvalidNetwork(f"network {network.name!r} has no layer between input and output")
    for layer in layers:
        if not network.consumers[layer.name]:
            raise InvalidNetwork(f"layer {layer.name!r} is read by nobody")
    course = course_of(network)
    sections = tuple(
        Section(source=course.layers[before], layers=course.layers[before + 1 : end + 1])
        for before, end in pairwise(course.cuts)
    )
    return Chain(network=network, course=course, sections=sections)
