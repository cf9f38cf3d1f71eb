"""Streaming layers from a CSV table: one row a layer, rates phase by phase."""

from __future__ import annotations

import csv
import io
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import lcm
from typing import TypeVar

from csdf.errors import InvalidGraph, UnreadableFile, counted
from csdf.io import sequences
from csdf.model.builder import GraphBuilder
from csdf.model.exact import MalformedText, natural, shown
from csdf.model.graph import Graph

Numbers = TypeVar("Numbers")

MOST_RATES = 10**7  # in one table, for memory
COLUMNS = ("layer", "inputs", "consumption", "production", "times")
WIDTH = "width"  # a column that may be left out: bits of a token that the layer makes


def parse_layer_table(text: str, name: str = "<text>") -> Graph:
    """Return the graph of a table with the columns layer, inputs, consumption, production, times.

    A column width may say how many bits a token of the layer has; `layer_widths` reads it.

    inputs: the layers it reads from, separated by `;`, none for a source. consumption: tokens per
    phase, for each input in order, separated by `;`; one list serves all inputs. production: tokens
    per phase, the same to every reader. times: of each phase. Lists are like `2,0` or `3*128,0`; a
    shorter one repeats. A layer works on one phase at a time. A channel is called "producer to
    consumer". Raises UnreadableFile, naming the line; issues the warning Suspicious where a list of
    some phases is shorter than others of its layer.
    """
    rows = _rows(text, name)
    _require_few_rates(rows, name)
    producers = {row["layer"]: (line, row["production"]) for line, row in rows}
    builder = GraphBuilder(name.rpartition("/")[2].removesuffix(".csv") or "layers")
    for line, row in rows:
        with _blaming(f"{name}:{line}"):
            builder.actor(row["layer"], _parsed(row["times"], sequences.parse_times), overlap=False)
    for line, row in rows:
        for source, consumption in _inputs(row, f"{name}:{line}"):
            if source not in producers:
                raise UnreadableFile(
                    f"{name}:{line}: layer {row['layer']!r} reads from {source!r}, "
                    "which is not a layer of the table"
                )
            line_of_source, production = producers[source]
            with _blaming(f"{name}:{line_of_source}"):
                produced = _parsed(production, sequences.parse_rates)
            with _blaming(f"{name}:{line}"):
                consumed = _parsed(consumption, sequences.parse_rates)
                builder.channel(source, produced, row["layer"], consumed)
    with _blaming(name), warnings.catch_warnings(record=True) as warnings_caught:
        warnings.simplefilter("always")
        graph = builder.graph()
    for warning in warnings_caught:
        warnings.warn(f"{name}: {warning.message}", warning.category, stacklevel=2)
    return graph


def layer_widths(text: str, name: str = "<text>") -> dict[str, int]:
    """Return the bits of a token on each channel of the table, for the layers that say them.

    Raises UnreadableFile, naming the line.
    """
    rows = _rows(text, name)
    widths = {
        row["layer"]: _width(row[WIDTH], f"{name}:{line}") for line, row in rows if row.get(WIDTH)
    }
    return {
        channel.name: widths[channel.producer]
        for channel in parse_layer_table(text, name).channels
        if channel.producer in widths and not channel.is_self_loop
    }


def _width(text: str, where: str) -> int:
    with _blaming(f"{where}: {WIDTH}"):
        width = natural(text)
    if not width:
        raise UnreadableFile(f"{where}: {WIDTH} 0; a token has at least one bit")
    return width


def _rows(text: str, name: str) -> list[tuple[int, dict[str, str]]]:
    """The rows with their line numbers, every cell stripped."""
    reader = csv.reader(io.StringIO(text), skipinitialspace=True)
    rows: list[tuple[int, dict[str, str]]] = []
    try:
        header = [cell.strip() for cell in next(reader, [])]
        if sorted(header) not in (sorted(COLUMNS), sorted((*COLUMNS, WIDTH))):
            listed = f"{', '.join(COLUMNS)}, perhaps {WIDTH}"
            raise UnreadableFile(f"{name}:1: columns {shown(', '.join(header))}; expected {listed}")
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            if len(cells) != len(header):
                raise UnreadableFile(
                    f"{name}:{reader.line_num}: {counted(len(cells), 'cell')}, expected {len(header)}; "
                    'quote a list: "2,0"'
                )
            row = dict(zip(header, (cell.strip() for cell in cells), strict=True))
            rows.append((reader.line_num, row))
    except csv.Error as error:
        raise UnreadableFile(f"{name}:{reader.line_num}: {error}") from None
    if not rows:
        raise UnreadableFile(f"{name}: no layer in the table")
    return rows


def _require_few_rates(rows: list[tuple[int, dict[str, str]]], name: str) -> None:
    """Refuse sequences that would exhaust memory, before any of them is written out."""
    rates = 0
    for line, row in rows:
        where = f"{name}:{line}"
        lists = row["consumption"].split(";")
        with _blaming(where):
            phases = lcm(*map(sequences.sequence_length, (row["times"], row["production"], *lists)))
        # Times, production, two lists of the self-loop, and the consumption from each input.
        rates += phases * (4 + max(len(lists), row["inputs"].count(";") + 1))
        if rates > MOST_RATES:
            raise UnreadableFile(
                f"{where}: more than {MOST_RATES} rates in the layers up to {row['layer']!r}"
            )


def _inputs(row: dict[str, str], where: str) -> list[tuple[str, str]]:
    """Each input of a layer with the text of what it consumes from there."""
    names = [name.strip() for name in row["inputs"].split(";") if name.strip()]
    lists = row["consumption"].split(";")
    if len(lists) == 1:
        lists *= len(names)
    if len(lists) != len(names):
        raise UnreadableFile(
            f"{where}: layer {row['layer']!r} has {counted(len(names), 'input')} "
            f"but {counted(len(lists), 'list')} of consumption"
        )
    return list(zip(names, lists, strict=True))


def _parsed(text: str, parse: Callable[[str, int], Numbers]) -> Numbers:
    return parse(text, sequences.sequence_length(text))


@contextmanager
def _blaming(where: str) -> Iterator[None]:
    """Turn the refusal of a text or of a part of the graph into an error that says where it is."""
    try:
        yield
    except (InvalidGraph, MalformedText) as error:
        raise UnreadableFile(f"{where}: {error}") from None
