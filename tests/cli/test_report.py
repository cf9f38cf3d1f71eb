"""`csdf report` as its users see it: the numbers of the page are those of the other commands."""

import hashlib
import json
from dataclasses import replace
from fractions import Fraction

import pytest

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.catalogue.blocks import CatalogueBuilder
from cnn2csdf.catalogue.efficientnet import squeeze_excite
from cnn2csdf.onnx_files.writer import onnx_bytes
from cnn2csdf.weights import Model, random_weights
from csdf.analysis.bound_channels import with_capacities
from csdf.analysis.consistency import repetition_vector
from csdf.analysis.self_timed import self_timed_execution
from csdf.cli.frame.long_work import limited_part
from csdf.cli.report import MOST_FIRINGS, executed
from csdf.errors import GaveUp
from csdf.io.graph_files import read_graph, write_graph
from csdf.model.builder import GraphBuilder
from csdf.model.graph import Actor, Channel, Graph
from csdf.time_limit import Stop
from planners.memory.answer import GIVEN
from planners.report.plans import FIT
from tests.cli.running import GRAPHS
from tests.draw.report.html_reader import read_page

EXAMPLE = GRAPHS / "csdf_example.xml"
LARGEST = 5 * 10**6  # bytes of a page


@pytest.fixture
def report(run, tmp_path):
    """Make a report; return exit code, page, standard output and standard error."""

    def run_command(*words, name="report.html"):
        path = tmp_path / name
        code, output, remarks = run("report", *words, "-o", path)
        assert path.stat().st_size < LARGEST
        page = read_page(path)
        assert page.problems == []
        return code, page, output, remarks

    return run_command


@pytest.mark.parametrize("name", ["csdf_example", "modem", "samplerate"])
def test_the_figures_of_a_graph_are_those_of_the_other_commands(report, answer, name):
    path = GRAPHS / f"{name}.xml"
    code, page, _, _ = report(path)
    analysed, smallest = answer("analyze", path)[1], answer("buffers", path)[1]
    front = answer("pareto", path)[1]
    assert code == 0
    assert page.card("period").endswith(f"){analysed['period']}")
    assert analysed["throughput"] in page.card("throughput")
    assert set(page.data["critical"]) == set(analysed["critical_cycle"]["actors"])
    assert f"{smallest['size']} tokens" in page.card("smallest")
    assert f"{front['points'][-1]['size']} tokens" in page.card("full")
    found = page.data["front"]
    assert [(one["s"], one["p"]) for one in found["points"]] == [
        (one["size"], one["period"]) for one in front["points"]
    ]
    assert found["complete"] == front["complete"]


def distributions(found):
    """The capacities of each point, from the changes that the page holds."""
    now = {}
    for point in found["points"]:
        now = now | {found["names"][int(at)]: size for at, size in point["d"].items()}
        yield now


def test_the_page_holds_the_distribution_of_every_point(report, answer):
    page = report(EXAMPLE)[1]
    points = answer("pareto", EXAMPLE)[1]["points"]
    assert list(distributions(page.data["front"])) == [one["capacities"] for one in points]


METHODS = ("layer_by_layer", "row_by_row")
ALIKE = ("layer by layer, one arena", "row by row, one arena")


def test_the_figures_of_a_network_are_those_of_cnn_memory(report, answer):
    words = ("samos_example", "--element-bytes", 1)
    code, page, _, _ = report(*words, "--total-memory", "256kB")
    (row,) = answer("cnn", "memory", *words)[1]["networks"]
    assert code == 0
    parameters, text = row["parameter_bytes"], page.texts["memory"]
    for size in (row[one][key] for one in METHODS for key in ("separate_bytes", "arena_bytes")):
        assert f"{size:,}{parameters:,}{size + parameters:,}" in text  # a row of the table
    arenas = [arena["peak"] for arena in page.data["arenas"]]
    assert arenas[:2] == [row[one]["arena_bytes"] for one in METHODS]
    assert "It fits 256 kB" in page.texts["summary"]


def test_the_smallest_buffers_of_the_graph_of_a_network_are_those_of_samos_2020(report):
    page = report("samos_example", "--element-bytes", 1)[1]
    assert "978 bytes" in page.card("smallest")  # Table II


