"""The page about a network, from values made by hand."""

import re
from dataclasses import replace
from fractions import Fraction

import pytest

from csdf.draw.report.markup import element
from csdf.draw.report.page import report_page
from csdf.draw.report.sections import Contribution, Need, Section
from csdf.search.pareto import ParetoPoint, SmallestStorage
from planners.memory_ways import PARTS_ARENA, WHOLE_APART, WHOLE_ARENA
from planners.parts_memory import MemoryApart, NetworkMemory
from planners.report.findings import LayerFigures, Limit, Mark, NetworkFindings, fits, fitting
from planners.report.subject import network_surroundings
from tests.draw.report.html_reader import ReadPage
from tests.draw.report.test_page import findings, ring

LAYER = LayerFigures(
    name="conv", operator="conv 3x3", output="1x2x2", phases=2, parameters=300,
    multiply_accumulates=36, output_bytes=4, whole_buffers=60, parts_buffers=40, nanoseconds=7,
)  # fmt: skip


def memory(buffers):
    """A way of work with 300 bytes of parameters and these buffers."""
    point = ParetoPoint(size=buffers, period=Fraction(50), capacities={})
    smallest = SmallestStorage(
        status="optimal", point=point, lower_bound=buffers, reason="", evaluations=1
    )
    return NetworkMemory(
        graph=ring(),
        smallest=smallest,
        point=point,
        parameters=300,
        sequential=100,
        pipelined=point.period,
    )


ADDED = Contribution(  # as from a planner
    sections=(Section("stripes", "Stripes", element("p", "in stripes")),),
    needs=(Need(PARTS_ARENA, 80, 64),),
    lower_bound=64,
    facts=("Stripes hold it.",),
    data={"stripes": [80]},
)
NETWORK = NetworkFindings(
    name="net", layers=(LAYER,), parameters=300, added=(ADDED,),
    apart=MemoryApart(memory(600), memory(100)),
)  # fmt: skip


def network_page(network):
    graph = findings(ring(), unit="bytes", time="ns")
    return ReadPage(report_page(graph, network_surroundings(network, graph)))


def test_a_network_has_its_memory_and_its_layers():
    page = network_page(NETWORK)
    assert page.problems == []
    summary = page.texts["summary"]
    assert f"net takes 380 B in the least of these ways: {PARTS_ARENA}" in summary
    assert f"57.8% less than {WHOLE_APART} (900 B)" in summary  # 520 of 900
    assert "at most 25.00% above the smallest arena" in page.texts["memory"]  # 80 against 64
    assert "conv 3x3" in page.texts["layers"]


def test_what_a_planner_adds_has_its_place_on_the_page():
    page = network_page(NETWORK)
    assert page.texts["stripes"].endswith("in stripes")
    assert page.data["stripes"] == [80]
    assert "Stripes hold it." in page.texts["summary"]
    assert PARTS_ARENA in page.texts["memory"]  # a bar beside our own


def test_a_memory_that_was_not_found_is_said_so_and_has_no_section():
    page = network_page(replace(NETWORK, apart=None, added=()))
    assert "net: the memory was not found within the time limit." in page.texts["summary"]
    assert "memory" not in page.ids


def test_a_bound_is_claimed_only_where_every_way_has_one():
    limit = Limit(title="363 B", room=63)
    assert "is below 64 B" in " ".join(fitting(replace(NETWORK, limit=limit)))
    other = Contribution(needs=(Need("another way", 90, 0),))
    network = replace(NETWORK, limit=limit, added=(ADDED, other))
    assert "is below" not in " ".join(fitting(network))


def test_a_network_that_parts_do_not_help_is_not_said_to_save_anything():
    whole = Contribution(needs=(Need(WHOLE_ARENA, 70, 70),))
    summary = network_page(replace(NETWORK, added=(whole, ADDED))).texts["summary"]
    assert "370 B in the least of these ways: whole layers, one arena" in summary
    assert "no other saves anything" in summary
    assert "less than" not in summary.partition("As a pipeline")[0]


@pytest.mark.parametrize(
    ("limit", "does_fit", "says"),
    [
        (
            Limit(title="380 B", room=80),
            True,
            "It fits 380 B: by parts, one arena, 80 B of buffers",
        ),
        (Limit(title="379 B", room=79), False, "csdf fit may find a plan that fits"),
        (Limit(title="379 B", room=79, elsewhere=379), False, "With the parameters elsewhere"),
        (Limit(title="299 B", room=-1), False, "the parameters alone are 300 B"),
        (None, None, ""),
    ],
)
def test_whether_it_fits_is_asked_of_the_room_beside_the_parameters(limit, does_fit, says):
    network = replace(NETWORK, limit=limit)
    assert fits(network) is does_fit
    assert says in " ".join(fitting(network))


def styles(page, name):
    """The styles of all elements of a class, each as a number of percent."""
    return [
        float(re.search(r"[\d.]+", found["style"])[0])
        for _, found in page.tags
        if found.get("class") == name and "style" in found
    ]


def test_the_same_bytes_have_the_same_width_in_every_bar():
    # The longest is 900 B, or the mark at 1000 B: 100% of a bar.
    for limit, most in ((None, 900), (Limit(title="", room=700, marks=(Mark("m", 1000),)), 1000)):
        page = network_page(replace(NETWORK, limit=limit))
        assert styles(page, "bar weights") == pytest.approx([30_000 / most] * 3, abs=1e-3)
        buffers = [
            100 * size / most for size in (600, 100, 80, 40)
        ]  # the last by parts, of the layer
        assert styles(page, "bar buffers") == pytest.approx(buffers, abs=1e-3)
        assert styles(page, "bar whole") == pytest.approx([6000 / most], abs=1e-3)
    assert styles(page, "bar-limit") == [100, 100, 100]


def test_bars_that_would_be_too_short_are_some_times_as_long_and_it_is_said():
    # 60 of 89_400 + 600 is less than a twentieth; 1000 times 60 is the most that fits.
    heavy = replace(LAYER, parameters=89_400)
    apart = MemoryApart(*(replace(one, parameters=89_400) for one in NETWORK.apart))
    page = network_page(replace(NETWORK, layers=(heavy,), parameters=89_400, apart=apart))
    assert "1000 times the scale of the bars above" in page.texts["memory"]
    assert styles(page, "bar whole") == pytest.approx([100 * 60_000 / 90_000], abs=1e-3)


def test_parameters_that_two_layers_share_count_once_in_every_way():
    again = replace(LAYER, name="again")
    network = replace(NETWORK, layers=(LAYER, again), limit=Limit(title="299 B", room=-1))
    memory_text = network_page(network).texts["memory"]
    assert "600 B + 300 B = 900 B" in memory_text
    assert "80 B + 300 B = 380 B" in memory_text  # the way that a planner adds
    assert "the parameters alone are 300 B" in " ".join(fitting(network))
    assert "300 B, 100% of all" in network_page(network).texts["summary"]
