"""The page from plain values: what it says, that it is harmless, and that it needs nothing else."""

import re
from dataclasses import replace
from fractions import Fraction

from csdf.analysis.consistency import repetition_vector
from csdf.analysis.throughput import throughput
from csdf.draw.graph_drawing import EXCERPT, MOST_ACTORS, graph_svg
from csdf.draw.report.advice import (
    best_buy,
    changes,
    front_data,
    headline,
    status_in_words,
    waiting,
)
from csdf.draw.report.findings import FasterActor, GraphFindings
from csdf.draw.report.markup import MOST_ROWS, Cell, Row, sortable
from csdf.draw.report.page import Compared, Origin, ReadFile, report_page
from csdf.draw.report.sections import PageFrame
from csdf.model.builder import GraphBuilder
from csdf.search.pareto import ParetoFront, ParetoPoint
from tests.draw.report.html_reader import ReadPage

HARMFUL = "<script>alert(1)</script>"


def ring(first="a", second="b", tokens=1, times=(2, 3)):
    """Two actors that wait for one another; with one token the period is the sum of their times."""
    builder = GraphBuilder("ring").actor(first, times[0]).actor(second, times[1])
    builder.channel(first, 1, second, 1, name=f"{first} to {second}")
    builder.channel(second, 1, first, 1, name=f"{second} to {first}", initial_tokens=tokens)
    return builder.graph()


def findings(graph, **more):
    known = {"repetitions": repetition_vector(graph), "result": throughput(graph), "left_out": {}}
    return GraphFindings(graph=graph, **known | more)


def front(*pairs, complete=True, lower=99):
    points = [
        ParetoPoint(size=size, period=Fraction(period), capacities={"a to b": size - 1, "c": 1})
        for size, period in pairs
    ]
    return ParetoFront(
        points=tuple(points), is_complete=complete, lower_bound=lower,
        best_period=Fraction(pairs[-1][1]), reason="told so", evaluations=1,
    )  # fmt: skip


def test_an_actor_that_waits_for_its_own_tokens_waits_for_itself():
    graph = GraphBuilder("stuck").actor("a", 1).channel("a", 1, "a", 1).graph()
    assert "deadlocks: “a” waits for itself and can never go on" in headline(findings(graph))
    assert "“a” and “b” wait for one another" in headline(findings(ring(tokens=0)))


def test_a_page_is_well_formed_and_loads_nothing():
    page = ReadPage(report_page(findings(ring())))
    assert page.problems == []
    assert all(link.startswith(("#", "data:")) for link in page.links)
    text = report_page(findings(ring()))
    assert not re.search(r"https?:|//[a-z]+\.|url\((?!#)|@import|import\(|fetch\(", text)


