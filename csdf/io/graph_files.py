"""Graphs from files and into files, in the format that the name of the file says."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from typing import Any

from csdf.arguments import Positive, public
from csdf.errors import UnreadableFile, UnwritableFile
from csdf.io import files
from csdf.model.graph import Graph

PREAMBLE = 4096  # bytes in which a file says what it is
# Modules and their functions. Each is imported when a file has its format: a start takes long else.
READERS = {
    ".xml": ("csdf.io.sdf3.reader", "parse_sdf3"),
    ".json": ("csdf.io.json_graph", "graph_from_json"),
    ".csv": ("csdf.io.layer_table", "parse_layer_table"),
    ".pi": ("csdf.io.preesm.reader", "parse_pi"),
    ".scenario": ("csdf.io.preesm.reader", "parse_scenario"),
}
TEXTS = (".json", ".csv")  # whose readers take text
FORMATTERS = {
    ".xml": ("csdf.io.sdf3.writer", "format_sdf3"),
    ".json": ("csdf.io.json_graph", "graph_to_json"),
    ".dot": ("csdf.io.dot", "graph_to_dot"),
}


@public
def read_graph(
    path: str | os.PathLike[str],
    *,
    assume_zero_times: bool = False,
    buffer_sizes: bool | None = None,
    most: Positive = files.LARGEST_FILE_BYTES,
) -> Graph:
    """Return the graph of an SDF3 (.xml), JSON, layer table (.csv) or PREESM (.pi, .scenario) file.

    Another suffix is checked by the content. most: bytes that the file may have. The other options
    are those of sdf3_reader.parse_sdf3; PREESM has a use for one of them. Raises UnreadableFile.
    """
    content = files.read_bytes(path, most)
    return graph_of_content(
        content,
        os.fspath(path),
        assume_zero_times=assume_zero_times,
        buffer_sizes=buffer_sizes,
        most=most,
    )


def graph_of_content(
    content: bytes,
    name: str,
    *,
    assume_zero_times: bool = False,
    buffer_sizes: bool | None = None,
    most: int = files.LARGEST_FILE_BYTES,
) -> Graph:
    """Return the graph of a file that was read. name: of the file; the options as of `read_graph`."""
    _refuse_graphml(name, content)
    suffix = _format_of(name, content)
    module, function = READERS[suffix]
    read: Callable[..., Graph] = getattr(import_module(module), function)
    if suffix in TEXTS:
        return read(files.decoded(content, name), name)
    return read(
        content, name, assume_zero_times=assume_zero_times, buffer_sizes=buffer_sizes, most=most
    )


def _refuse_graphml(name: str, content: bytes) -> None:
    """Refuse the format of PREESM's graphs under another suffix by its name."""
    if files.suffix_of(name) == ".pi" or b"<graphml" not in content[:PREAMBLE]:
        return
    raise UnreadableFile(
        f"{name}: GraphML; a PREESM graph (PiSDF) is read from a file with the suffix .pi, or from "
        "the .scenario file that has its times"
    )


@public
def write_graph(path: str | os.PathLike[str], graph: Graph, **options: Any) -> None:
    """Write the graph as SDF3 (.xml), JSON or DOT; the options are those of that format.

    Raises UnwritableFile, also for any other suffix, and leaves nothing half-written.
    """
    require_format(path)
    module, function = FORMATTERS[files.suffix_of(path)]
    files.write_text(path, getattr(import_module(module), function)(graph, **options))


def require_format(path: str | os.PathLike[str]) -> None:
    """Raise UnwritableFile unless the suffix says a format that graphs are written in."""
    suffix = files.suffix_of(path)
    if suffix not in FORMATTERS:
        raise UnwritableFile(
            f"{path}: cannot tell the format from {suffix!r}; expected {', '.join(FORMATTERS)}"
        )


def _format_of(name: str, content: bytes) -> str:
    suffix = files.suffix_of(name)
    if suffix in READERS:
        return suffix
    start = content.lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
    if start in (b"<", b"{"):
        return ".xml" if start == b"<" else ".json"
    raise UnreadableFile(
        f"{name}: suffix {suffix!r}; expected a graph: SDF3 (.xml), JSON (.json), a layer table (.csv) "
        "or PREESM (.pi, .scenario)"
    )
