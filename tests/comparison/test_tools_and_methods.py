"""`csdf compare` beside programs that print what SDF3 and Kiter print."""

import json
import re
import subprocess
import sys
import textwrap
import tomllib
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import pytest

from csdf.cli import compare
from csdf.comparison.comparison import Verdict
from csdf.comparison.methods import Refused, compare_method, judged
from csdf.errors import CsdfError, InvalidArgument, InvalidGraph
from csdf.io.graph_files import read_graph
from csdf.io.sdf3 import initial_phases
from csdf.mapping.search import best_mapping
from csdf.model.builder import GraphBuilder
from csdf.model.schedule import PeriodicSchedule
from csdf.time_limit import Stop
from tests.cli.running import GRAPHS
from tests.docs.pages import ROOT, blocks_of

EXAMPLE = GRAPHS / "csdf_example.xml"
LOOPS = "".join(f"<ch name='{name}_state' sz='2'/>" for name in "abc")


def distribution(speed, alpha, beta):
    """A point as SDF3 prints it: three self-loops of two tokens count in its size."""
    return (
        f"<distributionsSet thr='{speed}' sz='{alpha + beta + 6}'>\n<distribution>\n"
        f"<ch name='alpha' sz='{alpha}'/>\n<ch name='beta' sz='{beta}'/>\n{LOOPS}</distribution>\n"
        "</distributionsSet>"
    )


# Of the example: three actors with two phases each fire 6, 4 and 2 times in SDF3's iteration, which
# is the least one; its front has five points, from 11 tokens at 1/17 to 16 at 1/12.
FRONT = [
    ("0.0588235", 5, 6), ("0.0666667", 6, 6), ("0.0714286", 7, 6), ("0.0769231", 8, 6),
    ("0.0833333", 8, 8),
]  # fmt: skip
SDF3 = {
    "repetition_vector": "Repetition vector:\n [a] = 6\n [b] = 4\n [c] = 2\nanalysis time: 0.03ms\n",
    "throughput": "thr(example) = 0.0833333\nanalysis time: 0.062ms\n",
    "buffersize": "<storageThroughputTradeOffs>" + "".join(distribution(*one) for one in FRONT),
}
KITER_VECTOR = """\
TASKS
VertexName (VertexId)  InEdges OutEdges TotalDuration RepetitionFactor PhaseQuantity Mapping
      a (       1)        1        2               2                   6               2             -1
      b (       2)        2        2               4                   4               2             -1
      c (       3)        2        1               6                   2               2             -1
"""
KITER = {
    "PrintInfos": KITER_VECTOR,
    "KPeriodicThroughput": "KPeriodic Throughput is         0.08333333333\n",
    "ThroughputBufferingDSE": "storage distribution size;throughput;channel quantities;a;b\n"
    + "".join(f'{a + b};{speed};"{a},{b}";0.1;0.2\n' for speed, a, b in FRONT),
}


@pytest.fixture
def install(tmp_path):
    """Write programs that print a text for each algorithm; return the options that name them."""

    def installed(sdf3_says=SDF3, kiter_says=KITER):
        for name, said in (("sdf3analysis-csdf", sdf3_says), ("kiter", kiter_says)):
            lines = [f"  *'{key}') cat <<'END'\n{text}\nEND\n  ;;" for key, text in said.items()]
            path = tmp_path / name
            path.write_text(
                '#!/bin/sh\ncase "$*" in\n' + "\n".join(lines) + "\n*) kill -11 $$;;\nesac\n"
            )
            path.chmod(0o755)
        return ["--sdf3", str(tmp_path), "--kiter", str(tmp_path / "kiter")]

    return installed


def test_tools_that_say_the_same_agree_and_conventions_are_undone(run, install):
    code, output, _ = run("compare", EXAMPLE, *install())
    assert code == 0
    assert "SDF3   front       agrees: 5 points" in output
    assert "Kiter, throughput: 1 agree, 0 differ" in output


def test_dominated_points_are_no_difference_but_are_told(run, install):
    worse = "".join(distribution(*one) for one in [*FRONT, ("0.0666667", 9, 9), ("0", 0, 0)])
    code, output, _ = run("compare", EXAMPLE, *install(SDF3 | {"buffersize": worse}))
    assert code == 0
    assert "SDF3   front       agrees: 5 points; it lists 1 point more that are dominated" in output


