import pytest

from csdf.io.graph_files import read_graph
from tests.cli.running import GRAPHS

MODELS = sorted(path.name for path in GRAPHS.glob("*.xml"))


@pytest.mark.parametrize("name", MODELS)
def test_from_xml_to_json_and_back_nothing_is_lost(run, tmp_path, name):
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
