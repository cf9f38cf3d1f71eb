"""C header of a deployment: names as constants, and tables that are enough to drive an interpreter.

Networks, partitions, layers and buffers are numbers, in the order of the deployment, with constants
named for them. The tables: the offset and the connection of each buffer, the firings of each partition,
and the copies of a pipeline. A comment of the header tells how an interpreter executes them.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate

from cnn2csdf.network import Connection
from planners.formats.c_header import in_comment, require_number
from planners.reuse.deployment import Deployment
from planners.reuse.edge_buffers import EdgeBuffer

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
    "Where a copy is listed for a partition, it is made between two frames of that partition, while no "
    "partition of its set is within a frame: where partitions work at the same time, all of them end "
    "their frames, then all copies of the set are made in the order of the list, then the next frames "
    "begin. So the producer writes only buffers that are no copy's target, and the consumer "
    "reads only those that are no copy's source.",
)

# The members of each structure, and a remark about each.
BUFFER = {
    "offset": "bytes from the start of the arena",
    "bytes": "",
    "row_bytes": "",
    "rows": "that are kept",
    "network": "",
    "producer": "a layer",
    "consumer": "a layer",
    "input": "which of the consumer's, from 0",
    "in_place": "written over what is read",
}
PARTITION = {"network": "", "first_firing": "", "end_firing": ""}
FIRING = {"layer": "", "phase": "", "first_row": "", "end_row": ""}
COPY = {"partition": "between two of its frames", "source": "a buffer", "target": "a buffer"}


Layers = Mapping[tuple[int, str], int]
"""The number of each layer, by the number of its network and its name."""


def format_tables(planned: Deployment) -> str:
    """Return a header of constants and static tables. Names begin with the application's name."""
    evaluator, plan, memory = planned
    application, unit = evaluator.application, evaluator.costs.element_bytes
    name = memory.problem.name
    prefix = _capitals(name).lower()
    prefix = prefix if prefix[:1].isalpha() else f"n{prefix}"
    capitals = prefix.upper()
    partitions = list(application.partitions)
    names = [member.name for member in application.members]
    layer_numbers = {
        layer: number
        for number, layer in enumerate(
            (member, layer) for member, partition in partitions for layer in partition.layers
        )
    }
    firings = list(_firings(planned, layer_numbers))
    copies = list(_copies(plan.edges))
    bounds = list(accumulate(map(len, plan.orders), initial=0))
    entries = [
        (member, begin, end)
        for (member, _), begin, end in zip(partitions, bounds, bounds[1:], strict=False)
    ]
    partition_names = [partition.name for _, partition in partitions]
    proof = f"{name}: {memory.status}: {memory.reason}"
    lines = [
        f"#ifndef {capitals}_H",
        f"#define {capitals}_H",
        "",
        "#include <stdint.h>",
        "",
        *_comment_lines([proof, *RECIPE]),
        "",
        f"#define {capitals}_ARENA_BYTES {require_number('arena', memory.peak)}",
        f"#define {capitals}_ARENA_ALIGNMENT {unit}",
        f"#define {capitals}_ELEMENT_BYTES {unit}",
        f"#define {capitals}_FIRINGS {len(firings)}",
        f"#define {capitals}_COPIES {len(copies)}",
        *_constants(f"{capitals}_NETWORK", names),
        *_constants(f"{capitals}_LAYER", [f"{names[i]}: {layer}" for i, layer in layer_numbers]),
        *_constants(f"{capitals}_PARTITION", partition_names),
        *_constants(f"{capitals}_BUFFER", [edge.name for edge in plan.edges]),
        *_table(
            prefix,
            "buffer",
            BUFFER,
            list(_buffers(planned, layer_numbers)),
            [edge.name for edge in plan.edges],
        ),
    ]
    for group in application.parallel:
        remark = f"at the same time, on successive frames: {', '.join(sorted(group))}"
        lines += ["", *_comment_lines([remark])]
    lines += _table(prefix, "partition", PARTITION, entries, partition_names)
    lines += _table(prefix, "firing", FIRING, firings)
    if copies:
        lines += _table(prefix, "copy", COPY, copies[::-1])  # so that targets are free
    return "\n".join([*lines, "", "#endif", ""])


def _buffers(planned: Deployment, layers: Layers) -> Iterator[tuple[int, ...]]:
    """The entries of the buffers."""
    offsets, problem = planned.memory.offsets, planned.memory.problem
    in_place = {written for read, written in problem.in_place if offsets[read] == offsets[written]}
    sizes = {buffer.name: buffer.size for buffer in problem.buffers}
    for edge in planned.plan.edges:
        connection, size, row_bytes = edge.connection, sizes[edge.name], planned.row_bytes(edge)
        yield (
            *(offsets[edge.name], size, row_bytes, size // row_bytes, edge.member),
            layers[edge.member, connection.producer],
            layers[edge.member, connection.consumer],
            connection.index,
            int(edge.name in in_place),
        )


def _copies(edges: Sequence[EdgeBuffer]) -> Iterator[tuple[int, int, int]]:
    """The entries of the copies in pipelines, from each buffer of a connection to the next."""
    latest: dict[tuple[int, Connection], int] = {}
    for number, edge in enumerate(edges):
        source = latest.get((edge.member, edge.connection))
        if source is not None:
            yield edges[source].stays[-1].partition, source, number
        latest[edge.member, edge.connection] = number


def _firings(planned: Deployment, layers: Layers) -> Iterator[tuple[int, ...]]:
    """The entries of the firings, partition by partition."""
    evaluator, plan, _ = planned
    for index, (member, partition) in enumerate(evaluator.application.partitions):
        table, rows = evaluator.models[index].table, plan.rows[index]
        phases = [0] * len(rows)
        for layer in plan.orders[index]:
            phase, ends = phases[layer], (0, *table.written(layer, rows[layer]))
            phases[layer] += 1
            yield layers[member, partition.layers[layer]], phase, ends[phase], ends[phase + 1]


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


def _table(
    prefix: str,
    what: str,
    members: Mapping[str, str],
    entries: Sequence[tuple[int, ...]],
    remarks: Sequence[str] = (),
) -> Iterator[str]:
    """A structure and an array of it; with a remark each entry has a line of its own."""
    yield from ("", f"struct {prefix}_{what} {{")
    for number, (name, about) in enumerate(members.items()):
        values = (entry[number] for entry in entries)
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
    _, first, *rest = lines
    yield f"/* {first}"
    yield from (f"   {line}".rstrip() for line in rest)
    yield "*/"
