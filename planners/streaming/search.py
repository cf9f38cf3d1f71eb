"""The least work within some bytes, and the front of the two: groups, stages, rows a firing.

A plan carries out one group after the other; what passes between two groups lies whole. The most
bytes that a group needs are those of the tensors that lie whole beside it, of its lines, and of
what comes and goes; the plan needs as many as its neediest group. Inside a group lines add up, what
comes and goes does not, work adds up: so the ways to each cut are extended by one move after the
other, and of those that end alike only the triples survive that no other improves on. Exact in the
space of moves.Moves.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from csdf.stopping import Budget, stop_of
from planners.streaming.moves import WHOLE, Move, Moves
from planners.streaming.overlap import least_lead


class Way(NamedTuple):
    """The moves of a group up to a cut, and what they keep."""

    lines: int
    passing: int
    work: int
    moves: tuple[Move, ...]


class GroupWay(NamedTuple):
    """A group: its bytes, what lies whole at its ends included, its work, its cuts and moves."""

    memory: int
    work: int
    begin: int
    end: int
    moves: tuple[Move, ...]
    is_apart: bool = False  # whether its layers work one after the other, each as a whole


class PlanWay(NamedTuple):
    """A chain of groups with its peak and its work."""

    memory: int
    work: int
    groups: tuple[GroupWay, ...]


def pruned(ways: Iterable[Way]) -> list[Way]:
    """Return the ways that no other is at least as good as in lines, passing bytes and work."""
    kept: list[Way] = []
    for way in sorted(ways, key=lambda one: (one.lines + one.passing, one.work, one.lines)):
        if not any(
            one.lines <= way.lines and one.passing <= way.passing and one.work <= way.work
            for one in kept
        ):
            kept.append(way)
    return kept


def group_ways(moves: Moves, begin: int, limit: int, *, is_streamed: bool) -> Iterator[GroupWay]:
    """Yield the ways of groups that begin at a cut and stay within a limit.

    Their memory counts the tensors at both ends as if the one lay over the other as far as it can.
    """
    course, table = moves.course, moves.table
    streams = begin == 0 and is_streamed
    beside = 0 if streams else table.tensor_bytes(course.at(begin))
    open_ways: dict[tuple[int, int], list[Way]] = defaultdict(list)  # cut, rows a batch
    open_ways[begin, 1 if streams else WHOLE].append(Way(0, 0, 0, ()))
    last = len(course.cuts) - 1
    for cut in range(begin, last):
        for (place, entry), ways in list(open_ways.items()):
            if place != cut:
                continue
            for (end, rows), costs in moves.choices(cut, entry).items():
                name = course.at(end)
                batch = rows * table.row_bytes(name)
                least = max(beside, table.tensor_bytes(name))
                onward = open_ways[end, rows]
                for cost, move in costs:
                    for way in ways:
                        lines = way.lines + cost.lines
                        work = way.work + cost.work
                        passing = max(way.passing, cost.passing, cost.last)
                        if least + lines + passing <= limit:
                            memory = least + lines + passing
                            yield GroupWay(memory, work, begin, end, (*way.moves, move))
                        passing = max(passing, cost.last + batch)
                        if end < last and beside + lines + passing <= limit:
                            onward.append(Way(lines, passing, work, (*way.moves, move)))
        for key in [key for key in open_ways if key[0] == cut + 1]:
            open_ways[key] = pruned(open_ways[key])


def best_groups(
    moves: Moves, found: Iterable[GroupWay], limit: int, *, is_streamed: bool
) -> list[GroupWay]:
    """Return the groups that no other improves on, each with the bytes that it really needs."""
    kept: list[GroupWay] = []
    for group in sorted(found, key=lambda one: (one.work, one.memory)):
        if kept and group.memory >= kept[-1].memory:
            continue
        exact = group._replace(memory=group.memory + _apart(moves, group, is_streamed=is_streamed))
        if exact.memory <= limit and (not kept or exact.memory < kept[-1].memory):
            kept.append(exact)
    return kept


def _apart(moves: Moves, group: GroupWay, *, is_streamed: bool) -> int:
    """Bytes that the two ends of a group need beyond the larger of them."""
    if group.is_apart or (group.begin == 0 and is_streamed):
        return 0
    course, table = moves.course, moves.table
    source, result = (course.at(cut) for cut in (group.begin, group.end))
    larger = max(table.tensor_bytes(source), table.tensor_bytes(result))
    lead = least_lead(
        [moves.pace(move) for move in group.moves], table.row_bytes(source), table.row_bytes(result)
    )
    both = table.tensor_bytes(source) + min(lead, table.tensor_bytes(result))
    return max(both, larger) - larger


def front(moves: Moves, limit: int, *, is_streamed: bool, budget: Budget = None) -> list[PlanWay]:
    """Return the plans within a limit that no other improves on, by growing memory.

    is_streamed: whether the input comes row by row. budget: ends the search by GaveUp.
    """
    stop = stop_of(budget)
    best = defaultdict(list)
    best[0] = [PlanWay(0, 0, ())]
    for cut in range(len(moves.course.cuts) - 1):
        stop.look()
        if not best[cut]:
            continue
        found = defaultdict(list)
        for number, group in enumerate(group_ways(moves, cut, limit, is_streamed=is_streamed)):
            if number % 1000 == 0:
                stop.look()
            found[group.end].append(group)
        if not (cut == 0 and is_streamed):
            move, peak = moves.apart(cut)
            if len(move.stages) > 1 and peak <= limit:
                work = sum(moves.table.geometry(stage).work for stage in move.stages)
                found[cut + 1].append(GroupWay(peak, work, cut, cut + 1, (move,), is_apart=True))
        for end, groups in found.items():
            groups = best_groups(moves, groups, limit, is_streamed=is_streamed)
            best[end] = _improving(
                best[end]
                + [
                    PlanWay(
                        max(plan.memory, group.memory),
                        plan.work + group.work,
                        (*plan.groups, group),
                    )
                    for plan in best[cut]
                    for group in groups
                ]
            )
    return best[len(moves.course.cuts) - 1]


def _improving(ways: Iterable[PlanWay]) -> list[PlanWay]:
    kept: list[PlanWay] = []
    for way in sorted(ways, key=lambda one: (one.memory, one.work)):
        if not kept or way.work < kept[-1].work:
            kept.append(way)
    return kept