def test_the_policy_of_the_page_forbids_the_network():
    policies = [
        found["content"]
        for tag, found in ReadPage(report_page(findings(ring()))).tags
        if tag == "meta" and found.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policies[0].startswith("default-src 'none'")


def test_markup_in_names_stays_text_on_the_page():
    calm = ReadPage(report_page(findings(ring())))
    wild = ReadPage(
        report_page(findings(ring(first=HARMFUL, second='"><img src=x onerror=alert(1)>')))
    )
    assert wild.problems == []
    assert [tag for tag, _ in wild.tags] == [tag for tag, _ in calm.tags]
    assert HARMFUL in wild.texts["summary"]


def test_same_findings_same_bytes():
    assert report_page(findings(ring())) == report_page(findings(ring()))


def test_two_actors_that_are_always_at_work_are_only_together_a_way_to_a_shorter_period():
    builder = GraphBuilder("both").actor("a", 2).actor("b", 2)
    for name in ("a", "b"):
        builder.channel(name, 1, name, 1, name=f"{name}_state", initial_tokens=1)
    alone = FasterActor(actor="a", period=Fraction(2), actors=("b",))
    faster = [alone, replace(alone, actor="b", actors=("a",))]
    builder.channel("a", 1, "b", 1, name="a to b")
    graph = builder.graph()
    told = ReadPage(report_page(findings(graph, faster=tuple(faster)))).texts["summary"]
    assert "only all of them together" in told
    assert "Only faster or overlapping firings" not in told
    assert (
        "Only faster or overlapping firings"
        in ReadPage(report_page(findings(graph))).texts["summary"]
    )


def test_the_summary_names_the_period_and_who_waits():
    page = ReadPage(report_page(findings(ring())))
    assert page.card("period").endswith("5")  # 2 + 3 over one token
    assert "the cycle of “a” and “b” takes that long" in page.texts["summary"]


def test_a_deadlock_is_explained_instead_of_a_schedule():
    page = ReadPage(report_page(findings(ring(tokens=0))))
    assert "deadlocks" in page.texts["summary"]
    assert "“a” needs 1 token on “b to a” and finds 0" in page.texts["summary"]
    assert "schedule" not in page.ids


def test_only_a_capacity_is_room():
    graph = GraphBuilder("ring").actor("a", 2).actor("b", 3)
    graph.channel("a", 2, "b", 2, name="c", capacity=1)
    graph.channel("b", 1, "a", 1, name="c (space)", initial_tokens=1)
    assert "needs room for 2 on “c”" in " ".join(waiting(throughput(graph.graph()).deadlock))
    blocked = throughput(ring("c", "c (space)", tokens=0)).deadlock
    assert "needs 1 token on “c to c (space)”" in " ".join(waiting(blocked))
    assert "room" not in " ".join(changes(findings(ring("c", "c (space)"))))


def test_what_was_left_out_is_said_with_its_reason():
    page = ReadPage(
        report_page(findings(ring(), left_out={"schedule": "x < y", "front": "no time"}))
    )
    assert "Left out: x < y" in page.texts["schedule"]
    assert "Left out: no time" in page.texts["front"]


def test_a_period_that_was_not_found_has_its_bounds():
    known = findings(ring(), result=None, period_bounds=(Fraction(7), Fraction(9)))
    assert "lower bound 7, upper bound 9" in ReadPage(report_page(known)).texts["summary"]


def test_a_front_that_is_not_complete_says_from_where_on():
    text = status_in_words(front((5, 9), (6, 8), complete=False, lower=7), "tokens")
    assert text.startswith("Incomplete: 2 points")
    assert "from 7 tokens on" in text


def test_capacities_of_a_front_are_printed_as_changes():
    data = front_data(front((5, 9), (6, 8)), "tokens")
    assert data["names"] == ["a to b", "c"]
    assert [point["d"] for point in data["points"]] == [{0: 4, 1: 1}, {0: 5}]
    assert data["points"][0]["r"] == "88.9%"  # 8 of 9


def test_the_best_buy_gains_most_throughput_for_a_token():
    # Throughput 1/12, 1/6, 1/5 at 4, 5, 9: 1/12 for one token, then 1/30 for four.
    one, other = best_buy(front((4, 12), (5, 6), (9, 5)))
    assert (one.size, other.size) == (4, 5)


def test_a_large_graph_is_drawn_around_its_bottleneck():
    builder = GraphBuilder("chain")
    for number in range(MOST_ACTORS + 1):
        builder.actor(f"a{number}", 9 if number == 200 else 1, overlap=False)
        if number:
            builder.channel(f"a{number - 1}", 1, f"a{number}", 1)
    page = ReadPage(report_page(findings(builder.graph())))
    drawn = [found["data-name"] for _, found in page.tags if "data-name" in found]
    assert len(drawn) == EXCERPT
    assert "a200" in drawn
    assert f"The graph has {MOST_ACTORS + 1} actors" in page.texts["graph"]


def test_of_a_long_critical_cycle_the_drawing_says_how_much_is_drawn():
    builder = GraphBuilder("ring")
    for number in range(400):
        builder.actor(f"a{number}", 1)
    for number in range(400):
        builder.channel(f"a{number}", 1, f"a{(number + 1) % 400}", 1, initial_tokens=number // 399)
    page = ReadPage(report_page(findings(builder.graph())))
    assert f"drawn are {EXCERPT} of the 400 on the critical cycle" in page.texts["graph"]


def test_labels_of_actors_are_in_the_time_units_of_the_user():
    graph = GraphBuilder().actor("a", "3/2").actor("b", ["1/2", 2]).graph()
    drawing = graph_svg(graph)
    assert graph.time_unit == Fraction(1, 2)
    assert [label in drawing for label in ("1 \u00d7 3/2<", "2 \u00d7 1/2 to 2<")] == [True, True]


def test_a_table_of_too_many_rows_says_how_many_are_left_out():
    builder = GraphBuilder("many")
    for number in range(MOST_ROWS + 5):
        builder.actor(f"a{number}", 1)
    page = ReadPage(report_page(findings(builder.graph())))
    assert f"first {MOST_ROWS} of {MOST_ROWS + 5} actors" in page.texts["actors-count"]
    assert "5 more are left out" in page.texts["actors-count"]


def test_a_table_without_scripts_says_how_many_rows_are_left_out():
    rows = [Row(cells=(Cell(text=str(number)),)) for number in range(MOST_ROWS + 5)]
    assert "5 more are left out" in sortable("fifos", "FIFO", ["FIFO"], rows, is_live=False)


def test_numbers_in_different_units_have_no_difference():
    frames = front((11, 12), lower=11)
    graph = findings(ring(), time="ns", unit="bytes", front=frames)
    for time, unit, is_same in (("ns", "bytes", True), ("time units", "tokens", False)):
        before = findings(ring(times=(2, 5)), time=time, unit=unit, front=frames)
        other = Compared(("before", "now"), before, PageFrame(name="before"))
        page = ReadPage(report_page(graph, other=other))
        assert ("-28.6%" in page.texts["compared"]) == is_same
        assert ("-40%" in page.texts["differences"]) == is_same
        assert ("before" in page.data) == is_same


def test_a_page_says_what_it_was_made_from():
    source = ReadFile("net.onnx", 12, "ab" * 32)
    origin = Origin(
        command="csdf report net.onnx", version="9.9", sources=(source,),
        terms=(("element size", "1 byte"), ("platform", "<b>")),
    )  # fmt: skip
    page = ReadPage(report_page(findings(ring()), None, origin))
    assert page.problems == []
    for text in ("csdf report net.onnx", "csdf 9.9", "net.onnx, 12 bytes", "ab" * 32, "<b>"):
        assert text in page.texts["origin"]
