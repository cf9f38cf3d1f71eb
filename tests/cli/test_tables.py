"""Tables that fit the terminal."""

import pytest

from csdf.cli.frame import terminal
from tests.cli.running import GRAPHS

TABLE = [
    ["layer", "operator", "bytes"],
    ["a_rather_long_name_of_a_layer", "conv 3x3, 8 groups + relu", "1024"],
    ["b", "softmax", "8"],
]
NETWORK = ("person_detection", "--element-bytes", "1")


def test_a_table_that_goes_into_a_file_is_as_wide_as_it_has_to_be(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    lines = terminal.aligned(TABLE, texts=(0, 1))
    assert lines[1] == "a_rather_long_name_of_a_layer  conv 3x3, 8 groups + relu   1024"


def test_long_texts_lose_their_middles_where_the_terminal_is_narrow(monkeypatch):
    monkeypatch.setenv("COLUMNS", "50")
    lines = terminal.aligned(TABLE, texts=(0, 1))
    assert max(map(len, lines)) <= 50
    assert lines[1].startswith("a_rather_")
    assert "…" in lines[1]
    assert lines[2].split() == ["b", "softmax", "8"]


def test_what_no_cut_makes_fit_is_listed_cell_by_cell(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    wide = [["name", *(f"figure {n}" for n in range(9))], ["net", *map(str, range(9))]]
    lines = terminal.aligned(wide)
    assert lines[0] == "net"
    assert lines[1].split() == ["figure", "0", "0"]
    assert len(lines) == 10


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("words", [("cnn", "memory", *NETWORK), ("cnn", "show", *NETWORK)])
def test_the_tables_of_networks_fit(run, monkeypatch, words, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    _, output, _ = run(*words)
    rows = [
        line
        for line in output.splitlines()
        if not line.startswith(("min total:", "row-wise:", "person"))
    ]
    assert max(map(len, rows)) <= columns


def test_a_row_of_a_name_and_a_text_goes_on_below_the_text(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    lines = ["  reason   the least of layer by layer and row by row needs 36 kB"]
    assert list(terminal.wrapped(lines)) == [
        "  reason   the least of layer by layer",
        "           and row by row needs 36 kB",
    ]


def test_a_number_is_not_wrapped_away_from_its_unit(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    # Broken at the fortieth character, each of these would part 36.11 from kB, or in from 16.
    for line in ("net: the smallest that was found is 36.11 kB", f"{'x' * 32} filter 16, deci 1"):
        (*_, last) = terminal.wrapped([line])
        assert last in ("  36.11 kB", "  filter 16, deci 1")


def test_lines_of_a_pipe_are_whole(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    assert list(terminal.wrapped(["word " * 100])) == ["word " * 100]


def test_a_truncated_table_is_marked_as_truncated(monkeypatch):
    monkeypatch.setenv("COLUMNS", "50")
    assert " ".join(terminal.aligned(TABLE, texts=(0, 1))[3:]).split() == terminal.CUT.split()
    monkeypatch.setenv("COLUMNS", "100")
    assert terminal.CUT not in terminal.aligned(TABLE, texts=(0, 1))


ANSWERS = (
    ("analyze", GRAPHS / "satellite.xml", "--explain"),
    ("pareto", GRAPHS / "modem.xml"),
    ("schedule", GRAPHS / "modem.xml"),
    ("sensitivity", GRAPHS / "h263decoder.xml"),
    ("buffers", GRAPHS / "deadlocked.xml"),
    ("fit", "samos_example", "--ram", "700", "--element-bytes", "1"),
    ("plan", "traffic", "samos_example", "--buffer", "4kB", "--nest"),
    ("analyze", *sorted(GRAPHS.glob("*.xml"))),
    ("compare", *sorted(GRAPHS.glob("m*.xml"))),
    ("deploy", "samos_example"),
    ("plan", "primitives", "--help"),
    *((group, "--help") for group in ("cnn", "fifo", "plan")),
    ("--help",),
)


@pytest.mark.parametrize("words", ANSWERS, ids=lambda words: " ".join(map(str, words))[-40:])
def test_no_line_is_longer_than_80_columns(run, monkeypatch, words):
    monkeypatch.setenv("COLUMNS", "80")
    _, output, _ = run(*words)
    assert [line for line in output.splitlines() if len(line) > 80] == []


def test_the_front_of_many_channels_names_those_that_differ(run, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    _, output, _ = run("pareto", GRAPHS / "modem.xml")
    lines = output.splitlines()
    assert max(map(len, lines)) <= 100
    assert lines[1].endswith("capacities: in_to_filt, filt_to_hil")
    assert [line.split()[1:] for line in lines[2:5]] == [
        ["32", "1", "8"],
        ["18", "2", "8"],
        ["16", "2", "9"],
    ]
    # Each of the 19 channels stands in the answer once.
    assert output.count("_to_") == 19
