"""Results as JSON values, as rows, and in notebooks."""

import dataclasses
import json
import re
import subprocess
import sys
from fractions import Fraction
from importlib import import_module
from math import inf
from xml.etree import ElementTree

import pytest

import cnn2csdf
import csdf
import planners
from csdf.analysis.expansion import unfold
from csdf.io.json_graph import graph_from_json
from csdf.model.shown import html, with_floats
from csdf.notebook import MOST_ROWS, in_words, table
from tests.cli.running import GRAPHS, answer, run  # noqa: F401  (fixtures)

HOSTILE = "<script>alert('&\"')</script>"


def example():
    return csdf.read_graph(GRAPHS / "csdf_example.xml")


def test_a_class_of_a_notebook_is_shown_as_its_base():
    for value in (csdf.throughput(example()), small_plan()):
        base = type(value)
        derived = type(base.__name__, (base,), {"__module__": "__main__"})
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        assert derived(**fields)._repr_html_() == value._repr_html_()


def half_times():
    """An actor that takes 1/2: the period is no integer."""
    return csdf.GraphBuilder("half").actor("a", "1/2", overlap=False).graph()


def small_plan():
    buffers = [
        planners.Buffer(name=name, size=size, start=start, end=end)
        for name, size, start, end in (("a", 4, 0, 2), ("b", 8, 1, 3), ("empty", 0, 0, 9))
    ]
    return planners.plan_arena(planners.Problem(name="small", buffers=tuple(buffers)))


def verified(network):
    """A frame by rows in the smallest buffers, against the whole network."""
    graph = planners.network_memory(network, cnn2csdf.ROWS).graph
    model = cnn2csdf.Model(network=network, weights=cnn2csdf.random_weights(network, 0))
    frames = cnn2csdf.random_frames(network, 1, 0)
    firings = csdf.self_timed_execution(graph, iterations=1).firings
    return cnn2csdf.verify(model, graph, firings, frames)


def newer_results(graph):
    """Answers to what-if questions, mappings and scenarios."""
    platform = csdf.Platform(name="two", cores=(csdf.Core(name="p"), csdf.Core(name="q")))
    parameters = csdf.added_time(graph, {"a": 1}), csdf.added_time(graph, {"b": 1})
    best = csdf.best_mapping(graph, platform, budget=1)
    return {
        "sensitivity": csdf.sensitivity(graph),
        "parametric": csdf.parametric_period(graph, parameters[0]),
        "regions": csdf.parametric_regions(graph, *parameters, high=(9, 9)),
        "capacity": csdf.capacity_steps(graph, "alpha"),
        "best mapping": best,
        "mapped": best.found,
        "scenarios": csdf.scenario_throughput(
            csdf.read_scenarios(GRAPHS.parent / "scenarios" / "video_decoder.json")
        ),
        "latency by dependency": csdf.dependency_latency(graph, "a", "c"),
    }


def results():
    graph, network = example(), cnn2csdf.from_catalogue("samos_example")
    memory = planners.memory_comparison(network, cnn2csdf.ROWS)
    terms = planners.Terms(platform=cnn2csdf.PLATFORMS["cortex-m7"])
    fused = planners.best_plan(planners.chain_of(network), terms, 100_000)
    return {
        "graph": graph,
        "throughput": csdf.throughput(graph),
        "deadlock": csdf.throughput(csdf.read_graph(GRAPHS / "deadlocked.xml")),
        "front": csdf.pareto_front(graph),
        "smallest": csdf.smallest_storage(graph),
        "self-timed": csdf.self_timed_execution(graph),
        "stuck": csdf.self_timed_execution(csdf.read_graph(GRAPHS / "deadlocked.xml")),
        "periodic": csdf.periodic_schedule(graph),
        "statistics": csdf.statistics(graph),
        **newer_results(graph),
        "network": network,
        "memory": memory,
        "whole": planners.network_memory(network, cnn2csdf.WHOLE),
        "plan": small_plan(),
        "fusion": fused,
        "fused": fused.plan,
        "verified": verified(network),
        "fit": planners.fit(network, ram="64kB", platform="cortex-m4"),
    }


RESULTS = results()
ALL = pytest.mark.parametrize("name", RESULTS)


@ALL
def test_a_result_is_a_json_value(name):
    value = RESULTS[name].to_json()
    assert json.loads(json.dumps(value)) == value


@ALL
def test_a_result_shows_itself_as_well_formed_html(name):
    ElementTree.fromstring(f"<div>{RESULTS[name]._repr_html_().replace('&ndash;', '-')}</div>")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("sensitivity", ("slack", "min_period", "critical cycle: actors")),
        ("parametric", ("parametric period", "slope")),
        ("regions", ("corners",)),
        ("capacity", ("alpha", "capacity")),
        ("best mapping", ("orders", "lower bound", "optimal")),
        ("mapped", ("utilization",)),
        ("scenarios", ("critical scenarios", "alone")),
        ("latency by dependency", ("distance", "self timed")),
    ],
)
def test_newer_answers_are_tables(name, told):
    shown = RESULTS[name]._repr_html_()
    assert "<table>" in shown
    assert [text for text in told if text not in shown] == []


