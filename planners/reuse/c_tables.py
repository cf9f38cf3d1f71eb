"""C header of a deployment: names as constants, and tables that are enough to drive an interpreter.

Networks, partitions, layers and buffers are numbers, in the order of the deployment, with constants
named for them. The tables: which buffer lies where, on which connection; what fires in which
partition; and what is copied when a partition has finished a frame. The header says in a comment how
they are run.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import TypeVar

from planners.formats.c_header import in_comment, require_number
from planners.reuse.deployment import Deployment, PlannedBuffer, PlannedFiring

Name = TypeVar("Name", bound=Hashable)

TYPES = ((1 << 8, "uint8_t"), (1 << 16, "uint16_t"), (1 << 32, "uint32_t"))
WIDTH = 100  # columns
RECIPE = (
    "A network works on a frame partition by partition, in their order. A partition carries out its "
    "firings from first_firing to the one before end_firing. A firing computes rows first_row to the "
    "one before end_row of what its layer writes, and puts them into every buffer whose producer is "
    "the layer; it reads the buffers whose consumer is the layer. Row r of a frame lies at offset + "
    "r % rows * row_bytes: a buffer keeps that many rows, and later ones lie over earlier ones. "
    "Buffers of one producer at one offset keep the same rows for several readers. What is no stack "
    "of maps is a single row. What has no buffer comes from outside or goes there.",
    "Where a copy is listed for a partition, it is made when that partition has finished a frame, in "
    "the order of the list. Then the producer writes only buffers that are no copy's target, and the "
    "consumer reads only those that are no copy's source.",
)


Columns = dict[str, tuple[Sequence[int], str]]
"""The members of a structure by name: values, and a remark."""


class _Numbers:
    """The numbers of everything by name; layers by network and layer."""

    def __init__(self, deployment: Deployment) -> None:
        def numbered(names: Iterable[Name]) -> dict[Name, int]:
            return {name: number for number, name in enumerate(dict.fromkeys(names))}

        parts = deployment.partitions
        self.networks = numbered(part.network for part in parts)
        self.layers = numbered((part.network, layer) for part in parts for layer in part.layers)
        self.partitions = numbered(part.name for part in parts)
        self.buffers = numbered(buffer.name for buffer in deployment.buffers)


def format_tables(deployment: Deployment) -> str:
    """Return a header of constants and static tables. Names begin with the application's name."""
    prefix = _capitals(deployment.name).lower()
    prefix = prefix if prefix[:1].isalpha() else f"n{prefix}"
    capitals = prefix.upper()
    names = _Numbers(deployment)
    latest: dict[tuple[str, str, str, int], PlannedBuffer] = {}
    copies = []  # of a connection, each with the next one
    for buffer in deployment.buffers:
        if buffer.connection in latest:
            copies.append((latest[buffer.connection], buffer))
        latest[buffer.connection] = buffer
    proof = f"{deployment.name}: {deployment.status}: {deployment.reason}"
    firings = sum(len(partition.firings) for partition in deployment.partitions)
    lines = [
        f"#ifndef {capitals}_H",
        f"#define {capitals}_H",
        "",
        "#include <stdint.h>",
        "",
        *_comment_lines([proof, *RECIPE]),
        "",
        f"#define {capitals}_ARENA_BYTES {require_number('arena', deployment.arena_bytes)}",
        f"#define {capitals}_ARENA_ALIGNMENT {deployment.element_bytes}",
        f"#define {capitals}_ELEMENT_BYTES {deployment.element_bytes}",
        f"#define {capitals}_FIRINGS {firings}",
        f"#define {capitals}_COPIES {len(copies)}",
        *_constants(f"{capitals}_NETWORK", list(names.networks)),
        *_constants(f"{capitals}_LAYER", [": ".join(pair) for pair in names.layers]),
        *_constants(f"{capitals}_PARTITION", list(names.partitions)),
        *_constants(f"{capitals}_BUFFER", list(names.buffers)),
        *_plan_tables(prefix, deployment, names),
        *_copy_table(prefix, copies[::-1], names),  # so that targets are free
    ]
    return "\n".join([*lines, "", "#endif", ""])


def _constants(prefix: str, names: Sequence[str]) -> Iterator[str]:
    """An enumeration that ends with how many there are; what C would not tell apart is numbered."""
    taken: set[str] = set()
    yield from ("", "enum {")
    for name in names:
        plain = constant = f"{prefix}_{_capitals(name)}"
        number = 1
        while constant in taken:
            number += 1
            constant = f"{plain}_{number}"
        taken.add(constant)
        yield f"    {constant},"
    yield from (f"    {prefix}S", "};")


