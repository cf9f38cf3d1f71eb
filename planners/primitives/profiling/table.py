"""A profile as a table of comma-separated values, with the machine in the lines in front.

Lines "# name: value" say which network and machine (network, processor, cores, threads, library,
element_type); any may be missing. Then comes a line of column names, in any order:

    layer, primitive, input_layout, output_layout, nanoseconds, workspace_bytes, parameter_bytes
        are needed; layouts are CHW or HWC, numbers are whole
    spread_nanoseconds is 0 where the column is missing
    producer, index, where there are changes of layout: a row with a producer is the change from
        input_layout to output_layout of that input of `layer`, and its primitive is empty
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from io import StringIO
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from csdf.arguments import public
from csdf.errors import InvalidPlan, UnreadableFile
from csdf.io.csv_text import csv_text, unguarded
from csdf.io.files import read_bytes, write_text
from planners.primitives.profile import (
    LAYOUTS,
    LayerProfile,
    Machine,
    Profile,
    TransformProfile,
)

NEEDED = (
    "layer",
    "primitive",
    "input_layout",
    "output_layout",
    "nanoseconds",
    "workspace_bytes",
    "parameter_bytes",
)
COLUMNS = (*NEEDED, "spread_nanoseconds", "producer", "index")
COUNTS = ("cores", "threads")
LONGEST_NUMBER = 18  # digits: what 64 bits hold
NOT_STATED = "not stated"


@public
def write_profile(path: str | os.PathLike[str], profile: Profile) -> None:
    """Write the table; an older file stays until the new one is whole."""
    write_text(path, profile_text(profile))


def profile_text(profile: Profile) -> str:
    """Return the table."""
    text = StringIO()
    text.write(f"# network: {_one_line(profile.network)}\n")
    for field in fields(Machine):
        text.write(f"# {field.name}: {_one_line(str(getattr(profile.machine, field.name)))}\n")
    rows = ([row.get(column, "") for column in COLUMNS] for row in _rows(profile))
    return text.getvalue() + csv_text(chain([COLUMNS], rows))


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _rows(profile: Profile) -> Iterator[dict[str, object]]:
    for one in profile.layers:
        yield {name: getattr(one, name) for name in (*NEEDED, "spread_nanoseconds")}
    for change in profile.transforms:
        yield {
            "layer": change.consumer,
            "input_layout": change.source_layout,
            "output_layout": change.target_layout,
            "nanoseconds": change.nanoseconds,
            "workspace_bytes": change.workspace_bytes,
            "parameter_bytes": 0,
            "spread_nanoseconds": change.spread_nanoseconds,
            "producer": change.producer,
            "index": change.index,
        }


@public
def read_profile(path: str | os.PathLike[str]) -> Profile:
    """Return the profile that a file holds.

    Raises UnreadableFile with file, line, column, what was found and what was expected.
    """
    try:
        text = read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnreadableFile(f"{path}: byte {error.start} is no UTF-8 text") from None
    return parsed_profile(text, name=str(path))


def parsed_profile(text: str, *, name: str) -> Profile:
    """Return the profile that a table holds; name: of the table, for messages."""
    lines = text.splitlines()
    front = next((n for n, one in enumerate(lines) if one and not one.startswith("#")), len(lines))
    stated = _stated(lines[:front])
    layers: list[LayerProfile] = []
    transforms: list[TransformProfile] = []
    seen: dict[tuple[str, ...], int] = {}
    for row in _table(lines[front:], name, front):
        ends = ("producer", "index") if row.cells.get("producer") else ()
        way = tuple(row.cells[column] for column in (*COLUMNS[:4], *ends))
        if way in seen:
            raise UnreadableFile(
                f"{row.place}: the same as line {seen[way]}; expected each way once"
            )
        seen[way] = row.line
        if row.cells.get("producer"):
            transforms.append(_transform(row))
        else:
            layers.append(_layer(row))
    try:
        return Profile(
            network=stated.get("network", Path(name).stem),
            machine=_machine(stated, name),
            layers=tuple(layers),
            transforms=tuple(transforms),
        )
    except InvalidPlan as error:
        raise UnreadableFile(f"{name}: {error}") from None


def _stated(lines: Sequence[str]) -> dict[str, str]:
    """The lines "# name: value"; others with # are remarks."""
    pairs = (line.removeprefix("#").partition(":") for line in lines)
    return {key.strip(): value.strip() for key, _, value in pairs if value.strip()}


