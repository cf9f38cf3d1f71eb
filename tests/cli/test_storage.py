import io
import json
from fractions import Fraction

import pytest

from csdf.io.graph_files import read_graph
from csdf.io.json_graph import graph_to_json
from csdf.model.builder import GraphBuilder
from tests.cli.running import GRAPHS

EXAMPLE = GRAPHS / "csdf_example.xml"
# Its front by exhaustive search: Stuijk, Geilen, Basten, IEEE Trans. Computers 57(10), 2008.
FRONT = [(11, "17"), (12, "15"), (13, "14"), (14, "13"), (16, "12")]


def test_pareto_gives_every_point_and_says_complete(answer):
    code, found = answer("pareto", EXAMPLE)
    assert code == 0
    assert found["complete"] is True
    assert [(point["size"], point["period"]) for point in found["points"]] == FRONT
    for point in found["points"]:
        assert sum(point["capacities"].values()) == point["size"]
        assert Fraction(point["throughput"]) * Fraction(point["period"]) == 1


def test_pareto_as_csv_has_a_line_for_each_point(run):
    code, output, _ = run("pareto", EXAMPLE, "--csv")
    lines = output.splitlines()
    assert code == 0
    assert lines[0] == "size,period,throughput,alpha,beta"
    assert [line.split(",")[:2] for line in lines[1:]] == [[str(s), p] for s, p in FRONT]


def test_pareto_in_bytes_weighs_tokens(answer):
    found = answer("pareto", GRAPHS / "h263decoder.xml", "--unit", "bytes")[1]
    tokens = answer("pareto", GRAPHS / "h263decoder.xml")[1]
    # All three channels have tokens of 512 bytes.
    assert [p["size"] for p in found["points"]] == [512 * p["size"] for p in tokens["points"]]


def test_a_front_without_an_end_stops_at_the_budget_and_says_so(answer, tmp_path):
    path = tmp_path / "endless.json"
    # Without self-loops nothing limits these two: more space always helps.
    path.write_text(endless_graph_text())
    code, found = answer("pareto", path, "--points", 10**9, "--time-limit", "500ms")
    assert code == 3
    assert found["complete"] is False
    assert "time limit" in found["reason"]
    assert "has no end" in found["reason"]
    assert found["best_period"] == "0"
    # With n places n firings of each go on at once, each place being taken for 2 time units.
    assert [p["period"] for p in found["points"][:3]] == ["2", "1", "2/3"]


def endless_graph_text():
    builder = GraphBuilder("endless").actor("a", 1).actor("b", 1)
    return graph_to_json(builder.channel("a", 1, "b", 1, name="ab").graph())


def test_pareto_of_a_deadlocked_graph_is_no(answer):
    code, found = answer("pareto", GRAPHS / "deadlocked.xml")
    assert code == 1
    assert found["points"] == []
    assert found["best_period"] is None


@pytest.mark.parametrize("suffix", ["png", "svg", "html", "pdf"])
def test_the_front_is_drawn(run, tmp_path, suffix):
    pytest.importorskip("matplotlib")
    picture = tmp_path / f"front.{suffix}"
    assert run("pareto", EXAMPLE, "--plot", picture)[0] == 0
    start = {"png": b"\x89PNG", "svg": b"<?xml", "html": b"<!DOCTYPE html>", "pdf": b"%PDF"}
    assert picture.read_bytes().startswith(start[suffix])


def test_an_unknown_picture_format_is_refused(run, tmp_path):
    pytest.importorskip("matplotlib")
    code, _, remarks = run("pareto", EXAMPLE, "--plot", tmp_path / "front.bmp")
    assert code == 2
    assert "bmp" in remarks
    assert not list(tmp_path.iterdir())


def test_buffers_without_a_requirement_is_the_first_point(answer):
    code, found = answer("buffers", EXAMPLE)
    assert code == 0
    assert (found["size"], found["period"], found["status"]) == (11, "17", "optimal")
    assert (found["lower_bound"], found["gap"]) == (11, "0")


@pytest.mark.parametrize(("need", "size"), [("17", 11), ("29/2", 13), ("13.5", 14), ("12", 16)])
def test_buffers_for_a_period_is_the_first_point_that_reaches_it(answer, need, size):
    assert answer("buffers", EXAMPLE, "--period", need)[1]["size"] == size


def test_a_throughput_is_the_inverse_of_a_period(answer):
    assert answer("buffers", EXAMPLE, "--throughput", "1/13")[1]["size"] == 14


