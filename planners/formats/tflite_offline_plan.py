"""Offline memory plans in TensorFlow Lite files, in metadata that TensorFlow Lite Micro reads.

A FlatBuffers file refers to its tables by offsets, so the file stays as it is, and a prefix with a new
table of the model is written before it. The prefix contains, from its first byte:

    file header        offset of the model table; file identifier "TFL3"
    model vtable       sizes of the vtable and of the table; offset of each field in the table
    model table        offset of the vtable; offset of each field's value
    buffer vector      count; offset of each buffer: those of the file, and the plan's buffer
    metadata vector    count; offset of each entry: those of the file without a plan, and the plan's
    metadata entry     vtable, table: offset of the name; index of the plan's buffer
    name               length; "OfflineMemoryAllocation"; zeros to a multiple of 4 bytes
    plan's buffer      vtable, table: offset of the plan
    plan               length; bytes, aligned to 16
    file               aligned to 16

Source: FlatBuffers internals, and tensorflow/lite/schema/schema.fbs.
"""

from __future__ import annotations

import struct

from cnn2csdf.readers.tflite.model_file import IDENTIFIER, root_record
from csdf.errors import UnreadableFile
from planners.formats.tflite_micro_arena import aligned

NAME = "OfflineMemoryAllocation"
FIELDS, BUFFERS, METADATA = 8, 4, 6  # of the table of a model

WORD = 4  # bytes of an offset, a count or a length
FILE_HEADER = 2 * WORD  # offset of the root table, file identifier
MODEL_VTABLE = 4 + 2 * FIELDS
MODEL_TABLE = WORD * (1 + FIELDS)
ENTRY_VTABLE, ENTRY_TABLE = 8, 12  # of metadata: two fields of 4 bytes
BUFFER_VTABLE, BUFFER_TABLE = 8, 8  # one field of 4 bytes; the vtable is padded from 6 bytes


def with_offline_plan(content: bytes, plan: bytes) -> bytes:
    """Return a TensorFlow Lite file with this plan, instead of its present plan.

    Raises UnreadableFile for a damaged file, or for a file with data after its tables.
    """
    model = root_record(content)
    buffers = model.records(BUFFERS)
    if any(buffer.integer(1, "Q") > 1 for buffer in buffers):
        raise UnreadableFile("has weights after its tables; a plan cannot be put into such a file")
    metadata = [(entry, entry.integer(1, "I")) for entry in model.records(METADATA)]
    foreign = [entry for entry, _ in metadata if entry.text(0) != NAME]
    earlier = [number for entry, number in metadata if entry.text(0) == NAME]
    # The plan replaces the buffer of an earlier plan, if there is one.
    number = earlier[0] if earlier and earlier[0] < len(buffers) else len(buffers)
    count = max(len(buffers), number + 1)
    table = FILE_HEADER + MODEL_VTABLE
    buffer_vector = table + MODEL_TABLE
    metadata_vector = buffer_vector + WORD * (1 + count)
    entry = metadata_vector + WORD * (1 + len(foreign) + 1) + ENTRY_VTABLE
    name = entry + ENTRY_TABLE
    # A string ends with at least one zero.
    holder = name + WORD + (len(NAME) // WORD + 1) * WORD + BUFFER_VTABLE
    plan_begin = aligned(holder + BUFFER_TABLE + WORD)
    file_begin = aligned(plan_begin + len(plan))
    prefix = bytearray(file_begin)

    def put(index: int, form: str, *values: int | bytes) -> None:
        struct.pack_into(f"<{form}", prefix, index, *values)

    def point(index: int, target: int) -> None:
        put(index, "I", target - index)

    put(0, "I4s", table, IDENTIFIER)
    put(FILE_HEADER, "HH", MODEL_VTABLE, MODEL_TABLE)
    put(table, "i", table - FILE_HEADER)
    for field in range(FIELDS):
        index, position = table + WORD * (1 + field), model.position(field) if field else None
        target = {BUFFERS: buffer_vector, METADATA: metadata_vector}.get(
            field, position and file_begin + position
        )
        # Field 0 is the version of the schema, an integer without an offset.
        if not field:
            put(index, "I", model.integer(0, "I"))
        elif target is not None:
            point(index, target)
        if not field or target is not None:
            put(FILE_HEADER + 4 + 2 * field, "H", index - table)
    put(buffer_vector, "I", count)
    for index, buffer in enumerate(buffers):
        point(buffer_vector + WORD * (1 + index), file_begin + buffer.begin)
    point(buffer_vector + WORD * (1 + number), holder)
    put(metadata_vector, "I", len(foreign) + 1)
    for index, metadata_entry in enumerate(foreign):
        point(metadata_vector + WORD * (1 + index), file_begin + metadata_entry.begin)
    point(metadata_vector + WORD * (1 + len(foreign)), entry)
    put(entry - ENTRY_VTABLE, "HHHH", 8, ENTRY_TABLE, 4, 8)
    put(entry, "iIi", ENTRY_VTABLE, name - (entry + 4), number)
    put(name, f"I{len(NAME)}s", len(NAME), NAME.encode())
    put(holder - BUFFER_VTABLE, "HHH", 6, BUFFER_TABLE, 4)
    put(holder, "iI", BUFFER_VTABLE, plan_begin - WORD - (holder + 4))
    put(plan_begin - WORD, "I", len(plan))
    prefix[plan_begin : plan_begin + len(plan)] = plan
    return bytes(prefix) + content
