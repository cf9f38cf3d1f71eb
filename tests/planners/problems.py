"""Small memory problems: by hand, drawn at random, and solved by trying everything."""

from hypothesis import strategies as st

from planners.arena.problem import Buffer, Problem


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
