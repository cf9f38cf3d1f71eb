"""The page about a network, from values made by hand."""

from dataclasses import replace
from fractions import Fraction

import pytest

from csdf.draw.report.markup import element
from csdf.draw.report.page import report_page
from csdf.draw.report.sections import Contribution, Need, Section
from csdf.search.pareto import ParetoPoint, SmallestStorage
from planners.parts_memory import MemoryComparison, NetworkMemory
from planners.report.findings import LayerFigures, NetworkFindings
from planners.report.subject import network_surroundings
from planners.report.words import fits, fitting
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
        graph=ring(), smallest=smallest, point=point, parameters=300, sequential=100
    )


ADDED = Contribution(  # as from a planner
    sections=(Section("stripes", "Stripes", element("p", "in stripes")),),
    needs=(Need("by parts, in stripes", 80),),
    lower_bound=64,
    facts=("Stripes hold it.",),
    data={"stripes": [80]},
)
NETWORK = NetworkFindings(
    name="net", layers=(LAYER,), added=(ADDED,),
    memory=MemoryComparison(whole=memory(600), by_parts=memory(100)),
)  # fmt: skip


def network_page(network):
    graph = findings(ring(), unit="bytes", time="ns")
    return ReadPage(report_page(graph, network_surroundings(network, graph)))


def test_a_network_has_its_memory_and_its_layers():
    page = network_page(NETWORK)
    assert page.problems == []
    assert "900 B when its layers work as a whole and 400 B by parts" in page.texts["summary"]
    assert "conv 3x3" in page.texts["layers"]


def test_what_a_planner_adds_has_its_place_on_the_page():
    page = network_page(NETWORK)
    assert page.texts["stripes"].endswith("in stripes")
    assert page.data["stripes"] == [80]
    assert "Stripes hold it." in page.texts["summary"]
    assert "by parts, in stripes" in page.texts["memory"]  # a bar beside our own


def test_a_memory_that_was_not_found_is_said_so_and_has_no_section():
    page = network_page(replace(NETWORK, memory=None, added=()))
    assert "net: the memory was not found within the budget." in page.texts["summary"]
    assert "memory" not in page.ids


@pytest.mark.parametrize(
    ("capacity", "does_fit", "says"),
    [
        (380, True, "It fits 380 B: by parts, in stripes, 380 B"),  # 80 + 300
        (379, False, "With the parameters elsewhere"),
        (363, False, "no arena for these parts is below 64 B"),  # 64 + 300
        (299, False, "the parameters alone are 300 B"),
        (None, None, ""),
    ],
)
def test_whether_it_fits_counts_parameters(capacity, does_fit, says):
    network = replace(NETWORK, capacity=capacity)
    assert fits(network) is does_fit
    assert says in " ".join(fitting(network))


def test_a_bound_is_claimed_only_where_every_way_has_one():
    other = Contribution(needs=(Need("another way", 90),))
    network = replace(NETWORK, capacity=363, added=(ADDED, other))
    assert "is below" not in " ".join(fitting(network))
