"""The ways to work a network in an arena, and the answer to whether it fits: values."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from csdf.outcome import Reason, Status, Why
from csdf.words import bytes_in_words

if TYPE_CHECKING:
    from planners.plan.plan import StreamingPlan


RESIDENT = "resident"  # the input lies whole in the arena before the first layer works
ROWS = "rows"  # the input comes row by row
EXTERNAL = "outside"  # inputs are read from, results written to memory that is not the arena's
INPUTS = (RESIDENT, ROWS, EXTERNAL)
RESULTS = (RESIDENT, EXTERNAL)

WHOLE_LAYERS = "whole layers"
BY_ROWS = "rows"
LINES = "lines, nothing twice"
STRIPS = "lines and strips"
IN_PARTS = "strips, channels in parts"
TWICE = "strips, gates twice"
SEARCHED = (LINES, STRIPS, IN_PARTS, TWICE)
SEARCHED_FIRST = (LINES, STRIPS)  # of which there are far fewer
PLAIN = (WHOLE_LAYERS, BY_ROWS)


class FitWhy(Why):
    """Reasons for the answer to whether a network fits."""

    FLASH = "the parameters need {needed} bytes of flash, {flash} are there"
    LEAST_WORK = "the least work found among whole layers, rows, lines and strips"
    FASTEST = (
        "the least work found among whole layers, rows, lines and strips, and within the RAM the "
        "fastest of that work"
    )
    LEAST_BY_THEN = (
        "the least work found among whole layers, rows, lines and strips; "
        "the search ended early: {end}"
    )
    TOO_SLOW = "the fastest way found takes {nanoseconds} ns, as the platform predicts"
    ENDS = "what comes in and goes out takes {least} bytes whatever is planned"
    TOO_LARGE_BY_THEN = "{end}; the least found by then needs {least} bytes"
    TOO_LARGE = (
        "the least of whole layers, rows, lines and strips needs {least} bytes; "
        "nothing is proved of other ways"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FitWay:
    """A way to work a network in an arena.

    work: multiply-accumulates of a frame, as a part of those of the network computed once.
    nanoseconds: of a frame, predicted by a model of the platform; None without one.
    """

    name: str
    plan: StreamingPlan
    work: Fraction
    nanoseconds: int | None

    @property
    def ram_bytes(self) -> int:
        """Bytes of the arena."""
        return self.plan.arena_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """Whether a network fits, and how.

    ways: by growing RAM, each with less work than those before it; the plain ways are among them
    whatever they cost. lower_bound: no way, searched or not, needs less RAM: what comes in and goes
    out lies whole. best: the way with the least work within the RAM, the fastest of those as far as
    times are predicted; None where none fits.
    flash_bytes: the trained numbers as a library stores them, with the factors that rescale integers.
    """

    network: str
    input: str
    result: str
    ram: int | None
    flash: int | None
    flash_bytes: int
    ways: tuple[FitWay, ...]
    best: FitWay | None
    lower_bound: int
    status: Status
    reason: Reason

    @property
    def least(self) -> FitWay:
        """The way with the least RAM."""
        return min(self.ways, key=lambda way: (way.ram_bytes, way.work))

    def to_json(self) -> dict[str, Any]:
        """Return the answer as a JSON value."""
        shown = self.best or self.least
        return {
            "network": self.network,
            "fits": {Status.FEASIBLE: True, Status.INFEASIBLE: False}.get(self.status),
            "ram_bytes": shown.ram_bytes,
            "flash_bytes": self.flash_bytes,
            "work": str(shown.work),
            "lower_bound_bytes": self.lower_bound,
            "status": str(self.status),
            "reason": str(self.reason),
            "input": self.input,
            "result": self.result,
            "ways": [
                {
                    "name": way.name,
                    "ram_bytes": way.ram_bytes,
                    "work": str(way.work),
                    "predicted_nanoseconds": way.nanoseconds,
                }
                for way in self.ways
            ],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bytes that a network must fit; None where nothing is said.

    ram: of all buffers. flash: of all parameters, which then lie in no RAM. memory: of both together,
    as the papers count.
    """

    ram: int | None = None
    flash: int | None = None
    memory: int | None = None

    @property
    def is_given(self) -> bool:
        """Whether there is any limit."""
        return (self.ram, self.flash, self.memory) != (None, None, None)

    def room(self, parameters: int, stored: int) -> int | None:
        """Return the bytes left for buffers beside so many bytes of parameters; None: no limit.

        stored: bytes that they take in flash, as C has them. Below 0 where the parameters alone are
        too large.
        """
        found = [] if self.ram is None else [self.ram]
        if self.memory is not None:
            found.append(self.memory - parameters)
        if self.flash is not None and stored > self.flash:
            found.append(self.flash - stored)
        return min(found, default=None)

    def __str__(self) -> str:
        parts = [
            f"{bytes_in_words(size)} {what}"
            for size, what in (
                (self.memory, "for buffers and parameters"),
                (self.ram, "of RAM for buffers"),
                (self.flash, "of flash for parameters"),
            )
            if size is not None
        ]
        return ", ".join(parts) or "no limit"
