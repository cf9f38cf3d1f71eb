"""`csdf completion`: shell completion for bash, zsh and fish from the parsers of all commands."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, cast
from zlib import crc32

import csdf.entries as entries
from csdf.cli import answers, parsers
from csdf.cli.frame import commands
from csdf.cli.frame.output import remark
from csdf.entries import Entry
from csdf.io.files import write_text

HEADS = {  # what stands before the script
    "bash": '# Completion of csdf for bash. In ~/.bashrc:  eval "$(csdf completion bash)"\n',
    "zsh": "",  # its first line must be its own
    "fish": "# Completion of csdf for fish. Once:  csdf completion fish -o "
    "~/.config/fish/completions/csdf.fish\n",
}
WORDS = {  # functions of the shells that complete one of some words, or a file
    "bash": '{name}() {{ compgen -W "{words}" -- "$1"; _shtab_compgen_files "$1"; }}',
    "zsh": "{name}() {{ compadd -- {words}; _files }}",
    "fish": "function {name}\n    string split ' ' '{words}'\n"
    "    __fish_complete_path (commandline -ct)\nend",
}
CALLS = {"bash": "{name}", "zsh": "{name}", "fish": "({name})"}


def work(options: argparse.Namespace) -> int:
    """Print or write the script; return the exit code."""
    text = script(options.shell)
    if options.output is None:
        print(text, end="")
        return answers.ANSWERED
    write_text(options.output, text)
    remark("csdf completion", f"wrote {options.output}")
    return answers.ANSWERED


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of this command."""
    parser = parsers.new_parser(
        "csdf completion",
        "A script that completes commands, options, files and the names of the catalogue. It is "
        "generated from the parsers of this installation.",
        "csdf completion bash",
        "csdf completion fish -o csdf.fish",
        work=work,
        notes='For bash put eval "$(csdf completion bash)" into ~/.bashrc, for zsh the same with '
        "zsh into ~/.zshrc after compinit, for fish write the script to "
        "~/.config/fish/completions/csdf.fish.",
    )
    parser.add_argument("shell", choices=tuple(HEADS), metavar="SHELL", help=", ".join(HEADS))
    parsers.add_output_option(parser, "file to write; by default the script is printed")
    return parser


def script(shell: str) -> str:
    """Return the script of a shell, with all commands of this installation."""
    import shtab  # of which help has no need

    tree = parser_tree()
    for action in _actions(tree):
        if action.metavar in parsers.FILES:
            action.complete = _completion(action)  # type: ignore[attr-defined]
    return HEADS[shell] + str(shtab.complete(tree, shell))


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """All options and arguments of a parser and of the parsers below it."""
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from _actions(below)


def _completion(action: argparse.Action) -> dict[str, Any]:
    """How a file is completed, or one of the words that the parser knows for an argument."""
    words = parsers.words_of(action)
    if not words:
        import shtab  # of which help has no need

        return dict(shtab.FILE)
    name = f"_csdf_words_{crc32(repr(words).encode()):08x}"
    functions = {
        shell: text.format(name=name, words=" ".join(words)) for shell, text in WORDS.items()
    }
    calls = {shell: call.format(name=name) for shell, call in CALLS.items()}
    return {**calls, "preamble": functions}


class Leaf(NamedTuple):
    """A command without commands of its own: its words, as `csdf plan arena`, and its parser."""

    name: str
    parser: argparse.ArgumentParser


def parser_tree() -> argparse.ArgumentParser:
    """Return the parser of `csdf` with the parsers of all commands below it; it is not for parsing."""
    root = argparse.ArgumentParser("csdf")
    root.add_argument(
        "--version", action="version", help="the version", version=commands.ROOT.version
    )
    _grow(root, "", commands.ROOT.order)
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
    """Stand for the class of parsers below another one; existing parsers are used."""
    return made


def _parser(entry: Entry) -> argparse.ArgumentParser:
    module = entries.loaded(entry)
    if not commands.below(entry.name):
        parser: argparse.ArgumentParser = module.command_parser()
        return parser
    group = argparse.ArgumentParser(commands.program_of(entry.name))
    _grow(group, entry.name, getattr(module, "ORDER", ()))
    return group