def test_a_point_that_a_tool_misses_is_confirmed_by_its_own_analysis(run, install):
    # Without the third point; asked about 13 tokens alone, its throughput analysis says 1/14.
    less = "".join(distribution(*one) for one in FRONT if one[1:] != (7, 6))
    experiment = {"experiment.xml --algo throughput": "thr(g) = 0.0714286"}  # of SDF3's first case
    said = experiment | SDF3 | {"buffersize": less}
    code, output, _ = run("compare", EXAMPLE, *install(said))
    assert code == 1
    assert "differs: csdf 13 at 0.0714286; SDF3 14 at 0.0769231" in output
    assert "its own throughput analysis confirms our distributions, such as of size 13" in output


def test_a_difference_without_a_reason_is_open_and_shows_both_numbers(run, install):
    said = KITER | {"KPeriodicThroughput": "KPeriodic Throughput is  0.0625\n"}
    code, output, _ = run(
        "compare", EXAMPLE, *install(kiter_says=said), "--questions", "throughput"
    )
    assert code == 1
    assert "differs: csdf 0.0833333; Kiter 0.0625" in output
    assert "open: no reason is known" in output
    assert "Kiter, throughput: 0 agree, 1 differ (1 open)" in output


def test_a_tool_that_crashes_has_no_answer_which_is_no_difference(run, install):
    code, output, _ = run("compare", EXAMPLE, *install(sdf3_says={"repetition_vector": "nonsense"}))
    assert code == 0
    assert "SDF3   vector      no answer; no vector in" in output
    assert "SDF3   throughput  no answer; killed by signal 11" in output


def test_large_numbers_are_the_reason_where_they_are_too_large(run, install, tmp_path):
    big = EXAMPLE.read_text().replace('initialTokens="1"', f'initialTokens="{2**40}"', 1)
    path = tmp_path / "big.xml"
    path.write_text(big)
    wrong = SDF3 | {"throughput": "thr(example) = 0.001\n"}
    options = [*install(wrong), "--questions", "throughput"]
    code, output, _ = run("compare", path, *options)
    assert code == 1
    assert "its numbers have 32 bits, and this graph needs about 10^12" in output


def test_the_answer_as_json_and_as_a_table_of_latex(run, install, tmp_path):
    table = tmp_path / "table.tex"
    code, output, _ = run("compare", EXAMPLE, *install(), "--json", "--table", table)
    assert code == 0
    assert '"verdict": "agrees"' in output
    rows = table.read_text().splitlines()
    assert "csdf\\_example & = & = &  & = & = & = & = \\\\" in rows


def test_graphs_compared_by_two_workers_have_the_verdicts_of_one(run, install, tmp_path):
    stuck = GRAPHS / "deadlocked.xml"
    broken = tmp_path / "broken.xml"
    broken.write_text("<sdf3")
    words = ("compare", EXAMPLE, broken, stuck, *install(), "--questions", "repetitions,front")

    def without_times(*more):
        code, output, remarks = run(*words, *more)
        return code, re.sub(r"; [^;]+, csdf .*", "", output), remarks

    code, output, remarks = without_times()
    assert without_times("--workers", 2) == (code, output, remarks)
    assert "SDF3, front: 1 agree" in output
    assert "broken.xml" in remarks


def test_a_folder_is_compared_with_a_line_of_json_for_each_graph(run, install, tmp_path):
    folder = tmp_path / "graphs"
    folder.mkdir()
    (folder / "b.xml").write_bytes(Path(EXAMPLE).read_bytes())
    (folder / "a.json").write_text("{}")
    (folder / "notes.txt").write_text("no graph")
    words = ("compare", folder, *install(), "--questions", "throughput", "--json-lines")
    code, output, remarks = run(*words)
    wrong, compared = map(json.loads, output.splitlines())
    assert code == wrong["exit_code"] == 2
    assert wrong["file"] == str(folder / "a.json")
    assert wrong["error"] in remarks
    assert compared["file"] == str(folder / "b.xml")
    assert [verdict["verdict"] for verdict in compared["verdicts"]] == ["agrees", "agrees"]


