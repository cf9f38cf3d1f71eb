"""Modules of commands and of pictures, loaded once a command line asks for them."""

from __future__ import annotations

import argparse
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from csdf.cli.frame import output
from csdf.errors import CsdfError
from csdf.io import files


def drawing(module: str) -> ModuleType:
    """Return a module that draws. Raises CsdfError where the library that it needs is missing.

    Commands ask for it when their answer is printed, so that it is not lost.
    """
    if find_spec("matplotlib") is None:
        raise CsdfError("--plot needs matplotlib: pip install matplotlib")
    return import_module(module)


def plot(options: argparse.Namespace, module: str, picture: str, *about: object) -> None:
    """Write the picture that --plot asks for, if it does: what that function of the module returns."""
    if options.plot is not None:
        draw = getattr(drawing(module), picture)
        content = draw(*about, suffix=suffix_of(options.plot))
        output.write(options.program, options.plot, content)


def suffix_of(path: str) -> str:
    """Return what follows the last dot of a file's name, in small letters."""
    return files.suffix_of(path).removeprefix(".")
