"""The comparison with other tools: what it measures, and what it writes."""

import json
import sys

import pytest

from tests.benchmarks import compare
from tests.benchmarks.comparing.measuring import (
    interleaved,
    processor_seconds,
    resources,
)

LOOP = "for _ in range(10**6): pass"


def test_waiting_is_no_processor_time_and_working_is():
    waited = processor_seconds([sys.executable, "-c", "import time; time.sleep(0.2)"], 60)
    worked = processor_seconds([sys.executable, "-c", f"{LOOP}\n" * 5], 60)
    assert 0 < waited < worked


def test_what_ends_too_late_or_prints_no_answer_has_no_figure():
    assert processor_seconds([sys.executable, "-c", "while True: pass"], 0.2) is None
    refused = processor_seconds(
        [sys.executable, "-c", "print(1)"], 60, gives=lambda text: "2" in text
    )
    assert refused is None


def test_the_memory_of_a_process_counts_its_largest_moment():
    code = "b = bytearray(60_000_000); del b; print('done')"
    used = resources([sys.executable, "-c", code], 60)
    assert used.output == "done\n"
    assert 60 < used.megabytes < 200


@pytest.mark.slow
def test_a_process_ends_at_its_limit_of_processor_seconds():
    assert resources([sys.executable, "-c", "while True: pass"], 600, processor_limit=1) is None


def test_programs_take_turns_and_failures_are_not_repeated(tmp_path):
    log = tmp_path / "log"
    note = "import sys; open(sys.argv[1], 'a').write(sys.argv[2]); sys.exit(0)"
    commands = {
        name: ([sys.executable, "-c", note, log, name], lambda text, name=name: name != "b")
        for name in ("a", "b", "c")
    }
    least = interleaved(commands, 60, 2)
    assert log.read_text() == "abcac"
    assert least["b"] is None
    assert min(least["a"], least["c"]) > 0


def test_the_table_compares_with_the_faster_peer():
    figures = {
        "one": {"here": 0.1, "Kiter": 0.2, "SDF3": 0.4},  # half of Kiter
        "two": {"here": 0.8, "Kiter": None, "SDF3": 0.4},  # twice SDF3
        "three": {"here": 0.1, "Kiter": 0.001},  # too short for the mean
    }
    text = compare.table(figures)
    assert "| `one` | 0.10 | 0.20 | 0.40 | 0.50 |" in text
    assert "| `two` | 0.80 | - | 0.40 | 2.00 |" in text
    # The geometric mean of 0.5 and 2.
    assert "2 ratios to a peer of over 0.05 s: 1.00" in text


def test_only_the_table_of_a_page_changes(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"before\n{compare.BEGIN}\nold\n{compare.END}\nafter\n")
    compare.replace_table(page, "new")
    assert page.read_text() == f"before\n{compare.BEGIN}\nnew\n{compare.END}\nafter\n"


def test_without_the_graphs_of_the_peers_those_of_the_checkout_are_compared(tmp_path):
    # Of the rows these are in models/graphs, too.
    found = [name for name in (*compare.PERIODS, *compare.FRONTS) if compare.place(tmp_path, name)]
    assert found == ["sdf3/modem", "sdf3/h263decoder", "sdf3/samplerate"]
    own = tmp_path / "graphs" / "sdf3" / "modem.xml"
    own.parent.mkdir(parents=True)
    own.touch()
    assert compare.place(tmp_path, "sdf3/modem") == own.resolve()


def test_some_rows_do_not_take_the_place_of_the_whole_table(capsys):
    with pytest.raises(SystemExit):
        compare.parsed_options(["--only", "modem", "--write"])
    assert "leave out --only" in capsys.readouterr().err


def test_the_history_has_a_line_for_each_commit_in_units_of_the_loop(tmp_path, monkeypatch):
    monkeypatch.setattr(compare, "loop_seconds", lambda: 0.5)
    path = tmp_path / "history.jsonl"
    compare.add_to_history(path, "abc", {"one": {"here": 0.2}, "two": {"here": None}})
    compare.add_to_history(path, "abd", {"one": {"here": 0.1}})
    # 0.2 s are 0.4 loops of half a second; what has no figure is left out.
    assert [json.loads(line) for line in path.read_text().splitlines()] == [
        {"commit": "abc", "ratios": {"one": 0.4}},
        {"commit": "abd", "ratios": {"one": 0.2}},
    ]
