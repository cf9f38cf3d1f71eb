"""Greedy descents: again and again the run of layers whose parts save most memory for the time."""

from __future__ import annotations

from fractions import Fraction

from csdf.stopping import Budget, stop_of
from planners.reuse.front.archive import Archive
from planners.reuse.front.guided.moves import Moves
from planners.reuse.front.guided.rationed import evaluated_points
from planners.reuse.front.places.evaluation import Place
from planners.reuse.front.problem import Chromosome, Point, Problem


def descend(
    problem: Problem,
    place: Place,
    archive: Archive,
    start: Chromosome,
    *,
    allele: int,
    budget: Budget = None,
) -> None:
    """Descend until no run saves memory; all that is looked at goes into the archive.

    The first objective is memory, the others are times. allele: what the layers of a run get. Of
    equal runs the first is taken. O(genes) evaluations a step.
    """
    stop = stop_of(budget)
    moves = Moves(problem)
    now = evaluated_points(place, [start], archive, stop)[0]
    while True:
        nearby = dict.fromkeys(moves.runs(now.chromosome, allele))
        found = evaluated_points(place, list(nearby), archive, stop)
        smaller = [one for one in found if one.score.objectives[0] < now.score.objectives[0]]
        if not smaller:
            return
        now = min(smaller, key=lambda one: _price(now, one))


def _price(before: Point, after: Point) -> Fraction:
    """Time lost, of all networks, for each byte saved."""
    memory, *times = before.score.objectives
    less, *longer = after.score.objectives
    return Fraction(sum(longer) - sum(times)) / Fraction(memory - less)
