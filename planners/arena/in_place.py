"""Choice of pairs of buffers at the same offset, where a layer may compute in place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

from planners.plan import Buffer, Pair, Problem

MOST_PAIRS = 6  # of which all choices are tried; beyond, all pairs together or none

Groups = tuple[tuple[str, ...], ...]


def choices(problem: Problem) -> tuple[list[Groups], bool]:
    """Return choices of groups that share an offset, and whether these are all there are.

    Many pairs first. A choice is left out if a group of it holds two buffers that conflict and are
    no pair, or that a fixed offset does not suit.
    """
    pairs = [pair for pair in problem.in_place if _may_merge(problem, pair)]
    counts = range(len(pairs), -1, -1)
    if len(pairs) > MOST_PAIRS:
        return [_greedily_grouped(problem, pairs), ()], False
    found = {
        groups: None
        for count in counts
        for chosen in combinations(pairs, count)
        if (groups := _groups(chosen)) is not None and _is_allowed(problem, groups)
    }
    return list(found), True


def relaxed(problem: Problem) -> Problem:
    """Return the problem with pairs that do not conflict at all; its bounds hold for both."""
    return replace(problem, shares=problem.shares + problem.in_place, in_place=())


def _greedily_grouped(problem: Problem, pairs: Sequence[Pair]) -> Groups:
    """Return the groups of as many pairs as go together, taken one after another."""
    chosen: list[Pair] = []
    for pair in pairs:
        if _is_allowed(problem, _groups([*chosen, pair])):
            chosen.append(pair)
    return _groups(chosen)


def _groups(pairs: Sequence[Pair]) -> Groups:
    """Return what the pairs connect, each group sorted."""
    groups: list[set[str]] = []
    for pair in pairs:
        touched = [group for group in groups if group & set(pair)]
        groups = [group for group in groups if not group & set(pair)]
        groups.append(set(pair).union(*touched))
    return tuple(sorted(tuple(sorted(group)) for group in groups))


def _may_merge(problem: Problem, pair: Pair) -> bool:
    found = _by_name(problem, pair)
    return all(buffer.takes_room for buffer in found)


def _is_allowed(problem: Problem, groups: Groups) -> bool:
    allowed = {frozenset(pair) for pair in (*problem.in_place, *problem.shares)}
    apart = {frozenset(pair) for pair in problem.conflicts}
    for group in groups:
        members = _by_name(problem, group)
        fixed = {buffer.offset for buffer in members if buffer.offset is not None}
        if len(fixed) > 1 or any(place % b.alignment for place in fixed for b in members):
            return False
        for one, other in combinations(members, 2):
            pair = frozenset((one.name, other.name))
            meets = one.start < other.end and other.start < one.end
            if pair not in allowed and (meets or pair in apart):
                return False
    return True


def _by_name(problem: Problem, names: Sequence[str]) -> list[Buffer]:
    wanted = set(names)
    return [buffer for buffer in problem.buffers if buffer.name in wanted]
