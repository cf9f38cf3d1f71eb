"""The whole front of a problem, by deciding one layout after the other.

The layout in which a layer reads and that in which it writes are variables; a layer relates its
two, a link those at its ends, each by a front of time and memory for every pair of layouts. A
variable is decided by combining all that relate it to others into one relation among those others
(variable elimination, or dynamic programming over a tree decomposition): exact for every network,
and quick where few maps are alive side by side, series-parallel or not. Source: Dechter, Bucket
Elimination: A Unifying Framework for Reasoning, Artificial Intelligence 113, 1999.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from csdf.stopping import Budget, Stop, stop_of
from planners.primitives.selection.fronts import NOTHING, PairFront, added, front_of, least
from planners.primitives.selection.objective import Link, Objective
from planners.primitives.selection.problem import SelectionProblem

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
