from itertools import count

import pytest
from hand_written import blurred, blurring_graph, classifying_graph, squared_and_classified

from cnn2csdf.execution.measure import measure_phases
from csdf.errors import ExecutionError


def test_every_phase_takes_at_least_a_nanosecond():
    times = measure_phases(blurred(), blurring_graph(), clock=lambda: 0)
    assert times == {"in": (1,) * 5, "conv": (1,) * 5, "out": (1,) * 5}


def test_a_phase_takes_what_the_clock_advances():
    ticks = count(0, 7)
    times = measure_phases(squared_and_classified(), classifying_graph(), clock=lambda: next(ticks))
    assert times == {"in": (7,) * 3, "square": (7,) * 3, "pool": (7,), "classes": (7,), "out": (7,)}


def test_the_time_of_a_phase_is_the_median_of_its_repeats():
    # The single phase of the pooling takes 90 in the round that is not counted, then 10, 40, 20.
    durations = iter([90, 10, 40, 20])
    model, graph = squared_and_classified(), classifying_graph()
    readings = {"time": 0, "number": 0}

    def clock():
        readings["number"] += 1
        is_pooling = 48 < readings["number"] <= 56  # after 2 x 3 phases x 4 rounds x 2 readings
        if is_pooling and readings["number"] % 2 == 0:
            readings["time"] += next(durations)
        return readings["time"]

    assert measure_phases(model, graph, clock=clock)["pool"] == (20,)


def test_measuring_does_not_need_capacities():
    graph = blurring_graph(capacity=None)
    assert len(measure_phases(blurred(), graph, repeats=1)["conv"]) == 5


def test_no_repeats_measure_nothing():
    with pytest.raises(ExecutionError, match="0 repeats"):
        measure_phases(blurred(), blurring_graph(), repeats=0)
