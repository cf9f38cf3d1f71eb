"""Graph files of commands: the options that say how they are read, reading, and writing."""

from __future__ import annotations

import argparse
import warnings
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from csdf.cli import option_values
from csdf.cli.frame.long_work import working
from csdf.cli.frame.output import remark
from csdf.errors import UncountedSizes, UnreadableFile, counted
from csdf.io.files import LARGEST_FILE_BYTES, suffix_of
from csdf.io.graph_files import read_graph, write_graph
from csdf.names import quoted

if TYPE_CHECKING:
    from csdf.model.graph import Graph
    from csdf.parameters.graph import ParametricGraph

NETWORKS = (".onnx", ".tflite", ".cfg")  # suffixes of files that hold a network


def add_reading_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of reading: missing times, buffer sizes, parameters, size of the file."""
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
        type=option_values.named_values,
        metavar="NAME=VALUE",
        default=[],
        help="value of a parameter of the graph, whose numbers may be expressions such as 2*n+1",
    )
    parser.set_defaults(told_sizes=None)
    parser.add_argument(
        "--file-limit",
        type=option_values.size,
        metavar="SIZE",
        default=LARGEST_FILE_BYTES,
        help="reject larger graph files; default: 64MiB",
    )


def read(path: str, options: argparse.Namespace) -> Graph:
    """Return the graph of a file; print each warning about it once.

    How its buffer sizes were read is printed by `tell_sizes`.
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
    """Read a graph without parameters; the error for a graph with parameters suggests --set."""
    try:
        return read_graph(path, **_reading(options))
    except UnreadableFile as error:
        if suffix_of(path) not in (".xml", ".json"):
            raise
        from csdf.parameters.graph import parameters_of_file  # only for rejected files

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
    """Read a graph with parameters, at the values of --set."""
    values = set_values(options)
    for name, listed in values.items():
        if len(listed) > 1:
            raise UnreadableFile(
                f"{path}: --set {name} has {len(listed)} values; expected one, except with csdf analyze"
            )
    return read_parametric(path, options).at({name: value for name, (value,) in values.items()})


def read_parametric(path: str, options: argparse.Namespace) -> ParametricGraph:
    """Return the graph of a file whose numbers may be expressions."""
    from csdf.parameters.graph import read_parametric_graph  # only for graphs with parameters

    return read_parametric_graph(path, **_reading(options))


def set_values(options: argparse.Namespace) -> dict[str, tuple[Fraction, ...]]:
    """Return the values of --set by parameter; reject a parameter that is set twice."""
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
    """State how many buffer sizes of a file are used as capacities, and store it for `json_text`.

    Printed above an answer in words, and on standard error with CSV; a JSON answer contains it.
    capacities: channels with a capacity; uncounted: channels whose buffer size is ignored; buffers:
    channels with a buffer of a mapping.
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
    """Return the statement of `tell_sizes` as a row for the terms of a page."""
    printed_sizes = options.told_sizes
    return (
        (("buffer sizes", printed_sizes["meaning"].removeprefix("buffer sizes ")),)
        if printed_sizes
        else ()
    )


def write(command: str, path: str, graph: Graph, **options: Any) -> None:
    """Write a graph, and print its size as a remark. Raises UnwritableFile."""
    write_graph(path, graph, **options)
    size = f"{counted(len(graph.actors), 'actor')}, {counted(len(graph.channels), 'channel')}"
    remark(command, f"wrote {path}: {size}")
