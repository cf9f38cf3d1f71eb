"""Ways from one cut of a course onward inside one group, as labels: bytes that stay or pass, work.

A label stands for the moves of a group up to a cut. Of the labels that reach the same cut with
the same rows a batch only those are kept that no other is at least as good as in all three numbers.
Labels are kept as arrays, and all moves behind a cut are tried on all labels at once.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from cnn2csdf.weights import Array
from planners.kernels import ranges
from planners.memory.search.moves import WHOLE, Choices, Move, Moves


class Labels(NamedTuple):
    """Labels at one place, one in each row of the arrays.

    before: number of the place they come from; label and move: which label and move led here.
    """

    lines: Array
    passing: Array
    work: Array
    before: Array
    label: Array
    move: Array

    def chosen(self, numbers: Array) -> Labels:
        """Return some of the labels."""
        return Labels(*(column[numbers] for column in self))


class _Place(NamedTuple):
    """A cut that was reached with some rows a batch, its labels, and the moves behind it."""

    labels: Labels
    choices: Choices


class Limits(NamedTuple):
    """The limits that labels have to stay within.

    memory: bytes. work: multiply-accumulates of the whole plan. labels: most labels that are kept
    at one place; above it some are left out, and the search is a heuristic.
    """

    memory: int
    work: int
    labels: int


class GroupLabels:
    """All labels of groups that begin at one cut."""

    def __init__(self, moves: Moves, begin: int, limits: Limits, *, is_streamed: bool) -> None:
        """Take the limits for this group alone: work counts from its begin to the network's end."""
        self._moves = moves
        self._limits = limits
        self._begin = begin
        streams = begin == 0 and is_streamed
        beside = 0 if streams else moves.whole_bytes(begin)
        self._beside = np.array(beside, ranges.number_type(4 * beside))
        self._places: list[_Place] = []
        self._open: dict[tuple[int, int], list[Labels]] = defaultdict(list)
        nought = np.zeros(1, np.int64)
        self._open[begin, 1 if streams else WHOLE].append(Labels(*(nought,) * 6))
        self.has_left_out = False  # whether some labels were not followed

    def ends(self) -> Iterator[tuple[int, Labels]]:
        """Yield the labels that end a group: their cut, and labels with all bytes as `lines`.

        The bytes count the tensors at both ends as if the one lay over the other as far as it can.
        """
        last = len(self._moves.course.cuts) - 1
        for cut in range(self._begin, last):
            for key in sorted(key for key in self._open if key[0] == cut):
                yield from self._follow(key, self._open.pop(key))

    def _follow(self, key: tuple[int, int], found: list[Labels]) -> Iterator[tuple[int, Labels]]:
        labels = self._pruned(found)
        choices = self._moves.arrays(*key)
        if not len(choices.moves):
            return
        number = len(self._places)
        self._places.append(_Place(labels, choices))
        lines = labels.lines + choices.lines[:, None]
        work = labels.work + choices.work[:, None]
        passing = np.maximum(labels.passing, choices.most[:, None])
        memory = lines + passing + np.maximum(self._beside, choices.result)[:, None]
        is_cheap = work + choices.left[:, None] <= self._limits.work
        done = _Extended(number, lines, passing, work, choices.end)
        yield from done.split((memory <= self._limits.memory) & is_cheap, memory)
        passing = np.maximum(labels.passing, choices.onward[:, None])
        last = len(self._moves.course.cuts) - 1
        goes_on = is_cheap & (choices.end < last)[:, None]
        goes_on &= self._beside + lines + passing <= self._limits.memory
        onward = _Extended(number, lines, passing, work, choices.key)
        for place, some in onward.split(goes_on, lines):
            self._open[choices.keys[place]].append(some)

    def _pruned(self, found: list[Labels]) -> Labels:
        labels = Labels(*(np.concatenate(columns) for columns in zip(*found, strict=True)))
        kept = undominated(labels.lines, labels.passing, labels.work)
        if len(kept) > self._limits.labels:
            self.has_left_out = True
            order = kept[np.argsort((labels.lines + labels.passing)[kept], kind="stable")]
            spread = np.linspace(0, len(order) - 1, self._limits.labels)
            kept = order[np.unique(spread.astype(np.int64))]
        return labels.chosen(kept)

    def moves_of(self, labels: Labels, number: int) -> tuple[Move, ...]:
        """Return the moves that a label stands for."""
        moves: list[Move] = []
        while True:
            place = self._places[int(labels.before[number])]
            moves.append(place.choices.moves[int(labels.move[number])])
            if len(moves) > 1 and moves[-1].begin >= moves[-2].begin:
                raise AssertionError("labels lead in a circle")
            number, labels = int(labels.label[number]), place.labels
            if moves[-1].begin == self._begin:
                return tuple(reversed(moves))


class _Extended(NamedTuple):
    """All moves (rows) tried on all labels (columns) of a place."""

    number: int
    lines: Array
    passing: Array
    work: Array
    target: Array  # of each move, not falling

    def split(self, wanted: Array, lines: Array) -> Iterator[tuple[int, Labels]]:
        """Yield the wanted ones for each target, with `lines` as their first number."""
        move, label = np.nonzero(wanted)
        if not len(move):
            return
        targets = self.target[move]
        bounds = np.flatnonzero(np.diff(targets)) + 1
        before = np.full(len(move), self.number)
        columns = (lines[wanted], self.passing[wanted], self.work[wanted], before, label, move)
        begin = 0
        for end in (*bounds.tolist(), len(move)):
            yield int(targets[begin]), Labels(*(column[begin:end] for column in columns))
            begin = end


def undominated(first: Array, second: Array, third: Array) -> Array:
    """Return the numbers of the triples that no other is at most equal to in all three.

    Of equal triples the first stays. O(n log n) for short staircases: triples are taken by their
    third number, and compared with the staircase of the first two.
    """
    order = np.lexsort((second, first, third))
    firsts: list[int] = []
    seconds: list[int] = []
    kept: list[int] = []
    pairs = zip(first[order].tolist(), second[order].tolist(), order.tolist(), strict=True)
    for one, two, number in pairs:
        place = bisect_right(firsts, one)
        if place and seconds[place - 1] <= two:
            continue
        end = place
        while end < len(seconds) and seconds[end] >= two:
            end += 1
        if place and firsts[place - 1] == one:
            place -= 1
        firsts[place:end] = [one]
        seconds[place:end] = [two]
        kept.append(number)
    return np.array(kept, np.int64)
