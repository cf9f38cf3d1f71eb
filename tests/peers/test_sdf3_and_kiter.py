"""SDF3 and Kiter themselves, where they are installed: every difference has a proved reason.

SDF3_BIN    the folder of sdf3analysis-sdf and sdf3analysis-csdf
KITER_BIN   the program kiter
"""

import os
import warnings
from dataclasses import replace
from pathlib import Path

import pytest

from csdf.comparison.comparison import compare
from csdf.comparison.tools import kiter, sdf3
from csdf.errors import CsdfError
from csdf.generation import GraphShape, random_graph
from csdf.io.graph_files import read_graph
from tests.shared_data import GRAPHS as SHARED

MODELS = Path(__file__).parents[2] / "models" / "graphs"
FOLDERS = (MODELS, *(SHARED / name for name in ("traps", "small", "sdf3")))
PATHS = [path for folder in FOLDERS for path in sorted(folder.glob("*.xml"))]
CSDF = GraphShape(actors=4, extra_channels=2, max_phases=3, max_extra_initial_tokens=3)
SMALL = GraphShape(actors=3, extra_channels=1, max_rate=4, max_repetitions=4, max_duration=6)
SHAPES = {"csdf": CSDF, "small": SMALL, "small csdf": replace(SMALL, max_phases=2)}
PROGRAMS = [
    one for one in (sdf3(os.environ.get("SDF3_BIN")), kiter(os.environ.get("KITER_BIN"))) if one
]
SECONDS = 3.0  # for each answer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not PROGRAMS, reason="neither SDF3 nor Kiter is on the path, at SDF3_BIN or at KITER_BIN"
    ),
]


def require_no_open_difference(graph, path):
    found = list(compare(graph, path, PROGRAMS, seconds=SECONDS))
    assert [one for one in found if one.is_open] == []


@pytest.mark.parametrize("path", PATHS, ids=lambda one: f"{one.parent.name}/{one.name}")
def test_no_difference_about_a_file_is_open(path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            graph = read_graph(path)
        except CsdfError:
            pytest.skip("refused by the reader")
    require_no_open_difference(graph, str(path))


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("shape", SHAPES)
def test_no_difference_about_a_random_graph_is_open(shape, seed):
    require_no_open_difference(random_graph(seed, SHAPES[shape]), None)
