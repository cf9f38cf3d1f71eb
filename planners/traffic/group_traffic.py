"""What a group of a network moves: a stage alone, by its best nest, or several stages, fused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from csdf.errors import InvalidPlan
from csdf.stopping import Budget
from planners.traffic.answers import LayerTraffic
from planners.traffic.fused.answers import FusedTraffic
from planners.traffic.fused.bounds import least_moved, least_of_stage, seen_elements
from planners.traffic.fused.group import FusedLayer
from planners.traffic.fused.stages import Stage
from planners.traffic.nest import Halo
from planners.traffic.one_layer import least_traffic
from planners.traffic.published.pair import PairTraffic


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTraffic:
    """What one group moves, in bytes; a group of one stage is a layer on its own.

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
    stage: Stage,
    buffer_bytes: int,
    element_bytes: int,
    budget: Budget = None,
    *,
    halo: Halo = Halo.KEPT,
) -> GroupTraffic:
    """Return the least traffic of one stage: its best loop nest, or all that goes in and out once.

    budget, halo: as in `least_traffic`.
    Raises InvalidPlan, naming the layer, where the buffer is too small for it.
    """
    if stage.window is None:
        return _streamed(stage, stage.reads + stage.parameters, 0, element_bytes)
    beside = stage.window.outputs * len(stage.beside)
    if stage.convolution is None:
        held = _held_by_window(stage.window, len(stage.beside))
        if held * element_bytes > buffer_bytes:
            raise InvalidPlan(
                f"layer {stage.layers[0]!r} holds {held * element_bytes} bytes of its windows; "
                f"the buffer has {buffer_bytes}"
            )
        return _streamed(stage, seen_elements(stage.window) + beside, held, element_bytes)
    least, apart = least_of_stage(stage)
    operand = element_bytes if stage.beside else 0
    if buffer_bytes - operand < 3 * element_bytes:
        raise InvalidPlan(
            f"layer {stage.layers[0]!r} needs an element of each operand in the buffer, at least "
            f"{operand + 3 * element_bytes} bytes; the buffer has {buffer_bytes}"
        )
    found = least_traffic(
        stage.convolution,
        buffer_bytes=buffer_bytes - operand,
        element_bytes=element_bytes,
        halo=halo,
        budget=budget,
    )
    bound = least * element_bytes
    if stage.maps_apart == stage.window.channels:
        bound = max(bound, found.lower_bound_bytes + apart * element_bytes)
    return GroupTraffic(
        stages=(stage,),
        input_bytes=found.input_bytes + beside * element_bytes,
        weight_bytes=found.weight_bytes,
        output_bytes=found.output_bytes,
        held_bytes=found.held_bytes + operand,
        bound_bytes=bound,
        layer=found,
    )


def _streamed(stage: Stage, reads: int, held: int, element_bytes: int) -> GroupTraffic:
    return GroupTraffic(
        stages=(stage,),
        input_bytes=(reads - stage.parameters) * element_bytes,
        weight_bytes=stage.parameters * element_bytes,
        output_bytes=stage.outputs * element_bytes,
        held_bytes=held * element_bytes,
        bound_bytes=least_of_stage(stage)[0] * element_bytes,
    )


def _held_by_window(layer: FusedLayer, operands: int) -> int:
    """Elements for windows over one map: the rows under one, or the outputs they add to."""
    rows, columns = layer.rows, layer.columns
    extent = min(rows.inputs, rows.dilation * (rows.kernel - 1) + 1)
    by_window = extent * columns.inputs + columns.outputs
    by_output = rows.outputs * columns.outputs + columns.inputs
    return min(by_window, by_output) + (columns.outputs if operands else 0)


def stages_fused(stages: Sequence[Stage], found: FusedTraffic, element_bytes: int) -> GroupTraffic:
    """Return what stages move that run fused."""
    moved = found.moved
    return GroupTraffic(
        stages=tuple(stages),
        input_bytes=moved.input * element_bytes,
        weight_bytes=moved.weights * element_bytes,
        output_bytes=moved.output * element_bytes,
        border_bytes=(moved.borders_written + moved.borders_read) * element_bytes,
        held_bytes=found.held * element_bytes,
        bound_bytes=found.bound * element_bytes,
        fused=found,
    )


def pair_in_bytes(stages: Sequence[Stage], found: PairTraffic, element_bytes: int) -> GroupTraffic:
    """Return what two stages move that share the buffer as published."""
    return GroupTraffic(
        stages=tuple(stages),
        input_bytes=found.input * element_bytes,
        weight_bytes=found.weights * element_bytes,
        output_bytes=found.output * element_bytes,
        border_bytes=found.borders * element_bytes,
        held_bytes=max(found.held) * element_bytes,
        bound_bytes=least_moved(found.group) * element_bytes,
        pair=found,
    )
