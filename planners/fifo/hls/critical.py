"""Limits of a call in the words of the source: its longest path, the cycle on it, deadlocks."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from planners.fifo.hls.call import ROOM, CallModel, Outcome, ProcessWait, TimedWait

MOST_STEPS = 64  # longest repeated part of the critical path that is searched for, in waits


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleLimit:
    """Cycles of the longest path by process.

    shares: process and its cycles on the path, in decreasing order. repeated: a period of waits on the
    path, in the order of time; empty if none repeats. repeats_after: cycles of this period. is_whole:
    whether the whole path was recorded, or only its end.
    """

    shares: tuple[tuple[int, int], ...]
    repeated: tuple[ProcessWait, ...]
    repeats_after: int | None
    is_whole: bool


def limit(model: CallModel, outcome: Outcome) -> CycleLimit:
    """Return the cycles of each process on the longest path, and the cycle of waits on it.

    outcome: with its path.
    """
    cycles = outcome.cycles or 0
    path = tuple(reversed(outcome.path))
    is_whole = len(path) < ROOM
    shares: Counter[int] = Counter()
    if not path:  # the process that ends last never waits
        process = max(outcome.processes, key=lambda process: model.design.processes[process].stages)
        shares[process] = cycles
    elif is_whole:
        shares[_awaited(model, path[0].wait)] += path[0].time
    ends = [*(waited.time for waited in path), cycles][1:]
    for waited, end in zip(path, ends, strict=True):
        shares[waited.wait.process] += end - waited.time
    repeated, after = _repeated(model, path)
    return CycleLimit(
        shares=tuple(shares.most_common()),
        repeated=repeated,
        repeats_after=after,
        is_whole=is_whole,
    )


def _awaited(model: CallModel, wait: ProcessWait) -> int:
    """The process that a wait is for."""
    if wait.fifo is None:
        after = model.design.processes[wait.process].after
        return max(after) if after else wait.process
    fifo = model.design.fifos[wait.fifo]
    return fifo.reader if wait.is_writing else fifo.writer


def _repeated(
    model: CallModel, path: tuple[TimedWait, ...]
) -> tuple[tuple[ProcessWait, ...], int | None]:
    """Return the waits between two occurrences of the most frequent wait, and their cycles."""
    keys = [
        (wait.process, None if wait.fifo is None else model.group_of[wait.fifo], wait.is_writing)
        for wait, _ in path
    ]
    if not keys:
        return (), None
    key, count = Counter(keys).most_common(1)[0]
    # Two visits can be coincidence; three show a period.
    if count < 3:
        return (), None
    indices = [number for number, key_at in enumerate(keys) if key_at == key]
    # In the middle of the path: the pattern may differ at the start and the end of the call.
    middle = len(indices) // 2
    first, last = indices[middle - 1], indices[middle]
    steps = tuple(waited.wait for waited in path[first:last][:MOST_STEPS])
    return steps, path[last].time - path[first].time


def wait_in_words(
    model: CallModel,
    depths: tuple[int, ...],
    step: ProcessWait,
    file: str,
    *,
    is_skewed: bool = False,
) -> str:
    """Say which process waits for which FIFO, with their lines.

    is_skewed: lanes of an array are read in different stages, so one is full while another is empty.
    """
    process = model.design.processes[step.process]
    name = f"{process.name} ({file}:{process.line})"
    if step.fifo is None:
        before = ", ".join(model.design.processes[number].name for number in process.after)
        return f"{name} waits for the end of {before}, which writes an array that it reads"
    fifo = model.design.fifos[step.fifo]
    index = model.group_of[step.fifo]
    depth, what = depths[index], fifo.name
    if is_skewed and len(model.members[index]) > 1:
        what = f"a lane of {fifo.group} that is read {'late' if step.is_writing else 'early'}"
    if step.is_writing:
        partner = model.design.processes[fifo.reader].name
        return (
            f"{name} waits to write {what} (line {fifo.line}), which is full with {depth} words, "
            f"until {partner} reads"
        )
    partner = model.design.processes[fifo.writer].name
    return f"{name} waits to read {what} (line {fifo.line}), which is empty, until {partner} writes"
