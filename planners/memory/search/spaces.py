"""Spaces of moves: those that compute nothing twice, a few for a first answer, layers worked twice."""

from __future__ import annotations

from collections.abc import Iterator

from planners.memory.search.moves import WHOLE, Move, Moves, Section
from planners.streaming.again import LONGEST_SPAN, Again, done_twice
from planners.streaming.course import Course
from planners.streaming.stages import StageTable


class OnceMoves(Moves):
    """The moves that compute nothing twice."""

    def from_cut(self, begin: int, entry: int) -> Iterator[Move]:
        """Yield the moves that begin behind a cut whose tensor comes so many rows a batch."""
        for move in super().from_cut(begin, entry):
            if not any(self.table.repeats(stage) for stage in move.stages):
                yield move


class PlainMoves(OnceMoves):
    """The moves of layers on their own, or in pairs, that compute nothing twice: a first answer."""

    longest_stage = 2
    most_partitions = 1


class TwiceMoves(Moves):
    """All moves, and those in which the layers in front of sums over a whole map work twice."""

    longest_way = 3  # cuts beyond the first behind which the sums have been used

    def __init__(self, course: Course, table: StageTable) -> None:
        super().__init__(course, table)
        self._spans: dict[tuple[int, int], tuple[Again, StageTable] | None] = {}

    @property
    def has_spans(self) -> bool:
        """Whether there are layers between two cuts that might work twice."""
        return any(
            self._span(begin, end) is not None
            for begin in range(len(self.course.cuts))
            for end in self._ends(begin)
        )

    def from_cut(self, begin: int, entry: int) -> Iterator[Move]:
        """Yield the moves that begin behind a cut whose tensor comes so many rows a batch."""
        yield from super().from_cut(begin, entry)
        for end in self._ends(begin) if entry == WHOLE else ():  # it is read twice, all of it
            found = self._span(begin, end)
            if found is not None:
                again, table = found
                section = Section(begin, end, again.layers, table, is_again=True)
                yield from self.partitions(section)

    def _ends(self, begin: int) -> Iterator[int]:
        """Cuts to which layers might work twice from a cut on."""
        left = self.longest_way
        for end in range(begin + 1, len(self.course.cuts)):
            if self.course.cuts[end] - self.course.cuts[begin] > LONGEST_SPAN or not left:
                return
            left -= self._span(begin, end) is not None
            yield end

    def _span(self, begin: int, end: int) -> tuple[Again, StageTable] | None:
        """The layers between two cuts, some of them twice, where the first tensor is thin."""
        if (begin, end) not in self._spans:
            found = done_twice(self.course, begin, end)
            is_worth_it = found is not None and self._is_thin(begin, found)
            self._spans[begin, end] = (
                (found, self.table.of(found.network)) if found is not None and is_worth_it else None
            )
        return self._spans[begin, end]

    def _is_thin(self, begin: int, again: Again) -> bool:
        """Whether what is computed twice is larger than what it is computed from."""
        widest = max(self.table.tensor_bytes(name) for name in again.copies.values())
        return self.whole_bytes(begin) < widest

    def table_of(self, move: Move) -> StageTable:
        """Return the table that has the stages of a move."""
        found = self._span(move.begin, move.end) if move.is_again else None
        return self.table if found is None else found[1]
