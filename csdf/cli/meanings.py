"""Meanings of the terms of answers, as --explain prints them; the long form of each is on a page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

PAGE = "more: docs/glossary.md"
MEANINGS = {
    "iteration": "each actor fires as often as the repetition vector says; all channels are as before",
    "firing": "one execution of an actor, in one of its phases",
    "period": "time of one iteration in the long run; its inverse is the throughput",
    "critical cycle": "actors and channels that determine the period; only changing these shortens it",
    "repetitions": "repetition vector: firings of each actor in one iteration",
    "deadlock": "each actor of the cycle waits for tokens or space from the next actor",
    "(space)": "free space of a channel; a larger capacity adds space",
    "size": "sum of the capacities of all channels",
    "capacity": "maximum number of tokens in a channel",
    "capacities": "maximum number of tokens in each channel",
    "Pareto point": "no other capacities are both smaller and faster",
    "minimum (proved)": "nothing smaller exists: a search and a bound agree",
    "lower bound": "no answer can be smaller",
    "optimal": "proved: no better answer exists",
    "slack": "increase of the duration of a firing that leaves the period unchanged",
    "dependency latency": "from a start of the source to the first end at the sink that needs it",
    "jitter": "range of the distances of the ends from a periodic rhythm",
    "arena": "one block of memory in which all buffers have their offsets",
    "RAM": "arena, execution state and stack; parameters are in flash",
    "flash": "parameters as generated C stores them",
    "MACs": "multiply-accumulates; 1x: no layer is computed twice",
    "row by row": "all layers are interleaved: a layer computes a row when its input rows exist",
    "layer by layer": "each tensor is stored whole while it is live",
    "line buffers": "a tensor is stored as the rows that its consumers still need",
    "strips": "the width is cut too; columns that neighbouring strips share are recomputed",
    "max rate": "the rate with FIFOs of any depth",
    "depth 2": "all FIFOs with depth 2, the minimum",
    "automatic": "the depths of FINN's own strategy largefifo_rtlsim",
    "min fix": "the fewest additional bits that remove the deadlock",
    "impl_style": "how FINN builds a FIFO: rtl (shift register) or vivado (block RAM)",
    "skew": "how much later than in the model a lane of an array of streams may be read",
    "halo": "rows and columns that neighbouring tiles both need",
    "workspace": "scratch bytes of a convolution besides its input, output and weights",
}


def meanings_in(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the terms that lines use, and their meanings."""
    text = "\n".join(lines)
    for term, meaning in MEANINGS.items():
        if re.search(rf"(?<!\w){re.escape(term)}(?!\w)", text):
            yield term, meaning
