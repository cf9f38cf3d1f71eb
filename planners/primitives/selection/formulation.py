"""Selection as an integer program, in whole numbers.

A binary variable for each candidate that no other of the same layouts improves on, and one for each
pair of layouts at the ends of a link: of those, as many go from (or to) a layout as candidates
write (or read) it. So the program grows with layouts, not with pairs of primitives, and on a tree
without a limit its relaxation is integral already.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import NamedTuple

from planners.primitives.profile import LayerProfile
from planners.primitives.selection.objective import Link, Objective
from planners.primitives.selection.problem import SelectionProblem


class BinaryVariable(NamedTuple):
    """A candidate of a layer, or a link with the layouts at its ends."""

    of: int  # number of the layer or of the link
    source: str
    target: str
    nanoseconds: int
    memory: int
    candidate: LayerProfile | None  # None for a link


class Limit(NamedTuple):
    """The most of what is not minimised, "nanoseconds" or "memory"."""

    what: str
    most: int


class SumBetween(NamedTuple):
    """A sum of variables that lies between two numbers."""

    factors: Mapping[int, int]
    low: float
    high: float


class Program(NamedTuple):
    """Variables with costs beyond the least of each layer, the sum of the least, and constraints."""

    variables: tuple[BinaryVariable, ...]
    costs: list[int]
    least: int
    rows: list[SumBetween]


def formulated(
    problem: SelectionProblem, variables: Sequence[BinaryVariable], what: str, limit: Limit | None
) -> Program | None:
    """Return what minimises a cost under a limit on the other; None where nothing can be.

    what: "nanoseconds" or "memory".
    """
    chosen_from = {one.of for one in variables if one.candidate is not None}
    if len(chosen_from) < len(problem.layers):
        return None
    rows = _rows(problem, variables)
    costs, least = _costs(variables, what)
    if limit is not None:
        limited, needed = _costs(variables, limit.what)
        if limit.most < needed:
            return None
        factors = {place: cost for place, cost in enumerate(limited) if cost}
        rows.append(SumBetween(factors, -inf, limit.most - needed))
    return Program(tuple(variables), costs, least, rows)


def variables_of(
    problem: SelectionProblem, objective: Objective, *, most: int | None = None
) -> list[BinaryVariable]:
    """Return all variables; with `most`, those of at most so many bytes."""
    found = [
        BinaryVariable(
            number, one.input_layout, one.output_layout, one.nanoseconds, memory, candidate=one
        )
        for number, candidates in enumerate(problem.candidates)
        for one, memory in _useful(candidates, objective)
    ]
    for number, link in enumerate(problem.links):
        found += _ends(problem, objective, number, link)
    return [one for one in found if most is None or one.memory <= most]


def _useful(
    candidates: Iterable[LayerProfile], objective: Objective
) -> list[tuple[LayerProfile, int]]:
    """Candidates that no other of the same layouts improves on, with their memory."""
    least: dict[tuple[str, str], int] = {}
    kept = []
    for one in sorted(candidates, key=lambda one: (objective.of_layer(one), one.nanoseconds)):
        ends = one.input_layout, one.output_layout
        if ends not in least or one.nanoseconds < least[ends]:
            least[ends] = one.nanoseconds
            kept.append((one, objective.of_layer(one)))
    return kept


def _ends(
    problem: SelectionProblem, objective: Objective, number: int, link: Link
) -> list[BinaryVariable]:
    found = []
    for source in problem.output_layouts(link.producer):
        for target in problem.input_layouts(link.consumer):
            change = link.change(source, target)
            time = 0 if change is None else change.nanoseconds
            memory = 0 if change is None else objective.of_change(link, change)
            found.append(BinaryVariable(number, source, target, time, memory, candidate=None))
    return found


def _rows(problem: SelectionProblem, variables: Sequence[BinaryVariable]) -> list[SumBetween]:
    """Demand a single candidate for each layer; at each end of a link, the layout of its layer."""
    layers: dict[int, dict[int, int]] = {number: {} for number in range(len(problem.layers))}
    ends: dict[tuple[int, str, str], dict[int, int]] = {}  # link, which end, layout
    writing, reading = _links_of(problem)
    for place, one in enumerate(variables):
        if one.candidate is None:
            ends.setdefault((one.of, "source", one.source), {})[place] = 1
            ends.setdefault((one.of, "target", one.target), {})[place] = 1
            continue
        layers[one.of][place] = 1
        for number in writing[one.of]:
            ends.setdefault((number, "source", one.target), {})[place] = -1
        for number in reading[one.of]:
            ends.setdefault((number, "target", one.source), {})[place] = -1
    return [
        *(SumBetween(factors, 1, 1) for factors in layers.values()),
        *(SumBetween(factors, 0, 0) for factors in ends.values()),
    ]


def _links_of(problem: SelectionProblem) -> tuple[list[list[int]], list[list[int]]]:
    """For each layer, the numbers of the links that it writes to, and of those that it reads."""
    writing: list[list[int]] = [[] for _ in problem.layers]
    reading: list[list[int]] = [[] for _ in problem.layers]
    for number, link in enumerate(problem.links):
        writing[link.producer].append(number)
        reading[link.consumer].append(number)
    return writing, reading


def _costs(variables: Sequence[BinaryVariable], what: str) -> tuple[list[int], int]:
    """Return the cost of each variable beyond the least of its layer, and the sum of the least.

    One candidate of each layer is there in any case; small numbers lose less in floating point.
    """
    least: dict[int, int] = {}
    for one in variables:
        if one.candidate is not None:
            cost = int(getattr(one, what))
            least[one.of] = min(cost, least.get(one.of, cost))
    beyond = [
        int(getattr(one, what)) - (0 if one.candidate is None else least[one.of])
        for one in variables
    ]
    return beyond, sum(least.values())
