"""Inputs of a firing stay until it has ended: a layer may write at any time while it works."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from cnn2csdf import operators as op
from cnn2csdf.network import Layer
from cnn2csdf.weights import Array
from planners.streaming.held import HeldTensor
from planners.streaming.running_stage import RunningStage
from planners.streaming.stage import Manner
from planners.tiling.regions import Range

ELEMENT_BY_ELEMENT = (op.Elementwise, op.Activation, op.BatchNormalization, op.Identity)


class Memory(Protocol):
    """A machine with the rows of tensors."""

    def get(self, tensor: HeldTensor, row: int, reader: str | None = None) -> Array:
        """Return a row. Raises ExecutionError where something else lies there."""


def require_intact(
    memory: Memory, tensors: Mapping[str, HeldTensor], stage: RunningStage, made: Range
) -> None:
    """Raise ExecutionError unless all that a firing read is there behind it.

    A layer that works element by element may write each element over the one that it reads. Sums are
    written when all has been read. made: rows of the result.
    """
    if stage.is_arriving or stage.planned.stage.manner is Manner.SUMS:
        return
    result = tensors[stage.result]
    inside = {layer.name for layer in stage.layers}
    for layer in stage.layers:
        for source in layer.inputs:
            if source in inside or not _may_meet(result, tensors[source]):
                continue
            if not _is_in_place(layer, stage, result, tensors[source], made):
                first, end = stage.ranges[stage.fired][source]
                for row in range(first, end):
                    memory.get(tensors[source], row, layer.name)


def _may_meet(result: HeldTensor, source: HeldTensor) -> bool:
    """Whether bytes of both are the same, as far as their buffers tell."""
    if result.staged is not None or source.staged is not None:
        return True
    return any(
        one.offset < other.offset + other.size and other.offset < one.offset + one.size
        for one in result.buffers
        for other in source.buffers
    )


def _is_in_place(
    layer: Layer, stage: RunningStage, result: HeldTensor, source: HeldTensor, made: Range
) -> bool:
    """Whether each element of the result lies where that of the source lies."""
    return (
        len(stage.layers) == 1
        and isinstance(layer.operator, ELEMENT_BY_ELEMENT)
        and source.layer.name not in layer.inputs[2:]  # read when the first two are combined
        and (source.layer.shape, source.row_bytes) == (layer.shape, result.row_bytes)
        and source.read_in(layer.name).layout == result.buffer.layout
        and all(
            result.places(row) == [source.place(row, layer.name)] for row in range(made[0], made[1])
        )
    )
