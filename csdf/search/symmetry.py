"""Symmetries of a storage search by colour refinement: variables that can change places.

The left and the right side of a decoder are alike, and so are channels side by side. A symmetry takes
each actor to one with the same durations, and each channel to one with the same rates and tokens
between the actors there; each variable goes with its channels. So distributions that it takes to each
other have the same period. It is guessed by colours, and then checked one actor and channel after the
other: what is found is a symmetry, but some may be missed.

Source of the guess: McKay, Piperno, Practical graph isomorphism II, J. Symbolic Computation 60, 2014
(colours are refined by those of the neighbours, and a node is told apart where that says nothing).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import replace

from csdf.model.graph import Graph
from csdf.search.variables import Variable

Permutation = tuple[int, ...]  # where the variable at each position goes
Colours = list[int]

MOST_WORK = 100_000  # colours to refine before no more symmetries are looked for


class Symmetries:
    """The symmetries of a graph and of the variables that are searched in it.

    graph: with the capacities that are not searched as channels. generators: generators of the group of
    symmetries, as permutations of the variables.
    """

    def __init__(self, graph: Graph, variables: Sequence[Variable]) -> None:
        self._structure = _Structure(graph, variables)
        self._variables = len(variables)
        self._work = 0
        self.generators = self._generators()

    def _generators(self) -> list[Permutation]:
        """Symmetries that each take a variable to another; together they make more."""
        nothing = self._structure.painted(())
        pair = self._refined(nothing, nothing)
        classes: dict[int, list[int]] = {}
        for index, colour in enumerate(pair[0][: self._variables] if pair else ()):
            classes.setdefault(colour, []).append(index)
        permutations: list[Permutation] = []
        for first, *remaining in classes.values():
            for second in remaining:
                if not any(permutation[first] == second for permutation in permutations):
                    taken = self.onto([first], [second])
                    permutations += [] if taken is None else [taken]
        return permutations

    def onto(self, first: Collection[int], second: Collection[int]) -> Permutation | None:
        """Return a symmetry that takes the first variables to the second; None if none is found."""
        if len(first) != len(second):
            return None
        paint = self._structure.painted
        mapped = self._matched(paint(first), paint(second))
        return None if mapped is None else tuple(mapped[: self._variables])

    def _matched(self, left: Colours, right: Colours) -> list[int] | None:
        """A symmetry that takes colours on the left to those on the right, checked."""
        pair = self._refined(left, right)
        if pair is None:
            return None
        left, right = pair
        where: dict[int, list[int]] = {}
        for node, colour in enumerate(right):
            where.setdefault(colour, []).append(node)
        doubtful = [node for node, colour in enumerate(left) if len(where[colour]) > 1]
        if not doubtful:
            mapped = [where[colour][0] for colour in left]
            # Equal colours are necessary, not sufficient, so the mapping is verified on all ties.
            return mapped if self._structure.is_symmetry(mapped) else None
        # Individualisation: one node gets a colour of its own, then refinement starts again.
        node = doubtful[0]
        # The node itself is the first candidate, so nodes are mapped to themselves where possible.
        alike = sorted(where[left[node]], key=lambda candidate: candidate != node)
        told_apart = _told_apart(left, node)
        # Backtracking over the candidates on the right; MOST_WORK bounds it.
        tries = (self._matched(told_apart, _told_apart(right, candidate)) for candidate in alike)
        return next((match for match in tries if match is not None), None)

    def _refined(self, left: Colours, right: Colours) -> tuple[Colours, Colours] | None:
        """Tell nodes apart by their neighbours' colours, until that changes nothing; None if unlike."""
        classes = 0
        while Counter(left) == Counter(right) and self._work < MOST_WORK:
            if len(set(left)) == classes:
                return left, right
            classes = len(set(left))
            self._work += 2 * len(left)
            numbers: dict[Hashable, int] = {}
            left, right = (
                [numbers.setdefault(seen, len(numbers)) for seen in self._structure.seen(colours)]
                for colours in (left, right)
            )
        return None


def _told_apart(colours: Colours, node: int) -> Colours:
    return [*colours[:node], -1, *colours[node + 1 :]]


class _Structure:
    """Variables, channels and actors as nodes, in this order, and who belongs to whom."""

    def __init__(self, graph: Graph, variables: Sequence[Variable]) -> None:
        first_actor = len(variables) + len(graph.channels)
        channels = {channel.name: len(variables) + i for i, channel in enumerate(graph.channels)}
        actors = {actor.name: first_actor + i for i, actor in enumerate(graph.actors)}
        traits: list[Hashable] = [
            *(
                (variable.weight, variable.step, variable.least % variable.step)
                for variable in variables
            ),
            *(
                (
                    channel.production,
                    channel.consumption,
                    channel.release_rates,
                    channel.initial_tokens,
                    channel.capacity,
                )
                for channel in graph.channels
            ),
            *(actor.durations for actor in graph.actors),
        ]
        numbers: dict[Hashable, int] = {}
        self._traits = [numbers.setdefault(trait, len(numbers)) for trait in traits]
        self._ties = {
            *(
                (i, channels[c.name], 0)
                for i, variable in enumerate(variables)
                for c in variable.channels
            ),
            *((channels[channel.name], actors[channel.producer], 1) for channel in graph.channels),
            *((channels[channel.name], actors[channel.consumer], 2) for channel in graph.channels),
        }
        self._neighbours: list[list[tuple[int, int]]] = [[] for _ in traits]
        for here, there, kind in self._ties:
            self._neighbours[here].append((kind, there))
            self._neighbours[there].append((kind, here))

    def painted(self, marked: Collection[int]) -> Colours:
        """Return colours by traits; the marked variables have their own."""
        return [2 * trait + (node in marked) for node, trait in enumerate(self._traits)]

    def seen(self, colours: Colours) -> Iterator[Hashable]:
        """Yield what each node sees: its own colour, and those of its neighbours."""
        for node, neighbours in enumerate(self._neighbours):
            yield colours[node], *sorted((kind, colours[there]) for kind, there in neighbours)

    def is_symmetry(self, mapped: Sequence[int]) -> bool:
        """Whether this takes every node to one of the same traits, and neighbours to neighbours."""
        nodes = range(len(self._traits))
        return (
            sorted(mapped) == list(nodes)
            and all(self._traits[mapped[node]] == self._traits[node] for node in nodes)
            and {(mapped[here], mapped[there], kind) for here, there, kind in self._ties}
            == self._ties
        )


def within(permutation: Permutation, indices: Sequence[int]) -> Permutation | None:
    """Return the symmetry among these variables, by their order here.

    None if it takes one of them away, or leaves all where they are.
    """
    position = {number: index for index, number in enumerate(indices)}
    moved = [position.get(permutation[number]) for number in indices]
    if None in moved or moved == list(range(len(indices))):
        return None
    return tuple(index for index in moved if index is not None)


def evened(
    variables: Sequence[Variable], permutations: Iterable[Permutation]
) -> tuple[Variable, ...]:
    """Return the variables, each with the greatest minimum capacity of its equivalent variables.

    A minimum of one channel holds for its equivalent channels, too.
    """
    lower = [variable.least for variable in variables]
    moves = [
        (index, image) for permutation in permutations for index, image in enumerate(permutation)
    ]
    while uneven := [(index, image) for index, image in moves if lower[index] > lower[image]]:
        for index, image in uneven:
            lower[image] = max(lower[index], lower[image])
    return tuple(
        replace(variable, least=minimum) for variable, minimum in zip(variables, lower, strict=True)
    )
