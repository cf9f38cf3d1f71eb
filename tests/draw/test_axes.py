"""Titles of byte axes and logarithmic axes, and places of legends."""

import re
from fractions import Fraction

import pytest

pytest.importorskip("matplotlib")

from csdf.draw import charts
from csdf.search.pareto import ParetoFront, ParetoPoint
from csdf.status import Ended, because
from planners.commands.cnn.picture import MemoryBar, memory_picture
from planners.fusion.command.picture import front_picture
from planners.traffic.command.picture import sweep_picture


def texts_of(picture):
    """All that is written in the picture: letters are drawn, each text is a comment beside them."""
    return re.findall(r"<!-- (.+?) -->", picture)


@pytest.mark.parametrize(
    ("buffers", "unit"),
    [(700_000, "memory (kB = 1,000 bytes)"), (800_000, "memory (MB = 1,000,000 bytes)")],
)
def test_memory_is_in_megabytes_from_one_on(buffers, unit):
    # 200,000 bytes of parameters: 900,000 in all, or a whole megabyte.
    assert unit in texts_of(memory_picture([MemoryBar("n", "whole", 200_000, buffers)], "svg"))


def test_a_front_of_block_rams_counts_whole_ones_by_their_name():
    points = (
        ParetoPoint(capacities={"c": 2}, size=2, period=Fraction(776)),
        ParetoPoint(capacities={"c": 3}, size=3, period=Fraction(600)),
    )
    front = ParetoFront(
        points=points, best_period=Fraction(600), evaluations=2, is_complete=True, lower_bound=3,
        reason=because(Ended.STEPS, steps=2),
    )  # fmt: skip
    texts = texts_of(charts.front_picture("n", front, "bram", "svg"))
    assert "storage size (block RAMs of 18 kbit)" in texts
    across = texts[: texts.index("storage size (block RAMs of 18 kbit)")]
    assert all(one.isdecimal() for one in across[1:])


@pytest.mark.parametrize("largest", [200_000, 2_000_000])
def test_traffic_has_a_unit_of_its_magnitude_and_buffers_are_in_kibibytes(largest):
    texts = texts_of(sweep_picture("n", [4096, 8192], {"none": [largest, 50]}, 40, "svg"))
    unit = "kB = 1,000" if largest < 10**6 else "MB = 1,000,000"
    assert f"DRAM traffic ({unit} bytes)" in texts
    assert "buffer (KiB, log scale)" in texts


def test_the_legend_of_a_sweep_stands_outside_the_lines():
    texts = texts_of(sweep_picture("n", [4096, 8192], {"none": [90, 50]}, 40, "svg"))
    assert texts[-2:] == ["layer by layer", "lower bound"]


@pytest.mark.parametrize(("scale", "unit"), [(1, "kB = 1,000"), (1000, "MB = 1,000,000")])
def test_the_logarithmic_axis_of_a_front_names_its_unit(scale, unit):
    points = [(9_000 * scale, 3 * 10**6), (90_000 * scale, 2 * 10**6)]
    picture = front_picture("n", points, across="arena", marks={"limit": 9_500}, suffix="svg")
    texts = texts_of(picture)
    assert {f"arena ({unit} bytes), log scale", "time (ms)", "front", "limit"} <= {*texts}


def test_a_mark_has_the_same_style_with_and_without_others():
    def styles(marks):
        picture = front_picture("n", [(9_000, 1)], across="arena", marks=marks, suffix="svg")
        return {*re.findall(r"stroke-dasharray: ([\d., ]+)", picture)}

    limit, plan = styles({"limit": 9_500, "plan": None}), styles({"limit": None, "plan": 9_000})
    assert len(limit) == len(plan) == 1
    assert limit != plan
    assert styles({"limit": 9_500, "plan": 9_000}) == limit | plan
