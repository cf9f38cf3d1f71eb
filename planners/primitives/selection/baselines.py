"""Selections that others would choose: layer by layer, by time alone, or one primitive for all.

The greedy choice of TASO: from the fastest selection down, the largest layer first.

Source: Wen, Anderson, Radu, O'Boyle and Gregg, TASO: Time and Space Optimization for
Memory-Constrained DNN Inference, SBAC-PAD 2020, section 5.3.2.

Memory as TASO prints it: what its formulas 9 and 15 count, in the candidates of a problem.

Source: Wen, Anderson, Radu, O'Boyle and Gregg, TASO: Time and Space Optimization for
Memory-Constrained DNN Inference, SBAC-PAD 2020, sections 4.3 to 4.5.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil

from cnn2csdf.network import Network
from csdf.time_limit import Budget, stop_of
from planners.primitives.library.primitive import ELEMENT_BYTES
from planners.primitives.profile import LAYER, LayerProfile
from planners.primitives.selection.fronts import Pair
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


def greedy_steps(front: TradeOff) -> Iterator[Selection]:
    """Yield the fastest selection, and what each replacement makes of it, to the last one.

    The layer whose primitive has the largest footprint takes the fastest of its candidates with a
    smaller one. What happens where it has none is not printed: the next largest layer is taken.
    Changes of layout follow from the choices; the printed rule does not look at them.
    """
    of_layer, problem = front.objective.of_layer, front.problem
    found = front.selection(front.fastest)
    while True:
        yield found
        chosen = list(found.chosen)
        for place in sorted(range(len(chosen)), key=lambda one: (-of_layer(chosen[one]), one)):
            smaller = [
                one for one in problem.candidates[place] if of_layer(one) < of_layer(chosen[place])
            ]
            if smaller:
                chosen[place] = min(smaller, key=lambda one: (one.nanoseconds, of_layer(one)))
                break
        else:
            return
        found = replace(found, chosen=tuple(chosen))


def greedy(front: TradeOff, memory: int) -> Selection | None:
    """Return the first of the greedy steps within a memory; None where there is none."""
    fitting = (one for one in greedy_steps(front) if one.memory(front.objective) <= memory)
    return next(fitting, None)


def greedy_pairs(front: TradeOff, memories: Iterable[int]) -> Iterator[Pair]:
    """Yield the time at each memory within which a greedy step is."""
    steps = [(one.memory(front.objective), one.nanoseconds) for one in greedy_steps(front)]
    for memory in memories:
        time = next((time for needed, time in steps if needed <= memory), None)
        if time is not None:
            yield Pair(time, memory)


def as_published(
    problem: SelectionProblem, network: Network, objective: Objective
) -> SelectionProblem:
    """Return the problem in which only convolutions need memory, as in the published formulas.

    A change of layout takes time and no memory: "the input and output buffers can be used in
    place". Formula 9, for the whole network, counts scratch and weights of each convolution.
    Formula 15, for one workspace, counts its input, output, weights and scratch; the workspace of a
    candidate is then all of these. Times are not touched.
    """
    maps = [0] * len(problem.layers)
    if objective is Objective.WORKSPACE:
        maps = [_map_bytes(network, name) for name in problem.layers]
    return replace(
        problem,
        candidates=tuple(
            tuple(_counted(one, objective, size) for one in candidates)
            for candidates, size in zip(problem.candidates, maps, strict=True)
        ),
        links=tuple(map(_in_place, problem.links)),
    )


def _map_bytes(network: Network, name: str) -> int:
    """Bytes of the input and the output of a layer."""
    layer = network.layer(name)
    elements = sum(shape.elements for shape in network.input_shapes(layer)) + layer.shape.elements
    return elements * ELEMENT_BYTES


def _counted(one: LayerProfile, objective: Objective, map_bytes: int) -> LayerProfile:
    if one.primitive == LAYER:
        return replace(one, workspace_bytes=0, parameter_bytes=0)
    if objective is Objective.NETWORK:
        return one
    return replace(one, workspace_bytes=map_bytes + one.workspace_bytes + one.parameter_bytes)


def _in_place(link: Link) -> Link:
    changes = tuple(replace(one, workspace_bytes=0) for one in link.changes)
    return replace(link, map_bytes=0, changes=changes)
