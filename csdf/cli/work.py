"""The work of a command, loaded once the words of the command line have been understood."""

from __future__ import annotations

import argparse

from csdf.cli.frame.entries import PROJECT, Entry, loaded


def worked(module: str, options: argparse.Namespace) -> int:
    """Return the exit code of `work(options)`, a function of the module that is named.

    Help, completion and words that are refused need none of the libraries that work needs, such as
    NumPy, whose loading takes longer than all the rest. Raises CsdfError where what the module
    needs cannot be imported.
    """
    return int(loaded(Entry(options.program, module, PROJECT)).work(options))
