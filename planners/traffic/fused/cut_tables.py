"""The tilings of one group, each computed once, with the bytes that its tiles need."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TypeVar

from planners.traffic.fused.axis_cuts import (
    AxisCut,
    AxisTotals,
    Inner,
    Outer,
    axis_cut,
    axis_totals,
    inner_profiles,
    made_of,
    outer_profiles,
    weights_of,
)
from planners.traffic.fused.group import FusedGroup, FusedLayer
from planners.traffic.fused.schedule import KEPT, Border

Profile = TypeVar("Profile", Outer, Inner)


class Sizes(NamedTuple):
    """The needs of every part of a group.

    maps: bytes at one place of all feature maps of each map; elements: bytes of one element of
    each map; vectors: bytes of a kernel of each layer that take part. inner: maps that layers of the
    group make and read.
    """

    layers: tuple[FusedLayer, ...]
    maps: tuple[int, ...]
    elements: tuple[int, ...]
    vectors: tuple[int, ...]
    last_readers: tuple[int, ...]
    inner: tuple[int, ...]
    input_waits: bool


class CutTables:
    """The cuts of one group, each made once."""

    def __init__(self, group: FusedGroup) -> None:
        self.group, numbers = group, range(group.length + 1)
        self.sizes = Sizes(
            group.layers,
            tuple(group.dims(number)[0] * group.element_bytes(number) for number in numbers),
            tuple(map(group.element_bytes, numbers)),
            tuple(
                layer.live_kernels(made) * layer.weight_bytes
                for layer, made in zip(group.layers, made_of(group)[1:], strict=True)
            ),
            group.last_readers,
            group.inner,
            group.input_waits,
        )
        self.outputs = sum(map(group.bytes, group.outputs))
        self.weights = weights_of(group)
        self._cuts: dict[tuple[int, int, bool, bool], AxisCut] = {}
        self._totals: dict[tuple[int, int, bool, bool], tuple[AxisTotals, ...]] = {}
        self._outer: dict[tuple[int, int, Border, Border], list[tuple[Outer, ...]]] = {}
        self._inner: dict[tuple[int, int, Border, Border], list[tuple[Inner, ...]]] = {}

    def cut(self, axis: int, parts: int, border: Border, input_border: Border) -> AxisCut:
        """Return the cut of an axis."""
        key = axis, parts, border.is_made_once, input_border.is_made_once
        if key not in self._cuts:
            self._cuts[key] = axis_cut(
                self.group, axis, parts, makes_once=key[2], reads_once=key[3]
            )
        return self._cuts[key]

    def totals(
        self, axis: int, parts: int, border: Border, input_border: Border
    ) -> tuple[AxisTotals, ...]:
        """Return the totals of every map."""
        key = axis, parts, border.is_made_once, input_border.is_made_once
        if key not in self._totals:
            cut = self.cut(axis, parts, border, input_border)
            self._totals[key] = tuple(
                axis_totals(cut, number) for number in range(self.group.length + 1)
            )
        return self._totals[key]

    def outer(
        self, axis: int, parts: int, border: Border, input_border: Border
    ) -> list[tuple[Outer, ...]]:
        """Return what differs between parts along the outer axis, for all maps at once."""
        key = axis, parts, border, input_border
        if key not in self._outer:
            cut = self.cut(*key)
            maps = [
                outer_profiles(cut, number, keeps=(border if number else input_border) is KEPT)
                for number in range(self.group.length + 1)
            ]
            self._outer[key] = _largest_first(zip(*maps, strict=True))
        return self._outer[key]

    def inner(
        self, axis: int, parts: int, border: Border, input_border: Border
    ) -> list[tuple[Inner, ...]]:
        """Return what differs between parts along the inner axis, for all maps at once."""
        key = axis, parts, border, input_border
        if key not in self._inner:
            cut = self.cut(*key)
            maps = [
                inner_profiles(cut, number, keeps=(border if number else input_border) is KEPT)
                for number in range(self.group.length + 1)
            ]
            self._inner[key] = _largest_first(zip(*maps, strict=True))
        return self._inner[key]


def _largest_first(parts: Iterable[tuple[Profile, ...]]) -> list[tuple[Profile, ...]]:
    """Parts that differ, those that probably hold most in front."""
    return sorted(dict.fromkeys(parts), key=lambda maps: -sum(map(sum, maps)))
