"""A streaming design: layers as clusters, and the FIFOs between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from csdf.errors import InvalidGraph, counted
from planners.fifo.timing.cluster import Cluster, WordPort

# FIFOs of the FINN library need two words to be read and written in alternation.
LEAST_DEPTH = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class DesignLayer:
    """A layer with its timing. estimate: the cycles that its builder notes, if it does."""

    name: str
    kind: str
    cluster: Cluster
    estimate: int | None = None
    folding: str = ""  # in words, such as "PE 2, SIMD 18"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fifo:
    """A FIFO from an output of one layer to an input of another.

    producer, consumer: numbers of layers, with their ports. given: the depth in the file, if any;
    nodes: the existing FIFO nodes, in the order of the stream.
    """

    name: str
    producer: int
    output: int
    consumer: int
    input: int
    bits: int  # of a word
    words: int  # in a frame
    given: int | None = None
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """Layers and FIFOs; inputs and outputs of the design never wait.

    Raises InvalidGraph if the two ports of a FIFO differ in words or bits.
    """

    name: str
    layers: tuple[DesignLayer, ...]
    fifos: tuple[Fifo, ...]
    remarks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for fifo in self.fifos:
            written, read = self.ports(fifo)
            if written.words != read.words:
                raise InvalidGraph(
                    f"{self.name}: FIFO {fifo.name!r}: {self.layers[fifo.producer].name!r} writes "
                    f"{counted(written.words, 'word')} of {counted(written.bits, 'bit')} in a frame, "
                    f"but {self.layers[fifo.consumer].name!r} reads {read.words} of {read.bits} bits"
                )

    def ports(self, fifo: Fifo) -> tuple[WordPort, WordPort]:
        """Return the port that writes a FIFO, and the one that reads it."""
        return (
            self.layers[fifo.producer].cluster.outputs[fifo.output],
            self.layers[fifo.consumer].cluster.inputs[fifo.input],
        )

    @property
    def events(self) -> int:
        """Events of one frame, of all layers."""
        return sum(layer.cluster.events for layer in self.layers)

    def bits(self, depths: Sequence[int]) -> int:
        """Return what FIFOs of these depths hold."""
        return sum(fifo.bits * depth for fifo, depth in zip(self.fifos, depths, strict=True))

    def named(self, depths: Sequence[int]) -> Mapping[str, int]:
        """Return the depths by the names of the FIFOs."""
        return {fifo.name: depth for fifo, depth in zip(self.fifos, depths, strict=True)}
