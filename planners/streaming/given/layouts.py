"""Layouts of tensors in a plan: a primitive reads and writes what lies as it says."""

from __future__ import annotations

from cnn2csdf.network import Network
from csdf.errors import InvalidPlan
from planners.streaming.plan import Kind, PlannedStage, StreamBuffer, StreamingPlan
from planners.streaming.stage import Stage

PLACES = "HWC"  # the feature maps of a place side by side, as all planners but one lay them


def require_layouts(network: Network, plan: StreamingPlan) -> None:
    """Raise InvalidPlan unless tensors lie as the primitives that read and write them want.

    Other stages have places side by side. Primitives work whole layers on tensors that lie whole.
    """
    for buffer in plan.buffers:
        if buffer.layout is not None and buffer.kind is not Kind.WHOLE:
            raise InvalidPlan(f"buffer {buffer.name!r} has a layout, but is no whole tensor")
    for number, group in enumerate(plan.groups):
        for planned in group.stages:
            _require_whole(network, planned)
            _require_stage(network, plan, number, planned)


def _require_whole(network: Network, planned: PlannedStage) -> None:
    stage, primitive = planned.stage, planned.primitive
    rows = network.layer(stage.result).shape.rows
    if primitive is not None and stage != Stage(layers=(stage.result,), rows=rows):
        raise InvalidPlan(
            f"primitive {primitive.name!r} makes {stage.result!r}, which does not work whole"
        )


def _require_stage(
    network: Network, plan: StreamingPlan, number: int, planned: PlannedStage
) -> None:
    primitive = planned.primitive
    reads = PLACES if primitive is None else primitive.reads
    writes = PLACES if primitive is None else primitive.writes
    result = planned.stage.result
    for buffer in _here(plan, result, number):
        _require(network, buffer, writes, f"{result!r} is written in {writes}")
    for name in planned.stage.layers:
        for source in network.layer(name).inputs:
            found = _here(plan, source, number)
            own = [one for one in found if name in one.readers]
            for buffer in own or [one for one in found if not one.readers]:
                _require(network, buffer, reads, f"{name!r} reads {source!r} in {reads}")


def _here(plan: StreamingPlan, tensor: str, group: int) -> list[StreamBuffer]:
    """Buffers in a group in which a tensor lies whole."""
    return [
        one
        for one in plan.buffers
        if one.tensor == tensor and one.kind is Kind.WHOLE and one.begin <= group < one.end
    ]


def _require(network: Network, buffer: StreamBuffer, layout: str, named: str) -> None:
    is_map = network.layer(buffer.tensor).shape.is_map
    if is_map and (buffer.layout or PLACES) != layout:
        raise InvalidPlan(
            f"{named}, but buffer {buffer.name!r} has it in {buffer.layout or PLACES}"
        )
