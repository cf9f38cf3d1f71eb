"""Modules that draw pictures, loaded when a command asks for a picture.

The work of a command, loaded once the words of the command line have been understood.
"""

from __future__ import annotations

import argparse
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from csdf.cli.frame.entries import PROJECT, Entry, loaded
from csdf.errors import CsdfError, UnwritableFile
from csdf.io import files

FORMATS = ("png", "svg", "pdf", "html", "pgf", "tex")


def drawing(module: str) -> ModuleType:
    """Return a module that draws. Raises CsdfError where the library that it needs is missing.

    Commands ask for it when their answer is printed, so that it is not lost.
    """
    if find_spec("matplotlib") is None:
        raise CsdfError("--plot needs matplotlib: pip install matplotlib")
    return import_module(module)


def require_drawing(path: str | None) -> None:
    """Refuse before the work a format that nothing draws; without a path, nothing."""
    if path is None:
        return
    if suffix_of(path) not in FORMATS:
        raise UnwritableFile(
            f"{path}: cannot draw {suffix_of(path)!r}; expected one of {', '.join(FORMATS)}"
        )


def suffix_of(path: str) -> str:
    """Return what follows the last dot of a file's name, in small letters."""
    return files.suffix_of(path).removeprefix(".")


def worked(module: str, options: argparse.Namespace) -> int:
    """Return the exit code of `work(options)`, a function of the module that is named.

    Help, completion and words that are refused need none of the libraries that work needs, such as
    NumPy, whose loading takes longer than all the rest. Raises CsdfError where what the module
    needs cannot be imported.
    """
    return int(loaded(Entry(options.program, module, PROJECT)).work(options))
