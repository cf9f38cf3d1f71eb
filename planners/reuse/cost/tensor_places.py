"""Edges that carry one tensor to several readers, in one place: nobody keeps a tensor twice.

The edges of a producer have a buffer each, as published. Where two of them keep as many elements, row
r of the tensor lies in the same place of both, and their producer waits for both before it writes over
it. So they may lie on one another, for as long as the one that is needed longest. A plan in which they
do is never larger than one in which they do not. Copies in a pipeline stay apart.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import NamedTuple

from planners.plan import Buffer, MemoryPlan, Problem
from planners.reuse.cost.evaluation import Evaluator, ReusePlan
from planners.reuse.cost.offset_problem import offset_problem


class TensorPlaces(NamedTuple):
    """The problem with one buffer for each tensor kept, and the buffer that stands for each edge."""

    edges: Problem
    tensors: Problem
    place_of: Mapping[str, str]

    def of_edges(self, memory: MemoryPlan) -> MemoryPlan:
        """Return the plan of the tensors as one of all edges: those of a tensor share its place."""
        return replace(
            memory,
            problem=replace(self.edges, shares=tuple(self._pairs())),
            offsets={edge: memory.offsets[place] for edge, place in self.place_of.items()},
        )

    def _pairs(self) -> Sequence[tuple[str, str]]:
        edges = defaultdict(list)
        for edge, place in self.place_of.items():
            edges[place].append(edge)
        return [pair for same in edges.values() for pair in combinations(same, 2)]


def tensor_places(evaluator: Evaluator, plan: ReusePlan) -> TensorPlaces:
    """Return the edge buffers of a plan, those of one tensor in one place where they may be."""
    problem = offset_problem(evaluator, plan)
    buffers = {buffer.name: buffer for buffer in problem.buffers}
    longest = {
        name: max(same, key=lambda one: buffers[one].end)
        for same in _same_tensors(plan, problem)
        for name in same
    }
    place_of = {name: longest[name] for name in buffers}
    tensors = tuple(buffers[name] for name in dict.fromkeys(place_of.values()))
    conflicts = dict.fromkeys(
        (place_of[one], place_of[other]) for one, other in problem.conflicts
    )  # each pair once
    return TensorPlaces(
        edges=problem,
        tensors=replace(problem, buffers=tensors, conflicts=tuple(conflicts)),
        place_of=place_of,
    )


def _same_tensors(plan: ReusePlan, problem: Problem) -> list[list[str]]:
    """Names of edges that may share a place; most stand alone."""
    copies = Counter((edge.member, edge.channel) for edge in plan.edges)
    found: dict[Hashable, list[Buffer]] = defaultdict(list)
    for edge, buffer in zip(plan.edges, problem.buffers, strict=True):
        is_only = copies[edge.member, edge.channel] == 1
        tensor = (edge.member, edge.connection.producer, buffer.size, buffer.start)
        found[tensor if is_only else edge.name].append(buffer)
    apart = {name for pair in problem.conflicts for name in pair}
    groups = []
    for same in found.values():
        names = [buffer.name for buffer in same]
        groups += [[name] for name in names] if apart.intersection(names) else [names]
    return groups
