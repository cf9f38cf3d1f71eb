"""Profiles: costs of each layer by each primitive, of each layout transformation, and their CSV table.

A feature map is stored as "CHW" (channel by channel, each channel row by row) or as "HWC" (pixel by
pixel, the channels of a pixel adjacent). A variant of a layer is a primitive with the layouts of its
inputs and of its output. These rules make a table additive:

- Every layer of the simplified network has an entry for each of its variants. A layer other than a
  convolution has the primitive LAYER, and an entry for each layout in which it can run: the layout of
  all its inputs and of its output.
- A vector has the layout "CHW". A layer that reads or writes a vector (flatten, fully connected,
  softmax) runs in "CHW" only, and so do layers that mix rows, columns and channels. Input and output
  layers have the layout "CHW".
- The time of a layer includes its bias and fused operators. A layout transformation belongs to one
  input of one consumer: two consumers of a map in another layout need two transformations.

So the time of a network is the sum over its layers and over the connections whose ends differ in
layout. Times are integers, in nanoseconds, of one frame.

A table begins with lines "# name: value", all of which may be missing: network, processor, cores,
threads, library, element_type, and "# state: unfinished" if layers are missing. A value with outer
spaces or control characters is a JSON string. A line of column names follows, in any order:

    layer               required
    primitive           required; empty in the row of a layout transformation
    input_layout        required; CHW or HWC
    output_layout       required; CHW or HWC
    nanoseconds         required; an integer, as all numbers below
    workspace_bytes     required
    parameter_bytes     required
    spread_nanoseconds  optional; 0 without the column
    producer            optional; a row with a producer is the transformation from input_layout to
                        output_layout of input `index` of `layer`
    index               optional; required with a producer
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from io import StringIO
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeVar

from csdf.arguments import public
from csdf.errors import InvalidPlan, UnreadableFile
from csdf.io.csv_text import csv_text, table_rows
from csdf.io.files import read_text, write_text
from csdf.model.shown import Shown

CHW = "CHW"
HWC = "HWC"
LAYOUTS = (CHW, HWC)
LAYER = "layer"  # the primitive of every layer that is no convolution

VARIANT_KEY = ("layer", "primitive", "input_layout", "output_layout")
NEEDED = (*VARIANT_KEY, "nanoseconds", "workspace_bytes", "parameter_bytes")
COLUMNS = (*NEEDED, "spread_nanoseconds", "producer", "index")
COLUMN_OF = {  # of fields of a layout transformation that have another name than their column
    "consumer": "layer",
    "source_layout": "input_layout",
    "target_layout": "output_layout",
}
LONGEST_NUMBER = 18  # digits, so that numbers fit 64 bits
NOT_STATED = "not stated"
UNFINISHED = "unfinished"

Entry = TypeVar("Entry", "LayerProfile", "TransformProfile")
Cells = Mapping[str, str]  # of a row, by column


class Variant(NamedTuple):
    """A method to compute a layer: a primitive, and the layouts of its inputs and of its output."""

    primitive: str
    input_layout: str
    output_layout: str

    def __str__(self) -> str:
        return f"{self.primitive!r} from {self.input_layout} to {self.output_layout}"

    @property
    def layouts(self) -> tuple[str, str]:
        """The layouts of the inputs and of the output."""
        return self.input_layout, self.output_layout


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerProfile(Shown):
    """The cost of a variant of a layer.

    nanoseconds: the median of the repetitions; spread_nanoseconds: their interquartile range.
    workspace_bytes: peak of the temporary arrays, without input, output and parameters. It is exact for
    primitives; for a layer or fused operator that cnn2csdf computes with arrays of its own it is
    measured and rounded up to a multiple of 4096. parameter_bytes: weights in the form of the
    primitive, with bias and fused operators.
    """

    JSON: ClassVar[tuple[str, ...]] = (
        *VARIANT_KEY, "nanoseconds", "workspace_bytes", "weight_bytes=parameter_bytes",
    )  # fmt: skip

    layer: str
    primitive: str
    input_layout: str
    output_layout: str
    nanoseconds: int
    spread_nanoseconds: int
    workspace_bytes: int
    parameter_bytes: int

    def __post_init__(self) -> None:
        _require_valid(self, f"layer {self.layer!r}, primitive {self.primitive!r}")

    @property
    def variant(self) -> Variant:
        """The primitive with its layouts."""
        return Variant(self.primitive, self.input_layout, self.output_layout)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformProfile(Shown):
    """A layout transformation of an input of a consumer. index: of the input.

    The fields of time and workspace are those of LayerProfile. The transformed tensor itself, with the
    bytes of the producer's output, is not in the workspace.
    """

    JSON: ClassVar[tuple[str, ...]] = (
        "producer", "consumer", "index", "source_layout", "target_layout", "nanoseconds",
        "workspace_bytes",
    )  # fmt: skip

    producer: str
    consumer: str
    index: int
    source_layout: str
    target_layout: str
    nanoseconds: int
    spread_nanoseconds: int
    workspace_bytes: int

    def __post_init__(self) -> None:
        title = f"transform from {self.producer!r} to {self.consumer!r}"
        _require_valid(self, title)
        if self.source_layout == self.target_layout:
            raise InvalidPlan(f"{title}: both layouts are {self.source_layout}; list none for that")


def _require_valid(entry: LayerProfile | TransformProfile, title: str) -> None:
    """Raise InvalidPlan for an unknown layout or a negative number. title: of the entry."""
    for name in (field.name for field in fields(entry)):
        value = getattr(entry, name)
        if name.endswith("_layout") and value not in LAYOUTS:
            raise InvalidPlan(f"{title}: there is no layout {value!r}, only {', '.join(LAYOUTS)}")
        if value == "":
            raise InvalidPlan(f"{title}: {name} is empty; expected a name")
        if isinstance(value, int) and value < 0:
            raise InvalidPlan(f"{title}: {name} is {value}; expected 0 or more")


@dataclass(frozen=True, slots=True, kw_only=True)
class TimingMachine(Shown):
    """The platform and the method of measurement, without a name of the machine.

    threads: of matrix products. library: of matrix products, such as "numpy 2.1.0, openblas 0.3.27".
    element_type: of maps and weights.
    """

    JSON: ClassVar[tuple[str, ...]] = ("processor", "cores", "threads", "library")

    processor: str
    cores: int
    threads: int
    library: str
    element_type: str = "float32"

    def __post_init__(self) -> None:
        for name, count in (("cores", self.cores), ("threads", self.threads)):
            if count < 1:
                raise InvalidPlan(f"a machine with {count} {name}; expected at least one")


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The measurements of one network on one machine, in the order of its layers.

    is_whole: whether all layers and transformations were measured.
    """

    network: str
    machine: TimingMachine
    layers: tuple[LayerProfile, ...]
    transforms: tuple[TransformProfile, ...]
    is_whole: bool = True

    def __post_init__(self) -> None:
        seen: set[tuple[object, ...]] = set()
        for layer in self.layers:
            if (layer.layer, layer.variant) in seen:
                raise InvalidPlan(f"layer {layer.layer!r}: {layer.variant} is listed twice")
            seen.add((layer.layer, layer.variant))
        for change in self.transforms:
            ends = (change.producer, change.consumer, change.index, change.source_layout)
            if ends in seen:
                raise InvalidPlan(
                    f"input {change.index} of {change.consumer!r}: its transform from "
                    f"{change.source_layout} is listed twice"
                )
            seen.add(ends)


