"""Time against memory: every selection that no other improves on, exactly.

The whole front of a problem, by deciding one layout after the other.

The layout in which a layer reads and that in which it writes are variables; a layer relates its
two, a link those at its ends, each by a front of time and memory for every pair of layouts. A
variable is decided by combining all that relate it to others into one relation among those others
(variable elimination, or dynamic programming over a tree decomposition): exact for every network,
and quick where few maps are alive side by side, series-parallel or not. Source: Dechter, Bucket
Elimination: A Unifying Framework for Reasoning, Artificial Intelligence 113, 1999.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import numpy as np

from csdf.arguments import public
from csdf.errors import InvalidPlan
from csdf.model.shown import Shown
from csdf.time_limit import Budget, Stop, stop_of
from planners.primitives.profile import LayerProfile
from planners.primitives.selection.fronts import (
    NOTHING,
    Pair,
    PairFront,
    added,
    best_within,
    front_of,
    least,
    pair,
    split,
)
from planners.primitives.selection.objective import Link, Objective
from planners.primitives.selection.problem import Selection, SelectionProblem


@dataclass(frozen=True, slots=True, kw_only=True)
class TradeOff(Shown):
    """The complete front of a problem: pairs of time and memory by growing memory."""

    problem: SelectionProblem
    objective: Objective
    elimination: Elimination

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """All pairs that no selection improves on."""
        front = self.elimination.front
        return tuple(pair(front, place) for place in range(front.size))

    @property
    def smallest(self) -> Pair:
        """The least memory that any selection needs, and the least time with it."""
        return pair(self.elimination.front, 0)

    @property
    def fastest(self) -> Pair:
        """The least time that any selection takes, and the least memory for it."""
        return pair(self.elimination.front, -1)

    def within_memory(self, memory: int) -> Pair | None:
        """Return the pair of least time within a memory; None if none fits."""
        return best_within(self.elimination.front, memory)

    def within_time(self, nanoseconds: int) -> Pair | None:
        """Return the pair of least memory within a time; None if none is as fast."""
        times = self.elimination.front.nanoseconds[::-1]  # growing
        place = int(np.searchsorted(times, nanoseconds, side="right")) - 1
        return None if place < 0 else pair(self.elimination.front, len(times) - 1 - place)

    def selection(self, goal: Pair) -> Selection:
        """Return a selection of that time and memory. Raises InvalidPlan for a pair of no front."""
        goals = _goals(self.elimination, goal, self.objective)
        layouts: dict[int, str] = {}
        for decision in reversed(self.elimination.decisions):
            _undo(self.elimination, decision, self.objective, goals, layouts)
        chosen = (
            _candidate(
                self.problem.candidates[number],
                (layouts[reading(number)], layouts[writing(number)]),
                goals[number],
                self.objective,
            )
            for number in range(len(self.problem.layers))
        )
        return Selection(problem=self.problem, chosen=tuple(chosen))

    def to_json(self) -> list[dict[str, int]]:
        """Return the pairs of the front as a JSON value, by growing memory."""
        return [one.to_json() for one in self.pairs]

    def to_records(self) -> list[dict[str, int]]:
        """Return a row for each pair of the front, as for a data frame."""
        return self.to_json()


@public
def trade_off(problem: SelectionProblem, objective: Objective, budget: Budget = None) -> TradeOff:
    """Return the complete front. budget: ends the work by GaveUp."""
    return TradeOff(
        problem=problem, objective=objective, elimination=eliminated(problem, objective, budget)
    )


def _goals(elimination: Elimination, goal: Pair, objective: Objective) -> dict[int, Pair]:
    """Return what each relation without variables contributes to the goal."""
    constants = [elimination.relations[number].fronts[()] for number in elimination.constants]
    found = _contributions(constants, goal, objective)
    if found is None:
        raise InvalidPlan(
            f"no selection takes {goal.nanoseconds} ns and {goal.memory} bytes; take a pair of the "
            "front"
        )
    return dict(zip(elimination.constants, found, strict=True))


def _undo(
    elimination: Elimination,
    decision: Decision,
    objective: Objective,
    goals: dict[int, Pair],
    layouts: dict[int, str],
) -> None:
    """Add the layout of a decision, and what each of its relations contributes to its result."""
    near = [elimination.relations[number] for number in decision.relations]
    for assignment, fronts in _matching(elimination, decision, layouts):
        found = _contributions(fronts, goals[decision.result], objective)
        if found is not None:
            layouts[decision.variable] = assignment[decision.variable]
            goals.update(zip(decision.relations, found, strict=True))
            return
    raise InvalidPlan(f"no layout of {near} gives {goals[decision.result]}")


def _contributions(
    fronts: Sequence[PairFront], goal: Pair, objective: Objective
) -> list[Pair] | None:
    """A pair of each front that together take the time of the goal and fit its memory."""
    found: list[Pair] = []
    for number in range(len(fronts) - 1, 0, -1):
        before = together(fronts[:number], objective)
        parts = split(before, fronts[number], goal, objective)
        if parts is None:
            return None
        goal, mine = parts
        found.append(mine)
    first = best_within(fronts[0], goal.memory)
    if first is None or first.nanoseconds != goal.nanoseconds:
        return None
    return [first, *reversed(found)]


def _matching(
    elimination: Elimination, decision: Decision, layouts: dict[int, str]
) -> Iterator[tuple[dict[int, str], tuple[PairFront, ...]]]:
    near = [elimination.relations[number] for number in decision.relations]
    others = elimination.relations[decision.result].variables
    return combinations(near, {one: layouts[one] for one in others})


def _candidate(
    candidates: Sequence[LayerProfile],
    layouts: tuple[str, str],
    goal: Pair,
    objective: Objective,
) -> LayerProfile:
    """The candidate of these layouts and this time that needs the least."""
    fitting = (
        one
        for one in candidates
        if (one.input_layout, one.output_layout) == layouts and one.nanoseconds == goal.nanoseconds
    )
    return min(fitting, key=objective.of_layer)


Layouts = tuple[str, ...]


class Relation(NamedTuple):
    """For each combination of layouts of some variables, what it costs; one that cannot be lacks."""

    variables: tuple[int, ...]  # by growing number
    fronts: Mapping[Layouts, PairFront]


class Decision(NamedTuple):
    """A variable that was decided.

    relations: all that related it to others, those with longer fronts first. result: the relation
    among the others. These are numbers of relations of the elimination.
    """

    variable: int
    relations: tuple[int, ...]
    result: int


class Elimination(NamedTuple):
    """The front of a problem, and what it takes to find back what gives a point of it.

    relations: the layers, the links, the result of each decision. constants: numbers of those that
    were left in the end, without variables.
    """

    front: PairFront
    relations: tuple[Relation, ...]
    decisions: tuple[Decision, ...]
    constants: tuple[int, ...]


def reading(layer: int) -> int:
    """Return the variable of the layout in which a layer reads."""
    return 2 * layer


def writing(layer: int) -> int:
    """Return the variable of the layout in which a layer writes."""
    return 2 * layer + 1


def relations(problem: SelectionProblem, objective: Objective) -> list[Relation]:
    """Return what relates the layouts of a problem: each layer and each link."""
    layers = (_layer(problem, objective, number) for number in range(len(problem.layers)))
    return [*layers, *(_link(problem, objective, link) for link in problem.links)]


def _layer(problem: SelectionProblem, objective: Objective, number: int) -> Relation:
    by_layouts = sorted(
        problem.candidates[number], key=lambda one: (one.input_layout, one.output_layout)
    )
    fronts: dict[Layouts, PairFront] = {}
    for layouts, same in groupby(by_layouts, key=lambda one: (one.input_layout, one.output_layout)):
        candidates = list(same)
        fronts[layouts] = front_of(
            [one.nanoseconds for one in candidates],
            [objective.of_layer(one) for one in candidates],
        )
    return Relation((reading(number), writing(number)), fronts)


def _link(problem: SelectionProblem, objective: Objective, link: Link) -> Relation:
    fronts: dict[Layouts, PairFront] = {}
    for source in problem.output_layouts(link.producer):
        for target in problem.input_layouts(link.consumer):
            change = link.change(source, target)
            fronts[source, target] = (
                NOTHING
                if change is None
                else front_of([change.nanoseconds], [objective.of_change(link, change)])
            )
    return Relation((writing(link.producer), reading(link.consumer)), fronts)


def eliminated(
    problem: SelectionProblem, objective: Objective, budget: Budget = None
) -> Elimination:
    """Return the front of a problem. budget: looked at before each combination."""
    stop = stop_of(budget)
    found = relations(problem, objective)
    left = set(range(len(found)))
    decisions: list[Decision] = []
    for _ in range(2 * len(problem.layers)):
        variable = _next([found[number] for number in left])
        near = sorted(
            (number for number in left if variable in found[number].variables),
            key=lambda number: (-_longest(found[number]), number),
        )
        decisions.append(Decision(variable, tuple(near), len(found)))
        left = left.difference(near) | {len(found)}
        found.append(_decided(variable, [found[number] for number in near], objective, stop))
    constants = tuple(sorted(left, key=lambda number: (-_longest(found[number]), number)))
    front = together([found[number].fronts[()] for number in constants], objective)
    return Elimination(front, tuple(found), tuple(decisions), constants)


def _longest(relation: Relation) -> int:
    return max(front.size for front in relation.fronts.values())


def _next(left: Sequence[Relation]) -> int:
    """The first variable that is related to at most two others; else one related to the fewest.

    From the front to the back, a long front meets short ones only.
    """
    others: dict[int, set[int]] = {}
    for one in left:
        for variable in one.variables:
            others.setdefault(variable, set()).update(one.variables)
    return min(others, key=lambda variable: (max(len(others[variable]), 3), variable))


def _decided(
    variable: int, relations: Sequence[Relation], objective: Objective, stop: Stop
) -> Relation:
    """Return what remains among the other variables once one is decided in the best way."""
    near = {other for one in relations for other in one.variables}
    others = tuple(sorted(near - {variable}))
    found: dict[Layouts, list[PairFront]] = {}
    for assignment, fronts in combinations(relations):
        stop.look()
        key = tuple(assignment[one] for one in others)
        found.setdefault(key, []).append(together(fronts, objective))
    return Relation(others, {key: least(fronts) for key, fronts in found.items()})


def combinations(
    relations: Sequence[Relation], fixed: Mapping[int, str] | None = None
) -> Iterator[tuple[dict[int, str], tuple[PairFront, ...]]]:
    """Yield all layouts on which the relations agree, with the front of each relation."""
    found: list[tuple[dict[int, str], tuple[PairFront, ...]]] = [(dict(fixed or {}), ())]
    for one in relations:
        found = [
            (assignment | extended, (*fronts, front))
            for assignment, fronts in found
            for layouts, front in one.fronts.items()
            if _agree(assignment, extended := dict(zip(one.variables, layouts, strict=True)))
        ]
    yield from found


def together(fronts: Iterable[PairFront], objective: Objective) -> PairFront:
    """Return the front of all, one after the other: a long one first meets short ones only."""
    total = NOTHING
    for front in fronts:
        total = added(total, front, objective)
    return total


def _agree(assignment: Mapping[int, str], other: Mapping[int, str]) -> bool:
    return all(assignment.get(variable, layout) == layout for variable, layout in other.items())
