"""The least work within some bytes, and the front of the two: groups, stages, rows a firing.

A plan carries out one group after the other; what passes between two groups lies whole. The most
bytes that a group needs are those of the tensors that lie whole beside it, of its lines, and of
what comes and goes; the plan needs as many as its neediest group. Inside a group lines add up, what
comes and goes does not, work adds up: so the ways to each cut are extended by one move after the
other, and of those that end alike only the triples survive that no other improves on. An input that
comes row by row is taken by the first group as it comes, or collected first: then all plans of a
resident input follow. Exact in the space of moves.Moves, unless the number of labels at a place is
limited.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from csdf.time_limit import Budget, Stop, stop_of
from planners.memory.overlap import least_lead
from planners.memory.search.chains import GroupWay, PlanWay, collecting
from planners.memory.search.labels import GroupLabels, Labels, Limits
from planners.memory.search.moves import Move, Moves
from planners.memory.search.places import PlacedChains

ALL = 10**9  # labels at a place: more than there ever are
ANY_WORK = 2**60  # multiply-accumulates: more than any plan has


Chains = dict[int, list[PlanWay]]  # to each cut, those that no other improves on


OtherGroups = Callable[[int], Mapping[int, Sequence[GroupWay]]]


class PlanFront(NamedTuple):
    """Plans by growing memory, and whether none is missing within the limits.

    Behind the plans of an input that comes row by row are those that collect it first, again by
    growing memory: their offsets decide which are better. chains: the same groups, for chains whose
    offsets fit together within some bytes.
    """

    plans: list[PlanWay]
    is_complete: bool
    chains: PlacedChains


def front(
    moves: Moves,
    limit: int,
    *,
    is_streamed: bool,
    most_work: int = ANY_WORK,
    labels: int = ALL,
    others: OtherGroups | None = None,
    budget: Budget = None,
) -> PlanFront:
    """Return the plans within a limit that no other improves on.

    is_streamed: whether the input comes row by row. most_work: of a plan. labels: kept at a place at
    most. others: groups behind a cut, by their end, that are not made of moves: somebody else's.
    budget: ends the search by GaveUp.
    """
    limits = Limits(limit, most_work, labels)
    search = _GroupSearch(moves, limits, stop_of(budget), others, is_streamed=is_streamed)
    return search.front()


class _GroupSearch:
    """A search over groups, from the input to the end."""

    def __init__(
        self,
        moves: Moves,
        limits: Limits,
        stop: Stop,
        others: OtherGroups | None,
        *,
        is_streamed: bool,
    ) -> None:
        self._moves = moves
        self._limits = limits
        self._is_streamed = is_streamed
        self._stop = stop
        self._others = others
        self._is_complete = True
        last = len(moves.course.cuts)
        self._chains = PlacedChains(tuple(moves.whole_bytes(cut) for cut in range(last)), {})

    def front(self) -> PlanFront:
        """Return the plans from the first cut to the last."""
        last = len(self._moves.course.cuts) - 1
        chains = self._begun()
        for cut in range(last):
            self._stop.look()
            for is_streamed, alike in self._to_extend(chains, cut):
                least = min(plan.work for best in alike for plan in best[cut])
                groups = self._groups(cut, self._limits.work - least, is_streamed=is_streamed)
                self._chains.groups[cut, is_streamed] = groups
                for best in alike:
                    for end, some in groups.items():
                        best[end] = _improving(best[end] + _joined(best[cut], some))
        plans = [plan for best in chains for plan in best[last]]
        return PlanFront(plans, self._is_complete, self._chains)

    def _begun(self) -> list[Chains]:
        """The plans to the first cut: nothing, and behind it an input that was collected."""
        ways = [PlanWay(0, 0, ())]
        collected = collecting(self._moves.whole_bytes(0))
        if self._is_streamed and collected.memory <= self._limits.memory:
            ways += _joined(ways, [collected])
        return [defaultdict(list, {0: [way]}) for way in ways]

    def _to_extend(
        self, chains: Sequence[Chains], cut: int
    ) -> Iterator[tuple[bool, Sequence[Chains]]]:
        """The chains that have come to a cut, by whether its tensor comes row by row."""
        if cut == 0 and self._is_streamed:
            yield True, chains[:1]
            chains = chains[1:]
        come = [best for best in chains if best[cut]]
        if come:
            yield False, come

    def _groups(self, begin: int, work: int, *, is_streamed: bool) -> dict[int, list[GroupWay]]:
        """The groups behind a cut that no other improves on, by their end."""
        limits = self._limits._replace(work=work)
        search = GroupLabels(self._moves, begin, limits, is_streamed=is_streamed)
        found: dict[int, list[Labels]] = defaultdict(list)
        for end, labels in search.ends():
            self._stop.look()
            found[end].append(labels)
        self._is_complete &= not search.has_left_out
        groups = {
            end: self._best(search, (begin, end), some, is_streamed=is_streamed)
            for end, some in found.items()
        }
        if not is_streamed:
            groups.setdefault(begin + 1, []).extend(self._apart(begin))
            for end, some in (self._others(begin) if self._others else {}).items():
                fitting = [group for group in some if group.memory <= self._limits.memory]
                groups.setdefault(end, []).extend(fitting)
        return groups

    def _apart(self, begin: int) -> list[GroupWay]:
        """The layers up to the next cut one after the other, if there are several and they fit."""
        move, peak = self._moves.apart(begin)
        if len(move.stages) == 1 or peak > self._limits.memory:
            return []
        work = sum(self._moves.table.geometry(stage).work for stage in move.stages)
        return [GroupWay(peak, work, begin, begin + 1, (move,), is_apart=True)]

    def _best(
        self, search: GroupLabels, ends: tuple[int, int], found: list[Labels], *, is_streamed: bool
    ) -> list[GroupWay]:
        """The groups that no other improves on, each with the bytes that it really needs."""
        begin, end = ends
        labels = Labels(*(np.concatenate(columns) for columns in zip(*found, strict=True)))
        order = np.lexsort((labels.lines, labels.work))
        memory = labels.lines[order]
        kept: list[GroupWay] = []
        place, least = 0, self._limits.memory + 1
        while place < len(order):
            number = int(order[place])
            moves = search.moves_of(labels, number)
            lead = 0 if is_streamed else self._lead(begin, end, moves)
            exact = int(memory[place]) + self._beyond(begin, end, lead)
            if exact < least:
                pool = int(labels.passing[number])
                lines = (
                    int(memory[place]) - pool - self._larger(begin, end, is_streamed=is_streamed)
                )
                work = int(labels.work[number])
                group = GroupWay(exact, work, begin, end, moves)
                kept.append(group._replace(lines=lines, pool=pool, lead=lead))
                least = exact
            place += 1
            better = memory[place:] < least
            place = place + int(better.argmax()) if better.any() else len(order)
        return kept

    def _lead(self, begin: int, end: int, moves: tuple[Move, ...]) -> int:
        """Bytes by which what a group reads has to begin behind its result, to lie over it."""
        known, table = self._moves, self._moves.table
        if known.course.at(begin) in known.course.results:  # it goes out, and is not written over
            return known.whole_bytes(end)
        return least_lead(
            [known.pace(move) for move in moves],
            table.row_bytes(known.course.at(begin)),
            table.row_bytes(known.course.at(end)),
        )

    def _larger(self, begin: int, end: int, *, is_streamed: bool) -> int:
        """Bytes of the larger of the two ends of a group."""
        source = 0 if is_streamed else self._moves.whole_bytes(begin)
        return max(source, self._moves.whole_bytes(end))

    def _beyond(self, begin: int, end: int, lead: int) -> int:
        """Bytes that the two ends of a group need beyond the larger of them."""
        source, result = self._moves.whole_bytes(begin), self._moves.whole_bytes(end)
        larger = max(source, result)
        return max(source + min(lead, result), larger) - larger


def _joined(plans: Iterable[PlanWay], groups: Iterable[GroupWay]) -> list[PlanWay]:
    groups = list(groups)
    return [
        PlanWay(max(plan.memory, group.memory), plan.work + group.work, (*plan.groups, group))
        for plan in plans
        for group in groups
    ]


def _improving(ways: Iterable[PlanWay]) -> list[PlanWay]:
    kept: list[PlanWay] = []
    for way in sorted(ways, key=lambda one: (one.memory, one.work)):
        if not kept or way.work < kept[-1].work:
            kept.append(way)
    return kept
