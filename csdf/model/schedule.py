"""Firings in time: explicit schedules, and periodic ones that go on for ever."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from csdf.model.shown import Tabular


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Firing:
    """An execution of an actor in one phase. Sorts by start, then by end, actor and index."""

    start: Fraction  # in the units of the user
    end: Fraction
    actor: str
    index: int  # the actor's firings counted from 0
    phase: int

    def to_json(self) -> dict[str, Any]:
        """Return the firing as a JSON value; times as texts."""
        return {
            "actor": self.actor,
            "index": self.index,
            "phase": self.phase,
            "start": str(self.start),
            "end": str(self.end),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class PeriodicSchedule(Tabular):
    """Start times that repeat: each actor's first firings, and the time after which they recur.

    starts: for each actor, those of its first `copies` cycles, in the units of the user.
    period: of one iteration. An actor with r cycles per iteration and k copies recurs after
    k * period / r.
    """

    JSON: ClassVar[tuple[str, ...]] = ("period", "starts", "recurrence")
    FLOATS: ClassVar[tuple[str, ...]] = ("starts", "recurrence")

    starts: Mapping[str, tuple[Fraction, ...]]
    recurrence: Mapping[str, Fraction]
    period: Fraction

    def start(self, actor: str, index: int) -> Fraction:
        """Start of the actor's firing of that index."""
        rounds, position = divmod(index, len(self.starts[actor]))
        return self.starts[actor][position] + rounds * self.recurrence[actor]

    def rows(self) -> list[dict[str, Any]]:
        """Return an exact row for each actor."""
        return [
            {"actor": name, "starts": times, "recurrence": self.recurrence[name]}
            for name, times in self.starts.items()
        ]
