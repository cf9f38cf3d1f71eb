"""`csdf fifo hls` on a design of ours: compiled, traced, sized, written, and read again."""

import json
import shutil
from pathlib import Path

import pytest

from csdf.analysis.throughput import throughput
from csdf.io.graph_files import read_graph
from tests.draw.report.html_reader import read_page
from tests.shared_data import SHARED, each

MODEL = Path(__file__).parents[2] / "models" / "fifo" / "hls_branch"
HLS = SHARED / "hls"
needs_compiler = pytest.mark.skipif(
    not (shutil.which("g++") or shutil.which("clang++")), reason="no C++ compiler is here"
)


@needs_compiler
@pytest.mark.slow
def test_depths_written_into_the_source_give_the_promised_cycles(answer, tmp_path):
    copy, page = tmp_path / "branch.cpp", tmp_path / "branch.html"
    source = MODEL / "branch.cpp"
    code, found = answer("fifo", "hls", source, "--report", MODEL, "-o", copy, "--page", page)
    assert code == 0
    require_page(page)
    assert found["cycles"] is None
    waiting = [(one["process"], one["fifo"]) for one in found["deadlock"]["cycle"]]
    assert waiting == [("read_in", "direct[0]"), ("subtract", "means"), ("mean", "for_mean[0]")]
    assert found["status"] == "optimal"
    code, again = answer("fifo", "hls", copy, "--report", MODEL / "csynth.xml", "--skew", "0")
    assert again["cycles"] == found["sizing"]["cycles"]
    assert {one["name"]: one["given"] for one in again["fifos"]} == found["depths"]
    graph = tmp_path / "branch.xml"
    # 400,000 calls a second of 250 million cycles: 625 cycles each.
    asked = ("--fps", "400000", "--csdf", graph)
    code, found = answer("fifo", "hls", source, "--report", MODEL, *asked)
    assert found["sizing"]["goal"] == 625 >= found["sizing"]["cycles"]
    # Calls overlap: a process that is slow sets their interval, not the time of a call.
    interval = throughput(read_graph(graph)).period
    longest = max(sum(one.durations) for one in read_graph(graph).actors)
    assert longest <= interval < found["sizing"]["cycles"]


def test_without_a_report_it_says_which_one_it_needs(run):
    code, _, remarks = run("fifo", "hls", MODEL / "branch.cpp")
    assert code == 2
    assert "csynth.xml" in remarks


@needs_compiler
def test_a_top_function_that_is_missing_is_named(run):
    code, _, remarks = run(
        "fifo", "hls", MODEL / "branch.cpp", "--report", MODEL, "--top", "nobody"
    )
    assert code == 2
    assert "'nobody'" in remarks


@pytest.mark.parametrize("goal", [("--deadlock-free",), ("--front", "--objective", "bram")])
def test_a_table_of_accesses_answers_as_its_schema_says(answer, tmp_path, goal):
    path = tmp_path / "accesses.csv"
    lines = [
        "# loop a l interval=1 depth=3",
        "# loop b m interval=1 depth=2",
        "# fifo f bits=8 depth=4",
    ]
    lines += [f"a,l,{word},f,write,2" for word in range(6)]
    lines += [f"b,m,{word},f,read,1" for word in range(6)]
    path.write_text("\n".join(lines))
    code, found = answer("fifo", "hls", path, *goal)
    # Word k is written in cycle k + 2, and read a cycle later, in the last stage of its iteration.
    assert (code, found["cycles"]) == (0, 5 + 3)


