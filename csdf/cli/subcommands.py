"""Commands with commands of their own: the first word chooses, the rest goes on."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import NamedTuple

from csdf.cli.answers import ANSWERED, UNUSABLE


class Subcommand(NamedTuple):
    """Where a command lives, and what it is for."""

    module: str
    purpose: str


def run(
    program: str,
    about: str,
    commands: Mapping[str, Subcommand],
    words: Sequence[str],
    *,
    example: str,
) -> int:
    """Run the command that the first word names; return its exit code."""
    if words and words[0] in commands:
        return int(import_module(commands[words[0]].module).main(words[1:]))
    if words and words[0] not in ("-h", "--help"):
        print(
            f"{program}: there is no command {words[0]!r}; one of {', '.join(commands)}",
            file=sys.stderr,
        )
        return UNUSABLE
    listed = "\n".join(f"  {name:<12}{found.purpose}" for name, found in commands.items())
    usage = (
        f"usage: {program} COMMAND ...\n\n{about}\n\ncommands:\n{listed}\n\n"
        f"`{program} COMMAND --help` explains a command. For example:\n  {example}"
    )
    print(usage, file=sys.stdout if words else sys.stderr)
    return ANSWERED if words else UNUSABLE
