"""Chromosomes with offsets in one arena, also where elementwise layers write over what they read."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from csdf.time_limit import Stop
from planners.arena.allocation import plan_arena
from planners.arena.problem import MemoryPlan, Pair, Problem
from planners.reuse.application import Chromosome
from planners.reuse.evaluation import Evaluator, ReusePlan
from planners.reuse.placement import offset_problem

MOST_STEPS = 99  # of the search for offsets of one chromosome


def elementwise_in_place(evaluator: Evaluator, plan: ReusePlan, problem: Problem) -> Problem:
    """Return the problem in which a layer may write over what it reads.

    For layers that work element by element, as a whole, on tensors of one size, and write one edge.
    """

    def pairs() -> Iterator[Pair]:
        for model, rows in zip(evaluator.models, plan.rows, strict=True):
            here = [one for one in model.residents.values() if one[0].inner is not None]
            for number, layer in enumerate(model.table.layers):
                is_whole = rows[number] == layer.shape.rows
                written = [edge for edge, stay in here if stay.first == number]
                if not is_whole or not layer.operator.is_elementwise or not written:
                    continue
                network = evaluator.application.members[written[0].member].network
                if len(network.consumers[layer.name]) == 1:
                    for edge, stay in here:
                        if stay.last == number and edge.elements == written[0].elements:
                            yield edge.name, written[0].name

    return replace(problem, in_place=tuple(pairs()))


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetPoint:
    """A chromosome in whole buffers, with offsets, and with offsets where layers work in place.

    weights, whole: bytes of weights, and of both with whole buffers. extra_phases: see the function.
    offsets, in_place: what the checker has passed, in bytes, each with a
    lower bound for these lifetimes and a status that says whether it is proved to be the least.
    """

    weights: int
    whole: int
    extra_phases: int
    offsets: MemoryPlan
    in_place: MemoryPlan

    @property
    def memory(self) -> int:
        """Bytes of weights and of the arena."""
        return self.weights + self.offsets.peak

    @property
    def memory_in_place(self) -> int:
        """Bytes of weights and of the arena where layers work in place."""
        return self.weights + self.in_place.peak


def extra_phases(evaluator: Evaluator, plan: ReusePlan) -> int:
    """Return the phases of a plan beyond one a layer, the published measure of lost time."""
    return sum(
        -(-height // rows) - 1
        for model, rows_of_layers in zip(evaluator.models, plan.rows, strict=True)
        for height, rows in zip(model.heights, rows_of_layers, strict=True)
    )


def offset_point(evaluator: Evaluator, genes: Chromosome) -> OffsetPoint:
    """Return a chromosome with offsets, those that are found in MOST_STEPS of the search."""
    plan = evaluator.plan(genes)
    problem = offset_problem(evaluator, plan)
    over = elementwise_in_place(evaluator, plan, problem)
    return OffsetPoint(
        weights=evaluator.weights,
        whole=evaluator.evaluate(genes)[0],
        extra_phases=extra_phases(evaluator, plan),
        offsets=plan_arena(problem, budget=Stop(steps=MOST_STEPS)),
        in_place=plan_arena(over, budget=Stop(steps=MOST_STEPS)),
    )
