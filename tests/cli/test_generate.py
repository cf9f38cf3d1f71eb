from csdf.analysis.consistency import repetition_vector
from csdf.io.graph_files import read_graph


def test_the_same_seed_gives_the_same_text(run):
    first = run("generate", "7")
    assert first[0] == 0
    assert run("generate", "7") == first
    assert run("generate", "8")[1] != first[1]


def test_the_graph_is_consistent_and_live(run, answer, tmp_path):
    for seed in range(5):
        path = tmp_path / f"{seed}.json"
        assert run("generate", seed, "--max-phases", "3", "--bounded", "-o", path)[0] == 0
        code, found = answer("analyze", path)
        assert (code, found["consistent"], found["deadlock"]) == (0, True, False)


def test_options_shape_the_graph(run, tmp_path):
    path = tmp_path / "g.xml"
    words = ("generate", "1", "--actors", "9", "--extra-channels", "0", "--no-self-loops")
    code, output, remarks = run(*words, "-o", path)
    # A ring of nine and no other channel.
    assert (code, output) == (0, "")
    assert remarks == f"csdf generate: wrote {path}: 9 actors, 9 channels\n"
    assert all(not channel.is_self_loop for channel in read_graph(path).channels)


def test_printed_and_written_text_are_the_same(run, tmp_path):
    path = tmp_path / "g.xml"
    run("generate", "3", "-o", path)
    assert run("generate", "3")[1] == path.read_text()


def test_an_impossible_shape_is_refused_in_one_line(run):
    code, output, remarks = run("generate", "1", "--actors", "0")
    assert (code, output) == (2, "")
    assert remarks == "csdf generate: actors is 0; expected at least 1\n"


def test_no_file_is_touched_without_an_output(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run("generate", "1")
    assert not list(tmp_path.iterdir())


def test_means_and_variances_shape_the_graph(run, tmp_path):
    path = tmp_path / "g.xml"
    words = ("--actors", "9", "--repetition-sum", "20", "--duration", "30", "--acyclic")
    assert run("generate", "1", *words, "-o", path)[0] == 0
    graph = read_graph(path)
    assert {actor.durations for actor in graph.actors} == {(30,)}  # the variance is 0
    assert sum(repetition_vector(graph).values()) == 20


def test_limits_do_not_go_with_means(run):
    code, _, remarks = run("generate", "1", "--rate", "3,1", "--max-rate", "9")
    assert (code, "--max-rate is a limit" in remarks) == (2, True)
    for wrong in ("0", "3,-1", "3,1,2,2", "1,2,3,4,5", "x"):
        code, output, remarks = run("generate", "1", "--rate", wrong)
        assert (code, output) == (2, "")
        assert "--rate" in remarks


def test_a_seed_that_is_no_number_is_refused_with_what_is_expected(run):
    code, _, remarks = run("generate", "abc")
    assert (code, "argument SEED: 'abc' is not a whole number; see" in remarks) == (2, True)
