"""The page about a network, from values made by hand."""

import re
from dataclasses import replace
from types import SimpleNamespace

import pytest

from csdf.draw.report.markup import element
from csdf.draw.report.page import report_page
from csdf.draw.report.sections import Contribution, Section
from csdf.status import Status
from planners.memory.plain_plans import (
    ROWS_ARENA,
    ROWS_SEPARATE,
    WHOLE_SEPARATE,
    Method,
)
from planners.report.findings import (
    LayerFigures,
    Mark,
    MemoryLimit,
    NetworkFindings,
    fitting,
    status,
    verdict,
)
from planners.report.subject import network_surroundings
from tests.draw.report.html_reader import ReadPage
from tests.draw.report.test_page import findings, ring

LAYER = LayerFigures(
    name="conv", operator="conv 3x3", output="1x2x2", phases=2, parameters=300,
    multiply_accumulates=36, output_bytes=4, whole_buffers=60, row_buffers=40, flash=300,
)  # fmt: skip


ADDED = Contribution(  # as from a planner
    sections=(Section("stripes", "Stripes", element("p", "in stripes")),),
    facts=("Stripes hold it.",),
    data={"stripes": [80]},
)
METHODS = (
    Method(WHOLE_SEPARATE, 600, 600, 300),
    Method(ROWS_SEPARATE, 100, 100, 300),
    Method(ROWS_ARENA, 80, 64, 300),
)
NETWORK = NetworkFindings(
    name="net",
    layers=(LAYER,),
    flash=300,
    added=(ADDED,),
    methods=METHODS,
    nanoseconds=(100, 100),
)


def network_page(network):
    graph = findings(ring(), unit="bytes", time="ns")
    return ReadPage(report_page(graph, network_surroundings(network, graph)))


def test_a_network_has_its_memory_and_its_layers():
    page = network_page(NETWORK)
    assert page.problems == []
    summary = page.texts["summary"]
    assert f"net needs 80 B of RAM and 300 B of flash ({ROWS_ARENA})." in summary
    assert "“conv” takes the most flash: 300 B, 100% of all." in summary
    assert "at most 25.00% above the smallest arena" in page.texts["memory"]  # 80 against 64
    assert "conv 3x3" in page.texts["layers"]


def test_what_a_planner_adds_has_its_place_on_the_page():
    page = network_page(NETWORK)
    assert page.texts["stripes"].endswith("in stripes")
    assert page.data["stripes"] == [80]
    assert "Stripes hold it." in page.texts["summary"]
    assert ROWS_ARENA in page.texts["memory"]  # a bar beside our own


def test_a_memory_that_was_not_found_is_said_so_and_has_no_section():
    page = network_page(replace(NETWORK, methods=(), added=()))
    assert "net: the memory was not found within the time limit." in page.texts["summary"]
    assert "memory" not in page.ids


@pytest.mark.parametrize(
    ("limit", "answer", "says"),
    [
        (
            MemoryLimit(title="380 B", buffer_bytes=80, without_parameters=380),
            Status.FEASIBLE,
            "It fits 380 B: 80 B of buffers + 300 B of flash = 380 B.",
        ),
        (MemoryLimit(title="379 B", buffer_bytes=79), Status.UNKNOWN, "is not known to fit 379 B"),
        (
            MemoryLimit(title="379 B", buffer_bytes=79, without_parameters=379),
            Status.UNKNOWN,
            "With the parameters elsewhere, as in flash, it fits: 80 B of buffers.",
        ),
        (
            MemoryLimit(title="299 B", buffer_bytes=-1),
            Status.INFEASIBLE,
            "the parameters alone are 300 B",
        ),
        (None, None, ""),
    ],
)
def test_whether_it_fits_is_asked_of_the_room_beside_the_parameters(limit, answer, says):
    network = replace(NETWORK, limit=limit)
    assert status(network) is answer
    assert says in " ".join(fitting(network))


@pytest.mark.parametrize(
    ("room", "lacking"), [(79, "1 B too much, by the smallest plan found"), (80, "time is over")]
)
def test_a_plan_that_is_not_known_to_fit_has_an_excess_or_a_reason(room, lacking):
    fit = SimpleNamespace(status=Status.UNKNOWN, reason="time is over", lower_bound=64)
    answer = SimpleNamespace(fit=fit, title="fit", method=SimpleNamespace(needed_ram=80))
    limit = MemoryLimit(title="the RAM", buffer_bytes=room)
    answered = verdict(replace(NETWORK, answers=(answer,), limit=limit))
    assert answered == ("Not known to fit the RAM", lacking, "unknown")


def styles(page, name):
    """The styles of all elements of a class, each as a number of percent."""
    return [
        float(re.search(r"[\d.]+", found["style"])[0])
        for _, found in page.tags
        if found.get("class") == name and "style" in found
    ]


def test_the_same_bytes_have_the_same_width_in_every_bar_of_a_method():
    # The longest is 900 B, or the mark at 1000 B: 100% of a bar.
    for limit, most in (
        (None, 900),
        (MemoryLimit(title="", buffer_bytes=700, marks=(Mark("m", 1000),)), 1000),
    ):
        page = network_page(replace(NETWORK, limit=limit))
        of_flash = [100]  # the one layer
        weights = [30_000 / most] * 3 + of_flash
        assert styles(page, "bar weights") == pytest.approx(weights, abs=1e-3)
        # The last is row by row, of the layer: 40 of the 60 bytes that it takes whole.
        buffers = [*(100 * size / most for size in (600, 100, 80)), 100 * 40 / 60]
        assert styles(page, "bar buffers") == pytest.approx(buffers, abs=1e-3)
        assert styles(page, "bar whole") == [100]
    assert styles(page, "bar-limit") == [100, 100, 100]


def test_bars_of_layers_have_a_scale_of_their_own_beside_a_large_flash():
    heavy = replace(LAYER, parameters=89_400)
    methods = tuple(one._replace(parameters=89_400) for one in METHODS)
    page = network_page(replace(NETWORK, layers=(heavy,), flash=89_400, methods=methods))
    assert "full width: 60 B" in page.texts["memory"]
    assert styles(page, "bar whole") == [100]


def test_parameters_that_two_layers_share_count_once_by_every_method():
    again = replace(LAYER, name="again")
    network = replace(
        NETWORK, layers=(LAYER, again), limit=MemoryLimit(title="299 B", buffer_bytes=-1)
    )
    memory_text = network_page(network).texts["memory"]
    assert "600 B + 300 B = 900 B" in memory_text
    assert "80 B + 300 B = 380 B" in memory_text  # in one arena
    assert "the parameters alone are 300 B" in " ".join(fitting(network))


def test_times_of_a_pipeline_are_not_in_the_summary_of_the_plan():
    page = network_page(NETWORK)
    order = list(page.texts)
    assert order.index("summary") < order.index("memory") < order.index("pipeline")
    assert "has its own processor and buffers" in page.texts["pipeline"]
    assert "in the long run" in page.texts["pipeline"]
    assert "in the long run" not in page.texts["summary"]
