"""Algorithm 8: whole buffers that several edges share, one after another.

Edges come in their order. An edge may go to any buffer in which nothing is in use together with it. Of
these buffers it goes to the one that has to grow least, and to the first if several grow equally. A new
buffer is opened only if no buffer may take the edge. Two edges of partitions that run in parallel never
share a buffer. Two edges of partitions that take turns may share a buffer. Two edges of one partition
may share a buffer if their lifetimes, closed intervals of steps, have no step in common.
Source: Minakova and Stefanov, TODAES 28(1), 2022, Algorithm 8 of the thesis (its `else` is that of
line 9); Tables 6.2 and 6.3.

Ours is the other order, the largest edges first: Algorithm 8 takes edges in the order of layers, where
a buffer opened for a small edge grows later and what it held before stays small in it. Then no buffer
grows.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from planners.plan import loads


class SharedBuffer(NamedTuple):
    """A buffer as large as the largest edge in it; edges by their numbers, in order."""

    size: int
    edges: tuple[int, ...]


def shared_buffers(sizes: Sequence[int], conflicts: Sequence[int]) -> list[SharedBuffer]:
    """Return the buffers of Algorithm 8.

    conflicts: for each edge, as bits, the edges that are in use together with it.
    O(edges * buffers) operations on numbers of as many bits as there are edges.
    """
    room: list[int] = []
    users: list[int] = []
    stored: list[list[int]] = []
    for edge, (size, conflict) in enumerate(zip(sizes, conflicts, strict=True)):
        place = _least_growth(size, conflict, room, users)
        if place == len(room):
            room.append(0)
            users.append(0)
            stored.append([])
        room[place] = max(room[place], size)
        users[place] |= 1 << edge
        stored[place].append(edge)
    return [SharedBuffer(size, tuple(edges)) for size, edges in zip(room, stored, strict=True)]


def shared_largest_first(sizes: Sequence[int], conflicts: Sequence[int]) -> list[SharedBuffer]:
    """Return the buffers when each edge, from the largest on, goes to the first that is free.

    The edges of a buffer are in their own order. conflicts: as for `shared_buffers`.
    """
    users: list[int] = []
    room: list[int] = []
    stored: list[list[int]] = []
    for edge in sorted(range(len(sizes)), key=lambda one: -sizes[one]):
        conflict = conflicts[edge]
        place = next((n for n, bits in enumerate(users) if not bits & conflict), len(users))
        if place == len(users):
            users.append(0)
            room.append(sizes[edge])
            stored.append([])
        users[place] |= 1 << edge
        stored[place].append(edge)
    return [
        SharedBuffer(size, tuple(sorted(edges))) for size, edges in zip(room, stored, strict=True)
    ]


def best_shared(sizes: Sequence[int], conflicts: Sequence[int]) -> list[SharedBuffer]:
    """Return the smaller of Algorithm 8's buffers and those shared largest first."""
    either = [shared_buffers(sizes, conflicts), shared_largest_first(sizes, conflicts)]
    return min(either, key=lambda buffers: sum(buffer.size for buffer in buffers))


def _least_growth(size: int, conflict: int, room: Sequence[int], users: Sequence[int]) -> int:
    """The first buffer that has to grow least; one past the last if each is in use."""
    best, least = len(room), size + 1
    for place, (here, bits) in enumerate(zip(room, users, strict=True)):
        if not bits & conflict:
            growth = size - here
            if growth <= 0:
                return place
            if growth < least:
                best, least = place, growth
    return best


def overlaps(first: Sequence[int], last: Sequence[int], bits: Sequence[int]) -> list[int]:
    """Return for each closed interval the bits of those that have a step in common with it."""
    starts = sorted(zip(first, bits, strict=True))
    ends = sorted(zip(last, bits, strict=True))
    started, ended = _unions(starts), _unions(ends)
    start_steps, end_steps = [step for step, _ in starts], [step for step, _ in ends]
    return [
        started[bisect_right(start_steps, end)] & ~ended[bisect_left(end_steps, start)]
        for start, end in zip(first, last, strict=True)
    ]


def _unions(events: Sequence[tuple[int, int]]) -> list[int]:
    """The bits of the first events together, of none to all of them."""
    masks = [0]
    for _, bit in events:
        masks.append(masks[-1] | bit)
    return masks


def largest_load(first: Sequence[int], last: Sequence[int], sizes: Sequence[int]) -> int:
    """Return the most that is in use at one step; intervals are closed."""
    after = [end + 1 for end in last]
    return max(loads(zip(first, after, sizes, strict=True)).values(), default=0)
