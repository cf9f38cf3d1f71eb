"""Points of a front with offsets in one arena instead of whole buffers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from csdf.time_limit import Budget, stop_of
from planners.arena.allocation import plan_arena
from planners.arena.problem import MemoryPlan
from planners.reuse.application.application import Genes
from planners.reuse.cost.evaluation import Evaluation, Evaluator
from planners.reuse.cost.offset_problem import elementwise_in_place, offset_problem

MOST_STEPS = 99  # of the search for offsets of one chromosome


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetPoint:
    """A chromosome in whole buffers, with offsets, and with offsets where layers work in place.

    evaluation: in whole buffers. offsets, in_place: what the checker has passed, in bytes, each with a
    lower bound for these lifetimes and a status that says whether it is proved to be the least.
    """

    genes: Genes
    evaluation: Evaluation
    offsets: MemoryPlan
    in_place: MemoryPlan

    @property
    def memory(self) -> int:
        """Bytes of weights and of the arena."""
        return self.evaluation.weights + self.offsets.peak

    @property
    def memory_in_place(self) -> int:
        """Bytes of weights and of the arena where layers work in place."""
        return self.evaluation.weights + self.in_place.peak


def offset_point(
    evaluator: Evaluator,
    genes: Genes,
    *,
    steps: int = MOST_STEPS,
    budget: Budget = None,
) -> OffsetPoint:
    """Return a chromosome with offsets, those that are found in so many steps of the search.

    Raises GaveUp or KeyboardInterrupt where there is no plan when `budget` or Ctrl-C ends the search.
    """
    stop = stop_of(budget)
    plan = evaluator.plan(genes)
    problem = offset_problem(evaluator, plan)
    return OffsetPoint(
        genes=genes,
        evaluation=evaluator.evaluate(genes),
        offsets=plan_arena(problem, budget=stop.part(steps=steps)),
        in_place=plan_arena(
            elementwise_in_place(evaluator, plan, problem), budget=stop.part(steps=steps)
        ),
    )


def offset_front(
    evaluator: Evaluator,
    chromosomes: Iterable[Genes],
    *,
    steps: int = MOST_STEPS,
    budget: Budget = None,
) -> tuple[OffsetPoint, ...]:
    """Return the chromosomes that no other is better than with offsets, the smallest first."""
    stop = stop_of(budget)
    found = [
        offset_point(evaluator, genes, steps=steps, budget=stop)
        for genes in dict.fromkeys(chromosomes)
    ]
    found.sort(key=lambda one: (one.memory, one.evaluation.periods))
    kept: list[OffsetPoint] = []
    for one in found:
        if not any(_is_as_fast(other, one) for other in kept):
            kept.append(one)
    return tuple(kept)


def _is_as_fast(other: OffsetPoint, one: OffsetPoint) -> bool:
    pairs = zip(other.evaluation.periods, one.evaluation.periods, strict=True)
    return all(here <= there for here, there in pairs)
