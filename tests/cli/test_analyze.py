import csv
import json
import re

import pytest

from csdf.cli import analyze
from csdf.errors import GaveUp
from csdf.io.graph_files import write_graph
from csdf.model.builder import GraphBuilder
from tests.cli.running import GRAPHS

KEYS = [
    *("graph", "type", "actors", "channels", "consistent", "repetition_vector"),
    *("firings_per_iteration", "deadlock", "blocked", "period", "throughput", "critical_cycle"),
    *("exact", "method", "seconds"),
]


# Repetition vectors and periods: models/README.md and the papers it names. The period of
# h263decoder is 594 firings of iq of 559 each; that of csdf_example 3 cycles of a of 1 + 3.
@pytest.mark.parametrize(
    ("name", "firings", "period", "bottleneck"),
    [
        ("csdf_example", 12, 12, ["a"]),
        ("h263decoder", 1190, 332046, ["iq"]),
        (
            "h263encoder",
            201,
            211425,
            [
                *("motion_estimation", "macroblock_encoding"),
                *("macroblock_decoding", "motion_compensation"),
            ],
        ),
        ("modem", 48, 16, ["filt"]),
        ("mp3playback", 10601, 120000, ["src"]),
        ("samplerate", 612, 960, ["f"]),
        ("satellite", 4515, 1056, None),
    ],
)
def test_the_models_have_their_known_periods(answer, name, firings, period, bottleneck):
    code, found = answer("analyze", GRAPHS / f"{name}.xml")
    assert code == 0
    assert found["graph"] == name
    assert found["firings_per_iteration"] == firings
    assert (found["period"], found["throughput"]) == (str(period), f"1/{period}")
    if bottleneck is not None:  # several actors of satellite are equally slow
        assert sorted(found["critical_cycle"]["actors"]) == sorted(bottleneck)


def test_json_has_all_keys_in_a_fixed_order(answer):
    assert list(answer("analyze", GRAPHS / "csdf_example.xml")[1]) == KEYS
    assert list(answer("analyze", GRAPHS / "deadlocked.xml")[1]) == KEYS
    assert list(answer("analyze", GRAPHS / "inconsistent.xml")[1]) == [*KEYS, "inconsistency"]


def test_analyze_prints_the_json_of_the_example(answer):
    code, found = answer("analyze", GRAPHS / "csdf_example.xml")
    assert code == 0
    assert found.pop("seconds") > 0
    assert found == {
        "graph": "csdf_example",
        "type": "csdf",
        "actors": 3,
        "channels": 5,
        "consistent": True,
        "repetition_vector": {"a": 6, "b": 4, "c": 2},
        "firings_per_iteration": 12,
        "deadlock": False,
        "blocked": [],
        "period": "12",
        "throughput": "1/12",
        "critical_cycle": {"actors": ["a"], "channels": ["a_state"], "time": "12", "tokens": 1},
        "exact": True,
        "method": "periodic",
    }


def test_a_deadlock_exits_with_1_and_names_who_waits(answer):
    code, found = answer("analyze", GRAPHS / "deadlocked.xml")
    assert code == 1
    assert (found["deadlock"], found["period"], found["throughput"]) == (True, None, "0")
    # a fired once: its 2 tokens are used up, and b needs 3 of the 2 it made.
    keys = ("actor", "channel", "tokens", "needed", "producer")
    assert [[one[key] for key in keys] for one in found["blocked"]] == [
        ["a", "b_to_a", 0, 2, "b"],
        ["b", "a_to_b", 2, 3, "a"],
    ]


def test_an_inconsistent_graph_exits_with_1_and_names_the_channel(answer):
    code, found = answer("analyze", GRAPHS / "inconsistent.xml")
    assert code == 1
    assert (found["consistent"], found["period"]) == (False, None)
    balance = found["inconsistency"]
    # a to c at 2:1 means that c fires twice as often as a; a to b to c that they fire equally often.
    assert balance["produced"] in (balance["consumed"] * 2, balance["consumed"] / 2)