def test_a_graph_shows_its_picture_and_what_limits_it():
    shown = RESULTS["graph"]._repr_html_()
    assert shown.startswith("<svg")
    for words in ('<td style="text-align:right">12</td>', "critical cycle"):
        assert words in shown.replace("text-align:left", "text-align:right")
    stuck = csdf.read_graph(GRAPHS / "deadlocked.xml")._repr_html_()
    assert "deadlock" in stuck


def test_a_graph_without_a_picture_is_shown_by_its_channels():
    shown = csdf.read_graph(GRAPHS / "inconsistent.xml")._repr_html_()
    assert "<svg" not in shown
    assert "1 channel" in shown or "channels" in shown


def test_a_fit_and_its_plan_show_their_buffers_with_units():
    fit = RESULTS["fit"]
    shown, plan = fit._repr_html_(), fit.best.plan._repr_html_()
    for text in (shown, plan):
        assert text.startswith("<svg")
        assert "arena of " in text
        assert " kB</td>" in text
    assert " ms</td>" in shown or " us</td>" in shown
    assert all(buffer.name in plan for buffer in fit.best.plan.buffers if buffer.size)
    ElementTree.fromstring(f"<div>{plan}</div>")


def test_a_model_and_its_network_are_tables_of_layers_and_say_what_was_read():
    model = cnn2csdf.read_model("samos_example")
    network, shown = model.network._repr_html_(), model._repr_html_()
    assert "samos_example: 5 layers</div>" in network
    for cell in (">conv 17x17</td>", ">4x16x16</td>", ">295936</td>"):
        assert cell in network
    assert "4.096 kB" in network  # 1x32x32 elements of 4 bytes
    assert "samos_example: 5 layers, without weights" in shown
    assert network.partition("<table>")[2] == shown.partition("<table>")[2]


@pytest.mark.parametrize(
    ("name", "head"),
    [
        ("throughput", "period (time units)"),
        ("smallest", "point: period (time units)"),
        ("graph", "period (time units)"),
        ("periodic", "recurrence (time units)"),
        ("sensitivity", "slack (time units)"),
    ],
)
def test_times_of_a_graph_have_units(name, head):
    assert f">{head}</th>" in RESULTS[name]._repr_html_()


def test_fractions_are_texts_in_json():
    found = csdf.throughput(half_times()).to_json()
    assert (found["period"], found["throughput"]) == ("1/2", "2")


def test_names_are_escaped_in_html():
    graph = csdf.GraphBuilder(HOSTILE).actor(HOSTILE, 1, overlap=False).graph()
    shown = [graph, csdf.throughput(graph), csdf.self_timed_execution(graph)]
    buffers = (planners.Buffer(name=HOSTILE, size=4, start=0, end=2),)
    shown.append(planners.plan_arena(planners.Problem(name=HOSTILE, buffers=buffers)))
    for one in shown:
        assert "<script" not in one._repr_html_()


def test_numbers_beyond_floats_are_told_but_not_drawn():
    graph = csdf.GraphBuilder("slow").actor("a", 10**400, overlap=False).graph()
    for one in (csdf.throughput(graph), csdf.pareto_front(graph), csdf.periodic_schedule(graph)):
        assert str(10**400) in one._repr_html_()
        assert "<svg" not in one._repr_html_()


def test_the_table_of_a_front_has_units():
    text = RESULTS["front"]._repr_html_()
    heads = re.findall("<th[^>]*>([^<]*)</th>", text.partition("points")[2])
    assert heads[:2] == ["size (tokens)", "period (time units)"]
    assert "alpha (tokens)" in heads
    assert "lower bound (tokens)" in text
    sized = csdf.GraphBuilder("sized").actor("a", 1, overlap=False).actor("b", 2, overlap=False)
    graph = sized.channel("a", 1, "b", 1, name="c", token_size=4).graph()
    front = csdf.pareto_front(graph, csdf.SearchSpace(unit="bytes"))
    assert front.points[0].size == 4
    assert "size (bytes)" in front._repr_html_()


def test_a_long_table_says_how_many_rows_it_leaves_out():
    text = table("many", [{"n": i} for i in range(MOST_ROWS + 5)])
    assert text.count("<tr>") == 1 + MOST_ROWS + 1  # the head and the remark
    assert "and 5 more" in text


def test_a_fraction_is_shown_exactly_and_as_decimal():
    assert in_words(Fraction(1, 3)) == "1/3 (0.333333)"
    assert in_words(Fraction(10**400, 3)).endswith("(beyond any float)")


def test_the_document_of_a_graph_reads_back_as_that_graph():
    graph = example()
    assert graph_from_json(json.dumps(graph.to_json())) == graph


