"""Values that a page about a network shows: its layers, and its memory in all ways found.

Sentences on what the memory of a network is made of, and whether it fits.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from cnn2csdf.fixed_point.flash import and_in_flash
from csdf.draw.report.sections import Contribution, Verdict
from csdf.words import bytes_in_words, listed, percent, rounded_to
from planners.memory_ways import (
    FIT_ARENA,
    LINES,
    PARTS_APART,
    RINGS,
    WHOLE_APART,
    MemoryWay,
    least_way,
    reduction,
)
from planners.parts_memory import MemoryApart, NetworkMemory, way_apart


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerFigures:
    """A layer. Bytes; buffers are those of its inputs; nanoseconds of a frame, by parts."""

    name: str
    operator: str
    output: str
    phases: int
    parameters: int
    multiply_accumulates: int
    output_bytes: int
    whole_buffers: int
    parts_buffers: int
    nanoseconds: int


class Mark(NamedTuple):
    """A line across all bars: an option, and the bytes at which it stands."""

    title: str
    place: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """The memory that a network should fit. room: bytes left for buffers; below 0 if there is none.

    title: in words. elsewhere: room for buffers if the parameters lay elsewhere. marks: on the bars.
    flash_lacks: bytes of flash that the parameters take too much.
    """

    title: str
    room: int
    elsewhere: int | None = None
    marks: tuple[Mark, ...] = ()
    flash_lacks: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkFindings:
    """The findings about the memory of a network.

    parameters: bytes; an array that layers share counts once. stored: bytes that they take in flash,
    as C has them; None: as many. apart: with each buffer apart; None where that was not found in
    time. added: what others know, such as arenas.
    """

    name: str
    layers: tuple[LayerFigures, ...]
    parameters: int
    apart: MemoryApart | None
    added: tuple[Contribution, ...] = ()
    limit: Limit | None = None
    stored: int | None = None

    @property
    def ways_apart(self) -> tuple[tuple[MemoryWay, NetworkMemory], ...]:
        """The ways with each buffer apart, and what was found of them."""
        titles = (WHOLE_APART, PARTS_APART)
        return tuple(
            (way_apart(title, memory), memory)
            for title, memory in zip(titles, self.apart or (), strict=False)
        )

    @property
    def ways(self) -> tuple[MemoryWay, ...]:
        """All ways that were found, those of whole layers first."""
        others = (
            MemoryWay(need.title, need.buffers, need.lower_bound, self.parameters)
            for one in self.added
            for need in one.needs
        )
        found = [*(way for way, _ in self.ways_apart), *others]
        return tuple(sorted(found, key=lambda way: not way.is_whole))

    @property
    def least(self) -> MemoryWay | None:
        """The way with the smallest buffers."""
        return least_way(self.ways) if self.ways else None

    @property
    def least_whole(self) -> MemoryWay | None:
        """Of the ways with whole layers, the one with the smallest buffers."""
        whole = [way for way in self.ways if way.is_whole]
        return least_way(whole) if whole else None

    @property
    def saving(self) -> Fraction:
        """The part of the memory that the least way saves over the least of whole layers."""
        return reduction(self.ways)


NANOSECONDS = 10**9
LARGEST = 5  # layers named


def headline(findings: NetworkFindings) -> str:
    """Return the one sentence to read first: the least of all ways."""
    least, whole = findings.least, findings.least_whole
    if least is None or whole is None:
        return f"{findings.name}: the memory was not found within the time limit."
    own = f"{bytes_in_words(least.parameters)} of that are parameters{_in_flash(findings)}."
    if least == whole:
        return (
            f"{findings.name} takes {bytes_in_words(least.total)} in the least of these ways: "
            f"{least.title}; no other saves anything. {own}"
        )
    return (
        f"{findings.name} takes {bytes_in_words(least.total)} in the least of these ways: "
        f"{least.title}; "
        f"{percent(findings.saving)} less than {whole.title} ({bytes_in_words(whole.total)}). {own}"
    )


def _in_flash(findings: NetworkFindings) -> str:
    stored = findings.stored
    return "" if stored is None else and_in_flash(findings.parameters, stored)


def fits(findings: NetworkFindings) -> bool | None:
    """Whether any way found fits the limit; None if no limit is given."""
    limit = findings.limit
    if limit is None:
        return None
    return any(way.buffers <= limit.room for way in findings.ways)


def verdict(findings: NetworkFindings) -> Verdict | None:
    """Return whether the network fits, and what is to spare; None where nothing was asked."""
    limit, ways = findings.limit, findings.ways
    if limit is None or not ways:
        return None
    least = min(way.buffers for way in ways)
    if least <= limit.room:
        spare = (
            "" if limit.room == sys.maxsize else f"{bytes_in_words(limit.room - least)} to spare"
        )
        return Verdict(f"Fits {limit.title}", spare, "yes")
    if limit.flash_lacks:
        lacking = f"{bytes_in_words(limit.flash_lacks)} of flash too little for the parameters"
        return Verdict(f"Does not fit {limit.title}", lacking, "no")
    return Verdict(
        f"Does not fit {limit.title}",
        f"{bytes_in_words(least - limit.room)} too much in the least way",
        "no",
    )


def fitting(findings: NetworkFindings) -> list[str]:
    """Return whether the network fits the limit, and in which ways."""
    limit = findings.limit
    if limit is None:
        return []
    good = [way for way in findings.ways if way.buffers <= limit.room]
    if good:
        best = min(good, key=lambda way: way.buffers)
        return [
            f"It fits {limit.title}: {best.title}, {_sum(best)} "
            f"({len(good)} of {len(findings.ways)} ways below fit)."
        ]
    return list(_too_large(findings, limit))


def _sum(way: MemoryWay) -> str:
    return (
        f"{bytes_in_words(way.buffers)} of buffers + {bytes_in_words(way.parameters)} of parameters = "
        f"{bytes_in_words(way.total)}"
    )


def _too_large(findings: NetworkFindings, limit: Limit) -> Iterator[str]:
    """Why it does not fit, and what may help."""
    yield f"It does not fit {limit.title} in any of the ways below{_why(findings, limit)}."
    alone = limit.elsewhere
    small = [way for way in findings.ways if alone is not None and way.buffers <= alone]
    if small:
        best = min(small, key=lambda way: way.buffers)
        yield (
            f"With the parameters elsewhere, as in flash, it does: {best.title}, "
            f"{bytes_in_words(best.buffers)}."
        )
    if limit.room > 0 and all(way.title != FIT_ARENA for way in findings.ways):
        yield "In these ways all layers work alike; csdf fit may find a plan that fits."


def _why(findings: NetworkFindings, limit: Limit) -> str:
    """Why it cannot fit, if that is proved."""
    weights = findings.parameters
    if limit.room < 0:
        return f": the parameters alone are {bytes_in_words(weights)}{_in_flash(findings)}"
    bounds = [one.lower_bound for one in findings.added if one.needs]
    known = [bound for bound in bounds if bound is not None]
    if known and len(known) == len(bounds) and min(known) > limit.room:
        return (
            f": no plan of these ways is below {bytes_in_words(min(known))}, and the parameters "
            f"are {bytes_in_words(weights)}"
        )
    return ""


def facts(findings: NetworkFindings) -> list[str]:
    """Return where the memory is, and what work by parts costs."""
    return [
        *_baseline(findings),
        *_largest(findings),
        *(fact for one in findings.added for fact in one.facts),
        *_others(findings),
        *_time(findings),
    ]


def _baseline(findings: NetworkFindings) -> Iterator[str]:
    for way in findings.ways:
        if way.title == WHOLE_APART:
            yield (
                f"The baseline of the literature is {way.title}: {bytes_in_words(way.total)}. Runtimes "
                "lay whole layers in one arena."
            )


def _others(findings: NetworkFindings) -> Iterator[str]:
    """Of which plans the page speaks, and who knows others."""
    if findings.ways:
        yield (
            "But for csdf fit all layers work alike here. Plans with some layers whole and others by "
            "parts (csdf plan reuse) or with tiles (csdf plan fusion) are not among them. "
            f"By parts {RINGS}; by rows in csdf fit {LINES}, so its bytes differ."
        )


def _largest(findings: NetworkFindings) -> Iterator[str]:
    by_buffers = sorted(findings.layers, key=lambda layer: -layer.parts_buffers)[:LARGEST]
    total = sum(layer.parts_buffers for layer in findings.layers)
    if total:
        share = Fraction(sum(layer.parts_buffers for layer in by_buffers), total)
        yield (
            f"By parts, the largest buffers are read by {listed([one.name for one in by_buffers])}: "
            f"{percent(share)} of all."
        )
    heavy = max(findings.layers, key=lambda layer: layer.parameters)
    if heavy.parameters:
        share = Fraction(heavy.parameters, findings.parameters)
        yield (
            f"The most parameters are in “{heavy.name}”: {bytes_in_words(heavy.parameters)}, "
            f"{percent(share)} of all."
        )


def _time(findings: NetworkFindings) -> Iterator[str]:
    if findings.apart is None:
        return
    whole, parts = findings.apart
    loss = 1 - Fraction(whole.sequential, parts.sequential)
    changed = f"{percent(loss)} less" if loss >= 0 else f"{percent(-loss)} more"
    yield (
        f"On one processor: {frames(whole)[0]} frames a second as a whole, {frames(parts)[0]} by "
        f"parts ({changed}). With a processor for each layer and the smallest buffers: "
        f"{frames(parts)[1]}."
    )


def frames(way: NetworkMemory) -> tuple[str, str]:
    """Return the frames a second on one processor, and with one for each layer."""
    return (
        rounded_to(Fraction(NANOSECONDS, way.sequential), 4),
        rounded_to(NANOSECONDS / way.pipelined, 4) if way.pipelined else "unbounded",
    )
