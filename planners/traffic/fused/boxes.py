"""Sets of elements as boxes: along each axis of a tensor a set of places, as the bits of an integer.

A box holds the elements whose place along every axis is in the set of that axis. What several
readers need of one tensor is the union of their boxes, which need not be a box itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import or_

from planners.traffic.fused.reach import Places

Box = tuple[Places, ...]
Boxes = tuple[Box, ...]  # their union


def union(boxes: Iterable[Box]) -> Boxes:
    """Return the same elements in fewer boxes: none empty, none inside another, halves joined."""
    found: list[Box] = []
    for box in boxes:
        if not all(box):
            continue
        other = _joined_with_one(box, found)
        while other is not None:
            box = other
            other = _joined_with_one(box, found)
        found.append(box)
    return tuple(found)


def _joined_with_one(box: Box, found: list[Box]) -> Box | None:
    """The box with one of those found, which leaves the list, if both together are a box."""
    for place, known in enumerate(found):
        pairs = list(zip(box, known, strict=True))
        is_box = sum(one != other for one, other in pairs) <= 1
        is_inside = all(one | other == one for one, other in pairs)
        if is_box or is_inside or all(one | other == other for one, other in pairs):
            del found[place]
            return tuple(or_(one, other) for one, other in pairs)
    return None


def count(boxes: Boxes) -> int:
    """Return how many elements are in some box."""
    if len(boxes) <= 1:
        return sum(map(_size, boxes))
    if not boxes[0]:
        return 1
    total = 0
    for places, members in _slabs(boxes):
        total += places.bit_count() * count(union(box[1:] for box in members))
    return total


def _slabs(boxes: Boxes) -> list[tuple[Places, list[Box]]]:
    """The places of the first axis, apart by the boxes that they are in."""
    slabs: list[tuple[Places, list[Box]]] = []
    for box in boxes:
        left, cut = box[0], []
        for places, members in slabs:
            cut += [(places & box[0], [*members, box]), (places & ~box[0], members)]
            left &= ~places
        slabs = [(places, members) for places, members in [*cut, (left, [box])] if places]
    return slabs


def _size(box: Box) -> int:
    size = 1
    for places in box:
        size *= places.bit_count()
    return size