@pytest.mark.parametrize("words", [("--input", "rows"), ("--ram", 900), ("--platform", "esp32-s3")])
def test_a_page_of_a_network_begins_with_the_answer_of_csdf_fit(report, run, words):
    asked = ("samos_example", "--element-bytes", 1, "--platform", "cortex-m4", *words)
    code, page, output, _ = report(*asked)
    told, answer, _ = run("fit", *asked)
    assert code == told
    first = answer.splitlines()[0]
    assert output.splitlines()[0] == first
    assert page.texts["summary"].startswith(f"Summary{first}")
    if "--ram" not in words:
        assert code == 0


def test_two_plans_stand_side_by_side_with_the_figures_of_csdf_fit(report, answer, tmp_path):
    words = (*INT8_SAMOS, "--platform", "cortex-m4")
    paths, fits = (tmp_path / "rows.json", tmp_path / "whole.json"), []
    for path, more in zip(paths, ((), ("--ram", "4kB")), strict=True):
        found = answer("fit", *words, *more, "-o", path)[1]
        fits.append(
            found | next(x for x in found["methods"] if x["ram_bytes"] == found["ram_bytes"])
        )
    asked = ("samos_example", "--platform", "cortex-m4", "--plan", paths[0], "--plan")
    code, page, output, _ = report(*asked, paths[1])
    assert code == 0
    text = page.texts["plan-figures"]
    for title, key in (
        ("RAM: arena, state and stack (bytes)", "needed_ram_bytes"),
        ("RAM: the arena (bytes)", "ram_bytes"),
        ("flash (bytes)", "flash_bytes"),
        ("instructions of a frame", "predicted_instructions"),
    ):
        assert title + "".join(f"{one[key]:,}" for one in fits) in text
    for one in fits:
        assert f"{one['predicted_nanoseconds'] / 10**6:,.4g}" in text
    ram = f"{fits[0]['needed_ram_bytes'] / 1000:.4g} kB of RAM"
    assert output.startswith(f"rows.json: {INT8_SAMOS[0]}: as planned: {ram}, 1x MACs")
    layers = page.texts["plan-layers"]  # line buffers beside whole layers
    assert "line buffers, 1 row a firing" in layers
    assert "layer by layer" in layers
    arenas = [(one["title"], one["peak"]) for one in page.data["arenas"][-2:]]
    assert dict(arenas) == {
        f"{p.name}: {GIVEN}": x["ram_bytes"] for p, x in zip(paths, fits, strict=True)
    }
    assert "in the same way" in report(*asked, paths[0])[1].texts["plans"]
    assert page.texts["origin"].count("SHA-256") == 2


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--element-bytes", 1), "a plan has its own; leave out --element-bytes or --plan"),
        (("--compare", "keyword_spotting"), "leave out --plan or --compare"),
        (("--plan", "none.json"), "none.json: cannot be read"),
    ],
)
def test_what_says_something_else_than_a_plan_is_refused(run, tmp_path, words, says):
    run("fit", *INT8_SAMOS, "-o", tmp_path / "plan.json")
    asked = ("samos_example", "--plan", tmp_path / "plan.json", *words, "-o", tmp_path / "x.html")
    code, _, remarks = run("report", *asked)
    assert code == 2
    assert says in remarks.splitlines()[-1]
    other = run("report", "keyword_spotting", *asked[1:3], "-o", tmp_path / "x.html")
    assert other[0] == 2
    assert f"{tmp_path / 'plan.json'}: " in other[2]  # the file, and what is wrong
    assert not (tmp_path / "x.html").exists()


def test_an_arena_holds_its_buffers_apart(report):
    page = report("keyword_spotting", "--element-bytes", 1)[1]
    titles = [one["title"] for one in page.data["arenas"]]
    assert titles == [*ALIKE, f"{FIT}: row by row"]
    for arena in page.data["arenas"]:
        assert max(offset + size for *_, offset, size in arena["boxes"]) == arena["peak"]
        assert arena["bound"] <= arena["peak"]
        if arena["title"] not in ALIKE:  # where a result may lie over rows that are read no more
            continue
        for number, (name, start, end, low, size) in enumerate(arena["boxes"]):
            for other, begin, over, offset, room in arena["boxes"][:number]:
                is_apart = end <= begin or over <= start or low + size <= offset
                assert is_apart or offset + room <= low, (name, other)


def test_same_input_same_bytes(report, tmp_path):
    report(EXAMPLE, name="one.html")
    report(EXAMPLE, name="two.html")
    assert (tmp_path / "one.html").read_bytes() == (tmp_path / "two.html").read_bytes()