def _machine(stated: Mapping[str, str], name: str) -> Machine:
    counts = {}
    for key in COUNTS:
        text = stated.get(key, "1")
        if not _is_number(text) or int(text) < 1:
            raise UnreadableFile(f"{name}: {key} is {text!r}; expected a whole number from 1")
        counts[key] = int(text)
    return Machine(
        processor=stated.get("processor", NOT_STATED),
        library=stated.get("library", NOT_STATED),
        element_type=stated.get("element_type", "float32"),
        **counts,
    )


class _Row(NamedTuple):
    """A line of the table by column; place: file and line, for messages."""

    place: str
    line: int
    cells: Mapping[str, str]

    def number(self, column: str) -> int:
        """Return a cell as a whole number; 0 where the column is missing."""
        text = self.cells.get(column, "0")
        if not _is_number(text):
            raise UnreadableFile(
                f"{self.place}, column {column}: {text!r}; expected a whole number from 0, "
                f"of at most {LONGEST_NUMBER} digits"
            )
        return int(text)

    def layout(self, column: str) -> str:
        """Return a cell as a layout."""
        text = self.cells[column]
        if text not in LAYOUTS:
            raise UnreadableFile(
                f"{self.place}, column {column}: {text!r}; expected {' or '.join(LAYOUTS)}"
            )
        return text

    def name(self, column: str) -> str:
        """Return a cell that must not be empty."""
        if not self.cells[column]:
            raise UnreadableFile(f"{self.place}, column {column}: empty; expected a name")
        return self.cells[column]


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= LONGEST_NUMBER


def _table(lines: Iterable[str], name: str, before: int) -> Iterator[_Row]:
    """The rows after the line of column names; before: lines in front of it."""
    reader = csv.reader((f"{line}\n" for line in lines), strict=True)
    try:
        columns = next(reader, [])
        _require_columns(columns, f"{name}, line {before + 1}")
        for cells in reader:
            line = before + reader.line_num
            place = f"{name}, line {line}"
            if not cells:
                continue
            if len(cells) != len(columns):
                raise UnreadableFile(
                    f"{place}: {len(cells)} cells; expected {len(columns)}, one for each column"
                )
            yield _Row(place, line, dict(zip(columns, map(unguarded, cells), strict=True)))
    except csv.Error as error:
        raise UnreadableFile(f"{name}, line {before + reader.line_num}: {error}") from None


def _require_columns(columns: Sequence[str], place: str) -> None:
    for column in NEEDED:
        if column not in columns:
            raise UnreadableFile(f"{place}: no column {column!r}, only {', '.join(columns)[:80]!r}")
    for column in columns:
        if columns.count(column) > 1:
            raise UnreadableFile(f"{place}: two columns {column!r}")
    if ("producer" in columns) != ("index" in columns):
        raise UnreadableFile(f"{place}: columns 'producer' and 'index' belong together")


def _layer(row: _Row) -> LayerProfile:
    return LayerProfile(
        layer=row.name("layer"),
        primitive=row.name("primitive"),
        input_layout=row.layout("input_layout"),
        output_layout=row.layout("output_layout"),
        nanoseconds=row.number("nanoseconds"),
        spread_nanoseconds=row.number("spread_nanoseconds"),
        workspace_bytes=row.number("workspace_bytes"),
        parameter_bytes=row.number("parameter_bytes"),
    )


def _transform(row: _Row) -> TransformProfile:
    try:
        return TransformProfile(
            producer=row.name("producer"),
            consumer=row.name("layer"),
            index=row.number("index"),
            source_layout=row.layout("input_layout"),
            target_layout=row.layout("output_layout"),
            nanoseconds=row.number("nanoseconds"),
            spread_nanoseconds=row.number("spread_nanoseconds"),
            workspace_bytes=row.number("workspace_bytes"),
        )
    except InvalidPlan as error:
        raise UnreadableFile(f"{row.place}: {error}") from None
