"""Several networks in one arena, in turn or at the same time: RAM is shared, flash and time add up."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

from csdf.outcome import Status
from planners.memory.answer import Fit


@dataclass(frozen=True, slots=True, kw_only=True)
class Together:
    """The best way of each network, with the same arena.

    One works after the other for each frame, unless plans that are given say that groups of several
    networks may work at the same time.

    flash: bytes there are for the parameters of all. longest: nanoseconds of a frame of all at most.
    """

    fits: tuple[Fit, ...]
    flash: int | None
    longest: Fraction | None

    @property
    def ram_bytes(self) -> int:
        """Bytes of the arena: those of the neediest network."""
        return max((one.best or one.least).ram_bytes for one in self.fits)

    @property
    def is_at_once(self) -> bool:
        """Whether groups of two networks may work at the same time."""
        words = [
            {group.at_once for group in (one.best or one.least).plan.groups} - {None}
            for one in self.fits
        ]
        return any(one & other for one, other in combinations(words, 2))

    @property
    def flash_bytes(self) -> int:
        """Bytes of the parameters of all networks."""
        return sum(one.flash_bytes for one in self.fits)

    @property
    def lower_bound(self) -> int:
        """Bytes of RAM that no way of working in one arena is below."""
        return max(one.lower_bound for one in self.fits)

    @property
    def nanoseconds(self) -> int | None:
        """Predicted time of a frame of each network; None where one has no prediction."""
        times = [(one.best or one.least).nanoseconds for one in self.fits]
        known = [time for time in times if time is not None]
        return sum(known) if len(known) == len(times) else None

    @property
    def verdict(self) -> tuple[Status, str]:
        """Whether they fit together: a status, and why."""
        for status in (Status.INFEASIBLE, Status.GAVE_UP):
            for one in self.fits:
                if one.status == status:
                    return status, f"{one.network}: {one.reason}"
        if self.flash is not None and self.flash_bytes > self.flash:
            return Status.INFEASIBLE, (
                f"the parameters of all need {self.flash_bytes} bytes of flash, "
                f"{self.flash} are there"
            )
        time = self.nanoseconds
        if self.longest is not None and (time is None or time > self.longest):
            return Status.INFEASIBLE, (
                f"a frame of each takes {time} ns in turn, as the platform predicts; "
                f"there are {int(self.longest)}"
            )
        if self.is_at_once:
            return Status.FEASIBLE, "the arena that the plans share sets the RAM"
        return Status.FEASIBLE, "the neediest network sets the RAM"
