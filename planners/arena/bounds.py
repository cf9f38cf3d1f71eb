"""Lower bounds of arenas: cliques of blocks that all conflict with one another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from planners.arena.blocks import Blocks
from planners.arena.problem import loads


class Clique(NamedTuple):
    """Blocks of which each conflicts with each, and the units that each takes beside the others."""

    blocks: tuple[int, ...]
    weights: tuple[int, ...]


class Bound(NamedTuple):
    """No plan has a smaller peak, because of these blocks."""

    peak: int  # bytes
    blocks: tuple[int, ...]
    by_search: bool = False  # not by adding up a clique


def cliques_of(blocks: Blocks) -> list[Clique]:
    """Return cliques that together hold every block.

    Where lifetimes alone decide these are all the largest sets that live at one time; else such sets
    and the neighbourhoods of blocks, thinned until all conflict, large blocks first.
    """
    if blocks.by_lifetime:
        return [
            Clique(numbers, tuple(blocks.size[one] for one in numbers))
            for numbers in _live_sets(blocks)
        ]
    near = [set(blocks.neighbours(block)) for block in range(len(blocks))]
    seeds = [*_live_sets(blocks), *((block, *sorted(near[block])) for block in range(len(blocks)))]
    found = {_thinned(blocks, near, seed) for seed in seeds}
    return [Clique(numbers, _weights(blocks, numbers)) for numbers in sorted(found)]


def clique_bound(blocks: Blocks, cliques: Sequence[Clique]) -> Bound:
    """Return the best bound that one clique, or one block, gives."""
    ends = [
        Bound(blocks.lowest[block] * blocks.unit + blocks.room[block], (block,))
        for block in range(len(blocks))
    ]
    stacks = [Bound(_stack(blocks, clique), clique.blocks) for clique in cliques]
    return max([*ends, *stacks], key=lambda bound: bound.peak, default=Bound(0, ()))


def load_bound(blocks: Blocks) -> Bound:
    """Return the bound of the largest live load, without listing what lives at every time.

    For blocks that conflict by lifetime alone.
    """
    load = loads(
        (buffer.start, buffer.end, size)
        for (buffer,), size in zip(blocks.members, blocks.size, strict=True)
    )
    time = max(load, key=lambda one: (load[one], one), default=0)
    live = tuple(
        number for number, (one,) in enumerate(blocks.members) if one.start <= time < one.end
    )
    clique = Clique(live, tuple(blocks.size[number] for number in live))
    return clique_bound(blocks, [clique] if live else [])


def _stack(blocks: Blocks, clique: Clique) -> int:
    """Return the bytes of the clique upon one another; only the highest need not be rounded up."""
    taken = [weight * blocks.unit for weight in clique.weights]
    slack = [
        max(0, bytes_ - blocks.room[block])
        for block, bytes_ in zip(clique.blocks, taken, strict=True)
    ]
    return sum(taken) - max(slack)


def _live_sets(blocks: Blocks) -> Iterator[tuple[int, ...]]:
    """Yield the largest sets of blocks that live at one time, by time."""
    spans = [
        (buffer.start, buffer.end, number)
        for number, members in enumerate(blocks.members)
        for buffer in members
    ]
    events = sorted(event for start, end, n in spans for event in ((start, 1, n), (end, 0, n)))
    live: dict[int, int] = {}  # how many of its buffers live
    has_grown = False
    for _, is_start, number in events:
        if is_start:
            live[number] = live.get(number, 0) + 1
            has_grown = True
            continue
        if has_grown:
            yield tuple(sorted(live))
            has_grown = False
        live[number] -= 1
        if not live[number]:
            del live[number]


def _thinned(blocks: Blocks, near: Sequence[set[int]], seed: Sequence[int]) -> tuple[int, ...]:
    """Return a clique within the seed; the first of it stays if the rest conflicts with it."""
    chosen: list[int] = []
    allowed = set(seed)
    for block in sorted(seed, key=lambda one: (-blocks.size[one], one)):
        if block in allowed:
            chosen.append(block)
            allowed &= near[block]
    return tuple(sorted(chosen))


def _weights(blocks: Blocks, numbers: Sequence[int]) -> tuple[int, ...]:
    """Return how far above each block the nearest other of the clique must begin."""
    inside = set(numbers)
    if len(numbers) == 1:
        return (blocks.size[numbers[0]],)
    return tuple(
        min(
            int(blocks.rise[entry])
            for entry in range(blocks.neighbour_start[block], blocks.neighbour_start[block + 1])
            if int(blocks.neighbour[entry]) in inside
        )
        for block in numbers
    )