def test_the_first_sentence_is_printed_and_the_file_named(report):
    _, page, output, remarks = report(EXAMPLE)
    sentence = output.strip().removeprefix("csdf_example: ")
    assert sentence.startswith("One iteration takes 12 time units")
    assert sentence in page.texts["summary"].replace("“", "'").replace("”", "'")
    assert sentence.isascii()  # a terminal may not have the quotes of the page
    assert remarks.startswith("csdf report: wrote ")


def test_a_deadlock_has_a_page_and_exit_code_1(report):
    code, page, output, _ = report(GRAPHS / "deadlocked.xml")
    assert code == 1
    assert "deadlocks" in output
    assert "“a” needs 2 tokens on “b_to_a” and finds 0" in page.texts["summary"]


def test_an_inconsistent_graph_is_refused_as_elsewhere(run, tmp_path):
    code, _, remarks = run("report", GRAPHS / "inconsistent.xml", "-o", tmp_path / "x.html")
    assert code == 1
    assert "inconsistent" in remarks
    assert list(tmp_path.iterdir()) == []


def test_a_network_that_does_not_fit_has_exit_code_1(report):
    code, page, output, _ = report(
        "person_detection", "--element-bytes", 1, "--total-memory", "100kB"
    )
    assert code == 1
    assert "It does not fit 100 kB" in output
    assert "parameters alone" in page.texts["summary"]
    assert "csdf plan reuse" not in output  # nothing helps


@pytest.mark.parametrize("option", ["--total-memory", "--ram", "--flash"])
def test_memory_is_a_question_about_networks(run, tmp_path, option):
    code, _, remarks = run("report", EXAMPLE, option, "1kB", "-o", tmp_path / "x.html")
    assert code == 2
    assert f"{option} is for networks" in remarks


INT8_SAMOS = ("samos_example", "--element-bytes", 1)
STORED = 1561  # bytes of flash


@pytest.fixture
def least(answer):
    """Bytes of RAM of the smallest plan that csdf fit finds for the example."""
    return answer("fit", *INT8_SAMOS)[1]["methods"][0]["needed_ram_bytes"]


@pytest.mark.parametrize(
    ("ram", "flash", "memory", "does_fit"),
    [
        (0, 0, None, True),
        (-1, None, None, False),
        (1000, -1, None, False),
        (None, 0, None, True),
        (None, None, 0, True),
        (None, None, -1, False),
    ],
)
def test_a_page_says_that_a_network_fits_where_csdf_fit_does(
    report, least, ram, flash, memory, does_fit
):
    # Each limit is so far from what is needed; memory holds buffers and parameters.
    limits = {
        "--ram": (ram, least),
        "--flash": (flash, STORED),
        "--total-memory": (memory, least + STORED),
    }
    words = [
        word
        for name, (spare, needed) in limits.items()
        if spare is not None
        for word in (name, needed + spare)
    ]
    code, _, output, _ = report(*INT8_SAMOS, *words)
    assert (code == 0) == does_fit
    # Buffers that are too large prove nothing of other plans; too little flash is a proof.
    words = "does not fit" if flash == -1 else "is not known to fit"
    assert (words not in output) == does_fit
    assert (": fits: " in output or "It fits" in output) == does_fit


def test_separate_buffers_row_by_row_are_not_advertised_where_one_arena_is_smaller(
    report, tmp_path
):
    # Each squeeze-and-excitation holds its whole input: row by row, all three live at once.
    pytest.importorskip("onnx")
    builder = CatalogueBuilder("squeezed")
    values = builder.input((16, 24, 24))
    for number in range(3):
        values = squeeze_excite(builder, values, f"block{number}", squeezed=4)
    builder.output(values)
    network = builder.network()
    path = tmp_path / "squeezed.onnx"
    path.write_bytes(onnx_bytes(Model(network=network, weights=random_weights(network, 0))))
    _, page, output, _ = report(path, "--element-bytes", 1)
    rows = page.texts["memory"]
    assert "27.76 kB" in rows
    assert "18.45 kB" in rows  # one arena, layer by layer
    assert "36.97 kB" not in output  # each tensor apart is never the measure
    assert "of RAM, 1x MACs" in output


def test_a_tensor_that_a_layer_reads_twice_is_one_buffer(report, tmp_path):
    pytest.importorskip("onnx")
    builder = NetworkBuilder("squared")
    values = builder.add(op.Activation(function="relu"), builder.input((4, 8, 8)), name="relu")
    builder.output(builder.add(op.Elementwise(function="multiply"), values, values, name="square"))
    path = tmp_path / "squared.onnx"
    path.write_bytes(onnx_bytes(Model(network=builder.network(), weights={})))
    assert "square1.024 kB whole" in report(path)[1].texts["memory"]  # 4 x 8 x 8 floats


