"""What the memory of a network is made of, and whether it fits, in plain sentences."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

from csdf.draw.report.findings import Arena, NetworkFindings, WayOfWork
from csdf.draw.report.words import byte_count, listed, percent, rounded_to

NANOSECONDS = 10**9
LARGEST = 5  # layers named
WHOLE, PARTS = "whole layers", "by parts"


class Need(NamedTuple):
    """A way to lay a network into memory, and the bytes of its buffers."""

    title: str
    buffers: int


def needs(findings: NetworkFindings) -> list[Need]:
    """Return the ways that were found, each with its bytes."""
    found = [
        Need(f"{title}, a place for every buffer", way.buffers)
        for title, way in ((WHOLE, findings.whole), (PARTS, findings.by_parts))
        if way is not None
    ]
    return found + [Need(f"{arena.title}, one arena", arena.peak) for arena in findings.arenas]


def parameters(findings: NetworkFindings) -> int:
    """Return the bytes of all trained parameters."""
    return sum(layer.parameters for layer in findings.layers)


def headline(findings: NetworkFindings) -> str:
    """Return the one sentence to read first."""
    whole, parts = findings.whole, findings.by_parts
    if whole is None or parts is None:
        return f"{findings.name}: the memory was not found within the budget."
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
    bounds = [arena.lower_bound for arena in findings.arenas]
    if len(bounds) == 2 and min(bounds) + weights > (findings.capacity or 0):
        return (
            f": no arena for these parts is below {byte_count(min(bounds))}, and the parameters "
            f"are {byte_count(weights)}"
        )
    return ""


def facts(findings: NetworkFindings) -> list[str]:
    """Return where the memory is, and what work by parts costs."""
    return [*_largest(findings), *_arena_gain(findings), *_time(findings)]


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


def _arena_gain(findings: NetworkFindings) -> Iterator[str]:
    for arena in findings.arenas:
        yield f"{arena.title.capitalize()}, {arena_in_words(arena)}"


def arena_in_words(arena: Arena) -> str:
    """Return the size of an arena with what is proved of it."""
    size = byte_count(arena.peak)
    if arena.peak == arena.lower_bound:
        return (
            f"one arena of {size} ({arena.peak} bytes) holds these buffers; no arena smaller does."
        )
    return (
        f"one arena of {size} ({arena.peak} bytes) holds these buffers; none is below "
        f"{byte_count(arena.lower_bound)} ({arena.lower_bound} bytes), a gap of "
        f"{percent(arena.gap)}."
    )


def _time(findings: NetworkFindings) -> Iterator[str]:
    whole, parts = findings.whole, findings.by_parts
    if whole is None or parts is None:
        return
    loss = 1 - Fraction(whole.sequential, parts.sequential)
    changed = f"{percent(loss)} less" if loss >= 0 else f"{percent(-loss)} more"
    yield (
        f"On one processor: {frames(whole)[0]} frames a second as a whole, {frames(parts)[0]} by "
        f"parts ({changed}). With a processor for each layer and the smallest buffers: "
        f"{frames(parts)[1]}."
    )


def frames(way: WayOfWork) -> tuple[str, str]:
    """Return the frames a second on one processor, and with one for each layer."""
    return (
        rounded_to(Fraction(NANOSECONDS, way.sequential), 4),
        rounded_to(NANOSECONDS / way.pipelined, 4) if way.pipelined else "unbounded",
    )
