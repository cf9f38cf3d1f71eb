"""Pieces of answers that all commands share: exit codes, numbers as text, remarks."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeVar

from csdf.arguments import bytes_of, seconds_of
from csdf.cli.frame.long_work import working as working
from csdf.cli.frame.output import ANSWERED as ANSWERED
from csdf.cli.frame.output import NO as NO
from csdf.cli.frame.output import UNKNOWN as UNKNOWN
from csdf.cli.frame.output import UNUSABLE as UNUSABLE
from csdf.cli.frame.output import remark
from csdf.cli.frame.terminal import wrapped
from csdf.errors import UncountedSizes, UnreadableFile
from csdf.errors import counted as counted
from csdf.io.files import LARGEST_FILE_BYTES, suffix_of
from csdf.io.graph_files import read_graph, write_graph
from csdf.model.exact import MalformedText, natural, rational, shown, signed_rational, whole
from csdf.names import quoted

if TYPE_CHECKING:
    from csdf.analysis.liveness import Deadlock
    from csdf.model.graph import Graph
    from csdf.parameters.graph import ParametricGraph

NETWORKS = (".onnx", ".tflite", ".cfg")  # suffixes of files that hold a network

Number = TypeVar("Number")

SHOWN_FILES = 3  # of a folder that was written
LEAST_WIDTH = 14  # of the names of a table: of `critical cycle`

MOST_SECONDS = 10**9


def number(value: Fraction | int) -> str:
    """Return the exact value, with a decimal next to it where it is a fraction."""
    exact = Fraction(value)
    if exact.denominator == 1:
        return str(exact.numerator)
    try:
        return f"{exact} ({float(exact):.6g})"
    except OverflowError:
        return str(exact)


def gap_above(size: int, lower_bound: int) -> str:
    """Return in words how far a size may be above the smallest one."""
    gap = float(Fraction(size - lower_bound, lower_bound)) if lower_bound else 0.0
    return f"at most {gap:.2%} above the lower bound {lower_bound}"


def one_text(lines: Iterable[str]) -> str:
    """Return lines as one text to print, wrapped where a terminal is narrower.

    A name with a break in it begins no line of its own.
    """
    return "\n".join(wrapped(map(quoted, lines)))


Rows = Iterable[tuple[str, str]]


class Detail(str):
    """A line that only --explain prints: how the answer was found, and how its numbers are counted."""

    __slots__ = ()


def table(title: str, rows: Rows, details: Rows = ()) -> list[str]:
    """Return the answer in one line and rows below it, each a name and a text.

    A row without a name goes on. details: rows for --explain.
    """
    listed, more = list(rows), list(details)
    width = max(LEAST_WIDTH, *(len(name) for name, _ in listed + more), 0)
    lines = [f"  {name:<{width}}  {text}".rstrip() for name, text in listed + more]
    return [title, *lines[: len(listed)], *map(Detail, lines[len(listed) :])]


def written(files: Sequence[str], folder: str) -> list[str]:
    """Return the lines that say which files a folder has now; --explain lists all of them."""
    more = (Detail(f"           {file}") for file in files[SHOWN_FILES:])
    return [f"  wrote    {some(files, SHOWN_FILES)} in {folder}", *more]


DEADLOCK = "deadlock: each of these actors waits for the next one"
NEVER_LIVE = "deadlock: no capacities let it run; each of these actors waits for the next one"


def blocked_rows(found: Deadlock) -> list[tuple[str, str]]:
    """Return the rows below a deadlock: what each actor of the cycle waits for, and what ends it."""
    from csdf.analysis.bound_channels import SPACE  # loaded where a graph was analysed

    text = "waits for {0.producer}: needs {0.needed} on {0.channel}, has {0.tokens}"
    is_space = any(firing.channel.endswith(SPACE) for firing in found.cycle)
    more = ", or more capacity for (space)," if is_space else ""
    then = f"more initial tokens{more} on one of these channels"
    return [*((firing.actor, text.format(firing)) for firing in found.cycle), ("next", then)]


def in_words(lines: Iterable[str], options: argparse.Namespace) -> str:
    """Return lines as one text to print; with --explain the details too, and what the terms mean."""
    listed = list(lines)
    if not getattr(options, "explain", False):
        return one_text(line for line in listed if not isinstance(line, Detail))
    from csdf.cli.meanings import PAGE, meanings_in  # for --explain alone

    return one_text([*listed, "", *table("terms", [*meanings_in(listed), ("", PAGE)])])


CUT_SHORT = "the time limit ended the search"


def cut_short(line: str) -> str:
    """Return an answer with the remark, behind its name, that the clock ended the search."""
    name, _, words = line.partition(": ")
    return f"{name}: {CUT_SHORT}: {words}"


def some(names: Sequence[str], maximum: int) -> str:
    """Return this many names as a list with commas; the rest of more as a number."""
    listed = ", ".join(names[:maximum])
    return listed if len(names) <= maximum else f"{listed} and {len(names) - maximum} more"


def show(found: dict[str, Any], lines: Iterable[str], options: argparse.Namespace) -> None:
    """Print an answer: with --json as one object, else as lines, which are made only then."""
    print(json_text(found, options) if options.json else in_words(lines, options))


def json_text(
    answer: dict[str, Any], options: argparse.Namespace | None = None, *, indent: int | None = 2
) -> str:
    """Return an answer as the text that --json prints.

    options: those with which the graph was read; the answer then says whether buffer sizes count.
    """
    import json  # slow to import, and seldom needed

    sizes = None if options is None else getattr(options, "told_sizes", None)
    return json.dumps(answer | ({"buffer_sizes": sizes} if sizes else {}), indent=indent)


def add_reading_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say how a graph file is to be understood."""
    parser.add_argument(
        "--assume-zero-times", action="store_true", help="an actor without a time has duration zero"
    )
    parser.add_argument(
        "--buffer-sizes",
        action=argparse.BooleanOptionalAction,
        help="read the bufferSize properties of SDF3 files as capacities, or ignore them as "
        "SDF3 does; default: read them only in files written by csdf",
    )
    parser.add_argument(
        "--set",
        action="append",
        type=named_values,
        metavar="NAME=VALUE",
        default=[],
        help="value of a parameter of the graph, whose numbers may be expressions such as 2*n+1",
    )
    parser.set_defaults(told_sizes=None)
    parser.add_argument(
        "--file-limit",
        type=size,
        metavar="SIZE",
        default=LARGEST_FILE_BYTES,
        help="reject larger graph files; default: 64MiB",
    )


