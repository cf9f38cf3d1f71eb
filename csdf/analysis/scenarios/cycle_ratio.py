"""The largest ratio of weight to steps over the cycles of a graph with weighted edges, exactly."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple


class Edge(NamedTuple):
    """An edge between two numbered nodes."""

    source: int
    target: int
    weight: int
    steps: int  # at least 0, and above 0 somewhere on every cycle


class RatioCycle(NamedTuple):
    """A cycle with the largest ratio; each edge ends where the next one begins."""

    ratio: Fraction
    edges: tuple[Edge, ...]


def maximum_cycle_ratio(nodes: int, edges: Sequence[Edge]) -> RatioCycle | None:
    """Return a cycle with the largest sum of weights over sum of steps; None without a cycle.

    Every cycle needs a step. The search walks from ratio to ratio: it looks for a cycle that is
    above the best so far, until there is none (Bellman-Ford on weight - ratio * steps, in integers).
    Source: Dasdan, Irani, Gupta, Efficient algorithms for optimum cycle mean and optimum cost to
    time ratio problems, DAC 1999, Lawler's and Burns's methods.
    """
    best: RatioCycle | None = None
    while True:
        found = _better_cycle(nodes, edges, None if best is None else best.ratio)
        if found is None:
            return best
        best = found


def _better_cycle(nodes: int, edges: Sequence[Edge], ratio: Fraction | None) -> RatioCycle | None:
    """Return the best of the cycles that the longest paths close first, if above the ratio."""
    low = -1 - sum(abs(edge.weight) for edge in edges)  # below the ratio of any cycle
    known = Fraction(low) if ratio is None else ratio
    costs = [edge.weight * known.denominator - edge.steps * known.numerator for edge in edges]
    value = [0] * nodes
    into: list[Edge | None] = [None] * nodes
    for _ in range(nodes + 1):
        if not _lengthen(edges, costs, value, into):
            return None
        cycles = _cycles(into)
        if cycles:
            return max(cycles, key=lambda cycle: cycle.ratio)
    raise AssertionError("longer paths without end and without a cycle")


def _lengthen(
    edges: Sequence[Edge], costs: Sequence[int], value: list[int], into: list[Edge | None]
) -> bool:
    """Lengthen each path by an edge where that is longer; return whether one was."""
    is_longer = False
    for edge, cost in zip(edges, costs, strict=True):
        longer = value[edge.source] + cost
        if longer > value[edge.target]:
            value[edge.target] = longer
            into[edge.target] = edge
            is_longer = True
    return is_longer


def _cycles(into: Sequence[Edge | None]) -> list[RatioCycle]:
    """Return the cycles among the last edges of the paths, of which each node has at most one."""
    seen = [-1] * len(into)
    found = []
    for start in range(len(into)):
        node = start
        while seen[node] < 0:
            seen[node] = start
            edge = into[node]
            if edge is None:
                break
            node = edge.source
        else:
            if seen[node] == start:
                found.append(_cycle_through(node, into))
    return found


def _cycle_through(node: int, into: Sequence[Edge | None]) -> RatioCycle:
    backwards: list[Edge] = []
    at = node
    while not backwards or at != node:
        edge = into[at]
        if edge is None:
            raise AssertionError("a cycle has an edge into each of its nodes")
        backwards.append(edge)
        at = edge.source
    weight = sum(edge.weight for edge in backwards)
    steps = sum(edge.steps for edge in backwards)
    return RatioCycle(Fraction(weight, steps), tuple(reversed(backwards)))
