"""Graphs of other tools, from beside the checkout."""

import warnings

from csdf.io.graph_files import read_graph
from tests.shared_data import GRAPHS


def shared_graph(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # several default processors: the files are as they are
        return read_graph(GRAPHS / name)
