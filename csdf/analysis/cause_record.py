"""Why the firings of an execution started when they did, in a few bits each."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from csdf.kernels import compile as compiler
from csdf.kernels import self_timed
from csdf.model.indexed import IndexedGraph, is_ordered


class CauseRecord(NamedTuple):
    """The causes of some starts, as the kernel writes them: see `self_timed.Actors`.

    Of actors whose later firings may end before earlier ones the start times are recorded as well, and
    then those of the first actor too.
    """

    firings: list[int]  # (A,) recorded of each actor
    cause_bits: list[int]  # (A,)
    per_word: list[int]  # (A,) causes in a word
    cause_start: list[int]  # (A,) first word
    causes: Any
    record_start: list[int]  # (A,) first start time, or self_timed.NOWHERE
    record: Any


def blank_record(
    graph: IndexedGraph, firings: Sequence[int], backend: compiler.Backend
) -> CauseRecord:
    """Return room for the causes of so many firings of each actor, in arrays of the backend."""
    actors = range(len(graph.phases))
    ports = [graph.input_start[actor + 1] - graph.input_start[actor] for actor in actors]
    bits = [max(1, count.bit_length()) for count in ports]
    per_word = [self_timed.WORD_BITS // each for each in bits]
    words = [-(-count // each) for count, each in zip(firings, per_word, strict=True)]
    overtaking = [not is_ordered(graph, actor) for actor in actors]
    has_overtaking = any(overtaking)
    listed = [has_overtaking and (actor == 0 or overtaking[actor]) for actor in actors]
    starts = [count if is_listed else 0 for count, is_listed in zip(firings, listed, strict=True)]
    begins = accumulate(starts, initial=0)
    return CauseRecord(
        firings=list(firings),
        cause_bits=bits,
        per_word=per_word,
        cause_start=[0, *accumulate(words)][:-1],
        causes=backend.blank(sum(words)),
        record_start=[
            begin if is_listed else self_timed.NOWHERE
            for begin, is_listed in zip(begins, listed, strict=False)
        ],
        record=backend.blank(sum(starts)),
    )
