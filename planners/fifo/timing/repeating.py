"""Layers that do the same again and again within a frame, and those that pass words on one by one."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, isqrt

import numpy as np

from planners.fifo.timing.cluster import Cluster, Numbers, Wait, counting
from planners.kernels.event_times import NONE


def units(cluster: Cluster) -> int:
    """Return into how many equal parts a frame of a layer falls: it does the same in each."""
    common = gcd(
        *(one.events for one in cluster.series),
        *(one.words for one in (*cluster.inputs, *cluster.outputs)),
    )
    small = [one for one in range(1, isqrt(common) + 1) if common % one == 0]
    for parts in sorted({*small, *(common // one for one in small)}, reverse=True):
        if is_repeated(cluster, parts):
            return parts
    return 1


def is_repeated(cluster: Cluster, parts: int) -> bool:
    """Whether a frame of a layer is the same so many times; its events and words have to divide."""
    steps = [one.events // parts for one in cluster.series]
    return (
        all(_is_same(one.gaps, step, 0) for one, step in zip(cluster.series, steps, strict=True))
        and all(_is_repeated_wait(cluster, wait, steps) for wait in cluster.waits)
        and all(
            _is_same(port.events, port.words // parts, steps[port.series])
            for port in (*cluster.inputs, *cluster.outputs)
        )
    )


def _is_repeated_wait(cluster: Cluster, wait: Wait, steps: Sequence[int]) -> bool:
    step, more = steps[wait.waiter], steps[wait.source]
    is_nothing = wait.events == NONE
    if not np.array_equal(is_nothing, np.roll(is_nothing, step)):
        return False
    total = cluster.series[wait.source].events
    later = np.append(wait.events[step:], wait.events[:step] + total)
    return bool(((later == wait.events + more) | is_nothing).all()) and _is_same(
        wait.delays, step, 0
    )


def _is_same(numbers: Numbers | None, step: int, more: int) -> bool:
    """Whether numbers are the same again some places later, or so much more."""
    return numbers is None or bool(
        (numbers[step:] == numbers[: -step or None][: len(numbers) - step] + more).all()
    )


def is_word_by_word(cluster: Cluster) -> bool:
    """Whether a layer does the same for every word, at all of its ports, and looks at none ahead."""
    words = {port.words for port in (*cluster.inputs, *cluster.outputs)}
    if len(words) != 1 or any(one.events not in words for one in cluster.series):
        return False
    return is_repeated(cluster, words.pop()) and not any(map(_looks_ahead, cluster.waits))


def _looks_ahead(wait: Wait) -> bool:
    return bool((wait.events > counting(len(wait.events))).any())


def is_thinning(cluster: Cluster) -> bool:
    """Whether room for one word more behind a layer is worth room for a word before it.

    Of a layer with one input and one output, which writes some of the words that it reads: with each
    word that it reads, it asks for the space of at most one word more. So wherever a read waits for a
    write, the read before waits, as long, for the write before it.
    """
    if len(cluster.series) != 2 or len(cluster.inputs) != 1 or len(cluster.outputs) != 1:
        return False
    read, written = cluster.inputs[0], cluster.outputs[0]
    if read.events is not None or written.events is not None:
        return False
    asked = [_asked(one) for one in cluster.waits if one.waiter == read.series]
    if any(one.waiter == one.source for one in cluster.waits) or not asked:
        return False
    waits = np.concatenate(asked)
    waits = waits[np.lexsort((waits[:, 1], waits[:, 0]))]
    frame = np.array([read.words, written.words, 0])
    return _is_preceded(np.concatenate([waits - frame, waits]), len(waits))


def _asked(wait: Wait) -> Numbers:
    """A row for each event that waits: its number, that of the event waited for, and the delay."""
    waiting = np.flatnonzero(wait.events != NONE)
    delays = np.full(len(wait.events), wait.delay) if wait.delays is None else wait.delays
    return np.stack([waiting, wait.events[waiting], delays[waiting]], axis=1)


def _is_preceded(waits: Numbers, last: int) -> bool:
    """Whether for the last of these waits there is one that is earlier by an event, and as long."""
    reads, writes, delays = waits.T
    if (np.diff(writes) < 0).any():
        return False
    before = np.searchsorted(writes, writes[-last:] - 1)
    slack = reads[-last:] - 1 - reads[before]
    return bool(((slack >= 0) & (slack + delays[before] >= delays[-last:])).all())
