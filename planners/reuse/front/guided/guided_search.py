"""A search that begins at seeds, a climb and a descent, and goes on by walks around the front."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice, product
from random import Random

from csdf.outcome import Reason, because
from csdf.stopping import ENDS, Stop, reason_of
from planners.reuse.front.archive import Archive
from planners.reuse.front.guided.descent import descend
from planners.reuse.front.guided.rationed import BATCH, Rationed, Spent, evaluated_points
from planners.reuse.front.guided.small_end import Gains, climb_smallest, unknown
from planners.reuse.front.guided.walks import WalkSettings, walk_round
from planners.reuse.front.problem import Chromosome, Front, FrontWhy, LostWorkers, Problem

ENUMERATED = 1024  # chromosomes up to which all are tried
IDLE_ROUNDS = 25  # without a chromosome never seen; then the search is at its end


class GuidedSearch:
    """A search; the first objective is memory, the others are times.

    The first allele of a gene is the whole.
    """

    def __init__(
        self,
        problem: Problem,
        place: Rationed,
        *,
        random: Random,
        settings: WalkSettings,
        gains: Gains = unknown,
    ) -> None:
        self._problem = problem
        self._place = place
        self._random = random
        self._settings = settings
        self._gains = gains
        self._archive = Archive()
        self._rounds = 0

    def run(self, seeds: Iterable[Chromosome], stop: Stop) -> Front:
        """Return the front that is found; `stop` or Ctrl-C may end the search."""
        try:
            reason = self._searched(seeds, stop)
        except Spent as spent:
            reason = spent.reason
        except (*ENDS, LostWorkers) as end:
            return self._front(reason_of(end), is_finished=False)
        return self._front(reason, is_finished=True)

    def _searched(self, seeds: Iterable[Chromosome], stop: Stop) -> Reason:
        """Search; return why it is at its end."""
        if self._problem.size <= ENUMERATED:
            self._add_all(product(*self._problem.alleles), stop)
            return because(FrontWhy.EVERY_ONE)
        whole = tuple(values[0] for values in self._problem.alleles)
        parts = tuple(values[len(values) > 1] for values in self._problem.alleles)
        self._add_all([whole, parts], stop)
        self._add_all(seeds, stop)
        climb_smallest(
            self._problem,
            self._place,
            self._archive,
            gains=self._gains,
            random=self._random,
            stop=stop,
        )
        smallest = min(allele for values in self._problem.alleles for allele in values[1:])
        descend(self._problem, self._place, self._archive, whole, allele=smallest, budget=stop)
        return self._walked(stop)

    def _add_all(self, chromosomes: Iterable[Chromosome], stop: Stop) -> None:
        """Evaluate in order; what was evaluated before an end stays."""
        rest = iter(chromosomes)
        while some := list(islice(rest, BATCH)):
            evaluated_points(self._place, some, self._archive, stop)

    def _walked(self, stop: Stop) -> Reason:
        idle = 0
        while idle < IDLE_ROUNDS:
            before = self._place.evaluations
            walk_round(
                self._problem,
                self._place,
                self._archive,
                random=self._random,
                settings=self._settings,
                stop=stop,
            )
            self._rounds += 1
            idle = 0 if self._place.evaluations > before else idle + 1
        return because(FrontWhy.NOTHING_NEW, rounds=IDLE_ROUNDS)

    def _front(self, reason: Reason, *, is_finished: bool) -> Front:
        return Front(
            points=self._archive.by_objectives(),
            is_finished=is_finished,
            is_proved=self._place.seen == self._problem.size,
            reason=reason,
            generations=self._rounds,
            evaluations=self._place.evaluations,
            least_violation=self._archive.least_violation,
        )