def test_a_period_below_that_of_the_unbounded_graph_is_infeasible(answer):
    code, found = answer("buffers", EXAMPLE, "--period", "11")
    assert (code, found["status"], found["size"]) == (1, "infeasible", None)
    assert "12" in found["reason"]


def test_the_written_graph_has_the_period_that_was_stated(answer, run, tmp_path):
    target = tmp_path / "bounded.xml"
    assert run("buffers", EXAMPLE, "--period", "14", "-o", target)[0] == 0
    assert answer("analyze", target, "--buffer-sizes")[1]["period"] == "14"


def test_fixed_capacities_count_and_excluded_ones_do_not(answer):
    fixed = answer("buffers", EXAMPLE, "--fixed", "alpha=8")[1]
    excluded = answer("buffers", EXAMPLE, "--exclude", "alpha")[1]
    # beta alone needs 6 to run.
    assert (fixed["size"], fixed["capacities"]) == (14, {"alpha": 8, "beta": 6})
    assert (excluded["size"], excluded["capacities"]) == (6, {"beta": 6})


def test_shared_channels_get_one_capacity(answer):
    found = answer("buffers", EXAMPLE, "--share", "alpha,beta")[1]
    # alpha runs from 5 on, beta from 6 on.
    assert found["capacities"] == {"alpha": 6, "beta": 6}


def test_a_schedule_for_the_answer_is_written(run, tmp_path):
    target = tmp_path / "schedule.json"
    assert run("buffers", EXAMPLE, "--period", "12", "--schedule", target)[0] == 0
    found = json.loads(target.read_text())
    assert found["period"] == "12"
    assert set(found["starts"]) == {"a", "b", "c"}


def test_depths_can_be_checked(run, tmp_path):
    depths = tmp_path / "depths.json"
    depths.write_text(run("buffers", EXAMPLE, "--period", "12", "--format", "folding")[1])
    code, output, _ = run("buffers", EXAMPLE, "--check", depths)
    assert code == 0
    assert output == "csdf_example: 2 depths, 16 tokens: period 12\n"


@pytest.mark.parametrize("style", ["folding", "depths"])
def test_an_output_has_the_format_that_is_asked_for(run, tmp_path, style):
    target = tmp_path / "depths.json"
    printed = run("buffers", EXAMPLE, "--format", style)[1]
    code, output, remarks = run("buffers", EXAMPLE, "--format", style, "-o", target)
    assert (code, target.read_text()) == (0, printed)
    assert output.startswith("csdf_example: storage ")
    assert remarks.startswith(f"csdf buffers: wrote {target}: FIFO depths as ")
    assert run("buffers", EXAMPLE, "--check", target)[1].startswith("csdf_example: 2 depths, 11 ")


def test_depths_are_not_written_under_the_suffix_of_a_graph(run, tmp_path):
    target = tmp_path / "depths.xml"
    code, output, remarks = run("buffers", EXAMPLE, "--format", "folding", "-o", target)
    assert (code, output) == (2, "")
    assert remarks == f"csdf buffers: {target}: FIFO depths are JSON; expected the suffix .json\n"
    assert not target.exists()


@pytest.mark.parametrize(
    ("need", "code"),
    [
        (("--period", "12"), 0),
        (("--period", "11.9"), 1),
        (("--throughput", "1/12"), 0),
        (("--throughput", "0.1"), 1),
    ],
)
def test_checked_depths_that_are_too_slow_are_answered_with_no(run, tmp_path, need, code):
    depths = tmp_path / "depths.json"
    depths.write_text('{"alpha": 8, "beta": 8}')  # period 12, the fastest of the front
    found, output, _ = run("buffers", EXAMPLE, "--check", depths, *need)
    assert found == code
    assert ("too slow" in output) == (code == 1)
    assert "required_period" in run("buffers", EXAMPLE, "--check", depths, *need, "--json")[1]


def test_a_check_refuses_what_only_a_search_can_do(run, tmp_path):
    target = tmp_path / "bounded.json"
    code, output, remarks = run("buffers", EXAMPLE, "--check", "depths.json", "-o", target)
    assert (code, output) == (2, "")
    assert "--check searches nothing; --output belongs to a search" in remarks


def test_what_is_written_beside_the_answer_is_named(run, tmp_path):
    target = tmp_path / "sized.json"
    code, output, remarks = run("buffers", EXAMPLE, "--json", "-o", target)
    assert (code, json.loads(output)["capacities"]) == (0, {"alpha": 5, "beta": 6})
    assert remarks == f"csdf buffers: wrote {target}: the graph with these capacities\n"


