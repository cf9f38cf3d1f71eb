"""Bytes that a group of a network moves: a stage alone, by its best nest, or several, fused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from csdf.errors import InvalidPlan
from csdf.stopping import Budget
from planners.traffic.answers import LayerTraffic
from planners.traffic.convolution import ArrayBytes
from planners.traffic.fused.answers import FusedTraffic
from planners.traffic.fused.bounds import least_moved, least_of_stage, seen_elements
from planners.traffic.fused.stages import Stage
from planners.traffic.nest import Halo
from planners.traffic.one_layer import least_traffic
from planners.traffic.published.pair import PairTraffic


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTraffic:
    """The bytes that a group moves; a group of one stage is a layer on its own.

    input_bytes: of all that is read but for weights. border_bytes: written and read back between
    parts. held_bytes: the most in the buffer. bound_bytes: no schedule of this group moves less,
    whatever the buffer (a fused one), or in this buffer (a layer). layer, fused, pair: how it runs, a
    pair as published; all None where its input and output just stream.
    """

    stages: tuple[Stage, ...]
    input_bytes: int
    weight_bytes: int
    output_bytes: int
    border_bytes: int = 0
    held_bytes: int
    bound_bytes: int
    layer: LayerTraffic | None = None
    fused: FusedTraffic | None = None
    pair: PairTraffic | None = None

    @property
    def total_bytes(self) -> int:
        """All that moves between buffer and DRAM."""
        return self.input_bytes + self.weight_bytes + self.output_bytes + self.border_bytes

    def to_json(self) -> dict[str, Any]:
        """Return what the group moves and holds, and how it runs, as a JSON value."""
        return {
            "layers": [name for stage in self.stages for name in stage.layers],
            "input_bytes": self.input_bytes,
            "weight_bytes": self.weight_bytes,
            "output_bytes": self.output_bytes,
            "border_bytes": self.border_bytes,
            "traffic_bytes": self.total_bytes,
            "bound_bytes": self.bound_bytes,
            "held_bytes": self.held_bytes,
            **({} if self.fused is None else self.fused.to_json()),
            **({} if self.pair is None else self.pair.to_json()),
        }


def stage_alone(
    stage: Stage, buffer_bytes: int, budget: Budget = None, *, halo: Halo = Halo.KEPT
) -> GroupTraffic:
    """Return the least traffic of one stage: its best loop nest, or all that goes in and out once.

    budget, halo: as in `least_traffic`.
    Raises InvalidPlan, naming the layer, where the buffer is too small for it.
    """
    if stage.window is None:
        return _streamed(stage, stage.reads, 0)
    window = stage.window
    beside = window.outputs * sum(window.beside_bytes)
    if stage.convolution is None:
        held = _held_by_window(stage)
        if held > buffer_bytes:
            raise InvalidPlan(
                f"layer {stage.layers[0]!r} holds {held} bytes of its windows; "
                f"the buffer has {buffer_bytes}"
            )
        return _streamed(stage, seen_elements(window) * stage.source_bytes + beside, held)
    bound, apart = least_of_stage(stage)
    operand = window.widest_beside
    sizes = ArrayBytes(stage.source_bytes, window.weight_bytes, stage.element_bytes)
    if buffer_bytes - operand < sum(sizes):
        raise InvalidPlan(
            f"layer {stage.layers[0]!r} needs an element of each operand in the buffer, at least "
            f"{operand + sum(sizes)} bytes; the buffer has {buffer_bytes}"
        )
    found = least_traffic(
        stage.convolution,
        buffer_bytes=buffer_bytes - operand,
        element_bytes=sizes,
        halo=halo,
        budget=budget,
    )
    if stage.maps_apart == window.channels:
        bound = max(bound, found.lower_bound_bytes + apart)
    return GroupTraffic(
        stages=(stage,),
        input_bytes=found.input_bytes + beside,
        weight_bytes=found.weight_bytes,
        output_bytes=found.output_bytes,
        held_bytes=found.held_bytes + operand,
        bound_bytes=bound,
        layer=found,
    )


def _streamed(stage: Stage, reads: int, held: int) -> GroupTraffic:
    return GroupTraffic(
        stages=(stage,),
        input_bytes=reads,
        weight_bytes=stage.parameters,
        output_bytes=stage.output_bytes,
        held_bytes=held,
        bound_bytes=least_of_stage(stage)[0],
    )


def _held_by_window(stage: Stage) -> int:
    """Bytes for windows over one map: the rows under one, or the outputs they add to."""
    layer = stage.window
    if layer is None:
        return 0
    rows, columns = layer.rows, layer.columns
    extent = min(rows.inputs, rows.dilation * (rows.kernel - 1) + 1)
    row, result = columns.inputs * stage.source_bytes, columns.outputs * stage.element_bytes
    by_window, by_output = extent * row + result, rows.outputs * result + row
    return min(by_window, by_output) + columns.outputs * layer.widest_beside


def stages_fused(stages: Sequence[Stage], found: FusedTraffic) -> GroupTraffic:
    """Return what stages move that run fused."""
    moved = found.moved
    return GroupTraffic(
        stages=tuple(stages),
        input_bytes=moved.input,
        weight_bytes=moved.weights,
        output_bytes=moved.output,
        border_bytes=moved.borders_written + moved.borders_read,
        held_bytes=found.held,
        bound_bytes=found.bound,
        fused=found,
    )


def pair_fused(stages: Sequence[Stage], found: PairTraffic) -> GroupTraffic:
    """Return what two stages move that share the buffer as published."""
    return GroupTraffic(
        stages=tuple(stages),
        input_bytes=found.input,
        weight_bytes=found.weights,
        output_bytes=found.output,
        border_bytes=found.borders,
        held_bytes=max(found.held),
        bound_bytes=least_moved(found.group),
        pair=found,
    )
