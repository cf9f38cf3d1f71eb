"""`csdf completion`: completion for bash, zsh and fish."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from csdf.cli import answers, parsers
from csdf.cli.shells.bash import bash_script
from csdf.cli.shells.fish import fish_script
from csdf.cli.shells.words import commands
from csdf.cli.shells.zsh import zsh_script
from csdf.io.files import write_text

SCRIPTS = {"bash": bash_script, "zsh": zsh_script, "fish": fish_script}


def main(argv: Sequence[str]) -> int:
    """Print or write the script; return the exit code."""
    options = command_parser().parse_args(argv)
    text = SCRIPTS[options.shell](list(commands()))
    if options.output is None:
        print(text, end="")
        return answers.ANSWERED
    write_text(options.output, text)
    print(f"csdf completion: wrote {options.output}", file=sys.stderr)
    return answers.ANSWERED


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of this command."""
    parser = parsers.new_parser(
        "csdf completion",
        "A script that completes commands, options, files and the names of the catalogue. It is "
        "made from what the commands of this installation take.",
        "csdf completion bash",
        "csdf completion fish -o csdf.fish",
        notes='For bash put eval "$(csdf completion bash)" into ~/.bashrc, for zsh the same with '
        "zsh into ~/.zshrc behind compinit, for fish write the script to "
        "~/.config/fish/completions/csdf.fish.",
    )
    parser.add_argument("shell", choices=SCRIPTS, metavar="SHELL", help=", ".join(SCRIPTS))
    parsers.add_output_option(parser, "where to write it; by default it is printed", required=False)
    return parser
