"""Sentences on the memory of a network: its parts, and whether it fits."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from csdf.draw.report.sections import Contribution, PageVerdict
from csdf.status import Status
from csdf.units import (
    bytes_in_words,
    free_bytes_in_words,
    nanoseconds_in_words,
    needed_bytes_in_words,
    percent,
    rounded_to,
)
from planners.memory.command.answer import accounting, timing
from planners.memory.command.answer import headline as fit_headline
from planners.memory.plain_plans import Method, least_method
from planners.report.plans import FitAnswer

NANOSECONDS = 10**9
NO_LIMIT = sys.maxsize  # bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerFigures:
    """The figures of a layer, in bytes, MACs and nanoseconds.

    whole_buffers, row_buffers: bytes of the buffers of its inputs, layer by layer and row by row.
    flash: bytes of its constant arrays in C. nanoseconds, instructions: of a frame in the reported
    plan; None if they are not predicted.
    """

    name: str
    operator: str
    output: str
    phases: int
    parameters: int
    multiply_accumulates: int
    output_bytes: int
    whole_buffers: int
    row_buffers: int
    flash: int = 0
    nanoseconds: int | None = None
    instructions: int | None = None


class Mark(NamedTuple):
    """A vertical line across the bars of a chart: its title, and its position in bytes."""

    title: str
    position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryLimit:
    """The memory that a network should fit.

    title: the limit in words. marks: on the bars. missing_flash: bytes of parameters that exceed the
    limit on flash, or 0. without_parameters: the limit on buffers and parameters together if it is the
    only limit, else None; as much is left for buffers if no parameter is stored.

    buffer_bytes: the room for buffers, the minimum over all limits: of the RAM; of the limit on buffers
    and parameters less the parameters; below 0 if the parameters exceed the flash. NO_LIMIT if no limit
    concerns buffers.
    """

    title: str
    buffer_bytes: int
    without_parameters: int | None = None
    marks: tuple[Mark, ...] = ()
    missing_flash: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkFindings:
    """The figures of a network that a report is written from.

    basis: the platform of predicted times, such as "for cortex-m7". answers: the answers of `csdf fit`,
    for the plan that it searched or for plans in files; empty if no plan was found in time. flash:
    bytes of the parameters in C. methods: the plans of `csdf cnn memory`, as many as the time limit
    allowed. nanoseconds: of a frame layer by layer, and row by row. added: facts and sections that
    other planners contribute to the report.
    """

    name: str
    layers: tuple[LayerFigures, ...]
    flash: int
    answers: tuple[FitAnswer, ...] = ()
    basis: str = ""
    methods: tuple[Method, ...] = ()
    nanoseconds: tuple[int, int] | None = None
    added: tuple[Contribution, ...] = ()
    limit: MemoryLimit | None = None

    @property
    def bars(self) -> tuple[Method, ...]:
        """All memory plans of the network: the methods of csdf fit first."""
        rows = [
            Method(
                answer.title,
                answer.method.needed_ram,
                answer.fit.lower_bound,
                self.flash,
            )
            for answer in self.answers
        ]
        return (*rows, *self.methods)

    @property
    def reported(self) -> Method | None:
        """The method that is reported: the choice of csdf fit, else the smallest method."""
        if self.answers:
            return self.bars[0]
        return least_method(self.methods) if self.methods else None


def headline(findings: NetworkFindings) -> Iterator[str]:
    """Yield the first line of `csdf fit` for each plan, then the predicted times."""
    for answer in findings.answers:
        name = f"{answer.title}: " if len(findings.answers) > 1 else ""
        yield name + fit_headline(answer.fit)
    times = [answer.method.nanoseconds for answer in findings.answers]
    if any(time is not None for time in times):
        rows = [
            "not predicted" if time is None else f"{nanoseconds_in_words(time)} a frame"
            for time in times
        ]
        # A platform is a model of a processor; without a platform the layers were measured.
        is_calibrated = all(answer.fit.platform is None for answer in findings.answers)
        reliability = "" if is_calibrated else "; not calibrated"
        if any(answer.fit.roofline for answer in findings.answers):
            reliability += " (a roofline: C takes longer)"
        yield f"Predicted {findings.basis}: {', '.join(rows)}{reliability}."
    if not findings.answers:
        method = findings.reported
        if method is None:
            yield f"{findings.name}: the memory was not found within the time limit."
        else:
            yield f"{findings.name} needs {_needs(findings, method)} ({method.title})."


def _needs(findings: NetworkFindings, method: Method) -> str:
    """Return the RAM and the flash that a microcontroller has to have."""
    ram, flash = map(needed_bytes_in_words, (method.buffers, findings.flash))
    return f"{ram} of RAM and {flash} of flash"


def status(findings: NetworkFindings) -> Status | None:
    """Return whether the network fits the limit, by the first plan; None if no limit is given."""
    limit = findings.limit
    if limit is None:
        return None
    if limit.buffer_bytes < 0:
        return Status.INFEASIBLE
    if findings.answers:
        return findings.answers[0].fit.status
    is_good = any(method.buffers <= limit.buffer_bytes for method in findings.methods)
    return Status.FEASIBLE if is_good else Status.UNKNOWN


def verdict(findings: NetworkFindings) -> PageVerdict | None:
    """Return whether the network fits, with the free bytes; its needs where no limit is set."""
    limit, fit_status = findings.limit, status(findings)
    method = findings.reported
    if method is None:
        return None
    if limit is None and len(findings.answers) > 1:
        sizes = (
            f"{answer.title}: {needed_bytes_in_words(answer.method.needed_ram)}"
            for answer in findings.answers
        )
        return PageVerdict(", ".join(sizes), "of RAM", "yes")
    if limit is None:
        return PageVerdict(f"Needs {_needs(findings, method)}", _by(findings, method), "yes")
    if fit_status is Status.FEASIBLE:
        spare = limit.buffer_bytes - method.buffers
        free = "" if limit.buffer_bytes == NO_LIMIT else f"{free_bytes_in_words(spare)} free"
        return PageVerdict(f"Fits {limit.title}", free, "yes")
    excess = method.buffers - limit.buffer_bytes
    lacking = f"{bytes_in_words(excess)} too much, by the smallest plan found"
    if excess <= 0 and findings.answers:
        lacking = str(findings.answers[0].fit.reason)
    if limit.missing_flash:
        lacking = f"{bytes_in_words(limit.missing_flash)} of flash too little for the parameters"
    if fit_status is Status.UNKNOWN:
        return PageVerdict(f"Not known to fit {limit.title}", lacking, "unknown")
    return PageVerdict(f"Does not fit {limit.title}", lacking, "no")


def _by(findings: NetworkFindings, method: Method) -> str:
    """Return the method, and the time where it is predicted."""
    if not findings.answers:
        return method.title
    plan = findings.answers[0].method
    time = "" if plan.nanoseconds is None else f", {nanoseconds_in_words(plan.nanoseconds)}"
    return f"{plan.name}{time}"


def fitting(findings: NetworkFindings) -> Iterator[str]:
    """Yield whether the network fits the limit, or why not, and what may help."""
    limit, fit_status = findings.limit, status(findings)
    if limit is None:
        return
    method = findings.reported
    if fit_status is Status.FEASIBLE:
        if limit.without_parameters is not None and method is not None:
            buffers, flash, total = map(
                needed_bytes_in_words, (method.buffers, method.parameters, method.total)
            )
            yield f"It fits {limit.title}: {buffers} of buffers + {flash} of flash = {total}."
        # With a limit on RAM the first line of csdf fit contains the verdict.
        elif all(answer.fit.ram is None for answer in findings.answers):
            yield f"It fits {limit.title}."
        return
    why = ""
    if limit.buffer_bytes < 0:
        why = f": the parameters alone are {needed_bytes_in_words(findings.flash)} of flash"
    elif findings.answers:
        why = f": {findings.answers[0].fit.reason}"
    verb = "does not fit" if fit_status is Status.INFEASIBLE else "is not known to fit"
    yield f"It {verb} {limit.title}{why}."
    bound = limit.without_parameters
    if method is not None and bound is not None and method.buffers <= bound:
        yield (
            "With the parameters elsewhere, as in flash, it fits: "
            f"{needed_bytes_in_words(method.buffers)} of buffers."
        )
    for answer in findings.answers[:1]:
        for alternative in answer.fit.alternatives:
            fits = ", which fits" if alternative.fits else ""
            yield f"With {alternative.options} it takes {alternative.ram_in_words}{fits}."


def facts(findings: NetworkFindings) -> Iterator[str]:
    """Yield how bytes and times are counted, and the layers with the most flash and time."""
    for answer in findings.answers[:1]:
        yield f"Counted: {accounting(answer.fit)}."
        if answer.fit.platform is not None:
            yield f"Time: {timing(answer.fit, answer.fit.platform)}."
    flash = {layer.name: layer.flash for layer in findings.layers}
    times = {layer.name: layer.nanoseconds or 0 for layer in findings.layers}
    for verb, sizes, in_words in (
        ("takes the most flash", flash, bytes_in_words),
        ("takes the most time", times, nanoseconds_in_words),
    ):
        total, name = sum(sizes.values()), max(sizes, key=lambda size: sizes[size])
        if total:
            share = percent(Fraction(sizes[name], total))
            yield f"The layer “{name}” {verb}: {in_words(sizes[name])}, {share} of all."
    for added in findings.added:
        yield from added.facts


def frames(nanoseconds: Fraction | int | None) -> str:
    """Return the frames a second; empty where the time of a frame is not known."""
    if nanoseconds is None:
        return ""
    return rounded_to(Fraction(NANOSECONDS) / nanoseconds, 4) if nanoseconds else "unbounded"
