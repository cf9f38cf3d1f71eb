"""Points of a front with offsets in one arena instead of whole buffers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from csdf.errors import GaveUp
from planners.arena.allocation import Progress, plan_arena
from planners.plan import MemoryPlan
from planners.reuse.application.application import Genes
from planners.reuse.cost.evaluation import Evaluation, Evaluator
from planners.reuse.cost.offset_problem import elementwise_in_place, offset_problem

PATIENCE = 100  # steps of the search for offsets of one chromosome


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetPoint:
    """A chromosome in whole buffers, with offsets, and with offsets where layers work in place.

    evaluation: in whole buffers. offsets, in_place: what the judge has passed, in bytes, each with a
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
    patience: int = PATIENCE,
    watch: Callable[[], None] = lambda: None,
) -> OffsetPoint:
    """Return a chromosome with offsets, those that are found in so many steps of the search.

    Raises GaveUp or KeyboardInterrupt where `watch` does and there is no plan yet.
    """
    plan = evaluator.plan(genes)
    problem = offset_problem(evaluator, plan)
    return OffsetPoint(
        genes=genes,
        evaluation=evaluator.evaluate(genes),
        offsets=plan_arena(problem, watch=_Patience(patience, watch)),
        in_place=plan_arena(
            elementwise_in_place(evaluator, plan, problem), watch=_Patience(patience, watch)
        ),
    )


class _Patience:
    """A watch that gives up after so many steps."""

    def __init__(self, steps: int, watch: Callable[[], None]) -> None:
        self._left = steps
        self._watch = watch

    def __call__(self, progress: Progress) -> None:
        self._watch()
        self._left -= 1
        if self._left <= 0:
            raise GaveUp(f"patience ended; the bound is {progress.lower_bound}")


def offset_front(
    evaluator: Evaluator,
    chromosomes: Iterable[Genes],
    *,
    patience: int = PATIENCE,
    watch: Callable[[], None] = lambda: None,
) -> tuple[OffsetPoint, ...]:
    """Return the chromosomes that no other is better than with offsets, the smallest first."""
    found = [
        offset_point(evaluator, genes, patience=patience, watch=watch)
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
