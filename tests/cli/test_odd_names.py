r"""Names out of files that would act on a terminal, forge lines, or break a picture."""

import json
import unicodedata
from xml.etree import ElementTree

import pytest

from csdf.io.graph_files import write_graph
from csdf.model.graph import Actor, Channel, Graph
from csdf.names import quoted, quoted_lines

# Clears the screen, the same in one C1 control, writes backwards, hides, begins a line, is a formula.
ODD = "\x1b[2J\x9b2J\u202eodd\u2066\u200b\rx\nFORGED $\\frac$ <b>--> \x00\x7f é"
CONTROLS = ODD.replace("\x00", "")  # what a file of XML or protobuf can hold


def graph_file(folder, *, initial=4):
    """A ring of two actors with odd names; without initial tokens it deadlocks."""
    names = [f"{ODD}{place}" for place in range(2)]
    channels = tuple(
        Channel(
            name=f"c{ODD}{i}", producer=names[i], consumer=names[1 - i], production=(1,),
            consumption=(1,), initial_tokens=initial * i,
        )
        for i in range(2)
    )  # fmt: skip
    actors = tuple(Actor(name=name, durations=(2,)) for name in names)
    path = folder / "graph.json"
    write_graph(path, Graph(name=ODD, actors=actors, channels=channels))
    return path


def network_file(folder):
    """Three convolutions in a row."""
    layers = [
        {"name": f"{CONTROLS}{i}", "op": "conv", "subop": "conv", "fs": 3, "stride": 1, "ifm": 2,
         "ih": 8, "iw": 8, "ofm": 2, "oh": 8, "ow": 8, "pads": [1, 1, 1, 1], "fused_ops": [], "id": i}
        for i in range(3)
    ]  # fmt: skip
    connections = [{"src": i, "dst": i + 1} for i in range(2)]
    document = {"name": CONTROLS, "_DNN__layers": layers, "_DNN__connections": connections}
    path = folder / "network.json"
    path.write_text(json.dumps(document))
    return path


def arena_file(folder):
    buffers = [
        {"id": f"{ODD}{i}", "size": 8, "start": i, "end": 60 + i} for i in range(3)
    ]  # fmt: skip
    path = folder / "arena.json"
    path.write_text(json.dumps({"problems": [{"name": ODD, "buffers": buffers}]}))
    return path


GRAPHS_ANSWERED = [
    ("analyze",), ("analyze", "--csv"), ("analyze", "GRAPH"), ("analyze", "--json"),
    ("buffers",), ("buffers", "--format", "folding"), ("buffers", "--json"),
    ("pareto",), ("pareto", "--csv"),
    ("schedule",), ("schedule", "--csv"), ("schedule", "--kind", "periodic"),
    ("schedule", "--kind", "strict"), ("report", "-o", "page.html"),
]  # fmt: skip
NETWORKS_ANSWERED = [
    ("cnn", "show"), ("cnn", "memory"), ("cnn", "verify"), ("report", "-o", "page.html"),
    ("plan", "fusion", "--ram", "100kB"), ("plan", "fusion", "--ram", "1B"),
    ("plan", "reuse", "--time-limit", "1s"),
    ("plan", "traffic", "--buffer", "64kB"),
]  # fmt: skip


def acting(text):
    """The characters that would not be seen, but for the breaks between lines."""
    return {c for c in text if c != "\n" and unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp")}


def require_harmless(found):
    code, output, remarks = found
    assert code in (0, 1, 3), remarks
    for text in (output, remarks):
        assert acting(text) == set()
        assert not any(line.startswith("FORGED") for line in text.splitlines())


@pytest.mark.parametrize("words", GRAPHS_ANSWERED, ids=" ".join)
@pytest.mark.parametrize("initial", [4, 0], ids=["live", "deadlock"])
def test_no_command_on_graphs_lets_a_name_act(run, tmp_path, monkeypatch, words, initial):
    monkeypatch.chdir(tmp_path)
    path = graph_file(tmp_path, initial=initial)
    found = run(words[0], path, *(path if word == "GRAPH" else word for word in words[1:]))
    if "--csv" in words:  # a field with a line break stays one field in quotes
        found = (found[0], found[1].replace("\nFORGED", ""), found[2])
    require_harmless(found)


@pytest.mark.parametrize("words", NETWORKS_ANSWERED, ids=" ".join)
def test_no_command_on_networks_lets_a_name_act(run, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    place = 1 if words[0] == "report" else 2
    require_harmless(run(*words[:place], network_file(tmp_path), *words[place:]))


@pytest.mark.parametrize("words", [(), ("--capacity", "9"), ("-o", "x.csv")])
def test_no_plan_of_an_arena_lets_a_name_act(run, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    require_harmless(run("plan", "arena", arena_file(tmp_path), *words))


def test_no_wrong_choice_lets_a_name_act(run, tmp_path):
    code, _, remarks = run("plan", "arena", arena_file(tmp_path), "--only", "\x1b[2J")
    assert (code, acting(remarks)) == (2, set())


@pytest.mark.parametrize("name", ["\x1b[2J.json", "no\u202efile.json", "no\nfile.json"])
def test_no_refusal_lets_a_name_act(run, name):
    for command in ("analyze", "buffers", "report", "schedule"):
        code, output, remarks = run(command, name)
        assert (code, output) == (2, "")
        assert acting(remarks) == set()
        assert not remarks.startswith("file")


PICTURES = [
    ("pareto", "GRAPH"), ("plan", "arena", "ARENA"), ("cnn", "memory", "NETWORK"),
    ("plan", "fusion", "NETWORK", "--ram", "100kB"),
    ("plan", "reuse", "NETWORK", "--time-limit", "1s"),
    ("plan", "traffic", "NETWORK", "--buffer", "64kB"),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("words", PICTURES, ids=" ".join)
@pytest.mark.parametrize("suffix", ["svg", "png", "html"])
def test_a_picture_shows_names_as_they_are_written(run, tmp_path, words, suffix):
    pytest.importorskip("matplotlib")
    files = {"GRAPH": graph_file, "ARENA": arena_file, "NETWORK": network_file}
    path = tmp_path / f"picture.{suffix}"
    given = [files[word](tmp_path) if word in files else word for word in words]
    code, _, remarks = run(*given, "--plot", path)
    assert code in (0, 3), remarks
    if suffix != "png":
        text = path.read_text()
        assert acting(text) == set()
    if suffix == "svg":
        ElementTree.fromstring(text)  # well-formed


def test_the_report_shows_names_as_they_are_written(run, tmp_path):
    for path in (graph_file(tmp_path), network_file(tmp_path)):
        page = tmp_path / "page.html"
        assert run("report", path, "-o", page)[0] == 0
        assert acting(page.read_text().replace("\t", "")) == set()
        assert r"\x1b[2J\x9b2J\u202eodd" in page.read_text()


def test_what_acts_is_quoted_and_letters_stay():
    assert quoted("\x1b[0m\x9b\u202e\n\t\x00\ud800") == r"\x1b[0m\x9b\u202e\n\t\x00\ud800"
    assert quoted("\ufffe\U0010ffff") == r"\ufffe\U0010ffff"
    assert quoted("né 名前 العربية 🙂 a\u00a0b") == "né 名前 العربية 🙂 a\u00a0b"
    assert quoted_lines("a\x85\nb\u2028") == "a\\x85\nb\\u2028"