def _plan_tables(prefix: str, deployment: Deployment, names: _Numbers) -> Iterator[str]:
    """The tables of buffers, partitions and firings."""
    buffers, partitions = deployment.buffers, deployment.partitions
    columns: Columns = {
        "offset": ([buffer.offset for buffer in buffers], "bytes from the start of the arena"),
        "bytes": ([buffer.size for buffer in buffers], ""),
        "row_bytes": ([buffer.row_bytes for buffer in buffers], ""),
        "rows": ([buffer.rows for buffer in buffers], "that are kept"),
        "network": ([names.networks[buffer.network] for buffer in buffers], ""),
        "producer": (
            [names.layers[buffer.network, buffer.producer] for buffer in buffers],
            "a layer",
        ),
        "consumer": (
            [names.layers[buffer.network, buffer.consumer] for buffer in buffers],
            "a layer",
        ),
        "input": ([buffer.input for buffer in buffers], "which of the consumer's, from 0"),
        "in_place": ([int(buffer.in_place) for buffer in buffers], "written over what is read"),
    }
    yield from _table(prefix, "buffer", columns, [buffer.name for buffer in buffers])
    ends = list(accumulate((len(partition.firings) for partition in partitions), initial=0))
    columns = {
        "network": ([names.networks[partition.network] for partition in partitions], ""),
        "first_firing": (ends[:-1], ""),
        "end_firing": (ends[1:], ""),
    }
    for group in deployment.parallel:
        yield ""
        yield from _comment_lines([f"at the same time, on successive frames: {', '.join(group)}"])
    yield from _table(prefix, "partition", columns, list(names.partitions))
    firings = [
        firing._replace(layer=names.layers[partition.network, partition.layers[firing.layer]])
        for partition in partitions
        for firing in partition.firings
    ]
    fields = zip(PlannedFiring._fields, zip(*firings, strict=True), strict=True)
    yield from _table(prefix, "firing", {name: (values, "") for name, values in fields}, [])


def _copy_table(
    prefix: str, copies: Sequence[tuple[PlannedBuffer, PlannedBuffer]], names: _Numbers
) -> Iterator[str]:
    ends = [names.partitions[source.stays[-1].partition] for source, _ in copies]
    columns: Columns = {
        "partition": (ends, "that has finished a frame"),
        "source": ([names.buffers[source.name] for source, _ in copies], "a buffer"),
        "target": ([names.buffers[target.name] for _, target in copies], "a buffer"),
    }
    if copies:
        yield from _table(prefix, "copy", columns, [])


def _table(prefix: str, what: str, columns: Columns, remarks: Sequence[str]) -> Iterator[str]:
    """A structure and an array of it; with a remark each entry has a line of its own."""
    entries = list(zip(*(values for values, _ in columns.values()), strict=True))
    yield from ("", f"struct {prefix}_{what} {{")
    for name, (values, about) in columns.items():
        most = require_number(f"{prefix}_{what}.{name}", max(values, default=0))
        kind = next((type_name for limit, type_name in TYPES if most < limit), "uint64_t")
        yield f"    {kind} {name};{f' /* {about} */' if about else ''}"
    yield "};"
    if not entries:
        return
    plural = "copies" if what == "copy" else f"{what}s"
    yield f"static const struct {prefix}_{what} {prefix}_{plural}[{len(entries)}] = {{"
    texts = ["{" + ",".join(map(str, entry)) + "}," for entry in entries]
    if remarks:
        pairs = zip(texts, remarks, strict=True)
        yield from (f"    {text} /* {in_comment(remark)} */" for text, remark in pairs)
    else:
        yield from (f"    {line}" for line in textwrap.wrap(" ".join(texts), WIDTH - 4))
    yield "};"


def _capitals(name: str) -> str:
    return re.sub(r"[^A-Z0-9]+", "_", name.upper())


def _comment_lines(paragraphs: Sequence[str]) -> Iterator[str]:
    """Return a comment, a paragraph after another."""
    lines: list[str] = []
    for paragraph in paragraphs:
        text = in_comment(paragraph)
        lines += ["", *textwrap.wrap(text, WIDTH - 6, break_long_words=False)]
    yield f"/* {lines[1]}"
    yield from (f"   {line}".rstrip() for line in lines[2:])
    yield "*/"
