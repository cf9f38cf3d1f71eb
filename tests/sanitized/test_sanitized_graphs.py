"""Random graphs with numbers of up to 70 bits: no compiled kernel of graphs leaves 64 bits."""

import re

import pytest

from tests.sanitized import build

pytestmark = pytest.mark.slow
GRAPHS = {"analyze": 25, "buffers": 8, "pareto": 8, "map": 8, "latency": 5, "sensitivity": 8}


@pytest.mark.parametrize("command", GRAPHS)
def test_compiled_kernels_answer_huge_graphs_as_plain_ones_do(sanitized, command):
    ended = build.run(sanitized, "tests.sanitized.graphs", command, 0, GRAPHS[command], 0.05)
    assert ended.returncode == 0, ended.stderr[-2000:]
    assert "differs" not in ended.stdout
    both_answer = re.search(r"both (\d+)", ended.stdout)
    assert int(both_answer[1]) >= GRAPHS[command] // 4