@public
def write_profile(path: str | os.PathLike[str], profile: Profile) -> None:
    """Write the table; an older file stays until the new one is whole."""
    write_text(path, profile_text(profile))


def profile_text(profile: Profile) -> str:
    """Return the table."""
    stated = {"network": profile.network}
    stated |= {
        field.name: str(getattr(profile.machine, field.name)) for field in fields(TimingMachine)
    }
    stated |= {} if profile.is_whole else {"state": UNFINISHED}
    head = (f"# {name}: {_header_text(value)}\n" for name, value in stated.items())
    entries: tuple[LayerProfile | TransformProfile, ...] = (*profile.layers, *profile.transforms)
    empty = dict.fromkeys(COLUMNS, "") | {"parameter_bytes": 0}
    rows = (
        empty | {column: getattr(entry, name) for name, column in _columns(entry).items()}
        for entry in entries
    )
    return "".join(head) + csv_text(chain([COLUMNS], (list(row.values()) for row in rows)))


def _header_text(value: str) -> str:
    """Return a value of the first lines, as a JSON string where it is not the same after reading."""
    is_plain = value.isprintable() and value == value.strip() and value[:1] not in ("", '"')
    return value if is_plain else json.dumps(value)


def _header_value(text: str) -> str:
    with suppress(ValueError):
        if text.startswith('"'):
            return str(json.loads(text))
    return text


