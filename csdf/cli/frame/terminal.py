"""Terminal output: a progress line that is overwritten, colours, and tables as wide as the terminal.

It writes no progress and no colours to a file, a pipe or the log of a build.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from math import inf
from typing import TextIO

from csdf.time_limit import Progress

LEAST_COLUMNS = 40
COLUMNS = 80  # of a terminal that does not say how many it has
BAR = 20  # characters
CLEAR = "\r\x1b[K"  # back to the begin of the line, which becomes empty
PLAIN = "\x1b[0m"
GREEN, YELLOW, RED = "\x1b[32m", "\x1b[33m", "\x1b[31m"
# Patterns are compiled where they are used: most commands use few, and one takes 0.2 ms.
VERDICTS = (  # what an answer says, and its colour; the first that a line has
    (r"(\bDEADLOCK\b)", RED),
    (r": (deadlock|inconsistent|infeasible|does not fit|different)\b", RED),
    (r": (no plan|no depths)\b", RED),
    (r"(\bINCOMPLETE\b)|: (feasible|unknown)\b", YELLOW),
    (r"[:,;] (optimal|fits|equal|complete|minimum \(proved\))(?!\w)", GREEN),
)
TOGETHER = r"(?<=\d) (?=[A-Za-z]{1,3}\b)|(?<=\S) (?=\d+(?:[,;]|$))"
GLUE = "\x00"  # in no line: names are quoted


def columns() -> int:
    """Return the width of the terminal, or what COLUMNS says; 80 where nothing is known."""
    width = os.environ.get("COLUMNS", "")
    if width.isdecimal() and int(width):
        return max(LEAST_COLUMNS, int(width))
    if sys.__stdout__ is None:
        return COLUMNS
    try:
        # As shutil.get_terminal_size, whose import takes 2 ms for the formats of archives.
        return max(LEAST_COLUMNS, os.get_terminal_size(sys.__stdout__.fileno()).columns or COLUMNS)
    except (ValueError, OSError):  # closed, or no terminal
        return COLUMNS


def moves(stream: TextIO | None) -> bool:
    """Whether a stream is a terminal on which a line can change in place."""
    return stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb"


def has_colours(stream: TextIO | None) -> bool:
    """Whether a stream takes colours; NO_COLOR forbids them, see https://no-color.org."""
    return moves(stream) and not os.environ.get("NO_COLOR")


def coloured(text: str) -> str:
    """Return the lines of an answer with their verdicts in colour."""
    return "\n".join(map(_coloured_line, text.split("\n")))


def _coloured_line(line: str) -> str:
    for verdict, colour in VERDICTS:
        match = re.search(verdict, line)
        if match:
            begin, end = match.span(match.lastindex or 0)
            return f"{line[:begin]}{colour}{line[begin:end]}{PLAIN}{line[end:]}"
    return line


def progress_line(what: str, progress: Progress, elapsed: float, left: float | None) -> str:
    """Return one line: a progress bar or the gap, the elapsed and the remaining time, and what is done.

    elapsed, left: seconds; left: of the budget, None without one.
    """
    parts = [_how_far(progress), f"{_seconds(elapsed)}{_remaining(progress, elapsed, left)}", what]
    return "  ".join(part for part in parts if part)


def _how_far(progress: Progress) -> str:
    done, total = progress.done, progress.total
    if done is not None and total:
        full = min(BAR, BAR * done // total)
        return f"[{'#' * full}{'.' * (BAR - full)}] {min(100, 100 * done // total)}%"
    if progress.best and progress.lower_bound is not None:
        gap = 100 * (progress.best - progress.lower_bound) / max(progress.lower_bound, 1)
        return f"gap {gap:.1f}%"
    return ""


def _remaining(progress: Progress, elapsed: float, left: float | None) -> str:
    if progress.done and progress.total:
        remaining_seconds = elapsed * max(0, progress.total - progress.done) / progress.done
        return f", {_seconds(remaining_seconds if left is None else min(remaining_seconds, left))} left"
    return "" if left is None else f", at most {_seconds(left)} left"


def _seconds(value: float) -> str:
    return f"{value:.0f} s" if value < 120 else f"{value // 60:.0f} min"


BETWEEN = "  "
LEAST_TEXT = 12  # characters of a text in a table that is too wide
CUT = "…: cut to the width of the terminal; whole in a wider one, in a pipe and in --json"
NAMED = r" *\S+(?: \S+)* {2,}(?=\S)"  # the name of a row, and what parts its text from it


def room() -> float:
    """Return how many characters a line may have: without limit in files and pipes.

    COLUMNS limits lines there, too.
    """
    is_limited = sys.stdout.isatty() or bool(os.environ.get("COLUMNS"))
    return columns() if is_limited else inf


def aligned(
    table: Sequence[Sequence[str]], *, texts: Collection[int] = (0,), indent: str = ""
) -> list[str]:
    """Return rows as lines. texts: the columns of texts, which stand at the left, numbers at the right.

    Where lines would be too long, long texts lose their middles, and a last line says so; where that is
    not enough each row is a list of its cells, with the heads before them.
    """
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    over = sum(widths) + len(BETWEEN) * (len(widths) - 1) + len(indent) - room()
    while over > 0:
        widest = max(texts, key=lambda index: widths[index])
        if widths[widest] <= LEAST_TEXT:
            return [indent + line for row in table[1:] for line in _listed(table[0], row)]
        widths[widest] -= 1
        over -= 1
    lines = [
        indent
        + BETWEEN.join(
            shortened(cell, width).ljust(width) if index in texts else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in table
    ]
    is_cut = any(len(row[index]) > widths[index] for row in table for index in texts)
    return [*lines, *wrapped([indent + CUT])] if is_cut else lines


def wrapped(lines: Iterable[str], maximum: float = inf) -> Iterator[str]:
    """Yield the lines of an answer in words; lines that are too long are wrapped.

    A row of a name and a text goes on below its text, another line below its third character. A
    number stays beside its unit, or beside the name in front of it. maximum: characters, in pipes too.
    """
    width = min(room(), maximum)
    for line in lines:
        if len(line) <= width:
            yield line
            continue
        name = re.match(NAMED, line)
        hang = name.end() if name is not None else 0
        if not 0 < hang <= width / 2:
            hang = len(line) - len(line.lstrip()) + len(BETWEEN)
        import textwrap  # slow to import, and seldom needed

        parts = textwrap.wrap(
            re.sub(TOGETHER, GLUE, line),
            int(width),
            subsequent_indent=" " * hang,
            break_long_words=False,
            break_on_hyphens=False,
            replace_whitespace=False,
        )
        yield from (part.replace(GLUE, " ") for part in parts)


def shortened(text: str, maximum: int) -> str:
    """Return a text of at most this many characters, without its middle where it is too long."""
    if len(text) <= maximum:
        return text
    tail = maximum // 2
    return f"{text[: maximum - tail - 1]}…{text[len(text) - tail :]}"


def _listed(heads: Sequence[str], row: Sequence[str]) -> list[str]:
    """Return a row of the table, a line for each cell."""
    width = max(map(len, heads[1:]))
    cells = [
        f"  {head.ljust(width)}  {cell}"
        for head, cell in zip(heads[1:], row[1:], strict=True)
        if cell
    ]
    return [row[0], *cells]
