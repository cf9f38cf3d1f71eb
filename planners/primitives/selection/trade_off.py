"""Time against memory: every selection that no other improves on, exactly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from csdf.errors import InvalidPlan
from csdf.model.shown import Shown
from csdf.stopping import Budget
from planners.primitives.profile import LayerProfile
from planners.primitives.selection.elimination import (
    Decision,
    Elimination,
    combinations,
    eliminated,
    reading,
    together,
    writing,
)
from planners.primitives.selection.fronts import Pair, PairFront, best_within, pair, split
from planners.primitives.selection.objective import Objective
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
