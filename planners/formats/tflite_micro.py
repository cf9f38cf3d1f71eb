"""The offline memory plan of TensorFlow Lite for Microcontrollers, and files that carry one.

The content of the buffer that the model's metadata "OfflineMemoryAllocation" names: 32-bit integers,
little endian: the version of the format, the subgraph, the number of tensors, and for each tensor
its offset from the start of the arena, or -1 where the runtime is to place it.

Source: tflite-micro, docs/memory_management.md, "Offline planned tensor allocations".
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from cnn2csdf.readers.tflite.model_file import IDENTIFIER, root_record
from csdf.errors import InvalidPlan, UnreadableFile
from planners.arena.problem import MemoryPlan

VERSION = 1
AT_RUNTIME = -1
HEADER = 3  # integers before the offsets
LARGEST = 2**31 - 1
NAME = "OfflineMemoryAllocation"
FIELDS, BUFFERS, METADATA = 8, 4, 6  # of the table of a model
ALIGNMENT = 16  # of the data of buffers


def offline_plan(plan: MemoryPlan, subgraph: int = 0, tensors: int = 0) -> bytes:
    """Return the plan of buffers whose names are the numbers of their tensors: "0", "1", ...

    tensors: how many the file has, at least; those without a buffer are left to the runtime.
    Raises InvalidPlan for other names and for offsets beyond 32 bits.
    """
    offsets = {_tensor(name): offset for name, offset in plan.offsets.items()}
    if len(offsets) < len(plan.offsets):
        raise InvalidPlan(f"{plan.problem.name}: two buffers name the same tensor")
    if plan.peak > LARGEST:
        raise InvalidPlan(f"{plan.problem.name}: {plan.peak} bytes; an offset has 32 bits")
    count = max(tensors, max(offsets, default=-1) + 1)
    numbers = [VERSION, subgraph, count]
    numbers += [offsets.get(tensor, AT_RUNTIME) for tensor in range(count)]
    return struct.pack(f"<{len(numbers)}i", *numbers)


def parse_offline_plan(content: bytes, name: str) -> Mapping[str, int]:
    """Return the offsets by tensor, without those that the runtime places. Raises UnreadableFile."""
    if len(content) < 4 * HEADER or len(content) % 4:
        raise UnreadableFile(f"{name}: {len(content)} bytes; expected 32-bit integers, at least 3")
    version, _, count, *offsets = struct.unpack(f"<{len(content) // 4}i", content)
    if version not in (0, VERSION):  # some compilers write 0, with the same layout
        raise UnreadableFile(f"{name}: version {version}; expected 0 or {VERSION}")
    if count != len(offsets):
        raise UnreadableFile(f"{name}: announces {count} tensors, holds {len(offsets)} offsets")
    for tensor, offset in enumerate(offsets):
        if offset < AT_RUNTIME:
            raise UnreadableFile(f"{name}: tensor {tensor} has offset {offset}")
    return {str(t): offset for t, offset in enumerate(offsets) if offset != AT_RUNTIME}


def with_offline_plan(content: bytes, plan: bytes) -> bytes:
    """Return a TensorFlow Lite file with that plan, in place of one that it has.

    A new beginning is put before the file: a table of the model that points into the old bytes, which
    stay as they are. Raises UnreadableFile for a damaged file, or one with data behind its tables.
    """
    model = root_record(content)
    buffers = model.records(BUFFERS)
    if any(buffer.integer(1, "Q") > 1 for buffer in buffers):
        raise UnreadableFile("has weights behind its tables; a plan cannot be put into such a file")
    known = [(entry, entry.integer(1, "I")) for entry in model.records(METADATA)]
    others = [entry for entry, _ in known if entry.text(0) != NAME]
    earlier = [number for entry, number in known if entry.text(0) == NAME]
    number = earlier[0] if earlier and earlier[0] < len(buffers) else len(buffers)
    count = max(len(buffers), number + 1)
    table = 8 + 4 + 2 * FIELDS  # behind the file's identifier and the table's list of fields
    lists = table + 4 + 4 * FIELDS
    entries = lists + 4 + 4 * count
    entry = entries + 4 + 4 * (len(others) + 1)  # the metadata: its fields, then itself
    name = entry + 8 + 12
    holder = name + 4 + len(NAME) // 4 * 4 + 4  # the buffer
    data = -(-(holder + 8 + 8 + 4) // ALIGNMENT) * ALIGNMENT
    begin = -(-(data + len(plan)) // ALIGNMENT) * ALIGNMENT  # of the old file
    found = bytearray(begin)

    def put(place: int, form: str, *values: int | bytes) -> None:
        struct.pack_into(f"<{form}", found, place, *values)

    def point(place: int, target: int) -> None:
        put(place, "I", target - place)

    put(0, "I4s", table, IDENTIFIER)
    put(8, "HH", 4 + 2 * FIELDS, 4 + 4 * FIELDS)
    put(table, "i", table - 8)
    for field in range(FIELDS):
        place, target = table + 4 + 4 * field, model.position(field) if field else None
        target = {BUFFERS: lists, METADATA: entries}.get(field, target and begin + target)
        if not field:
            put(place, "I", model.integer(0, "I"))
        elif target is not None:
            point(place, target)
        if not field or target is not None:
            put(12 + 2 * field, "H", place - table)
    put(lists, "I", count)
    for place, buffer in enumerate(buffers):
        point(lists + 4 + 4 * place, begin + buffer.begin)
    point(lists + 4 + 4 * number, holder + 8)
    put(entries, "I", len(others) + 1)
    for place, other in enumerate(others):
        point(entries + 4 + 4 * place, begin + other.begin)
    point(entries + 4 + 4 * len(others), entry + 8)
    put(entry, "HHHHiIi", 8, 12, 4, 8, 8, name - entry - 12, number)
    put(name, f"I{len(NAME)}s", len(NAME), NAME.encode())
    put(holder, "HHHHiI", 6, 8, 4, 0, 8, data - 4 - holder - 12)
    put(data - 4, "I", len(plan))
    found[data : data + len(plan)] = plan
    return bytes(found) + content


def _tensor(name: str) -> int:
    if not (name.isascii() and name.isdigit() and len(name) <= 9):
        raise InvalidPlan(f"buffer {name!r}: expected the number of a tensor as its name")
    return int(name)
