import pytest

from csdf.io.graph_files import read_graph, write_graph
from csdf.model.builder import GraphBuilder
from tests.cli.running import GRAPHS

MODELS = sorted(path.name for path in GRAPHS.glob("*.xml"))


@pytest.mark.parametrize("name", MODELS)
def test_xml_to_json_and_back_preserves_a_graph(run, tmp_path, name):
    assert run("convert", GRAPHS / name, tmp_path / "g.json")[0] == 0
    assert run("convert", tmp_path / "g.json", tmp_path / "g.xml")[0] == 0
    assert (tmp_path / "g.xml").read_bytes() == (GRAPHS / name).read_bytes()


def test_what_was_written_is_remarked(run, tmp_path):
    target = tmp_path / "g.json"
    code, output, remarks = run("convert", GRAPHS / "modem.xml", target)
    assert (code, output) == (0, "")
    assert remarks == f"csdf convert: wrote {target}: 16 actors, 35 channels\n"


def test_a_capacity_is_kept_in_json_and_as_buffer_size(run, answer, tmp_path):
    for name, options in (("g.json", []), ("g.xml", ["--buffer-sizes"])):
        path = tmp_path / name
        assert run("convert", GRAPHS / "csdf_example.xml", path, "--capacity", "alpha=7")[0] == 0
        graph = read_graph(path, buffer_sizes=bool(options))
        assert graph.channel("alpha").capacity == 7


def test_a_capacity_as_reverse_channel_gives_the_same_period(run, answer, tmp_path):
    words = ("convert", GRAPHS / "csdf_example.xml")
    bounds = ("--capacity", "alpha=5", "--capacity", "beta=8")
    run(*words, tmp_path / "property.xml", *bounds)
    run(*words, tmp_path / "reverse.xml", *bounds, "--capacities", "reverse")
    assert read_graph(tmp_path / "reverse.xml").channels[-1].capacity is None
    plain = answer("analyze", tmp_path / "reverse.xml")[1]["period"]
    assert plain == answer("analyze", "--buffer-sizes", tmp_path / "property.xml")[1]["period"]
    assert int(plain) > 12


@pytest.mark.parametrize(
    ("options", "actors", "period"),
    [
        (["--hsdf"], 12, "12"),  # one actor for each firing
        (["--unfold", "3"], 3, "36"),  # one iteration is three
        (["--merge-parallel"], 3, "12"),
        (["--limit", "c=1"], 3, "12"),
    ],
)
def test_transformations_change_the_graph_as_they_say(
    run, answer, tmp_path, options, actors, period
):
    path = tmp_path / "g.json"
    assert run("convert", GRAPHS / "csdf_example.xml", path, *options)[0] == 0
    found = answer("analyze", path)[1]
    assert (found["actors"], found["period"]) == (actors, period)


def test_dot_marks_the_critical_cycle_when_asked(run, tmp_path):
    path = tmp_path / "g.dot"
    assert run("convert", GRAPHS / "h263decoder.xml", path)[0] == 0
    assert 'color="red"' not in path.read_text()
    assert run("convert", GRAPHS / "h263decoder.xml", path, "--highlight")[0] == 0
    marked = [line for line in path.read_text().splitlines() if 'color="red"' in line]
    # iq and its self-loop limit the decoder.
    assert [line.split()[0] for line in marked] == ['"iq"', '"iq"']


def test_what_the_graph_does_not_have_is_refused(run, tmp_path):
    for option, complaint in (
        ("--capacity", "there is no channel 'z'"),
        ("--limit", "there is no actor 'z'"),
    ):
        code, _, remarks = run("convert", GRAPHS / "modem.xml", tmp_path / "g.json", option, "z=1")
        assert code == 2
        assert complaint in remarks
        assert len(remarks.splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_phases_are_refused_in_an_sdf_file(run, tmp_path):
    target = tmp_path / "g.xml"
    code, _, remarks = run("convert", GRAPHS / "csdf_example.xml", target, "--kind", "sdf")
    assert code == 2
    assert len(remarks.splitlines()) == 1
    assert not target.exists()


def test_fewer_phases_say_whether_the_period_is_a_bound_from_above_or_below(run, answer, tmp_path):
    source, path = GRAPHS / "csdf_example.xml", tmp_path / "g.json"
    code, _, remarks = run("convert", source, path, "--abstract", "1", "--abstract", "a=2")
    assert code == 0
    assert "its period is at least that of the graph" in remarks
    graph = read_graph(path)
    assert [actor.phases for actor in graph.actors] == [2, 1, 1]
    words = ("--abstract", "1", "--abstract-error", "faster")
    code, _, remarks = run("convert", source, path, *words, "--overwrite")
    assert code == 0
    assert "its period is never above that of the graph" in remarks
    assert "more than the graph needs" in remarks
    assert int(answer("analyze", path)[1]["period"]) <= 12


def test_merged_actors_fire_sequentially(run, answer, tmp_path):
    path = tmp_path / "g.json"
    code, _, remarks = run("convert", GRAPHS / "csdf_example.xml", path, "--abstract-actors", "a,c")
    assert (code, "period is at least that of the graph" in remarks) == (0, True)
    found = answer("analyze", path)[1]
    # 6 firings of a take 12, 2 of c take 5: one after the other they need 17 at least.
    assert (found["actors"], int(found["period"]) >= 17) == (2, True)


def to_and_fro(consumption):
    """b needs the first token of a before a can go on with its second phase."""
    builder = GraphBuilder("to and fro").actor("a", [1, 1]).actor("b", 1)
    return builder.channel("a", [1, 0], "b", 1).channel("b", 1, "a", consumption).graph()


def test_a_deadlock_that_the_abstraction_brings_is_told_from_one_of_the_graph(run, tmp_path):
    alive, dead = tmp_path / "alive.json", tmp_path / "dead.json"
    write_graph(alive, to_and_fro([0, 1]))
    write_graph(dead, to_and_fro([1, 0]))
    code, _, remarks = run("convert", alive, tmp_path / "g.json", "--abstract", "1")
    assert code == 1
    assert "it deadlocks, but the graph does not" in remarks
    code, _, remarks = run("convert", dead, tmp_path / "g.json", "--abstract", "1")
    assert code == 1
    assert "it deadlocks, as the graph itself does" in remarks


def test_abstractions_that_make_no_sense_are_refused(run, tmp_path):
    for words, complaint in (
        (("--abstract", "0"), "at least 1"),
        (("--abstract", "z=1"), "there is no actor 'z'"),
        (("--abstract-actors", "a"), "two or more actors"),
        (("--abstract-actors", "a,z"), "there is no actor 'z'"),
        (("--abstract-actors", "a,b", "--abstract-error", "faster"), "leave out"),
    ):
        code, _, remarks = run("convert", GRAPHS / "csdf_example.xml", tmp_path / "g.json", *words)
        assert code == 2
        assert complaint in remarks
    assert not list(tmp_path.iterdir())
