"""Networks for `csdf plan arena`: apart, so that a file of buffers loads no reader of networks."""

from __future__ import annotations

import argparse
from typing import Any, NamedTuple

from cnn2csdf.commands.cnn import chosen
from csdf.cli.frame.long_work import stop_after
from planners.arena.problem import Problem
from planners.memory.command.beside import as_json, fit_beside, in_words
from planners.memory.plain_plans import whole_tensors


class FitAnswer(NamedTuple):
    """The answer of csdf fit about a network."""

    text: str
    as_json: dict[str, Any] | None


class AskedNetwork:
    """A network that options name: as a problem of whole tensors, each with its own elements."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._network = chosen.read(options).network
        self.problem: Problem = whole_tensors(self._network, element_bytes=options.element_bytes)

    def fit(self) -> FitAnswer | None:
        """Return what csdf fit finds for the network: within the capacity, where there is one."""
        options = self._options
        found = fit_beside(
            [self._network],
            stop_after(options.time_limit),
            ram=options.capacity,
            element_bytes=options.element_bytes,
        )
        return None if found is None else FitAnswer(in_words(found), as_json(found))
