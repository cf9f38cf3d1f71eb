"""Sentences on what the memory of a network is made of, and whether it fits."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from cnn2csdf.fixed_point.flash import and_in_flash
from csdf.draw.report.sections import Contribution, Verdict
from csdf.units import bytes_in_words, listed, percent, rounded_to
from planners.memory.plain_plans import WHOLE_SEPARATE, Method, least_method

NANOSECONDS = 10**9
LARGEST = 5  # layers named
FIT = "line buffers and strips, one arena (csdf fit)"


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerFigures:
    """A layer. Bytes; buffers are those of its inputs; nanoseconds of a frame, row by row."""

    name: str
    operator: str
    output: str
    phases: int
    parameters: int
    multiply_accumulates: int
    output_bytes: int
    whole_buffers: int
    row_buffers: int
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
    as C has them; None: as many. methods: those of csdf cnn memory, and csdf fit behind them, as far as
    they were found. nanoseconds: of a frame layer by layer and row by row; pipelined: period row by row
    with a processor for each layer and the smallest separate buffers. added: what others know. kept:
    bytes of the buffers that stay from frame to frame.
    """

    name: str
    layers: tuple[LayerFigures, ...]
    parameters: int
    methods: tuple[Method, ...] = ()
    nanoseconds: tuple[int, int] | None = None
    pipelined: Fraction | None = None
    added: tuple[Contribution, ...] = ()
    limit: Limit | None = None
    stored: int | None = None
    kept: int = 0

    @property
    def least(self) -> Method | None:
        """The method with the smallest buffers."""
        return least_method(self.methods) if self.methods else None

    @property
    def least_whole(self) -> Method | None:
        """Of the methods with whole layers, the one with the smallest buffers."""
        whole = [one for one in self.methods if one.is_whole]
        return least_method(whole) if whole else None


def headline(findings: NetworkFindings) -> str:
    """Return what to read first: RAM and flash of the method with the least RAM, and MACs."""
    least, whole = findings.least, findings.least_whole
    if least is None or whole is None:
        return f"{findings.name}: the memory was not found within the time limit."
    saved = "no method without tiles or strips needs less"
    if least != whole and least.buffers:
        times = rounded_to(Fraction(whole.buffers, least.buffers), 3)
        saved = f"{whole.title} takes {bytes_in_words(whole.buffers)} of RAM, {times} times as much"
    ends = "" if least.is_whole else ", its input by rows and its output outside"
    macs = sum(one.multiply_accumulates for one in findings.layers)
    work = f"A frame has {macs:,} multiply-accumulates without recomputation."
    return f"{findings.name} needs {_needs(findings, least)} ({least.title}{ends}); {saved}. {work}"


def _needs(findings: NetworkFindings, method: Method) -> str:
    """Return the two numbers that a microcontroller has to have."""
    flash = findings.parameters if findings.stored is None else findings.stored
    kept = (
        f", of which {bytes_in_words(findings.kept)} stay between frames," if findings.kept else ""
    )
    return f"{bytes_in_words(method.buffers)} of RAM{kept} and {bytes_in_words(flash)} of flash"


def _in_flash(findings: NetworkFindings) -> str:
    stored = findings.stored
    return "" if stored is None else and_in_flash(findings.parameters, stored)


def fits(findings: NetworkFindings) -> bool | None:
    """Whether any method found fits the limit; None if no limit is given."""
    limit = findings.limit
    if limit is None:
        return None
    return any(one.buffers <= limit.room for one in findings.methods)


def verdict(findings: NetworkFindings) -> Verdict | None:
    """Return whether the network fits, and what is free; what it needs where no limit was given."""
    limit, least = findings.limit, findings.least
    if least is None:
        return None
    if limit is None:
        return Verdict(f"Needs {_needs(findings, least)}", least.title, "yes")
    spare = limit.room - least.buffers
    if spare >= 0:
        free = "" if limit.room == sys.maxsize else f"{bytes_in_words(spare)} free"
        return Verdict(f"Fits {limit.title}", free, "yes")
    lacking = f"{bytes_in_words(-spare)} too much with the smallest method"
    if limit.flash_lacks:
        lacking = f"{bytes_in_words(limit.flash_lacks)} of flash too little for the parameters"
    return Verdict(f"Does not fit {limit.title}", lacking, "no")