def test_an_unknown_format_is_refused_before_the_search(run, tmp_path):
    code, output, remarks = run("buffers", "no-such-file.xml", "-o", tmp_path / "sized.txt")
    assert (code, output) == (2, "")
    assert "cannot tell the format from '.txt'" in remarks


def test_no_size_is_named_where_none_would_do(run):
    code, output, _ = run("buffers", EXAMPLE, "--period", "11")  # unbounded it has 12
    assert code == 1
    assert "size" not in output


def test_depths_that_deadlock_are_answered_with_the_cycle(run, tmp_path):
    depths = tmp_path / "depths.json"
    depths.write_text('{"alpha": 4, "beta": 6}')
    code, output, _ = run("buffers", EXAMPLE, "--check", depths)
    assert code == 1
    assert "deadlock" in output
    assert "alpha (space)" in output
    assert "or more capacity for (space)" in output


def test_more_capacity_is_no_advice_where_no_actor_waits_for_space(run):
    output = run("analyze", GRAPHS / "deadlocked.xml")[1]
    assert "more initial tokens on one of these channels" in output
    assert "capacity" not in output


def test_an_unknown_channel_is_one_message(run):
    code, output, remarks = run("buffers", EXAMPLE, "--fixed", "gamma=3")
    assert (code, output) == (2, "")
    assert "there is no channel 'gamma'; expected one of 'alpha', 'beta', 'a_state'" in remarks


def test_bytes_need_token_sizes(run):
    code, _, remarks = run("buffers", EXAMPLE, "--unit", "bytes")
    assert code == 2
    assert "no token size" in remarks


def test_self_loops_count_when_asked_for(answer):
    found = answer("buffers", EXAMPLE, "--count-self-loops")[1]
    loops = {c.name for c in read_graph(EXAMPLE).channels if c.is_self_loop}
    # A self-loop with one token needs two places: token and space overlap while a firing lasts.
    assert {found["capacities"][name] for name in loops} == {2}
    assert found["size"] == 11 + 2 * len(loops)


def test_names_with_spaces_can_be_told_apart_in_a_front(run):
    table = GRAPHS.parent / "networks" / "residual_block.csv"
    head = run("pareto", table)[1].splitlines()[1]
    assert head.endswith("in to conv_a, conv_a to conv_b, conv_b to add, in to add")


def test_buffers_in_bits_weigh_the_widths_of_a_table(run, tmp_path):
    table = tmp_path / "net.csv"
    table.write_text(
        "layer,inputs,consumption,production,times,width\n"
        "in,,1,1,1,8\n"
        'conv,in,"3,2*1,0",1,2,4\n'
        'add,conv;in,"1;1,1,1,2",1,1/2,\n'
    )
    _, output, _ = run("buffers", table, "--unit", "bits")
    # The smallest in tokens is 3, 3 and 1 too: three words of 8 bits twice, and one of 4.
    assert "52 bits, minimum (proved)" in output


def test_buffers_in_bits_have_eight_in_a_byte(run):
    _, output, _ = run("buffers", GRAPHS / "h263decoder.xml", "--unit", "bits")
    _, octets, _ = run("buffers", GRAPHS / "h263decoder.xml", "--unit", "bytes")
    size = [int(text.split("storage")[1].split()[0]) for text in (output, octets)]
    assert size[0] == 8 * size[1]


def test_a_schedule_is_of_the_kind_that_was_asked_for(run, tmp_path):
    target = tmp_path / "schedule.json"
    words = ("--period", "20", "--method", "periodic-1", "--schedule", target)
    assert run("buffers", EXAMPLE, *words)[0] == 0
    schedule = json.loads(target.read_text())
    # Actor a has 6 firings per iteration in cycles of 2 phases; one cycle repeats.
    assert len(schedule["starts"]["a"]) == 2
    assert Fraction(schedule["period"]) <= 20


@pytest.mark.parametrize("more", ["", "-v --time-limit 60", "--plot {}/front.svg --column=acm"])
def test_a_complete_front_names_the_report_of_the_same_question(run, more, tmp_path):
    path = "models/graphs/csdf_example.xml"
    _, output, _ = run("pareto", path, *more.format(tmp_path).split())
    assert f"\nnext: csdf report {path} -o page.html\n" in output


@pytest.mark.parametrize("more", ["--points 9", "-q", "--quiet"])
def test_another_question_and_a_quiet_command_name_no_report(run, more):
    assert "next:" not in run("pareto", EXAMPLE, *more.split())[1]


def test_a_graph_from_standard_input_names_no_report(run, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(EXAMPLE.read_bytes())))
    assert "next:" not in run("pareto", "-")[1]
