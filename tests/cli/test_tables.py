"""Tables that fit the terminal."""

import pytest

from csdf.cli.frame import terminal

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
