"""Models that readers let through go through the commands: an answer, or one line of refusal."""

import random as randomness
from pathlib import Path

import pytest

from csdf.errors import CsdfError
from tests.cli.running import run
from tests.fuzz.readers import readers

__all__ = ["run"]

COMMANDS = {
    "sdf3": (("analyze", "--time-limit", "100ms"), ("buffers", "--time-limit", "100ms")),
    "graph json": (("analyze", "--time-limit", "100ms"),),
    "layer table": (("analyze", "--time-limit", "100ms"),),
    "network json": (("cnn", "show"), ("cnn", "memory", "--time-limit", "100ms")),
    "darknet": (("cnn", "show"),),
    "onnx": (("cnn", "show"),),
    "arena csv": (("plan", "arena", "--time-limit", "100ms"),),
    "arena glow": (("plan", "arena", "--time-limit", "100ms"),),
    "arena json": (("plan", "arena", "--time-limit", "100ms"),),
}
CASES = 150  # mutants of each reader; about a tenth of them are let through


def accepted(name, folder):
    """The files among the mutants that the reader takes."""
    reader = readers(folder)[name]
    seeds = [seed for seed in reader.seeds() if len(seed) < 6_000]
    for case in range(CASES):
        random = randomness.Random(-1 - case)
        content = random.choice(reader.changes)(random.choice(seeds), random.choice(seeds), random)
        path = folder / f"case{case}{reader.suffix}"
        path.write_bytes(content)
        try:
            reader.read(str(path), random)
        except CsdfError:
            continue
        yield path


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_what_is_read_is_answered_or_refused(run, tmp_path, name):
    if name == "onnx":
        pytest.importorskip("onnx")
    paths = list(accepted(name, tmp_path))
    assert paths
    for path in paths:
        for words in COMMANDS[name]:
            code, _, remarks = run(*words[:2], *words[2:], Path(path))
            assert code in (0, 1, 2, 3), (path.name, remarks)
            assert "Traceback" not in remarks