def test_without_any_tool_the_options_are_named(run, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("SDF3_BIN", "KITER_BIN"):
        monkeypatch.delenv(name, raising=False)
    code, output, remarks = run("compare", EXAMPLE)
    assert (code, output) == (2, "")
    assert "--sdf3 FOLDER or --kiter PROGRAM" in remarks
    assert run("compare", EXAMPLE, "--kiter", tmp_path / "none")[0] == 2


COMPARING = ROOT / "docs" / "comparing.md"
PAGE = {one.file: one.body for one in blocks_of(COMPARING)}
WRONG = """
import csdf
from dataclasses import replace


def throughput(graph):
    found = csdf.periodic_schedule(graph)
    starts = {name: tuple(0 * one for one in row) for name, row in found.starts.items()}
    return replace(found, starts=starts)
"""


@pytest.fixture
def methods(tmp_path, monkeypatch):
    """Install a package with two methods, as pip would; its modules go when the test ends."""
    monkeypatch.syspath_prepend(tmp_path)
    project = tomllib.loads(PAGE["pyproject.toml"])["project"]
    named = project["entry-points"]["csdf.methods"]
    points = "".join(f"{name} = {module}\n" for name, module in named.items())
    about = tmp_path / "acme_methods-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Name: acme-methods\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(
        f"[csdf.methods]\n{points}wrong = acme_wrong\nbroken = acme_broken\n"
    )
    (tmp_path / "acme_rounds.py").write_text(PAGE["acme_rounds.py"])
    (tmp_path / "acme_wrong.py").write_text(textwrap.dedent(WRONG).lstrip())
    (tmp_path / "acme_broken.py").write_text("def throughput(graph):\n    raise KeyError('oops')\n")
    yield
    for name in ("acme_rounds", "acme_wrong", "acme_broken"):
        sys.modules.pop(name, None)


def test_the_method_of_the_page_gives_what_the_page_shows(run, methods, monkeypatch):
    monkeypatch.chdir(ROOT)
    (shown,) = (one for one in blocks_of(COMPARING) if "--method" in one.body)
    assert len(shown.steps) == 2
    for command, lines in shown.steps:
        code, output, _ = run(*command.split()[1:])
        assert code == 0
        assert set(lines.splitlines()) <= set(output.splitlines())


def test_an_invalid_schedule_is_refused_by_the_checker(run, methods):
    code, output, _ = run("analyze", EXAMPLE, "--method", "wrong")
    assert code == 1
    assert "refused: its schedule is invalid: firing" in output
    code, output, _ = run("compare", EXAMPLE, "--method", "wrong")
    assert code == 1


def test_an_exception_of_a_method_is_no_answer(run, methods):
    code, output, _ = run("analyze", EXAMPLE, "--method", "broken")
    assert code == 3
    assert "no answer: KeyError: 'oops'" in output
    assert "no answer; KeyError: 'oops'" in run("compare", EXAMPLE, "--method", "broken")[1]


def test_a_file_that_takes_too_long_to_read_does_not_end_the_comparison(
    run, methods, monkeypatch, tmp_path
):
    monkeypatch.setattr(initial_phases, "MOST_FIRINGS", 3)
    text = EXAMPLE.read_text().replace('rate="3,1"', 'rate="5*3;3,1"')
    text = text.replace('rate="1,1"', 'rate="5*1;1,1"', 2).replace('time="1,3"', 'time="5*1;1,3"')
    path = tmp_path / "begun.xml"
    path.write_text(text)
    code, output, remarks = run("compare", path, EXAMPLE, "--method", "rounds")
    assert code == 3
    assert f"{path}: the initial phases take more than 3 firings" in remarks
    assert "interrupted" not in remarks
    assert f"{EXAMPLE}: csdf_example" in output


def test_an_unknown_method_is_refused_with_the_known_methods(run, methods):
    code, _, remarks = run("analyze", EXAMPLE, "--method", "round")
    assert code == 2
    assert "broken, rounds, wrong" in remarks


@pytest.mark.parametrize(
    ("question", "answer", "complaint"),
    [
        ("storage", {"alpha": 5}, "leaves channel 'beta' unbounded"),
        ("storage", {"alpha": 1, "beta": 1}, "the graph deadlocks"),
        ("storage", 7, "expected capacities by channel"),
        ("mapping", None, "expected a csdf.Mapping"),
        ("throughput", 12.0, "is not exact"),
    ],
)
def test_the_judge_refuses_what_is_no_answer(question, answer, complaint):
    graph = read_graph(EXAMPLE)
    method = SimpleNamespace(__name__="method", **{question: lambda *_: answer})
    with pytest.raises(Refused, match=complaint):
        judged(method, question, graph, Stop(5))


