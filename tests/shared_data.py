"""The material beside the checkout: graphs of other tools and what is known about them."""

import json
import warnings
from pathlib import Path

import pytest

from csdf.io.graph_files import read_graph

SHARED = Path(__file__).parents[1].parent / "shared"
GRAPHS = SHARED / "graphs"


def oracle(name):
    """The oracle file of that name; empty where there is none."""
    path = SHARED / "oracles" / name
    if not path.exists():
        return {}
    known = json.loads(path.read_text())
    return {key: value for key, value in known.items() if not key.startswith("_")}


def each(argument, values):
    """Run a test once for each value; skip it where there is none."""
    absent = pytest.param(None, marks=pytest.mark.skip(reason=f"nothing for it in {SHARED}"))
    return pytest.mark.parametrize(argument, list(values) or [absent], ids=str)


def shared_graph(name):
    """The graph of that file, be it suspicious; where it is missing, the test skips."""
    if not (GRAPHS / name).exists():
        pytest.skip(f"the graph is not at {GRAPHS / name}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return read_graph(GRAPHS / name)
