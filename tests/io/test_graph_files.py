import pytest

from csdf.errors import UnreadableFile, UnwritableFile
from csdf.io.graph_files import read_graph, write_graph
from csdf.io.sdf3.reader import parse_sdf3
from tests.io import sdf3_texts

PAIR = parse_sdf3(sdf3_texts.FULL.encode())


@pytest.mark.parametrize("name", ["g.xml", "g.json", "g.XML"])
def test_a_written_graph_is_read_back(tmp_path, name):
    write_graph(tmp_path / name, PAIR)
    assert read_graph(tmp_path / name) == PAIR


def test_the_origin_survives_json(tmp_path):
    write_graph(tmp_path / "g.json", PAIR)
    assert read_graph(tmp_path / "g.json").origin == sdf3_texts.FULL


@pytest.mark.parametrize("suffix", [".xml", ".json"])
def test_an_unknown_suffix_is_checked_by_the_content(tmp_path, suffix):
    write_graph(tmp_path / f"g{suffix}", PAIR)
    (tmp_path / f"g{suffix}").rename(tmp_path / "g.graph")
    assert read_graph(tmp_path / "g.graph") == PAIR


def test_a_file_that_is_no_graph_is_refused(tmp_path):
    (tmp_path / "g.txt").write_text("digraph {}")
    with pytest.raises(UnreadableFile, match=r"g\.txt: suffix '\.txt'; expected a graph: SDF3"):
        read_graph(tmp_path / "g.txt")


def test_json_in_another_encoding_is_refused(tmp_path):
    (tmp_path / "g.json").write_bytes(b'"\xff"')
    with pytest.raises(UnreadableFile, match=r"g\.json: not text in UTF-8: found 0x.. at byte 1"):
        read_graph(tmp_path / "g.json")


def test_dot_is_written(tmp_path):
    write_graph(tmp_path / "g.dot", PAIR, highlighted_actors=["a"])
    assert (tmp_path / "g.dot").read_text().startswith('digraph "pair" {')


def test_an_unknown_suffix_is_not_written(tmp_path):
    with pytest.raises(UnwritableFile, match=r"from '\.txt'; expected \.xml, \.json, \.dot"):
        write_graph(tmp_path / "g.txt", PAIR)
    assert not list(tmp_path.iterdir())


def test_reading_options_reach_the_reader(tmp_path):
    (tmp_path / "g.xml").write_text(sdf3_texts.FULL)
    assert read_graph(tmp_path / "g.xml", buffer_sizes=True).channel("c").capacity == 9
