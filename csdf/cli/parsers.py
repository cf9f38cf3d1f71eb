"""How commands are parsed: one shape of help, and options that mean the same in all of them.

What an argument takes is said by its metavar: FILE, FOLDER, MODEL (a file, or a network of the
catalogue). The completion of shells rests on that.
"""

from __future__ import annotations

import argparse
import textwrap

from csdf.cli import answers

WIDTH = 79
GRAPH_HELP = "a graph: SDF3 XML (.xml), JSON (.json) or a table of layers (.csv)"
SEARCH_BUDGET = 60.0  # seconds


def new_parser(
    program: str, about: str, *examples: str, notes: str = "", conflict_handler: str = "error"
) -> argparse.ArgumentParser:
    """Return a parser whose help tells what the command does and ends with examples that run.

    conflict_handler: as argparse says; `resolve` where an option replaces a shared one.
    """
    lines = "\n".join(f"  {example}" for example in examples)
    end = f"For example:\n{lines}"
    return argparse.ArgumentParser(
        prog=program,
        description=textwrap.fill(about, WIDTH),
        epilog=f"{textwrap.fill(notes, WIDTH)}\n\n{end}" if notes else end,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        conflict_handler=conflict_handler,
    )


def add_json_option(parser: argparse._ActionsContainer) -> None:
    """Add the answer as JSON."""
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object; fractions are texts"
    )


def add_output_option(parser: argparse._ActionsContainer, what: str, *, required: bool) -> None:
    """Add the file that the result goes to."""
    parser.add_argument("-o", "--output", metavar="FILE", required=required, help=what)


def add_plot_option(parser: argparse._ActionsContainer, what: str) -> None:
    """Add the file that a picture goes to."""
    parser.add_argument(
        "--plot",
        metavar="FILE",
        help=f"draw {what} in a .png, .svg, .pdf or .html file (extra: plot)",
    )


def add_budget_option(
    parser: argparse._ActionsContainer, what: str, default: float | None = SEARCH_BUDGET
) -> None:
    """Add how long the work may take."""
    end = "no limit" if default is None else f"{default:g}s"
    parser.add_argument(
        "--budget",
        type=answers.seconds,
        metavar="TIME",
        default=default,
        help=f"{what}, such as 30s, 500ms or 2m; default: {end}",
    )
