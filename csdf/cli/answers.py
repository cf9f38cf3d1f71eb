"""What all commands share: exit codes, numbers as text, remarks, and the watch over long work."""

from __future__ import annotations

import argparse
import re
import sys
import time
import warnings
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeVar

from csdf.errors import GaveUp
from csdf.io.graph_files import read_graph, write_graph

if TYPE_CHECKING:
    from csdf.model.graph import Graph

ANSWERED = 0
NO = 1
UNUSABLE = 2
GAVE_UP = 3

Progress = TypeVar("Progress")

SIZE_UNITS = {
    "": 1,
    "B": 1,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
}
SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([A-Za-z]*)")

PATIENCE = 2.0  # seconds before progress is shown


def number(value: Fraction | int) -> str:
    """Return the exact value, with a decimal beside it where it is a fraction."""
    exact = Fraction(value)
    if exact.denominator == 1:
        return str(exact.numerator)
    try:
        return f"{exact} ({float(exact):.6g})"
    except OverflowError:
        return str(exact)


def add_reading_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say how a graph file is to be understood."""
    parser.add_argument(
        "--assume-zero-times", action="store_true", help="an actor without a time takes none"
    )
    parser.add_argument(
        "--buffer-sizes",
        action="store_true",
        help="take the bufferSize properties of an SDF3 file as capacities",
    )


def read(path: str, options: argparse.Namespace) -> Graph:
    """Return the graph of a file; suspicious things in it are remarked upon, once each."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        graph = read_graph(
            path,
            assume_zero_times=options.assume_zero_times,
            buffer_sizes=options.buffer_sizes,
        )
    for one in found:
        print(f"csdf: warning: {one.message}", file=sys.stderr)
    return graph


def write(command: str, path: str, graph: Graph, **options: Any) -> None:
    """Write a graph and remark upon it. Raises UnwritableFile."""
    write_graph(path, graph, **options)
    size = f"{len(graph.actors)} actors, {len(graph.channels)} channels"
    print(f"{command}: wrote {path}: {size}", file=sys.stderr)


def seconds(text: str) -> float:
    """Parse a time like `10`, `10s`, `500ms` or `2m`; for argparse."""
    for suffix, factor in (("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0)):
        if text.endswith(suffix):
            text, scale = text[: -len(suffix)], factor
            break
    else:
        scale = 1.0
    try:
        value = float(text) * scale
    except ValueError:
        value = -1.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 30s, 500ms or 2m")
    return value


def watch(what: str, budget: float | None) -> Callable[[], None]:
    """Return a function that long work calls: it shows progress and ends the work in time."""
    look = watch_progress(budget, lambda _: what)
    return lambda: look(None)


def watch_progress(
    budget: float | None, describe: Callable[[Progress], str]
) -> Callable[[Progress], None]:
    """Return a function that long work calls with how far it has come.

    Once a second, when patience is at its end, that is shown on standard error; after the budget
    (seconds) it raises GaveUp.
    """
    begin = time.monotonic()
    shown = begin + PATIENCE - 1

    def look(progress: Progress) -> None:
        nonlocal shown
        now = time.monotonic()
        if budget is not None and now - begin > budget:
            raise GaveUp(f"the budget of {budget:g} s is used up")
        if now - shown > 1:
            shown = now
            print(f"csdf: {now - begin:.0f} s, {describe(progress)}", file=sys.stderr)

    return look


def fraction(text: str) -> Fraction:
    """Parse `3/2`, `1.5` or `7` exactly; for argparse."""
    try:
        return Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number such as 3/2 or 1.5") from None


def named_integers(text: str) -> tuple[str, int]:
    """Parse `NAME=7`; for argparse."""
    name, _, value = text.rpartition("=")
    if not name or not value.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=NUMBER")
    return name, int(value)


def positive(text: str) -> int:
    """Parse a whole number of at least one; for argparse."""
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def above_zero(text: str) -> Fraction:
    """Parse an exact number above zero; for argparse."""
    value = fraction(text)
    if value <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not above zero")
    return value


def size(text: str) -> int:
    """Parse bytes such as 64MB, 16MiB or 65536; for argparse."""
    found = SIZE.fullmatch(text)
    if not found or found[2] not in SIZE_UNITS:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a size such as 64MB (1,000,000 bytes), 16MiB (2^20) or 65536"
        )
    return int(Fraction(found[1]) * SIZE_UNITS[found[2]])
