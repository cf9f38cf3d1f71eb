"""Selections that others would choose: layer by layer, by time alone, or one primitive for all."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil

from csdf.stopping import Budget, stop_of
from planners.primitives.profile import LAYER, LayerProfile
from planners.primitives.selection.objective import Link, Objective
from planners.primitives.selection.problem import Selection, SelectionProblem
from planners.primitives.selection.trade_off import TradeOff, trade_off

FALLBACK = "im2col"  # the family that computes what another cannot


def in_order(problem: SelectionProblem, objective: Objective, memory: int) -> Selection | None:
    """Return what comes of choosing for one layer after the other; None where that gets stuck.

    Each layer takes its fastest primitive that fits the bytes left when each layer after it takes
    its least, with the changes of layout of its inputs; what its own layout costs later it does not
    see. Where that ends beyond the memory, as much is set aside in another try: it would get stuck at
    every tight budget if nothing were set aside. The greedy choice of TASO is another one.
    """
    left = memory
    while left >= objective.total(_least(problem, objective)):
        found = Selection(problem=problem, chosen=_layer_by_layer(problem, objective, left))
        beyond = found.memory(objective) - memory
        if beyond <= 0:
            return found
        left -= beyond
    return None


def _least(problem: SelectionProblem, objective: Objective) -> list[int]:
    return [min(map(objective.of_layer, found)) for found in problem.candidates]


def _layer_by_layer(
    problem: SelectionProblem, objective: Objective, memory: int
) -> tuple[LayerProfile, ...]:
    """The fastest of what fits, or the smallest where nothing does, for each layer in turn."""
    least = _least(problem, objective)
    inputs: list[list[Link]] = [[] for _ in problem.layers]
    for link in problem.links:
        inputs[link.consumer].append(link)
    chosen: list[LayerProfile] = []
    used = 0
    for number, candidates in enumerate(problem.candidates):
        later = objective.total(least[number + 1 :])
        costs = [
            (*_with_changes(one, inputs[number], chosen, objective), place)
            for place, one in enumerate(candidates)
        ]
        fitting = [one for one in costs if objective.total((used, one[1], later)) <= memory]
        _, size, place = (
            min(fitting) if fitting else min(costs, key=lambda one: (one[1], one[0], one[2]))
        )
        chosen.append(candidates[place])
        used = objective.total((used, size))
    return tuple(chosen)


def _with_changes(
    candidate: LayerProfile,
    inputs: Sequence[Link],
    chosen: Sequence[LayerProfile],
    objective: Objective,
) -> tuple[int, int]:
    """Time and bytes of a layer and of the changes of its inputs."""
    time, sizes = candidate.nanoseconds, [objective.of_layer(candidate)]
    for link in inputs:
        change = link.change(chosen[link.producer].output_layout, candidate.input_layout)
        if change is not None:
            time += change.nanoseconds
            sizes.append(objective.of_change(link, change))
    return time, objective.total(sizes)


def only(problem: SelectionProblem, preferred: Sequence[Collection[str]]) -> SelectionProblem:
    """Return the problem in which each convolution keeps the first kind that it has.

    preferred: kinds, each a collection of names of primitives. A convolution that has none of them
    keeps all.
    """
    return replace(
        problem, candidates=tuple(_kept(found, preferred) for found in problem.candidates)
    )


def _kept(
    candidates: tuple[LayerProfile, ...], preferred: Sequence[Collection[str]]
) -> tuple[LayerProfile, ...]:
    for kind in preferred:
        kept = tuple(one for one in candidates if one.primitive in kind)
        if kept:
            return kept
    return candidates


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """A selection that others would make, by what it is called."""

    name: str
    selection: Selection


def family(primitive: str) -> str:
    """Return what the variants of a primitive have in common: the first word of its name."""
    return re.split(r"[ ,]", primitive, maxsplit=1)[0]


def families(problem: SelectionProblem) -> dict[str, frozenset[str]]:
    """Return the names of primitives that some convolution has, by family."""
    names = {one.primitive for found in problem.candidates for one in found} - {LAYER}
    kinds = sorted({family(name) for name in names})
    return {kind: frozenset(name for name in names if family(name) == kind) for kind in kinds}


def single_families(
    problem: SelectionProblem, objective: Objective, budget: Budget = None
) -> Iterator[Baseline]:
    """Yield for each family the fastest selection that takes it wherever it can.

    Layouts and variants are the best ones; where the family cannot compute a layer, FALLBACK does,
    and where that cannot either, the fastest.
    """
    known, stop = families(problem), stop_of(budget)
    for name, kind in known.items():
        front = trade_off(only(problem, (kind, known.get(FALLBACK, kind))), objective, stop)
        chosen = front.selection(front.fastest).chosen
        yield Baseline(name=name, selection=Selection(problem=problem, chosen=chosen))


def budgets(front: TradeOff, count: int) -> tuple[int, ...]:
    """Return so many memories, by equal factors from the least to the most that is of use.

    From a thousandth of the most, where the least is less.
    """
    most = max(1, front.fastest.memory)
    low = max(front.smallest.memory, most // 1000, 1)
    steps = (low * (most / low) ** (step / max(1, count - 1)) for step in range(count))
    return tuple(sorted({front.smallest.memory, *map(ceil, steps), most}))
