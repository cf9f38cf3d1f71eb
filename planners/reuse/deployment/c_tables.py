"""Deployments as C headers: the bytes of the arena, offsets, and a table of firings each partition.

Buffers, partitions and layers are numbers, in the order of the deployment; their names stand in
comments. The arrays of a partition are as long as its schedule: layer, phase, first output row, and
the row behind the last.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from planners.reuse.deployment.deployment import Deployment, PlannedFiring, PlannedPartition

TYPES = ((1 << 8, "uint8_t"), (1 << 16, "uint16_t"), (1 << 32, "uint32_t"))
COLUMNS = PlannedFiring._fields
PER_LINE = 20  # numbers


def format_tables(deployment: Deployment) -> str:
    """Return a header of constants and static arrays. Names begin with that of the application."""
    prefix = _identifier(deployment.name)
    capitals = prefix.upper()
    lines = [
        f"#ifndef {capitals}_H",
        f"#define {capitals}_H",
        "",
        "#include <stdint.h>",
        "",
        f"/* {_comment(deployment.name)}: {deployment.status}, {_comment(deployment.reason)} */",
        f"#define {capitals}_ARENA_BYTES {deployment.arena_bytes}",
        f"#define {capitals}_ARENA_ALIGNMENT {deployment.element_bytes}",
        f"#define {capitals}_BUFFERS {len(deployment.buffers)}",
        f"#define {capitals}_PARTITIONS {len(deployment.partitions)}",
        *_buffer_arrays(prefix, deployment),
    ]
    for number, partition in enumerate(deployment.partitions):
        lines += _partition_arrays(f"{prefix}_partition_{number}", partition)
    return "\n".join([*lines, "", "#endif", ""])


def _buffer_arrays(prefix: str, deployment: Deployment) -> Iterator[str]:
    for column in ("offset", "size"):
        values = [getattr(buffer, column) for buffer in deployment.buffers]
        if values:
            yield ""
            yield f"static const {_type(values)} {prefix}_buffer_{column}[{len(values)}] = {{"
            for value, buffer in zip(values, deployment.buffers, strict=True):
                yield f"    {value}, /* {_comment(buffer.name)} */"
            yield "};"


def _partition_arrays(prefix: str, partition: PlannedPartition) -> Iterator[str]:
    count = len(partition.firings)
    yield ""
    yield f"/* partition {_comment(partition.name)} of {_comment(partition.network)}"
    for number, layer in enumerate(partition.layers):
        yield f"   layer {number}: {_comment(layer)}"
    yield "*/"
    yield f"#define {prefix.upper()}_FIRINGS {count}"
    for place, column in enumerate(COLUMNS):
        values = [firing[place] for firing in partition.firings]
        yield f"static const {_type(values)} {prefix}_{column}[{count}] = {{"
        for begin in range(0, count, PER_LINE):
            yield f"    {', '.join(map(str, values[begin : begin + PER_LINE]))},"
        yield "};"


def _type(values: Sequence[int]) -> str:
    """The smallest type that holds all values."""
    return next((name for limit, name in TYPES if max(values) < limit), "uint64_t")


def _identifier(name: str) -> str:
    """The name with nothing but what C allows, beginning with a letter."""
    text = re.sub(r"[^a-z0-9]", "_", name.lower())
    return text if text[:1].isalpha() else f"n{text}"


def _comment(name: str) -> str:
    printable = "".join(c if c.isprintable() else "?" for c in name)
    return printable.replace("*/", "* /").replace("/*", "/ *")
