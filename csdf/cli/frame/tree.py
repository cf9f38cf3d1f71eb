"""The tree of parsers of all commands, for shell completion."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, cast

from csdf.cli.frame import commands, entries
from csdf.cli.frame.entries import Entry
from csdf.cli.frame.root import ROOT


class Leaf(NamedTuple):
    """A command without commands of its own: its words, as `csdf plan arena`, and its parser."""

    name: str
    parser: argparse.ArgumentParser


def parser_tree() -> argparse.ArgumentParser:
    """Return the parser of `csdf` with the parsers of all commands below it; it is not for parsing."""
    root = argparse.ArgumentParser("csdf")
    root.add_argument("--version", action="version", help="the version", version=ROOT.version)
    _grow(root, "", ROOT.order)
    return root


def leaves(name: str = "") -> Iterator[Leaf]:
    """Yield the commands below a group, and the commands below its groups."""
    for entry in commands.below(name).values():
        if commands.below(entry.name):
            yield from leaves(entry.name)
        else:
            parser = entries.loaded(entry).command_parser()
            yield Leaf(commands.program_of(entry.name), parser)


def _grow(parser: argparse.ArgumentParser, name: str, order: Sequence[str]) -> None:
    """Put the commands of a group below its parser."""
    made_below: Any = parser.add_subparsers(parser_class=cast(Any, _made_already))
    for word, entry in commands.below(name, order).items():
        made = _parser(entry)
        made.description = entries.purpose(entry)
        made_below.add_parser(word, help=made.description, made=made)


def _made_already(*, made: Any, **_: Any) -> Any:
    """Stand for the class of parsers below another one: they are there, none is made anew."""
    return made


def _parser(entry: Entry) -> argparse.ArgumentParser:
    module = entries.loaded(entry)
    if not commands.below(entry.name):
        made: argparse.ArgumentParser = module.command_parser()
        return made
    group = argparse.ArgumentParser(commands.program_of(entry.name))
    _grow(group, entry.name, getattr(module, "ORDER", ()))
    return group