def test_a_plan_in_the_place_of_a_network_is_named(run, tmp_path):
    plan = tmp_path / "plan.json"
    run("fit", "samos_example", "--element-bytes", 1, "-o", plan)
    code, _, remarks = run("report", plan, "-o", tmp_path / "page.html")
    assert code == 2
    assert "a plan of csdf fit; give it with --plan, after its network" in remarks


def test_a_page_says_command_version_file_and_hash(report, run, tmp_path):
    _, page, _, _ = report(EXAMPLE)
    origin = page.texts["origin"]
    assert f"csdf report {EXAMPLE}" in origin
    assert run("--version")[1].partition(",")[0] in origin
    assert hashlib.sha256(EXAMPLE.read_bytes()).hexdigest() in origin
    assert "element size" not in origin  # a graph has none


def test_a_page_of_a_network_says_element_size_and_platform(report):
    _, page, _, _ = report("samos_example", "--element-bytes", 1, "--platform", "cortex-m7")
    origin = page.texts["origin"]
    assert "samos_example of the catalogue" in origin
    assert "1 byte; parameters have the same" in origin
    assert "cortex-m7" in origin


def test_the_banner_says_how_fast_a_graph_runs_and_which_actor_is_next(report):
    # c works 5 time units in the period of 12, b 8; a is the bottleneck.
    banner = report(EXAMPLE)[1].texts["verdict"]
    assert "Runs: period 12 time units" in banner
    assert "“b”, 66.7% of the period" in banner
    assert "Deadlock" in report(GRAPHS / "deadlocked.xml")[1].texts["verdict"]


@pytest.mark.parametrize(("spare", "says"), [(26, "26 B free"), (-4, "4 B too much")])
def test_the_banner_of_a_network_says_what_is_to_spare(report, least, spare, says):
    banner = report(*INT8_SAMOS, "--ram", least + spare)[1].texts["verdict"]
    assert says in banner
    assert ("Fits" in banner) == (spare > 0)


def test_two_graphs_stand_beside_each_other(report, tmp_path):
    graph = read_graph(EXAMPLE)
    slower = replace(
        graph,
        actors=tuple(
            replace(one, durations=(2, 3)) if one.name == "a" else one for one in graph.actors
        ),
        origin=None,
    )
    write_graph(tmp_path / "slower.json", slower)
    code, page, _, _ = report("--compare", EXAMPLE, tmp_path / "slower.json")
    assert code == 0
    # a fires three cycles per iteration: 3 * (1 + 3) = 12 before, 3 * (2 + 3) = 15 now.
    compared = page.texts["compared"]
    assert "period12 time units15 time units+25%" in compared
    assert "actors33the same" in compared
    differences = page.texts["differences"]
    assert "12 in 6 firings" in differences
    assert "15 in 6 firings" in differences
    assert "2 actors did not change" in page.texts["comparison"]
    assert [one["s"] for one in page.data["before"]["points"]] == [11, 12, 13, 14, 16]
    assert page.texts["origin"].count("SHA-256") == 2


def test_networks_are_compared_by_their_memory(report):
    words = ("person_detection", "--element-bytes", "1")
    page = report("--compare", "keyword_spotting", *words)[1]
    compared = page.texts["compared"]
    assert "flash22.6 kB210.7 kB" in compared
    assert "layer by layer, one arena" in compared
    assert "new" in page.texts["differences"]


@pytest.mark.parametrize("name", ["missing.xml", "missing.json", "no_such_network"])
def test_what_is_neither_file_nor_network_is_refused(run, tmp_path, name):
    code, _, remarks = run("report", tmp_path / name, "-o", tmp_path / "x.html")
    assert code == 2
    assert remarks.startswith("csdf report: ")


def test_a_graph_in_json_is_told_from_a_network(report, tmp_path):
    path = tmp_path / "graph.json"
    write_graph(path, read_graph(EXAMPLE))
    assert report(path)[2].startswith("csdf_example: One iteration takes 12")


def test_a_folder_that_is_not_there_is_refused(run, tmp_path):
    code, _, remarks = run("report", EXAMPLE, "-o", tmp_path / "none" / "x.html")
    assert code == 2
    assert "there is no folder" in remarks


