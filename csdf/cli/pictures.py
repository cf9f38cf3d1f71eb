"""Pictures are an extra: what draws them is loaded when a command asks for one."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import PurePath
from types import ModuleType


def drawing(command: str, module: str) -> ModuleType | None:
    """Return a module of csdf.draw; without the drawing library say how to get it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != "matplotlib":
            raise
    print(f"{command}: --plot needs matplotlib: pip install 'csdf[plot]'", file=sys.stderr)
    return None


def suffix_of(path: str) -> str:
    """Return what follows the last dot of a file's name, in small letters."""
    return PurePath(path).suffix.lower().removeprefix(".")
