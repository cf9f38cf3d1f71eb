"""The search beyond the published one: exact seeds, a descent, and walks around the front.

Small problems are enumerated. For others the archive begins with the seeds, such as the chromosomes
of the exact front of loads and the smallest of each network on its own, with a climb from the smallest
of them, and with a greedy descent from layers that are all whole; walks go on from there, until the
evaluations or the time are over.

The least that each network of an application needs on its own, for seeds of the small end.

Networks that take turns are first searched each on its own. Together the largest of them hides what the
others gain, and a single change of one of them seldom pays. A climb ends where no small change gains
anything. The network that needs most then decides what all of them need, so the calls that are left go
to it: it climbs again and again, each time from other layers that work as a whole, a few of all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from random import Random

from csdf.time_limit import Budget, Stop, stop_of
from planners.reuse.cost.evaluation import Evaluator
from planners.reuse.front.exact.load_front import LoadFront, load_front
from planners.reuse.front.guided.local_search import (
    CLIMBS,
    IDLE,
    UNLIMITED,
    Enough,
    GuidedSearch,
    WalkSettings,
    climbed,
    gains,
    gains_of,
    genes_at,
)
from planners.reuse.front.places.evaluation import Place, Rationed, Serial
from planners.reuse.front.problem import Chromosome, Front, Problem
from planners.reuse.front.search_problem import PUBLISHED_ALLELES, WHOLE, score, search_problem


@dataclass(frozen=True, slots=True, kw_only=True)
class BeyondFront:
    """A front, and the exact fronts of loads it began with, one for each kind of part."""

    problem: Problem
    front: Front
    load_fronts: tuple[LoadFront, ...]


def search_beyond(
    evaluator: Evaluator,
    *,
    random: Random,
    evaluations: int | None = None,
    alleles: Sequence[int] = PUBLISHED_ALLELES,
    place: Place | None = None,
    settings: WalkSettings | None = None,
    seeds: Sequence[Chromosome] = (),
    budget: Budget = None,
) -> BeyondFront:
    """Return the best front of memory and periods that is found.

    seeds: chromosomes to begin with, such as the front of narrower genes. evaluations: of
    chromosomes, at most; None is no limit but that of `budget` (a stop, or seconds), which
    ends the search with the front so far, as Ctrl-C does. The same `random` and number of evaluations
    give the same front, wherever the evaluations run. Raises InvalidSearch, EvaluationFailed.
    """
    stop = stop_of(budget)
    problem = search_problem(evaluator, alleles)
    fronts: list[LoadFront] = []
    rationed = Rationed(place or Serial(partial(score, evaluator)), evaluations)
    search = GuidedSearch(
        problem,
        rationed,
        random=random,
        settings=settings or WalkSettings(),
        gains=gains_of(evaluator),
    )
    alone = smallest_of_each(evaluator, problem, rationed, random=random, stop=stop)
    found = search.run(chain(seeds, _seeds(evaluator, problem, fronts, stop), alone), stop)
    return BeyondFront(problem=problem, front=found, load_fronts=tuple(fronts))


def _seeds(
    evaluator: Evaluator, problem: Problem, fronts: list[LoadFront], stop: Stop
) -> Iterator[Chromosome]:
    """Chromosomes of the exact front of each kind of part, which is noted as soon as it is known."""
    kinds = dict.fromkeys(allele for values in problem.alleles for allele in values)
    for allele in kinds:
        if allele != WHOLE:
            fronts.append(load_front(evaluator, (allele,), budget=stop))
            for genes in fronts[-1].chromosomes:
                yield fitted(problem, tuple(gene or WHOLE for gene in genes))


def fitted(problem: Problem, alleles: Sequence[int]) -> Chromosome:
    """Return the chromosome in which a layer without the allele wanted has its last one."""
    return tuple(
        allele if allele in values else values[-1]
        for allele, values in zip(alleles, problem.alleles, strict=True)
    )


WHOLE_OF = 8  # one of so many layers works as a whole where a climb begins again
AGAIN_IDLE = 1  # sweeps without a gain at which such a climb ends: another start pays more
IDLE_CLIMBS = 25  # one after the other that met nothing new; then there is little left to meet

Memory = Callable[[int, Chromosome], int]  # of one network
Gained = Callable[[int, Chromosome], Mapping[int, int]]


def smallest_of_each(
    evaluator: Evaluator, problem: Problem, place: Rationed, *, random: Random, stop: Stop
) -> Iterator[Chromosome]:
    """Yield the chromosome of what each network needs least on its own; none for a single network."""
    members = len(evaluator.application.members)
    if members == 1:
        return

    def memory(member: int, chromosome: Chromosome) -> int:
        place.charge()
        return evaluator.alone(member, genes_at(chromosome))

    def gained(member: int, chromosome: Chromosome) -> Mapping[int, int]:
        return gains(evaluator, evaluator.buffers_alone(member, genes_at(chromosome)))

    climbs = _Climbs(evaluator, problem, memory, gained, random, stop)
    climbs.climb_each(place.share(CLIMBS * members))
    climbs.climb_largest()
    yield climbs.found


def least_in_use(
    evaluator: Evaluator, problem: Problem, *, random: Random, stop: Stop
) -> Chromosome:
    """Return the chromosome with the least in use together in each network: the least for offsets.

    Where `stop` ends it, networks behind that work by parts.
    """

    def memory(member: int, chromosome: Chromosome) -> int:
        return evaluator.in_use(member, genes_at(chromosome))

    def gained(member: int, chromosome: Chromosome) -> Mapping[int, int]:  # noqa: ARG001
        return {}

    climbs = _Climbs(evaluator, problem, memory, gained, random, stop)
    climbs.climb_each(None)
    return climbs.found


class _Climbs:
    """Climbs of the genes of one network at a time, from all layers by parts.

    found: the chromosome so far.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        problem: Problem,
        memory: Memory,
        gained: Gained,
        random: Random,
        stop: Stop,
    ) -> None:
        self.found: Chromosome = tuple(values[len(values) > 1] for values in problem.alleles)
        self._problem = problem
        self._memory = memory
        self._gained = gained
        self._random = random
        self._stop = stop
        self._own = genes_of_members(evaluator)
        self._genes = [[one for one in own if len(problem.alleles[one]) > 1] for own in self._own]
        self._known: list[dict[Chromosome, int]] = [{} for _ in self._own]
        self._left = 0  # calls

    def climb_each(self, most: int | None) -> None:
        """Climb each network once; most: calls for each, None for UNLIMITED for each gene.

        Calls that a network leaves are left for `climb_largest`.
        """
        kept = 0
        for member, genes in enumerate(self._genes):
            self._left = UNLIMITED * len(genes) if most is None else most
            self.found = self._climbed(member, self.found)
            kept += self._left
        self._left = kept

    def climb_largest(self) -> None:
        """Climb the network that needs most from other starts, until no call is left."""
        idle = 0
        with suppress(Enough):
            while idle < IDLE_CLIMBS and (largest := self._largest()) is not None:
                before = self._left
                other = self._climbed(largest, self._drawn(largest), most_idle=AGAIN_IDLE)
                if self._least(largest, other) < self._least(largest, self.found):
                    self.found = other
                idle = 0 if self._left < before else idle + 1

    def _largest(self) -> int | None:
        """The network that needs most; None where no call is left, or it has no choice."""
        if not self._left:
            return None
        needs = [self._least(member, self.found) for member in range(len(self._own))]
        largest = needs.index(max(needs))
        return largest if self._genes[largest] else None

    def _drawn(self, member: int) -> Chromosome:
        """The chromosome so far, but the layers of a network work by parts, a few as a whole."""
        genes = list(self.found)
        for one in self._genes[member]:
            is_whole = self._random.randrange(WHOLE_OF) == 0
            genes[one] = self._problem.alleles[one][0 if is_whole else 1]
        return tuple(genes)

    def _climbed(self, member: int, start: Chromosome, *, most_idle: int = IDLE) -> Chromosome:
        """The end of a climb of one network, or where it was when its calls were used."""
        found = start
        climb = climbed(
            start,
            self._genes[member],
            self._problem,
            partial(self._least, member),
            self._random,
            partial(self._gained, member),
            most_idle=most_idle,
        )
        with suppress(Enough):
            for better in climb:
                found = better
        return found

    def _least(self, member: int, chromosome: Chromosome) -> int:
        """Return what the network needs: a call, unless it is known. Raises Enough after the last."""
        own = tuple([chromosome[gene] for gene in self._own[member]])
        known = self._known[member].get(own)
        if known is None:
            if self._stop.is_over() or not self._left:
                raise Enough
            self._left -= 1
            known = self._known[member][own] = self._memory(member, chromosome)
        return known


def genes_of_members(evaluator: Evaluator) -> list[tuple[int, ...]]:
    """Return the places of the genes of each network."""
    members = [member.name for member in evaluator.application.members]
    return [
        tuple(n for n, (owner, _) in enumerate(evaluator.application.layers) if owner == name)
        for name in members
    ]
