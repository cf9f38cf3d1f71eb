"""Files that a command writes: others are replaced, those that it reads are not."""

import shutil

from tests.cli.running import GRAPHS

EXAMPLE = GRAPHS / "csdf_example.xml"


def test_a_file_that_the_command_reads_is_not_written_over(run, tmp_path):
    graph = tmp_path / "graph.xml"
    shutil.copy(EXAMPLE, graph)
    for words in (("buffers", graph, "-o", graph), ("convert", graph, "-o", graph)):
        code, _, remarks = run(*words)
        assert code == 2
        assert "is read by this command" in remarks or "is the input" in remarks
    assert graph.read_bytes() == EXAMPLE.read_bytes()


def test_one_file_is_not_written_twice(run, tmp_path):
    picture = tmp_path / "graph.xml"
    code, _, remarks = run("buffers", EXAMPLE, "-o", picture, "--schedule", picture)
    assert code == 2
    assert "would be written twice" in remarks
    assert not picture.exists()


def test_other_files_are_replaced(run, tmp_path):
    target = tmp_path / "sized.xml"
    target.write_text("before")
    code, _, _ = run("buffers", EXAMPLE, "-o", target)
    assert code == 0
    assert "before" not in target.read_text()