@pytest.mark.parametrize(
    ("name", "verdict"), [("deadlocked", "agrees"), ("csdf_example", "differs")]
)
def test_a_storage_method_may_answer_that_the_graph_deadlocks(name, verdict):
    graph = read_graph(GRAPHS / f"{name}.xml")
    method = SimpleNamespace(__name__="method", storage=lambda graph: None)
    (storage,) = compare_method("m", method, graph, seconds=5.0, stop=Stop())
    assert (storage.verdict, storage.theirs) == (verdict, "deadlock")


def test_a_method_that_claims_too_much_differs_and_one_that_maps_is_analysed():
    graph = read_graph(EXAMPLE)

    def mapping(graph, platform):
        return best_mapping(graph, platform, budget=5).mapping

    method = SimpleNamespace(__name__="method", throughput=lambda graph: 11, mapping=mapping)
    speed, mapped = compare_method("m", method, graph, seconds=5.0, stop=Stop())
    assert (speed.verdict, speed.ours, speed.theirs) == ("differs", "12", "11")
    assert mapped.verdict == "agrees"


def test_a_method_that_fails_has_no_answer():
    def throughput(graph):
        raise KeyError("alpha")

    method = SimpleNamespace(__name__="method", throughput=throughput)
    (found,) = compare_method("m", method, read_graph(EXAMPLE), seconds=5.0, stop=Stop())
    assert (found.verdict, found.reason) == ("no answer", "KeyError: 'alpha'")


@pytest.mark.parametrize(
    "error", [CsdfError("no rate"), InvalidGraph("no actor"), InvalidArgument("no number")]
)
def test_an_error_of_the_project_that_a_method_raises_is_no_answer(error):
    def throughput(graph):
        raise error

    method = SimpleNamespace(__name__="method", throughput=throughput)
    (verdict,) = compare_method("m", method, read_graph(EXAMPLE), seconds=5.0, stop=Stop())
    assert (verdict.verdict, verdict.reason) == ("no answer", f"{type(error).__name__}: {error}")


def test_a_valid_schedule_of_a_graph_of_unlimited_speed_is_above_ours_without_a_share():
    graph = GraphBuilder("pair").actor("a", 1).actor("b", 1).channel("a", 1, "b", 1).graph()
    schedule = PeriodicSchedule(
        period=Fraction(50), starts={"a": (Fraction(0),), "b": (Fraction(1),)},
        recurrence={"a": Fraction(50), "b": Fraction(50)},
    )  # fmt: skip
    method = SimpleNamespace(__name__="method", throughput=lambda graph: schedule)
    (verdict,) = compare_method("m", method, graph, seconds=5.0, stop=Stop())
    assert (verdict.verdict, verdict.ours, verdict.theirs) == ("valid", "0", "50")
    assert verdict.reason == "above ours; its schedule is valid, for ever"


def verdict_of(verdict, ours, theirs):
    return Verdict(
        graph="g", tool="m", question="mapping", verdict=verdict, ours=ours, theirs=theirs,
        reason="", seconds=0.0, own_seconds=0.0,
    )  # fmt: skip


def test_the_mark_of_a_valid_answer_in_latex_is_its_relation_to_ours():
    pairs = ("9", "25/2"), ("13", "25/2")
    rows = {f"{ours}.xml": [verdict_of("valid", ours, theirs)] for ours, theirs in pairs}
    marks = re.findall(r"\\[gl]eq", compare._table(rows))
    assert marks == [r"\geq", r"\leq"]


def test_ctrl_c_within_a_file_keeps_its_verdicts_in_lines_of_json(run, install, monkeypatch):
    def interrupted(*_, **__):
        yield verdict_of("agrees", "12", "12")
        raise KeyboardInterrupt

    monkeypatch.setattr(compare, "_compared", interrupted)
    code, output, remarks = run("compare", EXAMPLE, *install(), "--json-lines")
    (line,) = map(json.loads, output.splitlines())
    assert (code, line["file"]) == (3, str(EXAMPLE))
    assert [verdict["ours"] for verdict in line["verdicts"]] == ["12"]
    assert "interrupted" in remarks


@pytest.mark.skipif(sys.platform != "linux", reason="memory of programs is limited on Linux only")
def test_a_program_runs_under_a_memory_limit_below_that_of_the_comparison():
    limited = (
        "import resource; from csdf.comparison.tools import printed; "
        "resource.setrlimit(resource.RLIMIT_AS, (2**31, 2**31)); "
        "print(printed(['sh', '-c', 'ulimit -v'], 20))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", limited], capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == str(2**31 // 1024)  # kilobytes
