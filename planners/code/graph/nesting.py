"""Nested loops in which each actor stands once, with small buffers between them.

Where actors wait for one another in a circle without enough tokens, they stand as one piece, which
takes turns; all others stand once, however often they fire.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from math import gcd
from random import Random
from typing import NamedTuple

from csdf.analysis.components import strong_components
from planners.code.graph.looped import Fire, Loop, Node, looped

FEW = 9  # components whose every order is looked at
EFFORT = 1_000_000  # what the search among orders may cost: orders times pieces cubed
MANY = 100  # components beyond which a cut is chosen without looking at what it leads to

Turns = Callable[[Sequence[str], Mapping[str, int]], Node]


class Link(NamedTuple):
    """The tokens from one actor to another in whole cycles. weight: bytes of a token."""

    producer: str
    consumer: str
    made: int
    taken: int
    tokens: int
    weight: int


class Piece(NamedTuple):
    """Actors that stand together, and how often their piece of the schedule is carried out."""

    actors: tuple[str, ...]
    rounds: int


class Nesting:
    """Looks for nested loops of a graph."""

    def __init__(self, links: Sequence[Link], phases: Mapping[str, int], turns: Turns) -> None:
        """Take what passes, the phases of a cycle of each actor, and who makes pieces with turns."""
        self._links, self._phases, self._turns = links, phases, turns

    def schedule(self, cycles: Mapping[str, int]) -> Node:
        """Return so many cycles of each actor as loops."""
        common = gcd(*cycles.values())
        each = {name: count // common for name, count in cycles.items()}
        if len(each) == 1:
            (name,) = each
            return looped(common, looped(self._phases[name], Fire(name)))
        inside = [one for one in self._links if {one.producer, one.consumer} <= each.keys()]
        binding = [
            one
            for one in inside
            if one.producer != one.consumer and one.tokens < each[one.consumer] * one.taken
        ]
        pieces = _pieces(each, binding)
        if len(pieces) == 1:
            return looped(common, self._turns(tuple(each), each))
        order = _Order(pieces, each, inside, binding)
        return looped(common, self._nested(order.tree(), each, 1))

    def _nested(self, tree: Tree, each: Mapping[str, int], rounds: int) -> Node:
        """The loops of a tree, in a body that goes round so many times in all."""
        if isinstance(tree, Piece):
            return self.schedule({name: each[name] // rounds for name in tree.actors})
        common = gcd(*(piece.rounds for piece in _pieces_of(tree)))
        left, right = (self._nested(side, each, common) for side in tree)
        return looped(common // rounds, *_body(left), *_body(right))


Tree = Piece | tuple["Tree", "Tree"]


def _body(node: Node) -> tuple[Node, ...]:
    return node.body if isinstance(node, Loop) and node.count == 1 else (node,)


def _pieces_of(tree: Tree) -> list[Piece]:
    if isinstance(tree, Piece):
        return [tree]
    return [*_pieces_of(tree[0]), *_pieces_of(tree[1])]


def _pieces(each: Mapping[str, int], binding: Sequence[Link]) -> list[Piece]:
    """Actors that wait for one another, in an order in which nobody waits for a later one."""
    numbers = {name: number for number, name in enumerate(each)}
    successors: list[list[int]] = [[] for _ in each]
    for link in binding:
        successors[numbers[link.producer]].append(numbers[link.consumer])
    component = strong_components(len(each), successors)
    found: dict[int, list[str]] = {}
    for name, number in zip(each, component, strict=True):
        found.setdefault(number, []).append(name)
    return [
        Piece(tuple(found[number]), gcd(*(each[name] for name in found[number])))
        for number in sorted(found, reverse=True)
    ]


class _Order:
    """Which pieces share a loop: cuts with few bytes across, at most as many as loops need."""

    def __init__(
        self,
        pieces: Sequence[Piece],
        each: Mapping[str, int],
        inside: Sequence[Link],
        binding: Sequence[Link],
    ) -> None:
        self._pieces = pieces
        place = {name: number for number, piece in enumerate(pieces) for name in piece.actors}
        self._across = [
            (place[one.producer], place[one.consumer], each[one.producer] * one.made * one.weight)
            for one in inside
            if one.weight and place[one.producer] != place[one.consumer]
        ]
        self._before = [0] * len(pieces)
        for one in binding:
            if place[one.producer] != place[one.consumer]:
                self._before[place[one.consumer]] |= 1 << place[one.producer]

    def tree(self) -> Tree:
        if len(self._pieces) <= FEW:
            return self._best_of_all()
        return self._best_in_order() if len(self._pieces) <= MANY else self._cut_in_order()

    def _bytes(self, left: int, right: int, common: int) -> int:
        """Return the bytes between two sets of pieces while a loop of both goes round."""
        return sum(
            size // common
            for producer, consumer, size in self._across
            if (left >> producer & 1 and right >> consumer & 1)
            or (right >> producer & 1 and left >> consumer & 1)
        )

    def _common(self, members: int) -> int:
        return gcd(
            *(one.rounds for number, one in enumerate(self._pieces) if members >> number & 1)
        )

    def _best_of_all(self) -> Tree:
        """The best of all orders and nestings."""

        @cache
        def best(members: int) -> tuple[int, Tree]:
            if members & (members - 1) == 0:
                return 0, self._pieces[members.bit_length() - 1]
            common = self._common(members)
            found: list[tuple[int, int, Tree]] = []
            left = (members - 1) & members
            while left:
                right = members & ~left
                if not any(
                    left >> number & 1 and self._before[number] & right
                    for number in range(len(self._pieces))
                ):
                    (one, before), (other, behind) = best(left), best(right)
                    size = one + other + self._bytes(left, right, common)
                    found.append((size, left, (before, behind)))
                left = (left - 1) & members
            size, _, tree = min(found, key=lambda way: way[:2])
            return size, tree

        return best((1 << len(self._pieces)) - 1)[1]

    def _best_in_order(self) -> Tree:
        """The best nesting of some orders: the given one, and those found by moving pieces."""
        source = Random(0)
        order = list(range(len(self._pieces)))
        least, found = self._nesting_of(order)
        for _ in range(EFFORT // len(order) ** 3):
            other = self._moved(order, source)
            size, tree = self._nesting_of(other)
            if size <= least:
                least, found, order = size, tree, other
        return found

    def _moved(self, order: Sequence[int], source: Random) -> list[int]:
        """The order with one piece at another place, where it still stands behind what it needs."""
        piece = source.choice(order)
        rest = [one for one in order if one != piece]
        first, end = 0, len(rest)
        for place, other in enumerate(rest):
            if self._before[piece] >> other & 1:
                first = place + 1
            if self._before[other] >> piece & 1:
                end = min(end, place)
        rest.insert(source.randint(first, end), piece)
        return rest

    def _nesting_of(self, order: Sequence[int]) -> tuple[int, Tree]:
        """The best nesting of one order, by dynamic programming over its stretches.

        Source: Murthy, Bhattacharyya, Lee, Joint minimization of code and data for synchronous
        dataflow programs, Formal Methods in System Design 11(1), 1997 (GDPPO).
        """
        sums = self._sums(order)

        @cache
        def best(first: int, end: int) -> tuple[int, Tree]:
            if end == first + 1:
                return 0, self._pieces[order[first]]
            common = gcd(*(self._pieces[one].rounds for one in order[first:end]))
            ways = (
                (
                    best(first, cut)[0]
                    + best(cut, end)[0]
                    + _between(sums, first, cut, end) // common,
                    cut,
                )
                for cut in range(first + 1, end)
            )
            size, cut = min(ways, key=lambda way: (way[0], abs(2 * way[1] - first - end)))
            return size, (best(first, cut)[1], best(cut, end)[1])

        return best(0, len(order))

    def _sums(self, order: Sequence[int]) -> list[list[int]]:
        """Bytes between the pieces before a place and those before another one."""
        count = len(order)
        at = {piece: place for place, piece in enumerate(order)}
        sums = [[0] * (count + 1) for _ in range(count + 1)]
        for producer, consumer, size in self._across:
            low, high = sorted((at[producer], at[consumer]))
            sums[low + 1][high + 1] += size
        for row in range(1, count + 1):
            for column in range(1, count + 1):
                sums[row][column] += (
                    sums[row - 1][column] + sums[row][column - 1] - sums[row - 1][column - 1]
                )
        return sums

    def _cut_in_order(self) -> Tree:
        """Halves of one order that share few bytes, over and over."""
        sums = self._sums(range(len(self._pieces)))

        def tree(first: int, end: int) -> Tree:
            if end == first + 1:
                return self._pieces[first]
            if all(piece.rounds == 1 for piece in self._pieces[first:end]):
                cut = (first + end) // 2
            else:
                ways = range(first + 1, end)
                cut = min(ways, key=lambda one: (_between(sums, first, one, end), one))
            return tree(first, cut), tree(cut, end)

        return tree(0, len(self._pieces))


def _between(sums: Sequence[Sequence[int]], first: int, cut: int, end: int) -> int:
    """Bytes from pieces of one stretch to those of the next."""
    return sums[cut][end] - sums[first][end] - sums[cut][cut] + sums[first][cut]
