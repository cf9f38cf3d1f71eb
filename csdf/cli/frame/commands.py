"""The commands of `csdf`, found by the words of a command line.

A command is a module with `command_parser()`, whose parser names the work, and a first line such as
"`csdf plan arena`: offsets for buffers with lifetimes." that says what it is for. It is found by an
entry point in the group csdf.commands, whose name is its words with dots between: `plan.arena`. A
command with commands of its own is a group: a module with ABOUT and EXAMPLE, and with ORDER, if its
commands are not to be listed by name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import csdf.entries as entries
from csdf import __version__
from csdf.entries import COMMANDS, Entry

SHORTEST_TERM = 5  # letters of a word that is sought in what commands are for


class Listing(NamedTuple):
    """How the commands of a group are listed. order: of the first ones; the others follow by name.

    version: what `--version` prints, where it is an option. files: the command that reads a file, by
    the suffix of the file; empty: of a folder.
    """

    about: str
    order: Sequence[str]
    foot: str
    version: str = ""
    files: Mapping[str, str] = MappingProxyType({})


ROOT = Listing(
    about="Exact analysis of dataflow graphs; memory plans and C code of neural networks.",
    order=[
        "analyze",
        "buffers",
        "pareto",
        "schedule",
        "latency",
        "sensitivity",
        "compare",
        "map",
        "scenarios",
        "convert",
        "generate",
        "draw",
        "codegen",
        "fifo",
        "init",
        "fit",
        "deploy",
        "cnn",
        "plan",
        "report",
        "examples",
        "schema",
        "completion",
    ],
    foot="""`csdf help COMMAND` explains a command, `csdf --version` prints the version,
`csdf examples` copies the files of all examples. For example:
  csdf analyze models/graphs/csdf_example.xml
  csdf fit person_detection --element-bytes 1 --ram 16kB --platform cortex-m4

exit code: 0 answered, 1 answered "no" (inconsistent or deadlocked),
2 wrong usage or unreadable input, 3 ended by a limit or Ctrl-C (the best
answer so far is printed), 70 internal error: please report it""",
    version=f"csdf {__version__}",
    files={".xml": "analyze", ".onnx": "fit", ".tflite": "fit"},
)


class Found(NamedTuple):
    """The command that the words of a command line name. entry: None for the root, `csdf` itself."""

    entry: Entry | None
    rest: Sequence[str]
    is_group: bool

    @property
    def program(self) -> str:
        """The words of the command, as a user types them."""
        return "csdf" if self.entry is None else program_of(self.entry.name)


def program_of(name: str) -> str:
    """Return the command of an entry point as a user types it: `csdf plan arena` for `plan.arena`."""
    return " ".join(["csdf", *name.split(".")])


def find(words: Sequence[str]) -> Found:
    """Return the command that the words begin with, of this project or of another package."""
    match = _longest(entries.own_entries(COMMANDS), words)
    is_ours = not match.is_group or not match.rest or match.rest[0].startswith("-")
    return match if is_ours else _longest(entries.all_entries(COMMANDS), words)


def _longest(known: Mapping[str, Entry], words: Sequence[str]) -> Found:
    entry, number = None, 0
    while number < len(words) and ".".join(words[: number + 1]) in known:
        number += 1
        entry = known[".".join(words[:number])]
    is_group = entry is None or any(name.startswith(f"{entry.name}.") for name in known)
    return Found(entry, words[number:], is_group)


def below(name: str, order: Sequence[str] = ()) -> dict[str, Entry]:
    """Return the commands of a group by their last words; of the root, whose name is empty, too."""
    head = f"{name}." if name else ""
    commands_known = {
        path.removeprefix(head): entry
        for path, entry in entries.all_entries(COMMANDS).items()
        if path.startswith(head) and "." not in path.removeprefix(head)
    }
    first = [word for word in order if word in commands_known]
    return {
        word: commands_known[word] for word in (*first, *sorted(set(commands_known) - set(first)))
    }


def listing_of(group: Entry) -> Listing:
    """Return how the commands of a group are listed, from its module."""
    module = entries.loaded(group)
    return Listing(
        module.ABOUT,
        getattr(module, "ORDER", ()),
        f"`{program_of(group.name)} COMMAND --help` explains a command. For example:\n"
        f"  {module.EXAMPLE}",
        files=getattr(module, "FILES", {}),
    )


def intended_commands(
    word: str, program: str, listing: Listing, names_known: Mapping[str, Entry]
) -> list[str]:
    """Return the commands of a program that an unknown word may mean, as a user types them.

    The first rule with a command holds: a near name, a file for a command, a command of another group,
    a word of what commands are for.
    """
    from difflib import get_close_matches  # slow to import, and seldom needed

    if near := get_close_matches(word, names_known, 1):
        return near
    suffix = os.path.splitext(word.removesuffix(".gz"))[1].lower()
    if suffix or os.path.exists(word):
        return [f"{program} {listing.files[suffix]} {word}"] if suffix in listing.files else []
    everywhere = entries.all_entries(COMMANDS)
    if elsewhere := [name for name in everywhere if name.endswith(f".{word}")]:
        return [program_of(name) for name in elsewhere]
    is_term = len(word) >= SHORTEST_TERM
    return [
        name
        for name, entry in names_known.items()
        if is_term and word.lower() in re.findall(r"\w+", entries.purpose(entry).lower())
    ]
