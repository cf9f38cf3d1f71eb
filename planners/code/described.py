"""A layer as a writer of C sees it, and the call that is written for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from cnn2csdf.elements import Element, Quantization
from cnn2csdf.network import Layer, Network, Shape
from cnn2csdf.weights import Array
from csdf.errors import UnsupportedOperator
from planners.code.mixed import RealTables
from planners.code.names import identifier
from planners.code.tables import NULL, Tables


class Call(NamedTuple):
    """A C function and the address of its numbers."""

    function: str
    parameters: str = NULL


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """A layer with what it takes to write a call for it.

    given: what the integers of its inputs stand for, where they are quantised. element: of the arena.
    number: of the layer, in the order of the network from 1 on.
    """

    layer: Layer
    inputs: tuple[Shape, ...]
    weights: Mapping[str, Array]
    tables: Tables | RealTables
    given: tuple[Quantization | None, ...]
    element: Element
    number: int

    @property
    def is_real(self) -> bool:
        """Whether it computes with real numbers."""
        return self.element is Element.FLOAT32

    def symbol(self, role: str, array: Array) -> str:
        """Return the symbol of some trained numbers, as they lie in memory.

        Layers share what they share in the file, so the flash does not depend on the numbers.
        """
        name = next((one.name for one in self.layer.stored if _in_c(one.role) == _in_c(role)), None)
        owner = name or (self.layer.name, role)
        return self.tables.weights(f"{identifier(self.layer.name)}_{role}", array, owner)

    def computed(self, role: str, array: Array) -> str:
        """Return the symbol of numbers that are not trained: equal ones lie in flash once."""
        return self.tables.weights(f"{identifier(self.layer.name)}_{role}", array)

    def optional(self, role: str) -> str:
        """Return the symbol of trained numbers that may be missing."""
        return self.symbol(role, self.weights[role]) if role in self.weights else NULL

    def structure(self, kind: str, *fields: str | int) -> str:
        """Return the address of the numbers of the layer."""
        return self.tables.one(kind, identifier(self.layer.name), [str(one) for one in fields])

    def refusal(self, what: str) -> UnsupportedOperator:
        """Return the error for a layer that no kernel computes."""
        name = type(self.layer.operator).__name__
        nameless = f"layer number {self.number} of the network, a {name} without a name"
        where = f"layer {self.layer.name!r}" if self.layer.name else nameless
        return UnsupportedOperator(f"{where}: no C code for {name} {what}")


def _in_c(role: str) -> str:
    """Return what calls name an array of trained numbers by."""
    return role.replace(".", "_").replace(" ", "_")


def described(
    network: Network,
    layer: Layer,
    weights: Mapping[str, Array],
    tables: Tables | RealTables,
    element: Element,
) -> Described:
    """Return a layer with what it takes to write a call for it."""
    return Described(
        layer=layer,
        inputs=network.input_shapes(layer),
        weights=weights,
        tables=tables,
        given=tuple(network.layer(source).quantization for source in layer.inputs),
        element=element,
        number=network.layers.index(layer) + 1,
    )
