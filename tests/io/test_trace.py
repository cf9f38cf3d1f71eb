"""Trace Event files: which thread of the time line shows which firing."""

import json
from fractions import Fraction

from csdf.io.trace import schedule_to_trace
from csdf.model.schedule import Firing


def firing(start, actor, end, index=0):
    return Firing(start=Fraction(start), actor=actor, phase=0, index=index, end=Fraction(end))


def test_overlapping_firings_of_an_actor_are_shown_on_threads_numbered_from_1():
    firings = [
        firing(0, "a", 4), firing(1, "b", 2), firing(2, "a", 6, 1), firing(4, "a", 5, 2),
        firing(5, "b", 7, 1),
    ]  # fmt: skip
    events = json.loads(schedule_to_trace("g", firings))["traceEvents"]
    threads = [(e["tid"], e["args"]["name"]) for e in events if e["name"] == "thread_name"]
    assert threads == [(1, "a"), (2, "b"), (3, "a")]
    shown = [(e["name"], e["ts"], e["tid"]) for e in events if e["ph"] == "X"]
    assert shown == [
        ("a [0]", 0, 1), ("b [0]", 1, 2), ("a [0]", 2, 3), ("a [0]", 4, 1), ("b [0]", 5, 2),
    ]  # fmt: skip


def test_times_of_a_trace_are_whole_and_keep_their_scale():
    trace = json.loads(schedule_to_trace("g", [firing(Fraction(1, 6), "a", Fraction(3, 4))]))
    event = trace["traceEvents"][-1]
    assert trace["otherData"] == {"microseconds_per_time_unit": 12}
    assert (event["ts"], event["dur"], event["pid"]) == (2, 7, 1)
    assert event["args"] == {"firing": 0, "phase": 0}
