"""What can be completed, read off the parsers of the commands, so that it never goes stale."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from cnn2csdf.catalogue.networks import CATALOGUE
from csdf.cli import entries, frame
from csdf.cli.entries import Entry
from csdf.cli.main import ROOT

FILES = ("FILE", "MODEL")  # metavars that stand for files; see csdf.cli.parsers


class Value(NamedTuple):
    """What an argument may be: one of some words, a file, or, with neither, anything."""

    words: tuple[str, ...] = ()
    is_file: bool = False


class Option(NamedTuple):
    """An option under all of its names; value: None where it takes none."""

    names: tuple[str, ...]
    purpose: str
    value: Value | None


class Command(NamedTuple):
    """A command, as `csdf plan arena`: its own commands and purposes, or options and arguments."""

    name: str
    commands: tuple[tuple[str, str], ...] = ()
    options: tuple[Option, ...] = ()
    argument: Value | None = None


def commands() -> Iterator[Command]:
    """Yield all commands, each before its own."""
    general = (Option(("--help",), "explain", None), Option(("--version",), "the version", None))
    listed = frame.below("", ROOT.order)
    yield Command("csdf", _purposes(listed), general)
    for entry in listed.values():
        yield from _command(entry)


def _command(entry: Entry) -> Iterator[Command]:
    program, module = frame.program_of(entry.name), entries.loaded(entry)
    own = frame.below(entry.name, getattr(module, "ORDER", ()))
    if not own:
        yield _parsed(program, module.command_parser())
        return
    yield Command(program, _purposes(own))
    for one in own.values():
        yield from _command(one)


def _purposes(listed: Mapping[str, Entry]) -> tuple[tuple[str, str], ...]:
    return tuple((word, entries.purpose(entry)) for word, entry in listed.items())


def _parsed(name: str, parser: argparse.ArgumentParser) -> Command:
    """Read the options and the arguments off a parser."""
    actions = parser._actions
    options = [
        Option(tuple(action.option_strings), action.help or "", _value(action))
        for action in actions
        if action.option_strings
    ]
    values = [_value(action) or Value() for action in actions if not action.option_strings]
    words = dict.fromkeys(word for value in values for word in value.words)
    argument = Value(tuple(words), any(value.is_file for value in values)) if values else None
    return Command(name, options=tuple(options), argument=argument)


def _value(action: argparse.Action) -> Value | None:
    if action.nargs == 0:
        return None
    if action.choices is not None:
        return Value(tuple(map(str, action.choices)))
    words = tuple(CATALOGUE) if action.metavar == "MODEL" else ()
    return Value(words, action.metavar in FILES)