def read(path: str, options: argparse.Namespace) -> Graph:
    """Return the graph of a file; suspicious things in it are remarked upon, once each.

    Whether its buffer sizes count is part of the answer, see `tell_sizes`.
    """
    if suffix_of(path) in NETWORKS:
        raise UnreadableFile(
            f"{path}: a network: `csdf fit` answers whether it fits a device, `csdf cnn convert` "
            "makes a graph of it, and `csdf fifo finn` sizes the FIFOs of a model of FINN"
        )
    with working(f"reading {path}"), warnings.catch_warnings(record=True) as warnings_caught:
        warnings.simplefilter("always")
        graph = _instance(path, options) if options.set else _plain(path, options)
    uncounted = 0
    for warning in warnings_caught:
        if isinstance(warning.message, UncountedSizes):
            uncounted = warning.message.channels
        else:
            remark(options.program, f"warning: {warning.message}")
    bounded = sum(channel.capacity is not None for channel in graph.channels)
    is_sdf3 = graph.origin is not None and suffix_of(path) != ".json"
    tell_sizes(path, options, bounded if is_sdf3 else 0, uncounted)
    return graph


def _plain(path: str, options: argparse.Namespace) -> Graph:
    """The graph of a file without parameters; of others it is said how they are read."""
    try:
        return read_graph(path, **_reading(options))
    except UnreadableFile as error:
        if suffix_of(path) not in (".xml", ".json"):
            raise
        from csdf.parameters.graph import parameters_of_file  # for files that were refused

        names = parameters_of_file(path, options.file_limit)
        if not names:
            raise
        values = " ".join(f"--set {name}=4" for name in names)
        are = "is a parameter" if len(names) == 1 else "are parameters"
        raise UnreadableFile(
            f"{error}; if {', '.join(names)} {are}, give values, such as {values}; "
            "`csdf analyze --symbolic` has formulas"
        ) from None


