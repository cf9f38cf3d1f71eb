"""Branch and bound over the parts of some layers: the least that they can have in use together.

A node fixes the parts of some layers; what they force to be in use together (`ChoicesLeft`) is a bound
for all that agree with it. The node with the smallest bound is split by the open layer nearest to the
place where most is in use. So there is a proved bound at any time, and it rises.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify
from typing import NamedTuple

from planners.reuse.cost.choices_left import Choices, ChoicesLeft


class _Node(NamedTuple):
    """Choices that agree in some layers, in the order in which nodes are split.

    bound: elements in use together at least. fixed: minus the number of layers that were fixed.
    fullest: the layer at whose first firing most is in use.
    """

    bound: int
    fixed: int
    number: int
    choices: Choices
    fullest: int


class Tree:
    """Nodes that together are all choices.

    layers: to be split. moments: the layers at whose first firing it is asked what is in use.
    """

    def __init__(
        self, left: ChoicesLeft, choices: Choices, *, layers: Iterable[int], moments: range
    ) -> None:
        self._left = left
        self._layers = [layer for layer in layers if len(choices[layer]) > 1]
        self._moments = moments
        self._made = 0
        self._nodes = [self._node(choices, 0, 0)]

    @property
    def bound(self) -> int:
        """No choice has less in use together."""
        return self._nodes[0].bound

    @property
    def choices(self) -> Choices:
        """The choices that need no more than the bound, as far as is known."""
        return self._nodes[0].choices

    @property
    def is_done(self) -> bool:
        """Whether the bound cannot rise: all layers are fixed in the node that has it."""
        return not self._open(self._nodes[0])

    def split(self) -> list[Choices]:
        """Split the node with the smallest bound, which has an open layer; return its parts.

        Wherever Ctrl-C ends it, the nodes are all choices.
        """
        node, *others = self._nodes
        layer = min(self._open(node), key=lambda one: (abs(one - node.fullest), one))
        before, behind = node.choices[:layer], node.choices[layer + 1 :]
        parts = [(*before, (rows,), *behind) for rows in node.choices[layer]]
        others += [self._node(choices, node.bound, node.fixed - 1) for choices in parts]
        heapify(others)
        self._nodes = others
        return parts

    def _open(self, node: _Node) -> list[int]:
        return [layer for layer in self._layers if len(node.choices[layer]) > 1]

    def _node(self, choices: Choices, bound: int, fixed: int) -> _Node:
        loads = self._left.loads(choices)
        fullest = max(self._moments, key=loads.__getitem__)
        self._made += 1
        return _Node(max(bound, loads[fullest]), fixed, self._made, choices, fullest)