def _columns(entry: Any) -> dict[str, str]:
    """Return the column of each field of an entry, or of a class of entries."""
    return {field.name: COLUMN_OF.get(field.name, field.name) for field in fields(entry)}


@public
def read_profile(path: str | os.PathLike[str]) -> Profile:
    """Return the profile of a file.

    Raises UnreadableFile with file, line, column, the value and the expected value.
    """
    return parsed_profile(read_text(path), name=str(path))


def parsed_profile(text: str, *, name: str) -> Profile:
    """Return the profile of a table. name: of the table, for messages."""
    # Not `splitlines`, which also splits names at characters such as U+2028.
    lines = list(StringIO(text, newline=""))
    front = next(
        (n for n, line in enumerate(lines) if line.strip("\r\n") and not line.startswith("#")),
        len(lines),
    )
    pairs = (line.removeprefix("#").partition(":") for line in lines[:front])
    stated = {key.strip(): _header_value(value.strip()) for key, _, value in pairs if value.strip()}
    rows = table_rows(lines[front:], name, NEEDED, ("producer", "index"), lines_before=front)
    layers, transforms = _entries(rows, name)
    machine = _stated_machine(stated, name)
    try:
        return Profile(
            network=stated.get("network", Path(name).stem),
            machine=machine,
            layers=layers,
            transforms=transforms,
            is_whole=stated.get("state") != UNFINISHED,
        )
    except InvalidPlan as error:
        raise UnreadableFile(f"{name}: {error}") from None


def _entries(
    rows: Iterable[tuple[int, Cells]], name: str
) -> tuple[tuple[LayerProfile, ...], tuple[TransformProfile, ...]]:
    """Return the layers and the layout transformations of the rows of a table.

    rows: number of the line, and cells. name: of the table, for messages.
    """
    layers: list[LayerProfile] = []
    transforms: list[TransformProfile] = []
    seen: dict[tuple[str, ...], int] = {}
    for line, cells in rows:
        location = f"{name}, line {line}"
        is_transform = bool(cells.get("producer"))
        columns = (*VARIANT_KEY, "producer", "index") if is_transform else VARIANT_KEY
        key = tuple(cells[column] for column in columns)
        if key in seen:
            raise UnreadableFile(
                f"{location}: the same as line {seen[key]}; expected each variant once"
            )
        seen[key] = line
        if is_transform:
            transforms.append(_entry(TransformProfile, cells, location))
        else:
            layers.append(_entry(LayerProfile, cells, location))
    return tuple(layers), tuple(transforms)


def _stated_machine(stated: Mapping[str, str], name: str) -> TimingMachine:
    """Return the machine of the first lines of a table; name: of the table, for messages."""
    counts = {}
    for key in ("cores", "threads"):
        stated_count = stated.get(key, "1")
        if not _is_number(stated_count) or int(stated_count) < 1:
            raise UnreadableFile(
                f"{name}: {key} is {stated_count!r}; expected a whole number from 1"
            )
        counts[key] = int(stated_count)
    return TimingMachine(
        processor=stated.get("processor", NOT_STATED),
        library=stated.get("library", NOT_STATED),
        element_type=stated.get("element_type", "float32"),
        **counts,
    )


def _entry(kind: type[Entry], cells: Cells, location: str) -> Entry:
    """Return the layer or the layout transformation of a row."""
    values = {
        name: _value(column, cells.get(column, "0"), f"{location}, column {column}")
        for name, column in _columns(kind).items()
    }
    try:
        return kind(**values)
    except InvalidPlan as error:
        raise UnreadableFile(f"{location}: {error}") from None


def _value(column: str, text: str, location: str) -> Any:
    """Return the value of a cell: a name, a layout or a number, by its column."""
    if column in ("layer", "primitive", "producer"):
        if not text:
            raise UnreadableFile(f"{location}: empty; expected a name")
        return text
    if column.endswith("_layout"):
        if text not in LAYOUTS:
            raise UnreadableFile(f"{location}: {text!r}; expected {' or '.join(LAYOUTS)}")
        return text
    if not _is_number(text):
        raise UnreadableFile(
            f"{location}: {text!r}; expected a whole number from 0, of at most {LONGEST_NUMBER} "
            "digits"
        )
    return int(text)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= LONGEST_NUMBER
