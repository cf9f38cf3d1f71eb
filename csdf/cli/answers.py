"""Answers of commands as printed: a title with rows, numbers, deadlocks, JSON, and exit codes."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from csdf.cli.frame.long_work import working as working
from csdf.cli.frame.output import ANSWERED as ANSWERED
from csdf.cli.frame.output import NO as NO
from csdf.cli.frame.output import UNKNOWN as UNKNOWN
from csdf.cli.frame.output import UNUSABLE as UNUSABLE
from csdf.cli.frame.terminal import wrapped
from csdf.errors import counted as counted
from csdf.names import quoted
from csdf.units import listed_up_to as listed_up_to

if TYPE_CHECKING:
    from csdf.analysis.liveness import Deadlock

SHOWN_FILES = 3  # of a folder that was written


LEAST_WIDTH = 14  # of the names of a table: of `critical cycle`


def number(value: Fraction | int) -> str:
    """Return an exact value as text; a fraction is followed by its decimal, as in `1/3 (0.333333)`."""
    exact = Fraction(value)
    if exact.denominator == 1:
        return str(exact.numerator)
    try:
        return f"{exact} ({float(exact):.6g})"
    except OverflowError:
        return str(exact)


def gap_above(size: int, lower_bound: int) -> str:
    """Return the maximum gap between a size and its lower bound, in words."""
    if size and not lower_bound:
        return "lower bound 0"
    gap = float(Fraction(size - lower_bound, lower_bound or 1))
    return f"at most {gap:.2%} above the lower bound {lower_bound}"


def one_text(lines: Iterable[str]) -> str:
    """Join lines to a text, wrapped to the width of the terminal; line breaks in names are quoted."""
    return "\n".join(wrapped(map(quoted, lines)))


Rows = Iterable[tuple[str, str]]


class Detail(str):
    """A line that only --explain prints: the method of an answer, the definition of its numbers."""

    __slots__ = ()


def table(title: str, rows: Rows, details: Rows = ()) -> list[str]:
    """Return a title and rows of a name and a text, indented and aligned.

    A row with an empty name continues the row above. details: rows that only --explain prints.
    """
    listed, more = list(rows), list(details)
    width = max(LEAST_WIDTH, *(len(name) for name, _ in listed + more), 0)
    lines = [f"  {name:<{width}}  {text}".rstrip() for name, text in listed + more]
    return [title, *lines[: len(listed)], *map(Detail, lines[len(listed) :])]


def written(files: Sequence[str], folder: str) -> list[str]:
    """Return a line with the first files written to a folder; --explain lists all of them."""
    more = (Detail(f"           {file}") for file in files[SHOWN_FILES:])
    return [f"  wrote    {listed_up_to(files, SHOWN_FILES)} in {folder}", *more]


DEADLOCK = "deadlock: each of these actors waits for the next one"


NEVER_LIVE = "deadlock with any capacities; each of these actors waits for the next one"


def blocked_rows(found: Deadlock) -> list[tuple[str, str]]:
    """Return a row for each actor of a deadlocked cycle with the tokens it waits for, and a remedy."""
    from csdf.model.graph import SpaceName  # loaded where a graph was analysed

    text = "waits for {0.producer}: needs {0.needed} on {0.channel}, has {0.tokens}"
    is_space = any(isinstance(firing.channel, SpaceName) for firing in found.cycle)
    more = ", or more capacity for (space)," if is_space else ""
    then = f"more initial tokens{more} on one of these channels"
    return [*((firing.actor, text.format(firing)) for firing in found.cycle), ("next", then)]


def in_words(lines: Iterable[str], options: argparse.Namespace) -> str:
    """Join lines to a text; --explain adds the details and the definitions of the terms."""
    listed = list(lines)
    if not getattr(options, "explain", False):
        return one_text(line for line in listed if not isinstance(line, Detail))
    from csdf.cli.meanings import PAGE, meanings_in  # only for --explain

    return one_text([*listed, "", *table("terms", [*meanings_in(listed), ("", PAGE)])])


CUT_SHORT = "the time limit ended the search"


def cut_short(line: str) -> str:
    """Insert after the name of an answer that the time limit ended the search."""
    name, _, words = line.partition(": ")
    return f"{name}: {CUT_SHORT}: {words}"


def show(found: dict[str, Any], lines: Iterable[str], options: argparse.Namespace) -> None:
    """Print an answer: the lines, or with --json the object. `lines` is not evaluated for JSON."""
    print(json_text(found, options) if options.json else in_words(lines, options))


def json_text(
    answer: dict[str, Any], options: argparse.Namespace | None = None, *, indent: int | None = 2
) -> str:
    """Return an answer as the text that --json prints.

    options: the options with which the graph was read, for the statement on buffer sizes.
    """
    import json  # slow to import, and seldom needed

    sizes = None if options is None else getattr(options, "told_sizes", None)
    return json.dumps(answer | ({"buffer_sizes": sizes} if sizes else {}), indent=indent)
