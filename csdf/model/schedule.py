"""Firings in time: explicit schedules, and periodic ones that go on for ever."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from csdf.model.shown import Shown, with_floats


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
class PeriodicSchedule(Shown):
    """Start times that repeat: each actor's first firings, and the time after which they recur.

    starts: for each actor, those of its first `copies` cycles, in the units of the user.
    period: of one iteration. An actor with r cycles per iteration and k copies recurs after
    k * period / r.
    """

    starts: Mapping[str, tuple[Fraction, ...]]
    recurrence: Mapping[str, Fraction]
    period: Fraction

    def start(self, actor: str, index: int) -> Fraction:
        """Start of the actor's firing of that index."""
        rounds, place = divmod(index, len(self.starts[actor]))
        return self.starts[actor][place] + rounds * self.recurrence[actor]

    def to_json(self) -> dict[str, Any]:
        """Return the schedule as a JSON value; times as texts."""
        return {
            "period": str(self.period),
            "starts": {name: [str(one) for one in times] for name, times in self.starts.items()},
            "recurrence": {name: str(time) for name, time in self.recurrence.items()},
        }

    def rows(self) -> list[dict[str, Any]]:
        """Return an exact row for each actor."""
        return [
            {"actor": name, "starts": times, "recurrence": self.recurrence[name]}
            for name, times in self.starts.items()
        ]

    def to_records(self) -> list[dict[str, Any]]:
        """Return a row for each actor, as for a data frame: floats, and exact texts beside them."""
        return with_floats(self.rows(), "starts", "recurrence")
