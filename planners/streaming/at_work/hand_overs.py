"""Tensors that pass between groups that work at the same time: copied from buffer to buffer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from cnn2csdf.weights import Array
from csdf.errors import ExecutionError
from planners.streaming.held import HeldTensor
from planners.streaming.plan import HandOver, StreamBuffer, StreamingPlan


class Memory(Protocol):
    """A machine: tensors that lie in buffers, and their rows."""

    plan: StreamingPlan

    def held(self, name: str, *buffers: StreamBuffer) -> HeldTensor:
        """Return a tensor in buffers."""

    def put(self, tensor: HeldTensor, row: int, values: Array | None) -> None:
        """Write a row to all buffers of a tensor."""

    def get(self, tensor: HeldTensor, row: int, reader: str | None = None) -> Array:
        """Return a row. Raises ExecutionError where it is not there."""


def hand_over(
    memory: Memory, copies: Sequence[HandOver], group: int, whole: Mapping[str, HeldTensor]
) -> dict[str, HeldTensor]:
    """Copy tensors before a group works, and return where they lie for it and for those behind it.

    Raises ExecutionError where a tensor is not there, or a buffer that the copy names.
    """
    found: dict[str, HeldTensor] = {}
    for one in copies:
        source, target = (_named(memory.plan, name) for name in (one.source, one.target))
        before = found.get(source.tensor, whole.get(source.tensor))
        if before is None or source.tensor != target.tensor:
            raise ExecutionError(
                f"group {group + 1} takes over {source.tensor!r} from {one.source!r} to "
                f"{one.target!r}, where it does not lie whole"
            )
        old, new = (memory.held(source.tensor, buffer) for buffer in (source, target))
        for row in range(old.layer.shape.rows):
            memory.put(new, row, memory.get(old, row).copy())
        kept = [
            buffer
            for buffer in before.buffers
            if buffer.has_all_rows and buffer.begin <= group < buffer.end
        ]
        found[source.tensor] = memory.held(source.tensor, *kept, target)
        found[source.tensor].made = before.made
    return found


def _named(plan: StreamingPlan, name: str) -> StreamBuffer:
    for buffer in plan.buffers:
        if buffer.name == name and buffer.has_all_rows:
            return buffer
    raise ExecutionError(f"a tensor is taken over in buffer {name!r}, which is not there")
