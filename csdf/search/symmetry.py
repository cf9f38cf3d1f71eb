"""Symmetries of a storage search: graph automorphisms, by colour refinement and individualisation.

A symmetry maps each actor to an actor with the same durations, and each channel to a channel with the
same rates and tokens between the images of its actors; variables follow their channels. So it maps a
distribution to a distribution with the same period. For example, the channels of the left and of the
right side of a stereo decoder may be exchanged.

Nodes that may be mapped to each other have equal colours. Refinement splits colours by the colours of
the neighbours. Where that splits none, a single node is individualised: it gets a new colour. A mapping
by colours is verified, so all results are symmetries; with limited work, some may be missed.

Source: McKay, Piperno, Practical graph isomorphism II, J. Symbolic Computation 60, 2014.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import replace

from csdf.model.graph import Graph
from csdf.search.variables import Variable

Permutation = tuple[int, ...]  # the image of the variable at each position
Colours = list[int]  # of each node

MOST_WORK = 100_000  # colours computed before the search for symmetries ends


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
        """Return symmetries that map a variable to each variable of its colour, where they exist."""
        unmarked = self._structure.painted(())
        pair = self._refined(unmarked, unmarked)
        classes: dict[int, list[int]] = {}
        for index, colour in enumerate(pair[0][: self._variables] if pair else ()):
            classes.setdefault(colour, []).append(index)
        permutations: list[Permutation] = []
        for first, *remaining in classes.values():
            for second in remaining:
                if not any(image[first] == second for image in permutations):
                    permutation = self.onto([first], [second])
                    permutations += [] if permutation is None else [permutation]
        return permutations

    def onto(self, first: Collection[int], second: Collection[int]) -> Permutation | None:
        """Return a symmetry that maps the first set of variables to the second, or None."""
        if len(first) != len(second):
            return None
        paint = self._structure.painted
        mapped = self._matched(paint(first), paint(second))
        return None if mapped is None else tuple(mapped[: self._variables])

    def _matched(self, left: Colours, right: Colours) -> list[int] | None:
        """Return a mapping of nodes from the left to the right colours, verified, or None."""
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
        individual = _individualised(left, node)
        # Backtracking over the candidates on the right; MOST_WORK bounds it.
        tries = (
            self._matched(individual, _individualised(right, candidate)) for candidate in alike
        )
        return next((match for match in tries if match is not None), None)

    def _refined(self, left: Colours, right: Colours) -> tuple[Colours, Colours] | None:
        """Refine both colourings until no colour splits; None if their colour counts differ."""
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


def _individualised(colours: Colours, node: int) -> Colours:
    return [*colours[:node], -1, *colours[node + 1 :]]


class _Structure:
    """A graph with the variables, channels and actors as its nodes, in this order.

    traits: a number for each node, equal for nodes that a symmetry may exchange. ties: edges from a
    variable to its channels (kind 0), and from a channel to its producer (1) and its consumer (2).
    """

    def __init__(self, graph: Graph, variables: Sequence[Variable]) -> None:
        first_actor = len(variables) + len(graph.channels)
        channels = {channel.name: len(variables) + i for i, channel in enumerate(graph.channels)}
        actors = {actor.name: first_actor + i for i, actor in enumerate(graph.actors)}
        # The useful capacities of two variables are congruent modulo the step, or a symmetry would map
        # useful capacities to useless ones. `evened` aligns the minimum capacities.
        traits: list[Hashable] = [(v.weight, v.step, v.least % v.step) for v in variables]
        traits += [
            (c.production, c.consumption, c.release_rates, c.initial_tokens, c.capacity)
            for c in graph.channels
        ]
        traits += [actor.durations for actor in graph.actors]
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
        """Return the colours by traits; marked variables have other colours than unmarked ones."""
        return [2 * trait + (node in marked) for node, trait in enumerate(self._traits)]

    def seen(self, colours: Colours) -> Iterator[Hashable]:
        """Yield the refined colour of each node: its colour, and the colours of its neighbours."""
        for node, neighbours in enumerate(self._neighbours):
            yield colours[node], *sorted((kind, colours[there]) for kind, there in neighbours)

    def is_symmetry(self, mapped: Sequence[int]) -> bool:
        """Whether this permutation of the nodes preserves traits and ties."""
        nodes = range(len(self._traits))
        return (
            sorted(mapped) == list(nodes)
            and all(self._traits[mapped[node]] == self._traits[node] for node in nodes)
            and {(mapped[here], mapped[there], kind) for here, there, kind in self._ties}
            == self._ties
        )


def within(permutation: Permutation, indices: Sequence[int]) -> Permutation | None:
    """Return the restriction of a permutation to these variables, renumbered 0, 1, ...

    For example (2, 1, 0, 3) restricted to the variables 0 and 2 is (1, 0). None if a variable is mapped
    outside these variables, or if all are mapped to themselves.
    """
    position = {number: index for index, number in enumerate(indices)}
    images = [position.get(permutation[number]) for number in indices]
    if None in images or images == list(range(len(indices))):
        return None
    return tuple(index for index in images if index is not None)


def evened(
    variables: Sequence[Variable], permutations: Iterable[Permutation]
) -> tuple[Variable, ...]:
    """Return the variables, each with the largest minimum capacity among its images.

    By symmetry, the minimum capacity of a channel also holds for its image.
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