def test_the_table_shows_what_limits_the_graph(run):
    code, output, remarks = run("analyze", "--explain", GRAPHS / "h263decoder.xml")
    assert (code, remarks) == (0, "")
    answer, terms = output.split("\n\nterms\n")
    assert "  critical cycle  actors and channels that determine the period;" in terms
    assert run("analyze", GRAPHS / "h263decoder.xml")[1] == answer.partition("  graph ")[0]
    assert re.sub(r"[\d.]+ (us|ms|s)$", "0 ms", answer, flags=re.MULTILINE).splitlines() == [
        "h263decoder: period 332046 time units, throughput 1/332046 "
        "(3.01163e-06) iterations per time unit",
        "  critical cycle  iq",
        "                  over iq_state: 332046 time units in 1 iteration",
        "  repetitions     vld 1, iq 594, idct 594, mc 1",
        "  graph           sdf, 4 actors, 6 channels, 1190 firings per iteration",
        "  method          periodic, 0 ms",
    ]


def test_an_unlimited_graph_has_period_0(run, answer, tmp_path):
    path = tmp_path / "free.json"
    write_graph(path, GraphBuilder().actor("a", 1).actor("b", 1).channel("a", 1, "b", 1).graph())
    code, found = answer("analyze", path)
    assert (code, found["period"], found["throughput"], found["critical_cycle"]) == (
        0,
        "0",
        None,
        None,
    )
    assert "unbounded: no cycle of the graph takes time" in run("analyze", path)[1]


@pytest.mark.parametrize("method", ["periodic", "execution"])
def test_both_throughput_methods_give_period_12(answer, method):
    code, found = answer("analyze", GRAPHS / "csdf_example.xml", "--method", method)
    assert (code, found["method"], found["period"]) == (0, method, "12")


def test_several_files_get_a_row_each(run):
    names = ("csdf_example", "deadlocked", "inconsistent")
    code, output, remarks = run("analyze", *(GRAPHS / f"{name}.xml" for name in names))
    head, *rows = output.splitlines()
    assert (code, remarks) == (1, "")
    assert head.split() == ["file", "actors", "channels", "firings", "period;", "critical", "cycle"]
    assert [row.split(maxsplit=1)[1].split("  ")[-1] for row in rows] == [
        "12; a",
        "deadlock: a -> b",
        "inconsistent: channel b_to_c",
    ]


def test_a_bad_file_among_several_does_not_stop_the_others(run, tmp_path):
    bad = tmp_path / "bad.xml"
    bad.write_text("<sdf3")
    files = (GRAPHS / "csdf_example.xml", bad, GRAPHS / "h263decoder.xml")
    code, output, remarks = run("analyze", *files)
    assert code == 2
    assert [line.split()[-2:] for line in output.splitlines()[1:]] == [
        ["12;", "a"],
        ["332046;", "iq"],
    ]
    assert len(remarks.splitlines()) == 1
    assert remarks.startswith(f"csdf analyze: {bad}:1: not well-formed XML")


def test_json_of_several_files_is_one_line_each(run, tmp_path):
    missing = tmp_path / "none.xml"
    code, output, _ = run("analyze", "--json", GRAPHS / "csdf_example.xml", missing)
    found = [json.loads(line) for line in output.splitlines()]
    assert code == 2
    assert list(found[0]) == ["file", *KEYS]
    assert found[1] == {
        "file": str(missing),
        "error": f"{missing}: cannot be read: No such file or directory",
        "exit_code": 2,
    }


def impatient(graph, *, method, budget):
    raise GaveUp("the time limit of 0.5 s is reached", low=3, high=7)


def test_giving_up_exits_with_3_and_the_bounds(answer, monkeypatch):
    monkeypatch.setattr(analyze, "throughput", impatient)
    code, found = answer("analyze", GRAPHS / "csdf_example.xml")
    assert code == 3
    assert (found["period"], found["period_bounds"]) == (None, ["3", "7"])
    assert found["unknown"] == "the time limit of 0.5 s is reached"
    assert found["repetition_vector"] == {"a": 6, "b": 4, "c": 2}


def test_giving_up_says_so_in_the_table(run, monkeypatch):
    monkeypatch.setattr(analyze, "throughput", impatient)
    one = run("analyze", GRAPHS / "csdf_example.xml")[1]
    assert "  reason          the time limit of 0.5 s is reached" in one.splitlines()
    assert "csdf_example: period unknown: lower bound 3, upper bound 7" in one.splitlines()
    code, output, _ = run("analyze", *[GRAPHS / "csdf_example.xml"] * 2)
    assert code == 3
    assert output.splitlines()[1].endswith("unknown: lower bound 3, upper bound 7")


