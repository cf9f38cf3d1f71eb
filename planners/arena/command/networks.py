"""Networks for `csdf plan arena`: apart, so that a file of buffers loads no reader of networks."""

from __future__ import annotations

import argparse
from typing import Any

from cnn2csdf.commands.cnn import chosen
from csdf.cli.frame.long_work import stop_after
from planners.arena.problem import Problem
from planners.memory.command.beside import as_json, fit_beside, in_words
from planners.memory.plain_plans import whole_tensors


class AskedNetwork:
    """A network that options name: as a problem of whole tensors, each with its own elements."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._network = chosen.read(options).network
        self.problem: Problem = whole_tensors(self._network, element_bytes=options.element_bytes)

    def fit(self) -> tuple[str, dict[str, Any] | None] | None:
        """Return in words and as JSON what csdf fit finds: within the capacity, where there is one."""
        options = self._options
        stop, size = stop_after(options.time_limit), options.element_bytes
        found = fit_beside([self._network], stop, ram=options.capacity, element_bytes=size)
        return None if found is None else (in_words(found), as_json(found))
