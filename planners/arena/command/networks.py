"""Networks for `csdf plan arena`: apart, so that a file of buffers loads no reader of networks."""

from __future__ import annotations

import argparse

from cnn2csdf.commands.cnn import chosen
from planners.plan import Problem
from planners.whole_tensors import whole_tensors


def problem_of(options: argparse.Namespace) -> Problem:
    """Return the tensors of a network that works layer by layer, each with its own elements."""
    network = chosen.read(options).network
    return whole_tensors(network, element_bytes=options.element_bytes)