def test_a_budget_ends_the_search_with_the_bounds_proved_so_far(answer, run, tmp_path):
    path = tmp_path / "ring.json"
    graph = (
        GraphBuilder("ring")
        .actor("a", 3)
        .actor("b", 5, overlap=False)
        .channel("a", 31, "b", 29)
        .channel("b", 29, "a", 31, initial_tokens=60)
        .graph()
    )
    write_graph(path, graph)
    code, found = answer("analyze", path, "--time-limit", "0.001ms")
    # a fires 29 times in an iteration and b, one firing after the other, 31 times.
    assert (code, found["period"], found["period_bounds"]) == (3, None, [str(31 * 5), None])
    assert (
        ": period unknown: lower bound 155\n" in run("analyze", path, "--time-limit", "0.001ms")[1]
    )


def test_a_huge_answer_is_printed_in_full(run, tmp_path):
    path = tmp_path / "huge.json"
    builder = GraphBuilder("huge").actor("a0", 1, overlap=False)
    for step in range(6):
        builder.actor(f"a{step + 1}", 1, overlap=False)
        builder.channel(f"a{step}", 10**999, f"a{step + 1}", 1)
    write_graph(path, builder.graph())
    # The last actor fires 10^(6 * 999) times; one unit each.
    period = "1" + 6 * 999 * "0"
    code, output, _ = run("analyze", path)
    assert (code, f": period {period} time units, " in output) == (0, True)
    code, output, _ = run("analyze", path, "--json")
    assert (code, f'"period": "{period}",' in output) == (0, True)


def test_names_that_the_terminal_cannot_show_are_escaped(run, tmp_path):
    path = tmp_path / "odd.json"
    run("convert", GRAPHS / "deadlocked.xml", path)
    path.write_text(path.read_text().replace('"name": "deadlocked"', '"name": "\\ud800"', 1))
    code, output, _ = run("analyze", path)
    assert code == 1
    assert output.startswith("\\ud800: deadlock")


def test_reading_options_are_obeyed(answer, tmp_path):
    text = (GRAPHS / "deadlocked.xml").read_text()
    (tmp_path / "timeless.xml").write_text(
        re.sub("<sdfProperties>.*</sdfProperties>", "", text, flags=re.S)
    )
    code, found = answer("analyze", "--assume-zero-times", tmp_path / "timeless.xml")
    assert (code, found["deadlock"]) == (1, True)
    sized = (
        (GRAPHS / "csdf_example.xml")
        .read_text()
        .replace(
            "</csdfProperties>",
            '<channelProperties channel="alpha"><bufferSize sz="5"/></channelProperties>'
            "</csdfProperties>",
        )
    )
    (tmp_path / "sized.xml").write_text(sized)
    assert answer("analyze", tmp_path / "sized.xml")[1]["period"] == "12"
    # b cannot begin before 4 tokens; its firing holds 4 of the space of 5 while a needs 3.
    assert int(answer("analyze", "--buffer-sizes", tmp_path / "sized.xml")[1]["period"]) > 12


def test_what_is_suspicious_in_a_file_is_remarked_upon(run, tmp_path):
    text = (GRAPHS / "h263decoder.xml").read_text()
    path = tmp_path / "two.xml"
    path.write_text(text.replace('type="encoder"', 'type="encoder" default="true"'))
    code, _, remarks = run("analyze", path)
    assert code == 0
    assert len(remarks.splitlines()) == 1
    assert "actor 'vld' has 2 default processors" in remarks


def test_csv_has_a_line_for_each_file(run, tmp_path):
    missing = tmp_path / "missing.xml"
    names = ["csdf_example", "deadlocked", "inconsistent", "h263encoder"]
    code, output, remarks = run(
        "analyze", *(GRAPHS / f"{name}.xml" for name in names), missing, "--csv"
    )
    rows = list(csv.DictReader(output.splitlines()))
    assert code == 2
    assert "missing.xml" in remarks
    assert [row["graph"] for row in rows] == [*names, ""]
    assert [row["answer"] for row in rows] == [
        *("period", "deadlock", "inconsistent", "period", "unusable"),
    ]
    assert [row["throughput"] for row in rows] == ["1/12", "0", "", "1/211425", ""]
    assert rows[3]["critical_cycle"].split(";")[0] == "motion_estimation"


def test_csv_of_one_file_is_a_line_too(run):
    assert len(run("analyze", GRAPHS / "modem.xml", "--csv")[1].splitlines()) == 2
