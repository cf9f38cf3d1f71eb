"""What commands say about counts, missing arguments and defaults."""

import pytest

from csdf.cli.answers import counted


@pytest.mark.parametrize(
    ("count", "words"), [(0, "0 groups"), (1, "1 group"), (2, "2 groups"), (1000, "1000 groups")]
)
def test_all_counts_but_one_have_a_plural(count, words):
    assert counted(count, "group") == words


@pytest.mark.parametrize("command", [("cnn", "memory"), ("plan", "reuse"), ("plan", "fusion")])
def test_a_missing_model_is_named_once(run, command):
    code, _, remarks = run(*command)
    assert code == 2
    assert remarks.endswith("error: the following arguments are required: MODEL\n")


@pytest.mark.parametrize(
    ("command", "default"),
    [("cnn show", "drop,absorb"), ("plan reuse", "all"), ("plan traffic", "all")],
)
def test_the_help_of_simplify_says_what_happens_without_it(run, command, default):
    _, output, _ = run(*command.split(), "--help")
    words = " ".join(output.split())
    assert f"constants added to a layer's output); default: {default} --" in words


def test_one_network_one_group_one_point(run):
    _, fused, _ = run("plan", "fusion", "samos_example", "--memory", "1MB")
    assert "optimal: 1 group\n" in fused
    _, shared, _ = run("plan", "reuse", "samos_example", "--rows", "0", "--generations", "1")
    assert "samos_example: 1 network, " in shared
    assert "  front  1 point, " in shared
