"""Pareto front of time and memory over primitive selections, by variable elimination.

The variables are the layouts that each layer reads and writes. A layer relates its two variables, a
link those at its ends, each by a front of time and memory for every pair of layouts. A variable is
eliminated by combining all its relations into one relation among its neighbours (bucket
elimination, or dynamic programming over a tree decomposition). The result is exact for every
network, and fast if few maps are live at the same time. Source: Dechter, Bucket Elimination: A
Unifying Framework for Reasoning, Artificial Intelligence 113, 1999.

A chain needs no method of its own. Its variables are eliminated from the front to the back, each with
two relations, which is the dynamic program along the chain: label setting with the layouts as states
and (time, memory) as labels. A step extends all labels of a pair of layouts as one array, so the search
by `csdf.search.pareto.ChainLabels` would be a second method for the same fronts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from csdf.arguments import public
from csdf.errors import InvalidPlan
from csdf.model.shown import Shown
from csdf.time_limit import Budget, stop_of
from planners.kernels import ranges
from planners.primitives.profile import LayerProfile
from planners.primitives.selection.problem import Objective, Pair, Selection, SelectionProblem

Numbers = NDArray[Any]  # int64, or Python's integers where those might be too small
Layouts = tuple[str, ...]


class PairFront(NamedTuple):
    """Pairs of memory and time, by strictly increasing memory and strictly decreasing time."""

    nanoseconds: Numbers
    memory: Numbers

    def pair(self, index: int) -> Pair:
        """Return one of the pairs."""
        return Pair(int(self.nanoseconds[index]), int(self.memory[index]))

    def within(self, memory: int) -> Pair | None:
        """Return the pair of least time within a memory; None if none fits."""
        index = int(np.searchsorted(self.memory, memory, side="right")) - 1
        return None if index < 0 else self.pair(index)


NOTHING = PairFront(np.zeros(1, np.int64), np.zeros(1, np.int64))  # costs nothing, needs nothing


class Relation(NamedTuple):
    """A front for each combination of layouts of some variables; impossible combinations are absent."""

    variables: tuple[int, ...]  # by growing number: 2 n, in which layer n reads; 2 n + 1, it writes
    fronts: Mapping[Layouts, PairFront]


class Decision(NamedTuple):
    """An eliminated variable.

    relations: numbers of its relations, those with longer fronts first. result: number of the new
    relation among its neighbours.
    """

    variable: int
    relations: tuple[int, ...]
    result: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TradeOff(Shown):
    """The complete front of a problem: pairs of time and memory by increasing memory.

    relations: layers, links, and the results of eliminations. constants: numbers of the relations
    without variables at the end, from which a selection is reconstructed.
    """

    problem: SelectionProblem
    objective: Objective
    front: PairFront
    relations: tuple[Relation, ...]
    decisions: tuple[Decision, ...]
    constants: tuple[int, ...]

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """All pairs that no selection improves on."""
        return tuple(map(self.front.pair, range(len(self.front.memory))))

    @property
    def smallest(self) -> Pair:
        """The minimum memory over all selections, and the minimum time with this memory."""
        return self.front.pair(0)

    @property
    def fastest(self) -> Pair:
        """The minimum time over all selections, and the minimum memory with this time."""
        return self.front.pair(-1)

    def within_memory(self, memory: int) -> Pair | None:
        """Return the pair of least time within a memory; None if none fits."""
        return self.front.within(memory)

    def within_time(self, nanoseconds: int) -> Pair | None:
        """Return the pair of least memory within a time; None if none is as fast."""
        times = self.front.nanoseconds[::-1]  # growing
        index = int(np.searchsorted(times, nanoseconds, side="right"))
        return None if index == 0 else self.front.pair(-index)

    def selection(self, goal: Pair) -> Selection:
        """Return a selection of that time and memory. Raises InvalidPlan for a pair of no front."""
        constants = [self.relations[number].fronts[()] for number in self.constants]
        contributions = _contributions(constants, goal, self.objective)
        if contributions is None:
            raise InvalidPlan(
                f"no selection takes {goal.nanoseconds} ns and {goal.memory} bytes; take a pair of "
                "the front"
            )
        goals = dict(zip(self.constants, contributions, strict=True))
        layouts: dict[int, str] = {}
        for decision in reversed(self.decisions):
            near = [self.relations[number] for number in decision.relations]
            fixed_layouts = {
                variable: layouts[variable]
                for variable in self.relations[decision.result].variables
            }
            for assignment, fronts in _combinations(near, fixed_layouts):
                contributions = _contributions(fronts, goals[decision.result], self.objective)
                if contributions is not None:
                    layouts[decision.variable] = assignment[decision.variable]
                    goals.update(zip(decision.relations, contributions, strict=True))
                    break
        chosen: list[LayerProfile] = []
        for number, candidates in enumerate(self.problem.candidates):
            # The relation of a layer has the number of the layer, and its layouts are variables
            # 2 n and 2 n + 1.
            ends = layouts[2 * number], layouts[2 * number + 1]
            fitting = (
                candidate
                for candidate in candidates
                if candidate.variant.layouts == ends
                and candidate.nanoseconds == goals[number].nanoseconds
            )
            chosen.append(min(fitting, key=self.objective.of_layer))
        return Selection(problem=self.problem, chosen=tuple(chosen))

    def to_json(self) -> list[dict[str, int]]:
        """Return the pairs of the front as a JSON value, by growing memory."""
        return [pair.to_json() for pair in self.pairs]

    def to_records(self) -> list[dict[str, int]]:
        """Return a row for each pair of the front, as for a data frame."""
        return self.to_json()


@public
def trade_off(problem: SelectionProblem, objective: Objective, budget: Budget = None) -> TradeOff:
    """Return the complete front. budget: may end the search with GaveUp before each combination."""
    stop = stop_of(budget)
    relations = _relations(problem, objective)
    left = set(range(len(relations)))
    decisions: list[Decision] = []

    def shortest_last(number: int) -> tuple[int, int]:
        return -max(len(front.memory) for front in relations[number].fronts.values()), number

    for _ in range(2 * len(problem.layers)):
        # The first variable that is related to at most two others; else one related to the fewest.
        # From the front to the back, a long front meets short ones only. `neighbours` has the variable
        # itself too: 3 are two others.
        neighbours: dict[int, set[int]] = {}
        for number in left:
            for vertex in relations[number].variables:
                neighbours.setdefault(vertex, set()).update(relations[number].variables)
        variable = min(neighbours, key=lambda vertex: (max(len(neighbours[vertex]), 3), vertex))
        near = sorted((n for n in left if variable in relations[n].variables), key=shortest_last)
        remaining = tuple(sorted(neighbours[variable] - {variable}))
        best: dict[Layouts, list[PairFront]] = {}
        for assignment, fronts in _combinations([relations[number] for number in near], {}):
            stop.look()
            key = tuple(assignment[vertex] for vertex in remaining)
            best.setdefault(key, []).append(_sum_of(fronts, objective))
        decisions.append(Decision(variable, tuple(near), len(relations)))
        left = left.difference(near) | {len(relations)}
        relations.append(
            Relation(remaining, {key: _union_of(fronts) for key, fronts in best.items()})
        )
    constants = tuple(sorted(left, key=shortest_last))
    return TradeOff(
        problem=problem,
        objective=objective,
        front=_sum_of([relations[number].fronts[()] for number in constants], objective),
        relations=tuple(relations),
        decisions=tuple(decisions),
        constants=constants,
    )


def _relations(problem: SelectionProblem, objective: Objective) -> list[Relation]:
    """Return the relations of a problem: one for each layer and each link."""
    relations: list[Relation] = []
    for number, candidates in enumerate(problem.candidates):
        alike: dict[Layouts, list[LayerProfile]] = {}
        for candidate in sorted(candidates, key=lambda candidate: candidate.variant.layouts):
            alike.setdefault(candidate.variant.layouts, []).append(candidate)
        fronts = {
            layouts: front_of(
                [option.nanoseconds for option in same],
                [objective.of_layer(option) for option in same],
            )
            for layouts, same in alike.items()
        }
        relations.append(Relation((2 * number, 2 * number + 1), fronts))
    for link in problem.links:
        fronts = {}
        for source in problem.output_layouts(link.producer):
            for target in problem.input_layouts(link.consumer):
                change = link.change(source, target)
                fronts[source, target] = (
                    NOTHING
                    if change is None
                    else front_of([change.nanoseconds], [objective.of_change(link, change)])
                )
        relations.append(Relation((2 * link.producer + 1, 2 * link.consumer), fronts))
    return relations


def _combinations(
    relations: Sequence[Relation], fixed: Mapping[int, str]
) -> list[tuple[dict[int, str], tuple[PairFront, ...]]]:
    """Return the layouts on which the relations agree, with the front of each relation."""
    combined: list[tuple[dict[int, str], tuple[PairFront, ...]]] = [(dict(fixed), ())]
    for relation in relations:
        combined = [
            (assignment | dict(zip(relation.variables, layouts, strict=True)), (*fronts, front))
            for assignment, fronts in combined
            for layouts, front in relation.fronts.items()
            if all(
                assignment.get(variable, layout) == layout
                for variable, layout in zip(relation.variables, layouts, strict=True)
            )
        ]
    return combined


def _contributions(
    fronts: Sequence[PairFront], goal: Pair, objective: Objective
) -> list[Pair] | None:
    """Return a pair of each front that together take the time of the goal and fit its memory.

    None if there are none. The last front is decided first: a pair of it is right if the sum of the
    fronts before it has a pair for the rest of the goal, which is then the goal of these fronts. Quick
    where all fronts but the first are short.
    """
    pairs: list[Pair] = []
    for number in range(len(fronts) - 1, 0, -1):
        before = _sum_of(fronts[:number], objective)
        for index in range(len(fronts[number].memory)):
            pair = fronts[number].pair(index)
            # Bytes of the network add up; a workspace is the same bytes for every layer.
            left = goal.memory - (pair.memory if objective is Objective.NETWORK else 0)
            rest = before.within(left) if pair.memory <= goal.memory else None
            if rest is not None and rest.nanoseconds + pair.nanoseconds == goal.nanoseconds:
                break
        else:
            return None
        goal = rest
        pairs.append(pair)
    first = fronts[0].within(goal.memory)
    if first is None or first.nanoseconds != goal.nanoseconds:
        return None
    return [first, *reversed(pairs)]


def front_of(nanoseconds: Sequence[int] | Numbers, memory: Sequence[int] | Numbers) -> PairFront:
    """Return the pairs that no pair dominates; of equal pairs only the first."""
    times, sizes = (
        column
        if isinstance(column, np.ndarray)
        else np.array(column, ranges.number_type(max(column, default=0)))
        for column in (nanoseconds, memory)
    )
    order = np.argsort(sizes, kind="stable")
    times, sizes = times[order], sizes[order]
    minimum = np.minimum.accumulate(times)
    is_faster = np.empty(len(times), bool)
    is_faster[:1] = True
    np.less(times[1:], minimum[:-1], out=is_faster[1:])
    times, sizes = times[is_faster], sizes[is_faster]
    is_last = np.empty(len(times), bool)  # of those with equal memory: the fastest
    is_last[-1:] = True
    np.not_equal(sizes[1:], sizes[:-1], out=is_last[:-1])
    return PairFront(times[is_last], sizes[is_last])


def _union_of(fronts: Sequence[PairFront]) -> PairFront:
    """Return the Pareto front of the union of several fronts."""
    if len(fronts) == 1:
        return fronts[0]
    times, sizes = zip(*fronts, strict=True)
    return front_of(np.concatenate(times), np.concatenate(sizes))


def _sum_of(fronts: Sequence[PairFront], objective: Objective) -> PairFront:
    """Return the Pareto front of the sums of a pair of each front; quickest with the longest first."""
    return reduce(lambda total, front: added(total, front, objective), fronts or [NOTHING])


def added(first: PairFront, second: PairFront, objective: Objective) -> PairFront:
    """Return the front of the sum: times add up, memory as in the objective."""
    # A front begins with its longest time, and ends with its largest memory.
    largest = int(max(max(pairs.nanoseconds[0], pairs.memory[-1]) for pairs in (first, second)))
    if ranges.number_type(2 * largest) is object:  # sums leave the range of 64 bits
        first, second = (
            PairFront(*(column.astype(object) for column in pair)) for pair in (first, second)
        )
    if objective is Objective.WORKSPACE:  # at each size the best of each that fits
        sizes = np.union1d(first.memory, second.memory)
        sizes = sizes[sizes >= max(first.memory[0], second.memory[0])]
        times = sum(
            pair_front.nanoseconds[np.searchsorted(pair_front.memory, sizes, side="right") - 1]
            for pair_front in (first, second)
        )
        return front_of(times, sizes)
    small, large = sorted((first, second), key=lambda pair_front: len(pair_front.memory))
    if len(small.memory) == 1:
        return PairFront(large.nanoseconds + small.nanoseconds, large.memory + small.memory)
    return front_of(
        np.add.outer(small.nanoseconds, large.nanoseconds).ravel(),
        np.add.outer(small.memory, large.memory).ravel(),
    )
