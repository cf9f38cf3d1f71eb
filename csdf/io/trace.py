"""Schedules as Trace Event JSON, which Chrome and Perfetto show on a time line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from fractions import Fraction
from math import lcm

from csdf.model.schedule import Firing


def schedule_to_trace(name: str, firings: Sequence[Firing]) -> str:
    """Return the firings as a trace: one process, one thread for each actor and overlap.

    The viewers count whole microseconds: one of them stands for one time unit, or for the part of
    it in which all times are whole; that factor stands in `otherData`.
    """
    scale = lcm(*(time.denominator for firing in firings for time in (firing.start, firing.end)))
    threads: dict[tuple[str, int], int] = {}
    events = [
        {
            "name": f"{firing.actor} [{firing.phase}]",
            "ph": "X",
            "ts": int(firing.start * scale),
            "dur": int((firing.end - firing.start) * scale),
            "pid": 1,
            "tid": threads.setdefault((firing.actor, lane), len(threads) + 1),
            "args": {"firing": firing.index, "phase": firing.phase},
        }
        for firing, lane in _lanes(firings)
    ]
    named: list[dict[str, object]] = [
        {"name": "process_name", "ph": "M", "pid": 1, "args": {"name": name}}
    ]
    named += [
        {"name": "thread_name", "ph": "M", "pid": 1, "tid": tid, "args": {"name": actor}}
        for (actor, _), tid in threads.items()
    ]
    return json.dumps(
        {
            "traceEvents": [*named, *events],
            "displayTimeUnit": "ns",
            "otherData": {"microseconds_per_time_unit": scale},
        }
    )


def _lanes(firings: Sequence[Firing]) -> list[tuple[Firing, int]]:
    """Give firings of one actor that overlap lanes of their own."""
    busy: dict[str, list[Fraction]] = {}
    placed = []
    for firing in sorted(firings):
        ends = busy.setdefault(firing.actor, [])
        lane = next((i for i, end in enumerate(ends) if end <= firing.start), len(ends))
        ends[lane : lane + 1] = [firing.end]
        placed.append((firing, lane))
    return placed
