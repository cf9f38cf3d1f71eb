"""Memory against time as a picture."""

import re
from types import MappingProxyType

import pytest

pytest.importorskip("matplotlib")

from planners.reuse.command.picture import tradeoff_picture

ROWS_COST_LITTLE = [
    (254_800, 0.0237),
    (260_000, 0.0234),
    (288_600, 0.0231),
]


def texts_of(front, others=MappingProxyType({}), bound=241_600):
    """All that is written in the picture: letters are drawn, each text is a comment beside them."""
    picture = tradeoff_picture("both", front, others, chosen=front[0], bound=bound, suffix="svg")
    return re.findall(r"<!-- (.+?) -->", picture)


def times_beside_the_axis(front):
    texts = texts_of(front)
    begin = texts.index(next(text for text in texts if text.startswith("memory ("))) + 1
    return [float(text) for text in texts[begin : texts.index(AXIS)]]


AXIS = "time of a frame of every network (ms)"


def test_the_axis_of_time_fits_the_times():
    # 23.1 to 23.7 ms and 8 % of the range at both ends: no mark below 23, none above 24.
    marks = times_beside_the_axis(ROWS_COST_LITTLE)
    assert len(marks) > 2
    assert 23 < min(marks) < max(marks) < 24


def test_the_axis_of_time_begins_at_0_where_that_is_near():
    assert min(times_beside_the_axis([(10, 0.9), (20, 0.1)])) == 0


def test_one_plan_alone_can_be_drawn():
    marks = times_beside_the_axis([(1000, 0.005)])
    assert min(marks) <= 5 <= max(marks)


def test_all_names_stand_in_the_legend_where_they_hide_nothing():
    texts = texts_of(ROWS_COST_LITTLE, {"all by rows": (270_000, 0.0238)})
    assert texts[-5:] == ["both", "front", "all by rows", "chosen, one arena", "no plan has less"]


def test_a_plan_of_the_front_that_is_faster_for_one_network_only_is_told_from_the_others():
    # A front has a period for each network; drawn is the longest, by which this one is beaten.
    beaten = (261_000, 0.0236)
    assert "faster for one network only" in texts_of([*ROWS_COST_LITTLE, beaten])
    assert "faster for one network only" not in texts_of(ROWS_COST_LITTLE)


@pytest.mark.parametrize(
    ("scale", "unit"), [(1, "memory (kB = 1,000 bytes)"), (100, "memory (MB = 1,000,000 bytes)")]
)
def test_sizes_have_a_unit_of_their_magnitude(scale, unit):
    front = [(memory * scale, seconds) for memory, seconds in ROWS_COST_LITTLE]
    assert unit in texts_of(front, bound=241_600 * scale)