def _instance(path: str, options: argparse.Namespace) -> Graph:
    """The graph of a file with parameters, at the values of --set."""
    values = set_values(options)
    for name, listed in values.items():
        if len(listed) > 1:
            raise UnreadableFile(
                f"{path}: --set {name} has {len(listed)} values; expected one, except with csdf analyze"
            )
    return read_parametric(path, options).at({name: value for name, (value,) in values.items()})


def read_parametric(path: str, options: argparse.Namespace) -> ParametricGraph:
    """Return the graph of a file whose numbers may be expressions."""
    from csdf.parameters.graph import read_parametric_graph  # for such files alone

    return read_parametric_graph(path, **_reading(options))


def set_values(options: argparse.Namespace) -> dict[str, tuple[Fraction, ...]]:
    """Return the values of --set by their parameters; a parameter that is set twice is refused."""
    values_of: dict[str, tuple[Fraction, ...]] = {}
    for name, values in options.set:
        if name in values_of:
            options.refuse(f"--set {name} is given twice; write its values with commas")
        values_of[name] = values
    return values_of


def _reading(options: argparse.Namespace) -> dict[str, Any]:
    return {
        "assume_zero_times": options.assume_zero_times,
        "buffer_sizes": options.buffer_sizes,
        "most": options.file_limit,
    }


def tell_sizes(
    path: str, options: argparse.Namespace, capacities: int, uncounted: int = 0, buffers: int = 0
) -> None:
    """Say of how many channels the file's buffer sizes count; keep it for `json_text`.

    It stands above an answer in words, and on standard error beside all others. capacities: channels
    that have one; uncounted: channels whose size is none; buffers: those with one of a mapping.
    """
    options.told_sizes = None
    if uncounted:
        number = counted(uncounted, "channel")
        meaning = f"of {number} do not count, as in SDF3; --buffer-sizes counts them"
    elif buffers:
        meaning = f"of {counted(buffers, 'channel')} count as buffers of the mapping"
    elif capacities:
        number = counted(capacities, "channel")
        meaning = (
            f"of {number} count as capacities; --no-buffer-sizes leaves them out, as SDF3 does"
        )
    else:
        return
    options.told_sizes = {
        "counted": buffers or capacities,
        "not_counted": uncounted,
        "meaning": f"buffer sizes {meaning}",
    }
    form = vars(options)
    is_for_programs = form.get("csv") or form.get("format", "table") != "table"
    if form.get("json") or form.get("format") == "json":
        return
    if {"json", "format"} & form.keys() and not is_for_programs:
        print(quoted(f"{path}: buffer sizes {meaning}"), flush=True)
    else:
        remark(options.program, f"{path}: buffer sizes {meaning}")


def sizes_terms(options: argparse.Namespace) -> tuple[tuple[str, str], ...]:
    """Return the same for the terms of a page."""
    printed_sizes = options.told_sizes
    return (
        (("buffer sizes", printed_sizes["meaning"].removeprefix("buffer sizes ")),)
        if printed_sizes
        else ()
    )


def write(command: str, path: str, graph: Graph, **options: Any) -> None:
    """Write a graph and remark upon it. Raises UnwritableFile."""
    write_graph(path, graph, **options)
    size = f"{counted(len(graph.actors), 'actor')}, {counted(len(graph.channels), 'channel')}"
    remark(command, f"wrote {path}: {size}")


