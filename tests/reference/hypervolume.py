"""The volume a front dominates, exactly."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

from planners.reuse.problem import InvalidSearch, Number


def hypervolume(values: Iterable[Sequence[Number]], reference: Sequence[Number]) -> Fraction:
    """Return the volume of all that some value dominates and that is below the reference.

    All objectives are minimised. Values that are not below the reference everywhere add nothing.
    O(n log n) for two objectives; each further one is a factor of n.
    Source: While, Hingston, Barone, Huband, A faster algorithm for calculating hypervolume, IEEE Trans.
    Evolutionary Computation 10(1), 2006, section III: hypervolume by slicing objectives.
    """
    if not reference:
        raise InvalidSearch("hypervolume: the reference has no objective")
    kept: set[tuple[Number, ...]] = set()
    for value in values:
        if len(value) != len(reference):
            raise InvalidSearch(
                f"hypervolume: a value of {len(value)} objectives; the reference has {len(reference)}"
            )
        if all(own < limit for own, limit in zip(value, reference, strict=True)):
            kept.add(tuple(value))
    return Fraction(_volume(sorted(kept), tuple(reference)))


def _volume(values: list[tuple[Number, ...]], reference: tuple[Number, ...]) -> Number:
    """Return the volume below the reference; the values are in ascending order."""
    if not values:
        return 0
    if len(reference) == 1:
        return reference[0] - values[0][0]
    if len(reference) == 2:
        return _area(values, reference)
    total: Number = 0
    for place, value in enumerate(values):
        end = values[place + 1][0] if place + 1 < len(values) else reference[0]
        if end > value[0]:
            slab = sorted({other[1:] for other in values[: place + 1]})
            total += (end - value[0]) * _volume(slab, reference[1:])
    return total


def _area(values: list[tuple[Number, ...]], reference: tuple[Number, ...]) -> Number:
    total: Number = 0
    lowest = reference[1]
    for first, second in values:
        if second < lowest:
            total += (reference[0] - first) * (lowest - second)
            lowest = second
    return total
