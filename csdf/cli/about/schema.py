"""`csdf schema`: the JSON Schema of a command's answer, or of a file format."""

from __future__ import annotations

import argparse
import json
from difflib import get_close_matches
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

import csdf.entries as entries
from csdf.cli import answers, parsers
from csdf.errors import CsdfError

SCHEMAS = "csdf.schemas"  # the group of entry points: packages with files NAME.json
SUFFIX = ".json"


def work(options: argparse.Namespace) -> int:
    """Print a schema, or list them; return the exit code."""
    if options.name:
        print(_text("-".join(options.name)), end="")
    else:
        names = schema_names()
        width = max(map(len, names), default=0)
        print("\n".join(f"{name:<{width}}  {schema(name)['title']}" for name in names))
    return answers.ANSWERED


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of this command."""
    parser = parsers.new_parser(
        "csdf schema",
        "Print the JSON Schema (draft 2020-12) of what a command prints with --json, or of a file "
        "format. Without a name, list all schemas.",
        "csdf schema",
        "csdf schema analyze",
        "csdf schema plan arena",
        "csdf schema csdf-graph",
        work=work,
    )
    parser.add_argument(
        "name", nargs="*", metavar="NAME", help="of the schema; for a command, its words"
    )
    return parser


def schema(name: str) -> dict[str, Any]:
    """Return a schema as a JSON value. Raises CsdfError where there is none of that name."""
    schema: dict[str, Any] = json.loads(_text(name))
    return schema


def schema_names() -> list[str]:
    """Return the names of all schemas of the installed packages, in alphabetical order."""
    return sorted(_homes())


def _text(name: str) -> str:
    homes = _homes()
    if name not in homes:
        near = get_close_matches(name, homes, 1)
        suggestion = f"did you mean {near[0]}?" if near else "`csdf schema` lists them"
        raise CsdfError(f"there is no schema {name!r}; {suggestion}")
    return homes[name].read_text(encoding="utf-8")


def _homes() -> dict[str, Traversable]:
    """The file of each schema by its name; the schemas of this project come first."""
    schemas: dict[str, Traversable] = {}
    for entry in entries.all_entries(SCHEMAS).values():
        for file in files(entry.module).iterdir():
            if file.name.endswith(SUFFIX):
                schemas.setdefault(file.name.removesuffix(SUFFIX), file)
    return schemas
