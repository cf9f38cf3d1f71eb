"""Buffers to position in memory, and plans: their offsets.

A buffer needs `size` bytes over a half-open lifetime: at every time t with start <= t < end. Two
buffers conflict, and may share no byte, when their lifetimes have a time in common. Three lists of
pairs are exceptions to this rule, as for pipelined partitions or several networks:

    conflicts   pairs that conflict although their lifetimes do not meet
    may_overlap pairs that do not conflict although their lifetimes meet
    in_place    pairs of an input and a result that may be computed over it: they conflict, unless
                both begin at the same offset

Here a buffer without bytes or without lifetime conflicts with nothing and occupies no bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import accumulate
from typing import Any

from csdf.arguments import public, require_integers
from csdf.errors import InvalidPlan
from csdf.model.shown import Shown
from csdf.status import Reason, Status

Pair = tuple[str, str]
PAIRS = ("conflicts", "may_overlap", "in_place")  # the fields of a problem that are lists of pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffer:
    """Bytes that are needed over a lifetime.

    offset: a fixed offset. hint: the preferred offset, as in an older plan, used if it costs no byte.
    bank: name of the memory bank of the buffer, in a problem with banks; None leaves the choice to the
    planner. accesses: reads and writes in a frame; each has the cost of the bank.
    """

    name: str
    size: int  # bytes
    start: int
    end: int  # the first time at which the buffer is no longer needed
    alignment: int = 1  # bytes; its offset is a multiple
    offset: int | None = None
    hint: int | None = None
    bank: str | None = None
    accesses: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise InvalidPlan(f"a buffer has name {self.name!r}; expected a text")
        offsets = {"offset": self.offset, "hint": self.hint}
        stated = {title: offset for title, offset in offsets.items() if offset is not None}
        numbers = {"size": self.size, "start": self.start, "end": self.end, **stated}
        numbers |= {"accesses": self.accesses}
        require_integers(f"buffer {self.name!r}", InvalidPlan, alignment=self.alignment, **numbers)
        if self.accesses < 0:
            raise InvalidPlan(f"buffer {self.name!r} has {self.accesses} accesses; expected >= 0")
        if self.size < 0:
            raise InvalidPlan(f"buffer {self.name!r} has size {self.size}; expected at least 0")
        if self.end < self.start:
            raise InvalidPlan(
                f"buffer {self.name!r} ends at {self.end}, before it starts at {self.start}"
            )
        if self.alignment < 1:
            raise InvalidPlan(
                f"buffer {self.name!r} has alignment {self.alignment}; expected at least 1"
            )
        for title, offset in stated.items():
            if offset < 0 or offset % self.alignment:
                raise InvalidPlan(
                    f"buffer {self.name!r} has {title} {offset}; "
                    f"expected a multiple of its alignment {self.alignment}, at least 0"
                )

    @property
    def takes_bytes(self) -> bool:
        """Whether it has bytes and a lifetime."""
        return self.size > 0 and self.end > self.start


@public
@dataclass(frozen=True, slots=True, kw_only=True)
class Bank:
    """A separate memory, with offsets from 0."""

    name: str
    capacity: int  # bytes
    cost: int = 0  # of an access to a buffer in it

    def __post_init__(self) -> None:
        if self.capacity < 0:
            raise InvalidPlan(f"bank {self.name!r} has capacity {self.capacity}; expected >= 0")
        if self.cost < 0:
            raise InvalidPlan(f"bank {self.name!r} has cost {self.cost}; expected >= 0")


@public
@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Buffers to place in one arena, or in several banks, the preferred bank first."""

    name: str
    buffers: tuple[Buffer, ...]
    conflicts: tuple[Pair, ...] = ()
    may_overlap: tuple[Pair, ...] = ()
    in_place: tuple[Pair, ...] = ()
    banks: tuple[Bank, ...] = ()

    @property
    def dead(self) -> tuple[str, ...]:
        """Buffers with bytes but an empty lifetime: they end where they start."""
        return tuple(
            buffer.name for buffer in self.buffers if buffer.size and buffer.end == buffer.start
        )

    def __post_init__(self) -> None:
        names = [buffer.name for buffer in self.buffers]
        banks = [bank.name for bank in self.banks]
        for kind, listed in (("buffer", names), ("bank", banks)):
            if len(set(listed)) < len(listed):
                twice = Counter(listed).most_common(1)[0][0]
                raise InvalidPlan(f"two {kind}s have the name {twice!r}")
        names_of_buffers = set(names)
        lists: dict[frozenset[str], str] = {}  # the list of each pair
        for title in PAIRS:
            for pair in getattr(self, title):
                if pair[0] == pair[1]:
                    raise InvalidPlan(f"{title} pairs buffer {pair[0]!r} with itself")
                for name in pair:
                    if name not in names_of_buffers:
                        raise InvalidPlan(f"{title} names the unknown buffer {name!r}")
                first = lists.setdefault(frozenset(pair), title)
                if first != title:
                    raise InvalidPlan(f"the pair {pair} is listed in both {first} and {title}")
        for buffer in self.buffers:
            if buffer.bank is not None and buffer.bank not in banks:
                raise InvalidPlan(f"buffer {buffer.name!r} wants the unknown bank {buffer.bank!r}")

    def part(self, buffers: Iterable[Buffer], name: str) -> Problem:
        """Return the problem of a subset of its buffers, in one arena."""
        kept = tuple(buffers)
        names = {buffer.name for buffer in kept}
        pairs = {
            title: tuple(pair for pair in getattr(self, title) if names.issuperset(pair))
            for title in PAIRS
        }
        return Problem(name=name, buffers=kept, **pairs)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPlan(Shown):
    """Offsets for the buffers of a problem, and a lower bound on the peak of every plan.

    offsets: by name; empty without a plan. If the status is unknown, they are those of the best plan,
    which exceeds the capacity. reason: a sentence on the proof of the status; for `infeasible` it names
    time and buffers.
    """

    problem: Problem
    offsets: Mapping[str, int] = field(default_factory=dict)
    lower_bound: int
    status: Status
    reason: Reason

    @property
    def has_offsets(self) -> bool:
        """Whether there is a plan at all."""
        return self.status != Status.INFEASIBLE and len(self.offsets) == len(self.problem.buffers)

    @property
    def peak(self) -> int:
        """Bytes of the arena: where the highest buffer ends. Raises InvalidPlan without a plan."""
        if not self.has_offsets:
            raise InvalidPlan(f"{self.problem.name}: there is no plan: {self.status}")
        ends = (self.offsets[b.name] + b.size for b in self.problem.buffers if b.takes_bytes)
        return max(ends, default=0)

    @property
    def gap(self) -> Fraction:
        """The distance of the peak from the lower bound, as a fraction of the lower bound."""
        return Fraction(self.peak - self.lower_bound, max(self.lower_bound, 1))

    def to_json(self) -> dict[str, Any]:
        """Return the plan as a JSON value; without a plan, peak and gap are null."""
        return {
            "name": self.problem.name,
            "buffers": len(self.problem.buffers),
            "peak": self.peak if self.has_offsets else None,
            "lower_bound": self.lower_bound,
            "gap": str(self.gap) if self.has_offsets else None,
            "status": str(self.status),
            "reason": str(self.reason),
            "offsets": dict(self.offsets),
            "dead": list(self.problem.dead),
        }

    def to_records(self) -> list[dict[str, Any]]:
        """Return a row for each buffer, as for a data frame; without a plan, offsets are None."""
        return [
            {
                "buffer": buffer.name,
                "offset": self.offsets.get(buffer.name),
                "size": buffer.size,
                "start": buffer.start,
                "end": buffer.end,
            }
            for buffer in self.problem.buffers
        ]


def loads(lives: Iterable[tuple[int, int, int]]) -> dict[int, int]:
    """Return the sum of live sizes from each time on at which it changes.

    lives: half-open lifetime and size of each buffer, as start, end, size.
    """
    changes: dict[int, int] = {}
    for start, end, size in lives:
        changes[start] = changes.get(start, 0) + size
        changes[end] = changes.get(end, 0) - size
    times = sorted(changes)
    return dict(zip(times, accumulate(changes[time] for time in times), strict=True))