def test_a_table_with_cycles_out_of_reach_says_no(run, answer, tmp_path):
    path = tmp_path / "accesses.csv"
    path.write_text("a,l,0,f,write,2\nb,m,0,f,read,1\n")
    code, output, _ = run("fifo", "hls", path, "--cycles", "2")
    assert code == 1
    assert "no depths for 2 cycles: no depths are faster than 3 cycles" in output
    # The word of g is written behind 6 words of f, too many for a shift register. The last word of f
    # is read as soon as it is there, which in a memory is a cycle later.
    rows = [f"# loop {one} interval=1 depth=1" for one in ("a l", "b m")]
    rows += ["# fifo f bits=512 depth=6", *(f"a,l,{k},f,write,1" for k in range(6))]
    rows += ["a,l,6,g,write,1", "a,l,30,f,write,1", "b,m,0,g,read,1"]
    rows += [f"b,m,{k},f,read,1" for k in range(1, 8)]
    path.write_text("\n".join(rows))
    fewest = answer("fifo", "hls", path)[1]["fewest_cycles"]
    code, output, _ = run("fifo", "hls", path, "--cycles", fewest)
    assert (code, f"no depths are faster than {fewest + 1} cycles" in output) == (1, True)
    assert run("fifo", "hls", path, "--cycles", fewest + 1)[0] == 0
    code, _, remarks = run("fifo", "hls", path, "--fps", "30")
    assert code == 2
    assert "--cycles" in remarks  # no report says the clock


def test_a_front_of_a_table_that_deadlocks_in_any_depths_says_no(run, tmp_path):
    path = tmp_path / "accesses.csv"
    path.write_text("a,l,0,g,read,0\na,l,0,f,write,1\nb,m,0,f,read,0\nb,m,0,g,write,1\n")
    code, output, _ = run("fifo", "hls", path, "--front")
    assert code == 1
    assert "none: it deadlocks in any depths" in output
    assert "in time" not in output


def require_page(path):
    """The page has depths, words over time and the story of the deadlock."""
    assert read_page(path).problems == []
    text = path.read_text(encoding="utf-8")
    assert "992 bits of FIFO storage" in text
    assert "The depths of the source: why the design deadlocks" in text
    assert "read_in (branch.cpp:75) waits to write direct[0]" in text
    assert text.count('class="spark"') == 3  # FIFOs deeper than 2
    assert "2 lanes: depth 22 of 16 bits; most 22" in text


def test_a_front_of_calls_has_no_page(run, tmp_path):
    words = ("fifo", "hls", MODEL / "branch.cpp", "--report", MODEL)
    code, _, err = run(*words, "--front", "--page", tmp_path / "branch.html")
    assert code == 2
    assert "without --page" in err


def shared_designs(*names):
    return [HLS / "designs" / name for name in names if (HLS / "designs" / name).exists()]


@needs_compiler
@pytest.mark.slow
@each("folder", shared_designs("polybench__220_DSPs__opt5__mvt"))
def test_a_fifo_that_the_skew_needs_deep_is_not_too_deep(folder, answer):
    bench, report = folder / "mvt_tb.cpp", folder / "report"
    words = (folder / "mvt.cpp", "--testbench", bench, "--report", report, "--deadlock-free")
    code, found = answer("fifo", "hls", *words)
    assert code == 0
    assert {one["name"] for one in found["fifos"] if one["is_needed"]} == {"v54"}
    # At depth 2 the reader waits for the lanes of v54 alone.
    assert {one["fifo"].split("[")[0] for one in found["depth_2"]["deadlock"]["cycle"]} == {"v54"}


@needs_compiler
@pytest.mark.slow
@each(
    "folder",
    shared_designs("polybench__2560_DSPs__opt4__bicg", "transformers__opt5__FeedForward"),
)
def test_cycles_of_a_real_design_agree_with_its_rtl(folder, answer):
    expected = json.loads((HLS / "expected.json").read_text())[folder.name]["rtl_cycles"]
    source = next(one for one in folder.glob("*.cpp") if not one.name.endswith("_tb.cpp"))
    bench = next(folder.glob("*_tb.cpp"))
    words = ("--report", folder / "report", "--skew", "0", "--objective", "bram")
    code, found = answer("fifo", "hls", source, "--testbench", bench, *words)
    assert code == 0
    assert abs(found["cycles"] - expected) * 1000 <= expected
    assert found["status"] == "optimal"
    assert found["cost"]["bram_18k"] == 0  # FIFOAdvisor's best point, too
