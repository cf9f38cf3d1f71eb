"""Single appearance schedules with small buffers: nested loops in which each actor appears once.

A loop body executes each of its actors some cycles, a cycle firing each phase once. A link from one
actor to another binds if its initial tokens are fewer than the consumer takes in the body: then the
producer comes first. Actors on a cycle of binding links interleave, as a piece of the body; all other
actors are pieces of their own. Pieces are grouped by a binary tree, from which loops follow. For two
cycles of a, which make two tokens each for b, and four cycles of b and of c, which move single tokens,
two trees are

    ((a, b), c)    2 (a 2 b) 4 c     the buffer from b to c has 4 tokens
    (a, (b, c))    2 (a 2 (b c))     the buffer from b to c has 1 token: its loop executes 4 times

The buffer from a to b has 2 tokens in both, so the second tree needs fewer bytes. A buffer between two
subtrees holds the tokens of one execution of the loop around them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from math import gcd
from random import Random
from typing import NamedTuple

from csdf.analysis.components import strong_components
from planners.code.graph.looped import Fire, LoopedBody, Node, looped

FEW = 9  # pieces up to which all topological orders are tried
EFFORT = 1_000_000  # limit of the cost of a search among orders: orders times pieces cubed
MANY = 100  # pieces beyond which a greedy split replaces the search
DEEPEST = 300  # pieces up to which trees may be as deep: Python limits the depth of recursion

Turns = Callable[[Sequence[str], Mapping[str, int]], Node]  # interleaves cycles of some actors


class TokenLink(NamedTuple):
    """The tokens from one actor to another per cycle of each; tokens: initial; weight: bytes each."""

    producer: str
    consumer: str
    made: int
    taken: int
    tokens: int
    weight: int


class SchedulePiece(NamedTuple):
    """Actors of one strongly connected component, and how often their part executes."""

    actors: tuple[str, ...]
    rounds: int


Tree = SchedulePiece | tuple["Tree", "Tree"]


class Nesting:
    """Search for a single appearance schedule of a graph."""

    def __init__(self, links: Sequence[TokenLink], phases: Mapping[str, int], turns: Turns) -> None:
        """links: tokens per cycle. phases: of each actor. turns: schedules interleaved firings."""
        self._links, self._phases, self._turns = links, phases, turns

    def schedule(self, cycles: Mapping[str, int]) -> Node:
        """Return nested loops that execute the given number of cycles of each actor."""
        common = gcd(*cycles.values())
        cycles_each = {name: count // common for name, count in cycles.items()}
        if len(cycles_each) == 1:
            (name,) = cycles_each
            return looped(common, looped(self._phases[name], Fire(name)))
        inside = [
            link for link in self._links if {link.producer, link.consumer} <= cycles_each.keys()
        ]
        binding = [
            link
            for link in inside
            if link.producer != link.consumer
            and link.tokens < cycles_each[link.consumer] * link.taken
        ]
        pieces = _pieces(cycles_each, binding)
        if len(pieces) == 1:
            return looped(common, self._turns(tuple(cycles_each), cycles_each))
        search = _TreeSearch(pieces, cycles_each, inside, binding)
        return looped(common, self._nested(search.tree(), cycles_each, 1))

    def _nested(self, tree: Tree, each: Mapping[str, int], rounds: int) -> Node:
        """Return the loops of a tree inside a body that executes `rounds` times in total."""
        if isinstance(tree, SchedulePiece):
            return self.schedule({name: each[name] // rounds for name in tree.actors})
        common = gcd(*(piece.rounds for piece in _pieces_of(tree)))
        left, right = (self._nested(side, each, common) for side in tree)
        return looped(common // rounds, *_body(left), *_body(right))


def _body(node: Node) -> tuple[Node, ...]:
    """The nodes of a body that executes once; any other node alone."""
    return node.body if isinstance(node, LoopedBody) and node.count == 1 else (node,)


def _pieces_of(tree: Tree) -> list[SchedulePiece]:
    """The pieces of a tree from left to right."""
    if isinstance(tree, SchedulePiece):
        return [tree]
    return [*_pieces_of(tree[0]), *_pieces_of(tree[1])]


def _pieces(each: Mapping[str, int], binding: Sequence[TokenLink]) -> list[SchedulePiece]:
    """Strongly connected components of the binding links, in topological order."""
    numbers = {name: number for number, name in enumerate(each)}
    successors: list[list[int]] = [[] for _ in each]
    for link in binding:
        successors[numbers[link.producer]].append(numbers[link.consumer])
    component = strong_components(len(each), successors)
    groups: dict[int, list[str]] = {}
    for name, number in zip(each, component, strict=True):
        groups.setdefault(number, []).append(name)
    return [
        SchedulePiece(tuple(groups[number]), gcd(*(each[name] for name in groups[number])))
        for number in sorted(groups, reverse=True)
    ]


class _TreeSearch:
    """Search for a binary tree over pieces, such that its loops need few bytes of buffers.

    A buffer between two subtrees holds the tokens of one execution of the loop around them. That loop
    executes as often as the greatest common divisor of the rounds of its pieces says.
    """

    def __init__(
        self,
        pieces: Sequence[SchedulePiece],
        each: Mapping[str, int],
        inside: Sequence[TokenLink],
        binding: Sequence[TokenLink],
    ) -> None:
        """pieces: in topological order. each: cycles of each actor. inside, binding: its links."""
        self._pieces = pieces
        index = {name: number for number, piece in enumerate(pieces) for name in piece.actors}
        ends = {link: (index[link.producer], index[link.consumer]) for link in inside}
        # Producing piece, consuming piece, and bytes from one to the other, for each link.
        self._across = [
            (producer, consumer, each[link.producer] * link.made * link.weight)
            for link, (producer, consumer) in ends.items()
            if link.weight and producer != consumer
        ]
        self._before = [0] * len(pieces)  # for each piece, the bits of all pieces that bind it
        for producer, consumer in map(ends.__getitem__, binding):
            if producer != consumer:
                self._before[consumer] |= 1 << producer

    def tree(self) -> Tree:
        """Return the best tree found: exact for FEW pieces, greedy for more than MANY."""
        if len(self._pieces) <= FEW:
            return self._best_of_all()
        return self._best_in_order() if len(self._pieces) <= MANY else self._cut_in_order()

    def _best_of_all(self) -> Tree:
        """The best tree over all topological orders, by dynamic programming over sets of pieces.

        A set is an integer with a bit for each piece.
        """

        @cache
        def best(members: int) -> tuple[int, Tree]:
            """Return the bytes of buffers inside a set, and its tree."""
            if members & (members - 1) == 0:
                return 0, self._pieces[members.bit_length() - 1]
            inside = [number for number in range(len(self._pieces)) if members >> number & 1]
            common = gcd(*(self._pieces[number].rounds for number in inside))
            candidates: list[tuple[int, int, Tree]] = []
            left = (members - 1) & members
            while left:  # all subsets in descending order
                right = members & ~left
                if not any(
                    left >> number & 1 and self._before[number] & right for number in inside
                ):
                    (left_bytes, first), (right_bytes, second) = best(left), best(right)
                    size = left_bytes + right_bytes + self._bytes(left, right, common)
                    candidates.append((size, left, (first, second)))
                left = (left - 1) & members
            size, _, tree = min(candidates, key=lambda candidate: candidate[:2])
            return size, tree

        return best((1 << len(self._pieces)) - 1)[1]

    def _bytes(self, left: int, right: int, common: int) -> int:
        """The bytes of buffers between two sets of pieces, whose loop executes `common` times."""
        return sum(
            size // common
            for producer, consumer, size in self._across
            if (left >> producer & 1 and right >> consumer & 1)
            or (right >> producer & 1 and left >> consumer & 1)
        )

    def _best_in_order(self) -> Tree:
        """The best tree found by random local search over topological orders."""
        source = Random(0)
        order = list(range(len(self._pieces)))
        least, best = self._best_tree_of(order)
        for _ in range(EFFORT // len(order) ** 3):
            moved_order = self._moved(order, source)
            size, tree = self._best_tree_of(moved_order)
            if size <= least:
                least, best, order = size, tree, moved_order
        return best

    def _moved(self, order: Sequence[int], source: Random) -> list[int]:
        """The order with one piece moved; the order remains topological."""
        piece = source.choice(order)
        rest = [member for member in order if member != piece]
        first, end = 0, len(rest)
        for position, neighbour in enumerate(rest):
            if self._before[piece] >> neighbour & 1:
                first = position + 1
            if self._before[neighbour] >> piece & 1:
                end = min(end, position)
        rest.insert(source.randint(first, end), piece)
        return rest

    def _best_tree_of(self, order: Sequence[int]) -> tuple[int, Tree]:
        """The bytes and the best tree of one order, by dynamic programming over its intervals.

        Source: Murthy, Bhattacharyya, Lee, Joint minimization of code and data for synchronous
        dataflow programs, Formal Methods in System Design 11(1), 1997 (GDPPO).
        """
        sums = self._sums(order)

        @cache
        def best(first: int, end: int) -> tuple[int, Tree]:
            if end == first + 1:
                return 0, self._pieces[order[first]]
            common = gcd(*(self._pieces[member].rounds for member in order[first:end]))
            sizes = {
                cut: best(first, cut)[0]
                + best(cut, end)[0]
                + _between(sums, first, cut, end) // common
                for cut in range(first + 1, end)
            }
            # Of equal sizes, the cut nearest to the middle.
            cut = min(sizes, key=lambda cut: (sizes[cut], abs(2 * cut - first - end)))
            return sizes[cut], (best(first, cut)[1], best(cut, end)[1])

        return best(0, len(order))

    def _sums(self, order: Sequence[int]) -> list[list[int]]:
        """Prefix sums, in two dimensions, of the bytes between the pieces of an order."""
        count = len(order)
        position_of = {piece: position for position, piece in enumerate(order)}
        sums = [[0] * (count + 1) for _ in range(count + 1)]
        for producer, consumer, size in self._across:
            low, high = sorted((position_of[producer], position_of[consumer]))
            sums[low + 1][high + 1] += size
        for row in range(1, count + 1):
            for column in range(1, count + 1):
                sums[row][column] += (
                    sums[row - 1][column] + sums[row][column - 1] - sums[row - 1][column - 1]
                )
        return sums

    def _cut_in_order(self) -> Tree:
        """The given order, split recursively where the fewest bytes cross.

        Of more than DEEPEST pieces, each part has at least an eighth, which limits the depth.
        """
        sums = self._sums(range(len(self._pieces)))

        def tree(first: int, end: int) -> Tree:
            count = end - first
            if count == 1:
                return self._pieces[first]
            least = 1 if count <= DEEPEST else count // 8
            cuts = range(first + least, end - least + 1)
            if all(piece.rounds == 1 for piece in self._pieces[first:end]):
                cut = (first + end) // 2
            else:
                cut = min(cuts, key=lambda position: _between(sums, first, position, end))
            return tree(first, cut), tree(cut, end)

        return tree(0, len(self._pieces))


def _between(sums: Sequence[Sequence[int]], first: int, cut: int, end: int) -> int:
    """The bytes between the pieces of two adjacent intervals."""
    return sums[cut][end] - sums[first][end] - sums[cut][cut] + sums[first][cut]
