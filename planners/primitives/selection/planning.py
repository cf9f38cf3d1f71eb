"""The optimal selection of primitives within a limit on memory or time, and baseline selections.

The optimal selection has minimum time or memory. It is a point of the complete front of `trade_off`
(bucket elimination); if the time limit ends that, the best of a few greedy selections is returned.

Baselines choose layer by layer, by time alone, or one family of primitives for all layers. A family is
the set of primitives with the same first word, such as "winograd". The greedy choice and the published
accounting are those of Wen, Anderson, Radu, O'Boyle and Gregg, TASO: Time and Space Optimization for
Memory-Constrained DNN Inference, SBAC-PAD 2020, sections 5.3.2 and 4.3 to 4.5.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby
from math import ceil

from cnn2csdf.network import Network
from csdf.arguments import public
from csdf.errors import InvalidPlan
from csdf.status import Reason, Status, Why, because
from csdf.time_limit import ENDS, Budget, reason_of, stop_of
from planners.primitives.library.primitive import ELEMENT_BYTES
from planners.primitives.profile import LAYER, LayerProfile
from planners.primitives.selection.problem import (
    MOST,
    LayerLink,
    Objective,
    Pair,
    Selection,
    SelectionProblem,
)
from planners.primitives.selection.trade_off import TradeOff, trade_off

FALLBACK = "im2col"  # the family for layers that another family cannot compute
# Greedy passes that each raise the reserve by the least that changes a choice. At 12,400 limits of
# random and catalogue problems at most 7 were needed; after these the reserve doubles, so that the
# number of passes is logarithmic in the bytes.
PASSES = 64


class SelectionWhy(Why):
    """The reasons for the best selection within a constraint, or for none."""

    NONE_FASTER = "none within the limit is faster"
    NONE_SMALLER = "none within the limit is smaller"
    TIME = "no selection takes less than {milliseconds:.4g} ms ({nanoseconds} ns)"
    MEMORY = "no selection needs less than {least} bytes"
    LEAST_UNKNOWN = "no selection is within the limit; the minimum was not found in time"
    SOLVER_ENDED = "the time limit of the solver is reached"
    BOUND = "proved: none is below {bound}"


@public
@dataclass(frozen=True, slots=True, kw_only=True)
class Constraint:
    """Minimum time within a memory in bytes, or minimum memory within a time; else minimum time."""

    objective: Objective
    memory: int | None = None
    nanoseconds: int | None = None

    def __post_init__(self) -> None:
        if self.memory is not None and self.nanoseconds is not None:
            raise InvalidPlan("limits on both memory and time; limit one, the other is minimised")

    def is_met_by(self, selection: Selection) -> bool:
        """Whether a selection is within the limit."""
        if self.memory is not None:
            return selection.memory(self.objective) <= self.memory
        return self.nanoseconds is None or selection.nanoseconds <= self.nanoseconds

    def cost(self, selection: Selection) -> tuple[int, int]:
        """Return the objective that is minimised first, then the second one."""
        costs = selection.pair(self.objective)
        return costs if self.nanoseconds is None else costs[::-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionAnswer:
    """The best selection within a constraint.

    status: "optimal" and "infeasible" are proved. least: the smallest feasible limit, in bytes or
    nanoseconds; None if it is not known. front: of all selections; None if it was not computed.
    """

    selection: Selection | None
    status: Status
    reason: Reason
    least: int | None = None
    front: TradeOff | None = None


@public
def best_selection(
    problem: SelectionProblem, constraint: Constraint, budget: Budget = None
) -> SelectionAnswer:
    """Return the best selection by dynamic programming, exactly, and the whole front.

    budget: a stop, or seconds; after it, and after Ctrl-C, the answer is that of `quick_answer`.
    """
    try:
        front = trade_off(problem, constraint.objective, budget)
    except ENDS as end:
        return quick_answer(problem, constraint, reason_of(end))
    if constraint.nanoseconds is not None:
        goal, minimum = front.within_time(constraint.nanoseconds), front.fastest.nanoseconds
    else:
        goal = (
            front.fastest if constraint.memory is None else front.within_memory(constraint.memory)
        )
        minimum = front.smallest.memory
    selection = None if goal is None else front.selection(goal)
    return replace(proved_answer(constraint, selection, minimum), front=front)


def proved_answer(
    constraint: Constraint, selection: Selection | None, minimum: int | None
) -> SelectionAnswer:
    """Return the answer of a complete search: the best selection, or that none is within the limit."""
    is_in_time = constraint.nanoseconds is not None
    if selection is not None:
        reason = because(SelectionWhy.NONE_SMALLER if is_in_time else SelectionWhy.NONE_FASTER)
    elif minimum is None:
        reason = because(SelectionWhy.LEAST_UNKNOWN)
    elif is_in_time:
        reason = because(SelectionWhy.TIME, milliseconds=minimum / 1e6, nanoseconds=minimum)
    else:
        reason = because(SelectionWhy.MEMORY, least=minimum)
    status = Status.INFEASIBLE if selection is None else Status.OPTIMAL
    return SelectionAnswer(selection=selection, status=status, reason=reason, least=minimum)


def quick_answer(
    problem: SelectionProblem, constraint: Constraint, reason: Reason
) -> SelectionAnswer:
    """Return the best of three selections that need no search. reason: why the search ended.

    They are: layer by layer within the memory, each layer the fastest, each layer the smallest.
    """
    memory = MOST if constraint.memory is None else constraint.memory
    quick = [in_order(problem, constraint.objective, memory)]
    for key in (lambda candidate: candidate.nanoseconds, constraint.objective.of_layer):
        chosen = tuple(min(candidates, key=key) for candidates in problem.candidates)
        quick.append(Selection(problem=problem, chosen=chosen))
    feasible = (
        selection
        for selection in quick
        if selection is not None and constraint.is_met_by(selection)
    )
    best = min(feasible, key=constraint.cost, default=None)
    status = Status.UNKNOWN if best is None else Status.FEASIBLE
    return SelectionAnswer(selection=best, status=status, reason=reason)


def in_order(problem: SelectionProblem, objective: Objective, memory: int) -> Selection | None:
    """Return the selection of a greedy choice layer by layer; None if no reserve makes it fit.

    A choice ignores the later layout transformations that its layout causes, so a pass may exceed the
    memory. Then the next pass gets less memory: the difference is the reserve for transformations. A
    reserve too small to change any choice is skipped; after `PASSES` passes the reserve doubles. The
    greedy choice of TASO is a different choice: `greedy_steps`.
    """
    minimum = objective.total(
        min(map(objective.of_layer, candidates)) for candidates in problem.candidates
    )
    reserve, passes = 0, 0
    while memory - reserve >= minimum:
        selection, least_limit = _greedy_pass(problem, objective, memory - reserve)
        beyond = selection.memory(objective) - memory
        if beyond <= 0:
            return selection
        if least_limit is None:
            return None
        passes += 1
        step = max(beyond, memory - reserve - least_limit + 1)
        reserve += step if passes < PASSES else max(step, reserve)
    return None


def _greedy_pass(
    problem: SelectionProblem, objective: Objective, limit: int
) -> tuple[Selection, int | None]:
    """Choose layer by layer within a limit in bytes.

    Each layer gets its fastest primitive that fits when every later layer gets its smallest, with the
    layout transformations of its inputs; the cost of its own output layout is not considered. If no
    primitive fits, the layer gets its smallest.

    The second result is the smallest limit with the same choices; None if all limits lead to them.
    """
    minima = [min(map(objective.of_layer, candidates)) for candidates in problem.candidates]
    later = list(accumulate(reversed(minima), lambda *sizes: objective.total(sizes), initial=0))
    inputs: list[list[LayerLink]] = [[] for _ in problem.layers]
    for link in problem.links:
        inputs[link.consumer].append(link)
    chosen: list[LayerProfile] = []
    used, least_limit = 0, None
    for number, candidates in enumerate(problem.candidates):
        remaining = later[-2 - number]
        costs: list[
            tuple[int, int]
        ] = []  # of each candidate: time and bytes, with changes of inputs
        for candidate in candidates:
            time, sizes = candidate.nanoseconds, [objective.of_layer(candidate)]
            for link in inputs[number]:
                layout = chosen[link.producer].output_layout
                change = link.change(layout, candidate.input_layout)
                if change is not None:
                    time += change.nanoseconds
                    sizes.append(objective.of_change(link, change))
            costs.append((time, objective.total(sizes)))
        totals = [objective.total((used, size, remaining)) for _, size in costs]
        fitting = [index for index, total in enumerate(totals) if total <= limit]
        if fitting:
            choice = min(fitting, key=costs.__getitem__)
            least_limit = max(least_limit or 0, totals[choice])
        else:  # the smallest
            choice = min(range(len(costs)), key=lambda index: costs[index][::-1])
        chosen.append(candidates[choice])
        _, size = costs[choice]
        used = objective.total((used, size))
    return Selection(problem=problem, chosen=tuple(chosen)), least_limit


def only(problem: SelectionProblem, preferred: Sequence[Collection[str]]) -> SelectionProblem:
    """Return the problem in which each layer keeps its candidates of the first family that it has.

    preferred: families, each a collection of names of primitives. A layer without any keeps all.
    """
    remaining = []
    for candidates in problem.candidates:
        of_families = (
            tuple(candidate for candidate in candidates if candidate.primitive in names)
            for names in preferred
        )
        remaining.append(next(filter(None, of_families), candidates))
    return replace(problem, candidates=tuple(remaining))


def without(problem: SelectionProblem, names: Collection[str]) -> SelectionProblem:
    """Return the problem without some families of primitives, such as "fourier".

    Raises InvalidPlan for an unknown family, and for a layer without a primitive.
    """
    family_names = families(problem)
    for name in names:
        if name not in family_names:
            raise InvalidPlan(f"no primitive is called {name!r}, only {', '.join(family_names)}")
    left_out = frozenset[str]().union(*(family_names[name] for name in names))
    remaining = tuple(
        tuple(candidate for candidate in candidates if candidate.primitive not in left_out)
        for candidates in problem.candidates
    )
    for layer, candidates_left in zip(problem.layers, remaining, strict=True):
        if not candidates_left:
            raise InvalidPlan(f"layer {layer!r} has no primitive but {', '.join(names)}")
    return replace(problem, candidates=remaining)


def family(primitive: str) -> str:
    """Return the family of a primitive: the first word of its name."""
    return re.split(r"[ ,]", primitive, maxsplit=1)[0]


def families(problem: SelectionProblem) -> dict[str, frozenset[str]]:
    """Return the names of the primitives of the convolutions, by family."""
    profiles = (candidate for candidates in problem.candidates for candidate in candidates)
    names = sorted({profile.primitive for profile in profiles} - {LAYER}, key=family)
    return {title: frozenset(members) for title, members in groupby(names, family)}


def single_families(
    problem: SelectionProblem, objective: Objective, budget: Budget = None
) -> Iterator[tuple[str, Selection]]:
    """Yield the name of each family, and the fastest selection with that family in every layer.

    A layer that the family cannot compute has a primitive of FALLBACK, or any if that cannot either.
    """
    names_of, stop = families(problem), stop_of(budget)
    for title, names in names_of.items():
        front = trade_off(only(problem, (names, names_of.get(FALLBACK, names))), objective, stop)
        yield title, replace(front.selection(front.fastest), problem=problem)


def budgets(front: TradeOff, count: int) -> tuple[int, ...]:
    """Return memory limits in geometric sequence, from the smallest to the largest useful limit.

    count: of the sequence, which begins at 1/1000 of the largest limit if the smallest limit is less.
    """
    maximum = max(1, front.fastest.memory)
    low = max(front.smallest.memory, maximum // 1000, 1)
    steps = (low * (maximum / low) ** (step / max(1, count - 1)) for step in range(count))
    limits = (min(ceil(step), maximum) for step in steps)  # a rounding error may exceed the maximum
    return tuple(sorted({front.smallest.memory, *limits, maximum}))


def greedy_steps(front: TradeOff) -> Iterator[Selection]:
    """Yield the fastest selection, then the selection after each replacement.

    A replacement concerns the layer whose primitive has the largest footprint: it gets its fastest
    candidate of a smaller footprint. If there is none, a case that the paper omits, the layer with the
    next largest footprint is replaced. Layout transformations follow from the choices; the printed rule
    ignores them.
    """
    of_layer, problem = front.objective.of_layer, front.problem
    selection = front.selection(front.fastest)
    while True:
        yield selection
        chosen = list(selection.chosen)
        for index in sorted(
            range(len(chosen)),
            key=lambda layer_number: (-of_layer(chosen[layer_number]), layer_number),
        ):
            smaller = [
                candidate
                for candidate in problem.candidates[index]
                if of_layer(candidate) < of_layer(chosen[index])
            ]
            if smaller:
                chosen[index] = min(
                    smaller, key=lambda candidate: (candidate.nanoseconds, of_layer(candidate))
                )
                break
        else:
            return
        selection = replace(selection, chosen=tuple(chosen))


def greedy(front: TradeOff, memory: int) -> Selection | None:
    """Return the first of the greedy steps within a memory; None if there is none."""
    fitting = (step for step in greedy_steps(front) if step.memory(front.objective) <= memory)
    return next(fitting, None)


def greedy_pairs(front: TradeOff, memories: Iterable[int]) -> Iterator[Pair]:
    """Yield the time of the first greedy step within each memory, if there is a step."""
    steps = [step.pair(front.objective) for step in greedy_steps(front)]
    for memory in memories:
        time = next((time for time, needed in steps if needed <= memory), None)
        if time is not None:
            yield Pair(time, memory)


def as_published(
    problem: SelectionProblem, network: Network, objective: Objective
) -> SelectionProblem:
    """Return the problem in which only convolutions need memory, as in the published formulas.

    A layout transformation takes time and no memory: "the input and output buffers can be used in
    place". Formula 9, for the whole network, counts scratch and weights of each convolution.
    Formula 15, for one workspace, counts its input, output, weights and scratch; their sum is then the
    workspace of a candidate. Times are unchanged.
    """

    def counted(profile: LayerProfile) -> LayerProfile:
        if profile.primitive == LAYER:
            return replace(profile, workspace_bytes=0, parameter_bytes=0)
        if objective is Objective.NETWORK:
            return profile
        layer = network.layer(profile.layer)
        maps = sum(shape.elements for shape in (layer.shape, *network.input_shapes(layer)))
        size = maps * ELEMENT_BYTES + profile.workspace_bytes + profile.parameter_bytes
        return replace(profile, workspace_bytes=size)

    links = (
        replace(
            link,
            map_bytes=0,
            changes=tuple(replace(change, workspace_bytes=0) for change in link.changes),
        )
        for link in problem.links
    )
    candidates = (tuple(map(counted, profiles)) for profiles in problem.candidates)
    return replace(problem, candidates=tuple(candidates), links=tuple(links))
