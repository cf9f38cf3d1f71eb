"""The frame of all commands: the one way to find, run, print, plot, write and exit.

A command is a module with `main(argv) -> int` and `command_parser()`, and a first line such as
"`csdf plan arena`: offsets for buffers with lifetimes." that says what it is for. It is found by an
entry point in the group csdf.commands, whose name is its words with dots between: `plan.arena`. A
command with commands of its own is a group: a module with ABOUT and EXAMPLE, and with ORDER, if its
commands are not to be listed by name.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from csdf.cli import entries
from csdf.cli.answers import ANSWERED, GAVE_UP, NO, UNUSABLE
from csdf.cli.entries import COMMANDS, Entry
from csdf.errors import CsdfError, GaveUp, InconsistentGraph

HELP = ("-h", "--help")


class Listing(NamedTuple):
    """How the commands of a group are listed. order: of the first ones; the others follow by name.

    version: what `--version` prints, where it is an option.
    """

    about: str
    order: Sequence[str]
    foot: str
    version: str = ""


class Found(NamedTuple):
    """What the words of a command line name. entry: None for the root, `csdf` itself."""

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


def run(words: Sequence[str], root: Listing) -> int:
    """Run the command that the words name; return its exit code.

    Every refusal of the project becomes one line that begins with the command. root: what is listed
    for words that name no command.
    """
    program = "csdf"
    try:
        try:
            found = find(words)
            program = found.program
            if found.entry is None or found.is_group:
                return _without_command(found, root)
            return int(entries.loaded(found.entry).main(found.rest))
        finally:
            sys.stdout.flush()  # of --help too, which ends by SystemExit
    except GaveUp as error:
        remark(program, f"gave up: {error}")
        return GAVE_UP
    except MemoryError:
        remark(program, "gave up: out of memory")
        return GAVE_UP
    except InconsistentGraph as error:
        remark(program, str(error))
        return NO
    except CsdfError as error:
        remark(program, str(error))
        return UNUSABLE
    except KeyboardInterrupt:
        remark(program, "gave up: interrupted")
        return GAVE_UP
    except OSError as error:  # standard output takes no more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the flush at the end
        if isinstance(error, BrokenPipeError):  # its reader has seen enough
            return ANSWERED
        remark(program, f"the output cannot be written: {error.strerror}")
        return UNUSABLE


def find(words: Sequence[str]) -> Found:
    """Return the command that the words begin with, of this project or of another package."""
    found = _longest(entries.own(COMMANDS), words)
    is_ours = not found.is_group or not found.rest or found.rest[0].startswith("-")
    return found if is_ours else _longest(entries.every(COMMANDS), words)


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
    found = {
        other.removeprefix(head): entry
        for other, entry in entries.every(COMMANDS).items()
        if other.startswith(head) and "." not in other.removeprefix(head)
    }
    first = [word for word in order if word in found]
    return {word: found[word] for word in (*first, *sorted(set(found) - set(first)))}


def _without_command(found: Found, root: Listing) -> int:
    """Say which commands there are; nothing else can be answered."""
    listing = root if found.entry is None else listing_of(found.entry)
    if listing.version and list(found.rest) == ["--version"]:
        print(listing.version)
        return ANSWERED
    known = below("" if found.entry is None else found.entry.name, listing.order)
    if found.rest and found.rest[0] not in HELP:
        remark(found.program, f"there is no command {found.rest[0]!r}; one of {', '.join(known)}")
        return UNUSABLE
    listed = "\n".join(f"  {word:<12}{entries.purpose(entry)}" for word, entry in known.items())
    print(
        f"usage: {found.program} COMMAND ...\n\n{listing.about}\n\ncommands:\n{listed}\n\n"
        f"{listing.foot}",
        file=sys.stdout if found.rest else sys.stderr,
    )
    return ANSWERED if found.rest else UNUSABLE


def listing_of(group: Entry) -> Listing:
    """Return how the commands of a group are listed, from its module."""
    module = entries.loaded(group)
    return Listing(
        module.ABOUT,
        getattr(module, "ORDER", ()),
        f"`{program_of(group.name)} COMMAND --help` explains a command. For example:\n"
        f"  {module.EXAMPLE}",
    )


def remark(program: str, text: str) -> None:
    """Say on standard error, in one line, what is not part of the answer."""
    print(f"{program}: {text}", file=sys.stderr)
