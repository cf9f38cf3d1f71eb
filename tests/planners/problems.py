"""Small memory problems: by hand, drawn at random, and solved by trying everything."""

import json

from hypothesis import strategies as st

from csdf.io.csv_text import csv_text
from planners.arena.problem import PAIRS, Buffer, Problem


def problem_of(*rows, **pairs):
    """A problem from (name, size, start, end) and what else a buffer takes."""
    buffers = []
    for name, size, start, end, *more in rows:
        buffers.append(Buffer(name=name, size=size, start=start, end=end, **(more or [{}])[0]))
    return Problem(name="example", buffers=tuple(buffers), **pairs)


@st.composite
def problems(draw, most=6):
    """Up to `most` buffers with alignments, fixed offsets and all kinds of pairs."""
    count = draw(st.integers(0, most))
    buffers = []
    for number in range(count):
        alignment = draw(st.sampled_from((1, 1, 1, 2, 3, 4)))
        start = draw(st.integers(0, 4))
        is_fixed = draw(st.integers(0, 7)) == 0
        buffers.append(
            Buffer(
                name=str(number),
                size=draw(st.integers(0, 5)),
                start=start,
                end=start + draw(st.integers(0, 4)),
                alignment=alignment,
                offset=alignment * draw(st.integers(0, 3)) if is_fixed else None,
            )
        )
    pairs = [(str(i), str(j)) for i in range(count) for j in range(i)]
    kinds = {
        pair: draw(st.sampled_from(("", "", "", "conflicts", "may_overlap", "in_place")))
        for pair in pairs
    }
    chosen = {
        kind: tuple(pair for pair in pairs if kinds[pair] == kind)
        for kind in ("conflicts", "may_overlap", "in_place")
    }
    return Problem(name="drawn", buffers=tuple(buffers), **chosen)


def may_be(problem, offsets):
    """Whether no two buffers that conflict share a byte; written once more, on purpose."""
    for one in problem.buffers:
        for other in problem.buffers:
            if one.name >= other.name or not _conflict(problem, one, other):
                continue
            here, there = offsets[one.name], offsets[other.name]
            if here == there and _listed(problem.in_place, one, other):
                continue
            if max(here, there) < min(here + one.size, there + other.size):
                return False
    return True


def _conflict(problem, one, other):
    if not all(b.size and b.end - b.start for b in (one, other)):
        return False
    if _listed(problem.may_overlap, one, other):
        return False
    both = range(max(one.start, other.start), min(one.end, other.end))
    return len(both) > 0 or _listed(problem.conflicts, one, other)


def _listed(pairs, one, other):
    return (one.name, other.name) in pairs or (other.name, one.name) in pairs


def least_peak(problem):
    """The smallest peak, by trying all offsets below each peak; None if fixed offsets collide.

    Buffers in turn, each at all its offsets: exponential, and sure.
    """
    living = [b for b in problem.buffers if b.size and b.end > b.start]
    fixed = {b.name: b.offset for b in living if b.offset is not None}
    part = Problem(
        name="fixed", buffers=tuple(b for b in living if b.name in fixed), **_among(problem, fixed)
    )
    if not may_be(part, fixed):
        return None
    peak = max((b.size + (b.offset or 0) for b in living), default=0)
    while not _fits(problem, living, {}, peak):
        peak += 1
    return peak


def _among(problem, names):
    return {
        what: tuple(pair for pair in getattr(problem, what) if set(pair) <= set(names))
        for what in ("conflicts", "may_overlap", "in_place")
    }


def _fits(problem, living, offsets, peak):
    if len(offsets) == len(living):
        return True
    buffer = living[len(offsets)]
    places = range(0, peak - buffer.size + 1, buffer.alignment)
    for place in places if buffer.offset is None else [buffer.offset]:
        if place + buffer.size > peak:
            continue
        found = offsets | {buffer.name: place}
        known = [b for b in living if b.name in found]
        if all(_apart(problem, buffer, other, found) for other in known[:-1]) and _fits(
            problem, living, found, peak
        ):
            return True
    return False


def _apart(problem, one, other, offsets):
    part = Problem(name="two", buffers=(one, other), **_among(problem, (one.name, other.name)))
    return may_be(part, offsets)


def format_problems(problems):
    """Return a document that reads back as the same problems."""
    return json.dumps({"problems": [_as_json(problem) for problem in problems]}, indent=2) + "\n"


def _as_json(problem):
    lists = {key: [list(pair) for pair in getattr(problem, key)] for key in PAIRS}
    lists["banks"] = [
        {"name": bank.name, "capacity": bank.capacity} | ({"cost": bank.cost} if bank.cost else {})
        for bank in problem.banks
    ]
    return {
        "name": problem.name,
        "buffers": [_buffer_as_json(buffer) for buffer in problem.buffers],
        **{key: value for key, value in lists.items() if value},
    }


def _buffer_as_json(buffer):
    optional = {"offset": buffer.offset, "hint": buffer.hint, "bank": buffer.bank}
    return {
        "id": buffer.name,
        "size": buffer.size,
        "start": buffer.start,
        "end": buffer.end,
        **({"alignment": buffer.alignment} if buffer.alignment != 1 else {}),
        **({"accesses": buffer.accesses} if buffer.accesses else {}),
        **{key: value for key, value in optional.items() if value is not None},
    }


def csv_of(problem):
    """The CSV of MiniMalloc of a problem, with all of its columns."""
    columns = ("id", "lower", "upper", "size", "alignment", "offset", "hint")
    fields = ("name", "start", "end", "size", "alignment", "offset", "hint")
    cells = ([getattr(buffer, field) for field in fields] for buffer in problem.buffers)
    return csv_text([columns, *(["" if one is None else one for one in row] for row in cells)])
