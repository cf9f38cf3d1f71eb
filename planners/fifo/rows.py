"""Chains of FIFOs: a cycle of events bounds the sum of their depths.

Between two layers that pass words on one by one, a word waits as well in the FIFO before as in that
behind. A circuit of events that goes back through the space of FIFOs in a row, by way of such layers
only, therefore asks for the sum of their depths: with the same sum, or a smaller one, there is a
circuit through the same events outside the row, that takes no less. All depths with no larger a sum
in any row of a circuit that is too slow are too small, then: many more than those with no FIFO deeper.

Proof: within layers that do the same for every word, a way from one event to another goes back as many
words as the space of the FIFOs on it and as many as the layers hold, and its time is that of its waits,
whichever word it begins with. Where the way leaves the row, it meets an event of the same series; with
a smaller sum a later one, which comes no sooner.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

Row = tuple[tuple[int, int], ...]  # FIFOs, and how often each counts


class TooSmall(NamedTuple):
    """Depths of a whole design that are too small: those where no row has more words than its limit."""

    limits: Mapping[Row, int]

    def holds(self, depths: Sequence[int | None]) -> bool:
        """Whether these depths are among them. None is a FIFO without end."""
        return all(
            (words := in_row(row, depths)) is not None and words <= limit
            for row, limit in self.limits.items()
        )


ALL_DEPTHS = TooSmall({})


def in_row(row: Row, depths: Sequence[int | None]) -> int | None:
    """Return the words of a row in these depths; None if a FIFO of it has no end."""
    words = 0
    for fifo, times in row:
        depth = depths[fifo]
        if depth is None:
            return None
        words += times * depth
    return words


def too_small(is_inside: Any, fifos: Any, depths: Sequence[int | None]) -> TooSmall:
    """Return the depths for which a circuit says that they are too small.

    is_inside: for each of its steps, in order, whether it begins in a layer that passes words on one by
    one; fifos: the FIFO whose space the step waits for, -1 for none. depths: in which it was found.
    """
    outside = np.flatnonzero(~is_inside)
    if len(outside):  # else the whole circuit is one row
        is_inside, fifos = (np.roll(one, -int(outside[0])) for one in (is_inside, fifos))
    waits = np.flatnonzero(fifos >= 0)
    group = np.cumsum(~is_inside)[waits]
    rows = {_row(one) for one in _distinct(group, fifos[waits])}
    return TooSmall({row: in_row(row, depths) or 0 for row in sorted(rows)})


def _distinct(group: Any, fifos: Any) -> list[Any]:
    """The FIFOs of each group; of groups with a single one, each only once."""
    if not len(group):
        return []
    begins = np.flatnonzero(np.diff(group, prepend=group[0] - 1))
    lengths = np.diff(begins, append=len(group))
    single = np.unique(fifos[begins[lengths == 1]])
    longer = [
        fifos[begin : begin + length]
        for begin, length in zip(begins[lengths > 1], lengths[lengths > 1], strict=True)
    ]
    return [*single.reshape(-1, 1), *longer]


def _row(fifos: Any) -> Row:
    found, times = np.unique(fifos, return_counts=True)
    return tuple(zip(found.tolist(), times.tolist(), strict=True))
