"""Layers that run as one: each reads what the one before it leaves in the buffer."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import prod

from csdf.errors import InvalidPlan
from planners.traffic.fused.reach import Reach

Skip = tuple[int, int]  # numbers of a map and of a layer that reads it at the same places


@dataclass(frozen=True, slots=True, kw_only=True)
class FusedLayer:
    """A layer that slides a window over maps, with what works element by element behind it.

    groups: each filter reads channels / groups maps. A layer without weights (pooling, addition)
    has as many groups as channels. beside: operands of its size that come from DRAM, element by
    element.
    """

    channels: int
    filters: int
    rows: Reach
    columns: Reach
    groups: int = 1
    has_weights: bool = True
    beside: int = 0

    def __post_init__(self) -> None:
        if self.channels % self.groups or self.filters % self.groups:
            raise InvalidPlan(
                f"{self.groups} groups do not divide {self.channels} channels, "
                f"{self.filters} filters"
            )

    @property
    def vector(self) -> int:
        """Elements of the kernel of one filter over one map that take part."""
        return self.rows.live_kernel * self.columns.live_kernel if self.has_weights else 0

    @property
    def weights(self) -> int:
        """Elements of all filters."""
        return self.vector * self.filters * self.channels // self.groups

    @property
    def outputs(self) -> int:
        """Elements of what it makes."""
        return self.filters * self.rows.outputs * self.columns.outputs

    @property
    def is_channelwise(self) -> bool:
        """Whether each of its maps is made of one map."""
        return self.groups == self.channels == self.filters

    @property
    def operations(self) -> int:
        """Products, or elements looked at, for one output element."""
        return self.channels // self.groups * self.rows.kernel * self.columns.kernel


@dataclass(frozen=True, slots=True, kw_only=True)
class FusedGroup:
    """At least two layers; map 0 is the input of the first, map k the output of layer k.

    skips: maps that later layers read once more, element by element, and that wait for them in the
    buffer. written: maps inside that others read from DRAM, so that they are written there too;
    the last map always is.
    """

    layers: tuple[FusedLayer, ...]
    skips: tuple[Skip, ...] = ()
    written: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        if len(self.layers) < 2:
            raise InvalidPlan(f"a group of {len(self.layers)} layers; fusing takes two at least")
        for number, (one, other) in enumerate(pairwise(self.layers)):
            left = one.filters, one.rows.outputs, one.columns.outputs
            right = other.channels, other.rows.inputs, other.columns.inputs
            if left != right:
                raise InvalidPlan(f"layer {number + 1} makes {left}, the next one reads {right}")
        for source, layer in self.skips:
            if not 0 <= source < layer <= len(self.layers):
                raise InvalidPlan(f"layer {layer} cannot read map {source} once more")
            if self.dims(source) != self.dims(layer):
                raise InvalidPlan(
                    f"map {source} of {self.dims(source)} skips to layer {layer}, "
                    f"which makes {self.dims(layer)}"
                )

    @property
    def length(self) -> int:
        """Layers."""
        return len(self.layers)

    def dims(self, number: int) -> tuple[int, int, int]:
        """Feature maps, rows and columns of a map."""
        if number == 0:
            first = self.layers[0]
            return first.channels, first.rows.inputs, first.columns.inputs
        layer = self.layers[number - 1]
        return layer.filters, layer.rows.outputs, layer.columns.outputs

    def elements(self, number: int) -> int:
        """Elements of a map."""
        return prod(self.dims(number))

    @property
    def weights(self) -> int:
        """Elements of all filters of all layers."""
        return sum(layer.weights for layer in self.layers)

    def last_reader(self, number: int) -> int:
        """The last layer that reads a map."""
        return max([number + 1, *(layer for source, layer in self.skips if source == number)])
