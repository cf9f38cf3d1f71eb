"""`csdf codegen` as its users see it."""

import json
import shutil
import subprocess

import pytest

from tests.cli.running import files_in, run

__all__ = ["run"]

GRAPHS = "models/graphs"


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("cc") or not shutil.which("make"), reason="needs cc, make")
def test_what_is_written_runs_and_leaves_the_channels_as_they_were(run, tmp_path):
    code, output, _ = run("codegen", f"{GRAPHS}/satellite.xml", "-o", tmp_path / "c")
    assert code == 0
    assert "make -C" in output
    ended = subprocess.run(
        ["make", "-C", tmp_path / "c", "test"], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "tokens as they were" in ended.stdout


def test_json_tells_the_schedule_and_the_buffers(run, tmp_path):
    path = f"{GRAPHS}/csdf_example.xml"
    code, output, _ = run(
        "codegen", path, "-o", tmp_path / "c", "--json", "--order", "single-appearance"
    )
    found = json.loads(output)
    assert (code, found["schedule"], found["is_static"]) == (0, "(6 a) (4 b) (2 c)", True)
    # alpha holds what six firings of a put, 3 * (3 + 1); beta what four of b put, 2 * (2 + 4); the
    # three self-loops a token and the space for its successor
    assert [one["capacity"] for one in found["buffers"]] == [12, 12, 2, 2, 2]
    assert found["buffer_bytes"] == 4 * (12 + 12 + 6)
    assert sorted(found["files"]) == files_in(tmp_path / "c")


def test_capacities_are_kept(run, tmp_path):
    path = f"{GRAPHS}/csdf_example.xml"
    options = ("--capacity", "alpha=9", "--token-size", "8", "--json")
    code, output, _ = run("codegen", path, "-o", tmp_path / "c", *options)
    found = json.loads(output)
    assert code == 0
    assert (found["buffers"][0]["capacity"], found["buffers"][0]["token_bytes"]) == (9, 8)


def test_the_smallest_buffers_are_those_of_csdf_buffers(run, tmp_path):
    path = f"{GRAPHS}/samplerate.xml"
    _, output, _ = run("buffers", path, "--json")
    wanted = json.loads(output)["size"]
    _, output, _ = run("codegen", path, "--smallest", "-o", tmp_path / "c", "--json")
    buffers = json.loads(output)["buffers"]
    assert sum(one["capacity"] for one in buffers[:5]) == wanted  # the others are self-loops


@pytest.mark.parametrize(("name", "expected"), [("deadlocked", 1), ("inconsistent", 1)])
def test_a_deadlocked_graph_is_reported_and_no_file_written(run, tmp_path, name, expected):
    code, output, remarks = run("codegen", f"{GRAPHS}/{name}.xml", "-o", tmp_path / "c")
    assert (code, output) == (expected, "")
    assert name in remarks
    assert not (tmp_path / "c").exists()
