"""The offline memory plan of TensorFlow Lite for Microcontrollers.

The content of the buffer that the model's metadata "OfflineMemoryAllocation" names: 32-bit integers,
little endian: the version of the format, the subgraph, the number of tensors, and for each tensor
its offset from the start of the arena, or -1 where the runtime is to place it.

Source: tflite-micro, docs/memory_management.md, "Offline planned tensor allocations".
"""

from __future__ import annotations

import struct

from csdf.errors import InvalidPlan
from planners.arena.problem import MemoryPlan

VERSION = 1
SUBGRAPH = 0
AT_RUNTIME = -1
LARGEST = 2**31 - 1


def offline_plan(plan: MemoryPlan, tensors: int = 0) -> bytes:
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
    numbers = [VERSION, SUBGRAPH, count]
    numbers += [offsets.get(tensor, AT_RUNTIME) for tensor in range(count)]
    return struct.pack(f"<{len(numbers)}i", *numbers)


def _tensor(name: str) -> int:
    if not (name.isascii() and name.isdigit() and len(name) <= 9):
        raise InvalidPlan(f"buffer {name!r}: expected the number of a tensor as its name")
    return int(name)