def test_names_that_look_like_markup_are_harmless(report, tmp_path):
    name = "<script>alert(1)</script>"
    loop = Channel(
        name="</script>", producer=name, consumer=name,
        production=(1,), consumption=(1,), initial_tokens=1,
    )  # fmt: skip
    path = tmp_path / "wild.json"
    write_graph(
        path, Graph(name=name, actors=(Actor(name=name, durations=(3,)),), channels=(loop,))
    )
    page = report(path)[1]
    assert len([tag for tag, _ in page.tags if tag == "script"]) == 2  # the data and our own
    assert name in page.texts["summary"]


def test_too_many_firings_are_left_out_with_the_reason(report, tmp_path):
    path = tmp_path / "many.json"
    builder = GraphBuilder("many").actor("a", 1, overlap=False).actor("b", 1, overlap=False)
    write_graph(path, builder.channel("a", MOST_FIRINGS, "b", 1).graph())
    code, page, _, _ = report(path)
    assert code == 0
    assert page.data["runs"] == []
    assert f"one iteration has {MOST_FIRINGS + 1} firings" in page.texts["schedule"]


def test_counts_beyond_64_bits_have_a_page(report, tmp_path):
    path = tmp_path / "huge.json"
    builder = GraphBuilder("huge").actor("a", 1, overlap=False).actor("b", 1, overlap=False)
    write_graph(path, builder.channel("a", 10**25, "b", 1).graph())
    code, page, _, _ = report(path, "--time-limit", "2s")
    assert code == 0
    assert page.card("period").endswith(str(10**25))


def test_a_budget_that_is_too_short_leaves_a_page_that_says_so(report):
    code, page, _, _ = report(GRAPHS / "h263decoder.xml", "--time-limit", "1ms")
    assert code in (0, 3)
    assert "time limit of 0.001 s is reached" in page.texts["front"]


def test_a_budget_ends_what_does_not_look_at_its_stop():
    def work_for_ever():
        with limited_part(Stop(0.05), 1.0, "working"):
            while True:
                pass

    with pytest.raises(GaveUp, match=r"time limit of 0\.05 s"):
        work_for_ever()


def test_a_run_has_the_starts_of_the_schedule_and_repeats_to_its_end():
    graph = read_graph(EXAMPLE)
    capacities = {"alpha": 8, "beta": 8}
    run = executed(graph, repetition_vector(graph), title="t", capacities=capacities, stop=Stop(20))
    execution = self_timed_execution(with_capacities(graph, capacities), iterations=8)
    for actor in graph.actors:
        expected = [one.start for one in execution.firings if one.actor == actor.name]
        assert list(run.starts[actor.name]) == [time for time in sorted(expected) if time < run.end]
    assert (run.transient, run.steady) == (execution.transient, execution.steady)
    assert run.period == execution.period == Fraction(12)


def test_a_run_ends_two_repetitions_after_it_has_settled():
    graph = read_graph(EXAMPLE)
    run = executed(graph, repetition_vector(graph), title="t", capacities={}, stop=Stop(20))
    assert run.end == run.settled + 2 * run.cycle


def test_the_data_of_a_page_is_plain_json(report):
    page = report(EXAMPLE)[1]
    assert json.dumps(page.data)
    assert page.data["time"] == "time units"


def test_a_page_is_not_written_under_the_name_of_a_picture(run, tmp_path):
    code, _, remarks = run("report", EXAMPLE, "-o", tmp_path / "page.pdf")
    assert code == 2
    assert "expected the suffix .html" in remarks
    assert not list(tmp_path.iterdir())


def test_what_is_too_large_to_search_is_left_out_with_the_reason(report, tmp_path):
    # 10^25 firings of b in one iteration: the period is known, no storage can be searched.
    builder = GraphBuilder("vast").actor("a", 1, overlap=False).actor("b", 1)
    write_graph(tmp_path / "vast.json", builder.channel("a", 10**25, "b", 3).graph())
    code, page, _, _ = report(tmp_path / "vast.json")
    assert code == 0
    assert page.card("period").endswith("3")
    assert f"{10**25 + 3} firings; at most" in " ".join(page.texts.values())


def test_an_unlimited_graph_has_no_front(report, tmp_path):
    graph = GraphBuilder("free").actor("a", 1).actor("b", 2)
    write_graph(tmp_path / "free.json", graph.channel("a", 1, "b", 1).graph())
    code, page, _, _ = report(tmp_path / "free.json")
    assert code == 0
    assert "nothing limits the unbounded graph" in " ".join(page.texts.values())