def test_rows_are_exact_and_one_each():
    assert [row["period"] for row in RESULTS["front"].to_records()] == [17, 15, 14, 13, 12]
    assert len(RESULTS["self-timed"].to_records()) == len(RESULTS["self-timed"].firings)
    assert [row["buffer"] for row in RESULTS["plan"].to_records()] == ["a", "b", "empty"]
    assert len(RESULTS["network"].to_records()) == 5
    assert [row["method"] for row in RESULTS["memory"].to_records()] == [
        "layer by layer, separate buffers",
        "layer by layer, one arena",
        "row by row, separate buffers",
        "row by row, one arena",
    ]


def test_records_have_floats_and_exact_texts_beside_them():
    # The first point of the front has period 17, and 1/17 of an iteration a time unit.
    found = RESULTS["front"].to_records()[0]
    assert (found["period"], found["period_exact"]) == (17.0, "17")
    assert (found["throughput"], found["throughput_exact"]) == (1 / 17, "1/17")
    assert type(found["period"]) is float
    assert RESULTS["front"].rows()[0]["throughput"] == Fraction(1, 17)


@pytest.mark.parametrize("name", sorted(RESULTS))
def test_no_record_holds_a_fraction(name):
    for row in getattr(RESULTS[name], "to_records", list)():
        assert not any(isinstance(one, Fraction) for one in leaves(list(row.values())))


def leaves(value):
    """All that is not a sequence, in sequences of any depth."""
    if not isinstance(value, list | tuple):
        return [value]
    return [leaf for one in value for leaf in leaves(one)]


def test_each_float_of_a_record_is_that_of_its_exact_text():
    records = [row for one in RESULTS.values() for row in getattr(one, "to_records", list)()]
    pairs = [
        (leaves(row[name.removesuffix("_exact")]), leaves(row[name]))
        for row in records
        for name in row
        if name.endswith("_exact") and name != "is_exact"  # of a slack: whether it is one
    ]
    assert len(pairs) > len(RESULTS["front"].points)
    for floats, texts in pairs:
        exact = [None if text is None else float(Fraction(text)) for text in texts]
        assert floats == exact


def test_a_number_beyond_any_float_is_infinite_and_exact_beside():
    found = with_floats([{"period": Fraction(10**400), "to": None}], "period", "to")
    text = "1" + 400 * "0"
    assert found == [{"period": inf, "period_exact": text, "to": None, "to_exact": None}]


def test_rows_make_a_data_frame_where_pandas_is():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(RESULTS["front"].to_records())
    assert list(frame["size"]) == [11, 12, 13, 14, 16]
    assert frame["period"].dtype.kind == frame["throughput"].dtype.kind == "f"
    assert list(frame.columns)[5:] == ["capacity of alpha", "capacity of beta"]


@pytest.mark.slow
def test_a_picture_of_many_firings_stays_small():
    found = csdf.self_timed_execution(unfold(example(), 2), iterations=2000)
    assert len(found._repr_html_()) < 1_000_000


@pytest.mark.parametrize(
    ("command", "result"),
    [
        (("analyze",), "throughput"),
        (("pareto",), "front"),
        (("buffers",), "smallest"),
    ],
)
def test_the_command_prints_that_very_value(answer, command, result):  # noqa: F811
    code, found = answer(*command, GRAPHS / "csdf_example.xml")
    assert code == 0
    expected = RESULTS[result].to_json()
    assert {key: found[key] for key in expected} == expected


def test_the_schedule_command_prints_those_very_values(answer):  # noqa: F811
    graph = GRAPHS / "csdf_example.xml"
    _, found = answer("schedule", graph)
    expected = RESULTS["self-timed"].to_json()
    del expected["blocked"]
    assert {key: found[key] for key in expected} == expected
    _, found = answer("schedule", graph, "--kind", "periodic")
    expected = RESULTS["periodic"].to_json()
    assert {key: found[key] for key in expected} == expected


def test_a_plan_shows_its_buffers_as_a_picture():
    shown = RESULTS["plan"]._repr_html_()
    picture = shown[shown.index("<svg") : shown.index("</svg>")]
    labels = re.findall("<!-- (.*) -->", picture)  # what Matplotlib draws as curves
    assert "b" in labels
    assert "empty" not in labels  # a buffer without bytes takes no room


def test_a_value_without_a_view_shows_its_text():
    assert html(3) == "<pre>3</pre>"
    assert html("<b>") == "<pre>&#x27;&lt;b&gt;&#x27;</pre>"


def test_values_of_other_packages_are_shown_alike(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "acme_shown").mkdir()
    (tmp_path / "acme_shown" / "values.py").write_text(
        "from csdf.model.shown import Shown\nclass Stripe(Shown): ...\n"
    )
    (tmp_path / "acme_shown" / "views.py").write_text(
        "from acme_shown.values import Stripe\nfrom csdf.model.shown import html\n"
        "html.register(Stripe, lambda value: '<hr>')\n"
    )
    assert import_module("acme_shown.values").Stripe()._repr_html_() == "<hr>"


def test_nothing_about_html_is_loaded_before_a_value_is_shown():
    loaded = "csdf.io.graph_files, planners.arena.problem"
    code = f"import {loaded}, sys; print('csdf.notebook' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "False\n"
