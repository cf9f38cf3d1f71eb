"""A search that begins at seeds and a descent, and goes on by walks around the front."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice, product
from random import Random

from csdf.errors import GaveUp
from planners.reuse.front.archive import Archive
from planners.reuse.front.guided.descent import descend
from planners.reuse.front.guided.rationed import BATCH, Rationed, Spent, evaluated_points
from planners.reuse.front.guided.walks import WalkSettings, walk_round
from planners.reuse.front.places.evaluation import Watch
from planners.reuse.front.problem import Chromosome, Front, LostWorkers, Problem

ENUMERATED = 1024  # chromosomes up to which all are tried
IDLE_ROUNDS = 25  # without a chromosome never seen; then the search is at its end


class GuidedSearch:
    """One search; the first objective is memory, the others are times.

    The first allele of a gene is the whole.
    """

    def __init__(
        self, problem: Problem, place: Rationed, *, random: Random, settings: WalkSettings
    ) -> None:
        self._problem = problem
        self._place = place
        self._random = random
        self._settings = settings
        self._archive = Archive()
        self._rounds = 0

    def run(self, seeds: Iterable[Chromosome], watch: Watch) -> Front:
        """Return the front that is found; `watch` ends the search by GaveUp or KeyboardInterrupt."""
        try:
            reason = self._searched(seeds, watch)
        except Spent as spent:
            reason = str(spent)
        except (GaveUp, LostWorkers) as error:
            return self._front(str(error), is_finished=False)
        except KeyboardInterrupt:
            return self._front("interrupted", is_finished=False)
        return self._front(reason, is_finished=True)

    def _searched(self, seeds: Iterable[Chromosome], watch: Watch) -> str:
        """Search; return why it is at its end."""
        if self._problem.size <= ENUMERATED:
            self._add_all(product(*self._problem.alleles), watch)
            return "every chromosome was evaluated"
        whole = tuple(values[0] for values in self._problem.alleles)
        parts = tuple(values[len(values) > 1] for values in self._problem.alleles)
        self._add_all([whole, parts], watch)
        self._add_all(seeds, watch)
        smallest = min(allele for values in self._problem.alleles for allele in values[1:])
        descend(self._problem, self._place, self._archive, whole, allele=smallest, watch=watch)
        return self._walked(watch)

    def _add_all(self, chromosomes: Iterable[Chromosome], watch: Watch) -> None:
        """Evaluate in order; what was evaluated before an end stays."""
        rest = iter(chromosomes)
        while some := list(islice(rest, BATCH)):
            evaluated_points(self._place, some, self._archive, watch)

    def _walked(self, watch: Watch) -> str:
        idle = 0
        while idle < IDLE_ROUNDS:
            before = self._place.evaluations
            walk_round(
                self._problem,
                self._place,
                self._archive,
                random=self._random,
                settings=self._settings,
                watch=watch,
            )
            self._rounds += 1
            idle = 0 if self._place.evaluations > before else idle + 1
        return f"{IDLE_ROUNDS} rounds of walks met nothing new"

    def _front(self, reason: str, *, is_finished: bool) -> Front:
        return Front(
            points=self._archive.by_objectives(),
            is_finished=is_finished,
            is_proved=self._place.evaluations == self._problem.size,
            reason=reason,
            generations=self._rounds,
            evaluations=self._place.evaluations,
            least_violation=self._archive.least_violation,
        )
