"""The firing order of a group of stages: the last stage asks, and whoever has what it asks for fires.

A stage makes its result some rows at a time. It fires when the rows that it needs are there; where
they are not, the stage that makes them fires first. So no stage works ahead of those behind it, and
little is kept. The order follows from the needs alone: the generated code finds it anew as it runs,
with a counter for each stage.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from csdf.errors import InvalidPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Which rows of one tensor each firing of a stage needs, of rows counted from the first.

    upto: one past the last row that has to be there, for each firing; it never falls. first: the
    first row that this firing or a later one needs, for each firing and, as the last entry, after
    the last firing (all rows, then); it never falls either.
    """

    tensor: str
    upto: tuple[int, ...]
    first: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Firings:
    """All firings of one stage.

    made: rows of the result that are there after so many firings, from 0 firings on.
    """

    result: str
    readings: tuple[Reading, ...]
    made: tuple[int, ...]

    @property
    def count(self) -> int:
        """Firings for one frame."""
        return len(self.made) - 1


def firing_order(stages: Sequence[Firings]) -> Iterator[int]:
    """Yield the places of the stages in the order in which they fire, for one frame.

    stages: each after those whose results it reads; a tensor that no stage makes is there from the
    start. The last stage that is not done asks; a stage whose needed rows are not there asks the
    maker of the first tensor that lacks rows.
    """
    maker = {stage.result: place for place, stage in enumerate(stages)}
    fired = [0] * len(stages)
    for last in reversed(range(len(stages))):
        while fired[last] < stages[last].count:
            place = last
            while (asked := _lacking(stages, maker, fired, place)) is not None:
                place = asked
            yield place
            fired[place] += 1


def _lacking(
    stages: Sequence[Firings], maker: dict[str, int], fired: Sequence[int], place: int
) -> int | None:
    """The stage that has to fire before the one at `place` can; None where it can fire."""
    stage = stages[place]
    for reading in stage.readings:
        before = maker.get(reading.tensor)
        if before is None:
            continue
        if stages[before].made[fired[before]] < reading.upto[fired[place]]:
            if fired[before] == stages[before].count:
                raise InvalidPlan(
                    f"stage {stage.result!r} needs {reading.upto[fired[place]]} rows of "
                    f"{reading.tensor!r}, which has fewer"
                )
            return before
    return None