def fitting(findings: NetworkFindings) -> Iterator[str]:
    """Yield whether the network fits the limit, and by which methods, or what may help."""
    limit, least = findings.limit, findings.least
    if limit is None:
        return
    good = [one for one in findings.methods if one.buffers <= limit.room]
    if good and least is not None:
        total = " = ".join(
            (
                f"{bytes_in_words(least.buffers)} of buffers + "
                f"{bytes_in_words(least.parameters)} of parameters",
                bytes_in_words(least.total),
            )
        )
        yield (
            f"It fits {limit.title}: {least.title}, {total} "
            f"({len(good)} of {len(findings.methods)} methods below fit)."
        )
        return
    why = ""
    if limit.room < 0:
        parameters = bytes_in_words(findings.parameters)
        why = f": the parameters alone are {parameters}{_in_flash(findings)}"
    yield f"It does not fit {limit.title} by any of the methods below{why}."
    if least is not None and limit.elsewhere is not None and least.buffers <= limit.elsewhere:
        yield (
            f"With the parameters elsewhere, as in flash, it does: {least.title}, "
            f"{bytes_in_words(least.buffers)}."
        )
    if limit.room > 0 and all(one.title != FIT for one in findings.methods):
        yield "In these methods all layers work alike; csdf fit may find a plan that fits."


def facts(findings: NetworkFindings) -> Iterator[str]:
    """Yield where the memory is, and what rows cost."""
    least = findings.least
    if least is not None:
        yield (
            f"As the papers count, RAM and parameters together: {bytes_in_words(least.total)} with "
            f"{least.title}, of which {bytes_in_words(least.parameters)} are parameters"
            f"{_in_flash(findings)}."
        )
    for one in findings.methods:
        if one.title == WHOLE_SEPARATE:
            yield (
                f"The baseline of the literature is {one.title}: {bytes_in_words(one.total)}. "
                "Runtimes lay whole tensors in one arena."
            )
    largest = sorted(findings.layers, key=lambda layer: -layer.row_buffers)[:LARGEST]
    total = sum(layer.row_buffers for layer in findings.layers)
    if total:
        share = Fraction(sum(layer.row_buffers for layer in largest), total)
        yield (
            "Row by row, the largest line buffers are read by "
            f"{listed([one.name for one in largest])}: {percent(share)} of all."
        )
    heavy = max(findings.layers, key=lambda layer: layer.parameters)
    if heavy.parameters:
        share = Fraction(heavy.parameters, findings.parameters)
        yield (
            f"The most parameters are in “{heavy.name}”: {bytes_in_words(heavy.parameters)}, "
            f"{percent(share)} of all."
        )
    for added in findings.added:
        yield from added.facts
    if findings.methods and not findings.kept:
        yield (
            "But for csdf fit all layers work alike here. Plans with some layers whole and others row "
            "by row (csdf plan reuse) or with tiles (csdf plan fusion) are not among them. Row by row "
            "the input is streamed and the output external, as in csdf fit --input rows "
            "--output-memory external."
        )
    if findings.nanoseconds is not None:
        whole, rows = findings.nanoseconds
        loss = 1 - Fraction(whole, rows)
        changed = f"{percent(loss)} less" if loss >= 0 else f"{percent(-loss)} more"
        pipelined = frames(findings.pipelined)
        behind = (
            ""
            if not pipelined
            else (f" With a processor for each layer and the smallest buffers: {pipelined}.")
        )
        yield (
            f"On one processor: {frames(whole)} frames a second layer by layer, {frames(rows)} row "
            f"by row ({changed}).{behind}"
        )


def frames(nanoseconds: Fraction | int | None) -> str:
    """Return the frames a second; empty where the time of a frame is not known."""
    if nanoseconds is None:
        return ""
    return rounded_to(Fraction(NANOSECONDS) / nanoseconds, 4) if nanoseconds else "unbounded"
