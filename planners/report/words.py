"""What the memory of a network is made of, and whether it fits, in plain sentences."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from csdf.draw.report.sections import Need
from csdf.draw.report.words import byte_count, listed, percent, rounded_to
from planners.parts_memory import NetworkMemory
from planners.report.findings import NetworkFindings

NANOSECONDS = 10**9
LARGEST = 5  # layers named
WHOLE, PARTS = "whole layers", "by parts"


def ways(findings: NetworkFindings) -> list[tuple[str, NetworkMemory]]:
    """Return how the network may work, each way with its memory."""
    memory = findings.memory
    return [] if memory is None else [(WHOLE, memory.whole), (PARTS, memory.by_parts)]


def needs(findings: NetworkFindings) -> list[Need]:
    """Return the ways to lay the network into memory that were found, each with its bytes."""
    own = [Need(f"{title}, a place for every buffer", way.buffers) for title, way in ways(findings)]
    return own + [need for one in findings.added for need in one.needs]


def parameters(findings: NetworkFindings) -> int:
    """Return the bytes of all trained parameters."""
    return sum(layer.parameters for layer in findings.layers)


def headline(findings: NetworkFindings) -> str:
    """Return the one sentence to read first."""
    if findings.memory is None:
        return f"{findings.name}: the memory was not found within the budget."
    whole, parts = findings.memory.whole, findings.memory.by_parts
    saved = 1 - Fraction(parts.total, whole.total)
    less = f"{percent(saved)} less" if saved >= 0 else f"{percent(-saved)} more"
    return (
        f"{findings.name} needs {byte_count(whole.total)} when its layers work as a whole and "
        f"{byte_count(parts.total)} by parts ({less}); {byte_count(parts.parameters)} of that are "
        "parameters."
    )


def fits(findings: NetworkFindings) -> bool | None:
    """Whether any way found fits the capacity with all parameters; None if no capacity is given."""
    if findings.capacity is None:
        return None
    weights = parameters(findings)
    return any(need.buffers + weights <= findings.capacity for need in needs(findings))


def fitting(findings: NetworkFindings) -> list[str]:
    """Return whether the network fits the capacity, and in which ways."""
    capacity = findings.capacity
    if capacity is None:
        return []
    limit, weights = byte_count(capacity), parameters(findings)
    good = [need for need in needs(findings) if need.buffers + weights <= capacity]
    if good:
        best = min(good, key=lambda need: need.buffers)
        return [
            f"It fits {limit}: {best.title}, {byte_count(best.buffers + weights)} with parameters "
            f"({len(good)} of {len(needs(findings))} ways below fit)."
        ]
    said = [f"It does not fit {limit} in any of the ways below{_why(findings, weights)}."]
    small = [need for need in needs(findings) if need.buffers <= capacity]
    if small:
        best = min(small, key=lambda need: need.buffers)
        said.append(
            f"With the parameters elsewhere, as in flash, it does: {best.title}, "
            f"{byte_count(best.buffers)}."
        )
    if weights < capacity:
        said.append("With some layers whole and others by parts it may: csdf plan reuse searches.")
    return said


def _why(findings: NetworkFindings, weights: int) -> str:
    """Why it cannot fit, if that is proved."""
    if weights > (findings.capacity or 0):
        return f": the parameters alone are {byte_count(weights)}"
    bounds = [one.lower_bound for one in findings.added if one.needs]
    known = [bound for bound in bounds if bound is not None]
    if known and len(known) == len(bounds) and min(known) + weights > (findings.capacity or 0):
        return (
            f": no arena for these parts is below {byte_count(min(known))}, and the parameters "
            f"are {byte_count(weights)}"
        )
    return ""


def facts(findings: NetworkFindings) -> list[str]:
    """Return where the memory is, and what work by parts costs."""
    added = [fact for one in findings.added for fact in one.facts]
    return [*_largest(findings), *added, *_time(findings)]


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
        share = Fraction(heavy.parameters, parameters(findings))
        yield (
            f"The most parameters are in “{heavy.name}”: {byte_count(heavy.parameters)}, "
            f"{percent(share)} of all."
        )


def _time(findings: NetworkFindings) -> Iterator[str]:
    if findings.memory is None:
        return
    whole, parts = findings.memory.whole, findings.memory.by_parts
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