def exact_seconds(text: str) -> Fraction:
    """Parse a time of at least 0 like `10`, `10s`, `500ms`, `5us` or `2m`; for argparse."""
    return _parsed(text, seconds_of)


def seconds(text: str) -> float:
    """Parse a time above zero; for argparse."""
    value = exact_seconds(text)
    if not 0 < value < MOST_SECONDS:
        raise unfit(text, "a time above zero, such as 30s or 2m")
    return float(value)


def unfit(text: str, expected: str) -> argparse.ArgumentTypeError:
    """Return the refusal of an argument, for the parser to say which one it is."""
    return argparse.ArgumentTypeError(f"{shown(text)} is not {expected}")


def _parsed(text: str, parse: Callable[[str], Number]) -> Number:
    try:
        return parse(text)
    except MalformedText as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def fraction(text: str) -> Fraction:
    """Parse `3/2`, `1.5` or `7` exactly; for argparse."""
    return _parsed(text, signed_rational)


def integer(text: str) -> int:
    """Parse a whole number, with or without a sign; for argparse."""
    return _parsed(text, whole)


def from_zero(text: str) -> int:
    """Parse a whole number of at least zero; for argparse."""
    return _parsed(text, natural)


def named_integers(text: str) -> tuple[str, int]:
    """Parse `NAME=7`; for argparse."""
    name, _, value = text.rpartition("=")
    if not name:
        raise unfit(text, "NAME=NUMBER")
    return name, from_zero(value)


MOST_VALUES = 20_000  # of one parameter


def named_values(text: str) -> tuple[str, tuple[Fraction, ...]]:
    """Parse `n=4`, `n=1..64`, `n=0..64..4` (every fourth) or `n=1,2,3/2`; for argparse."""
    name, equals, listed = text.partition("=")
    if not equals or not name.isidentifier():
        raise unfit(text, "NAME=VALUE, such as n=4, n=1..64 or n=1,2,3/2")
    values: dict[Fraction, None] = {}
    for part in listed.split(","):
        first, *bounds = part.split("..")
        if not bounds:
            values[fraction(part)] = None
            continue
        ends = [integer(number) for number in (first, *bounds)]
        if len(ends) > 3 or (step := ends[2] if len(ends) == 3 else 1) < 1 or ends[1] < ends[0]:
            raise unfit(part, "a range such as 1..64, or 0..64..4 for every fourth")
        numbers = range(ends[0], ends[1] + 1, step)
        if len(numbers) + len(values) > MOST_VALUES:
            raise unfit(part, f"a range of at most {MOST_VALUES} values")
        values.update(dict.fromkeys(map(Fraction, numbers)))
    return name, tuple(values)


def positive(text: str) -> int:
    """Parse a whole number of at least one; for argparse."""
    if (value := integer(text)) < 1:
        raise unfit(text, "a whole number of at least 1")
    return value


def above_zero(text: str) -> Fraction:
    """Parse an exact number above zero; for argparse."""
    value = fraction(text)
    if value <= 0:
        raise unfit(text, "above zero")
    return value


def share(text: str) -> Fraction:
    """Parse a share of at least zero, such as `5%` or `0.05`; for argparse."""
    number = _parsed(text.removesuffix("%"), rational)
    return number / 100 if text.endswith("%") else number


def size(text: str) -> int:
    """Parse bytes such as 64MB, 16MiB or 65536; for argparse."""
    result = _parsed(text, bytes_of)
    if text.endswith(("k", "K", "KB")):  # as in data sheets
        number = text.removesuffix("B")[:-1].rstrip()
        suggestion = f"understood as {number}KiB, 1024 bytes each; kB is 1000 bytes"
        print(f"{text}: {suggestion}", file=sys.stderr)
    return result
