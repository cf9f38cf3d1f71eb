"""The stages of a plan as the scheduler of a library has them: numbered, copies before the others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cnn2csdf.network import Network
from planners.streaming.plan import Kind, PlannedStage, StreamBuffer, StreamingPlan
from planners.streaming.running_stage import RunningStage, arriving_stage
from planners.streaming.stage import Manner, Stage

# A buffer, or None for the first of the tensor, and those to which it is copied.
Copied = tuple[StreamBuffer | None, tuple[StreamBuffer, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedStage:
    """A stage of a group, with its number among all stages.

    copied: of a stage that copies a tensor from buffer to buffer.
    """

    running: RunningStage
    number: int
    group: int
    copied: Copied | None = None

    @property
    def is_hand_over(self) -> bool:
        """Whether it copies a tensor before its group works."""
        return self.copied is not None and self.copied[0] is not None

    @property
    def manner(self) -> str:
        """The word for how it works."""
        if self.copied is not None:
            return "COPIED"
        if self.running.is_arriving:
            return "ARRIVING"
        if self.running.planned.stage.summing is not None:
            return "BY_PARTS"
        return {
            Manner.ROWS: "BY_ROWS",
            Manner.SUMS: "INTO_SUMS",
            Manner.CHANNELS: "BY_CHANNELS",
            Manner.TILES: "BY_TILES",
        }[self.running.planned.stage.manner]

    @property
    def sources(self) -> tuple[str, ...]:
        """Tensors of other stages that it reads, in the order in which it asks for them."""
        return tuple(self.running.needs)


def placed_stages(network: Network, plan: StreamingPlan) -> list[PlacedStage]:
    """Return the stages of all groups, in their order, those that copy a tensor first in each."""
    found: list[PlacedStage] = []
    for number, group in enumerate(plan.groups):
        running: list[tuple[RunningStage, Copied | None]] = [*_copying(network, plan, number)]
        if group.arriving is not None and not plan.is_copied(number):
            running.append((arriving_stage(network, group.arriving), None))
        running += [(RunningStage(one, network, None), None) for one in group.stages]
        for one, copied in running:
            placed = PlacedStage(running=one, number=len(found), group=number, copied=copied)
            found.append(placed)
    return found


def _copying(
    network: Network, plan: StreamingPlan, number: int
) -> Iterator[tuple[RunningStage, Copied]]:
    """Stages of a group that copy a tensor: all of it before the group works, or row by row."""
    group = plan.groups[number]
    buffers = {one.name: one for one in plan.buffers if one.has_all_rows}
    for copy in group.hand_overs:
        source, target = buffers[copy.source], buffers[copy.target]
        name = source.tensor
        stage = Stage(layers=(name,), rows=network.layer(name).shape.rows)
        planned = PlannedStage(stage=stage, strips=())
        yield RunningStage(planned, network, name), (source, (target,))
    if group.arriving is not None and plan.is_copied(number):
        rings = tuple(
            one
            for one in plan.buffers
            if (one.tensor, one.kind) == (group.arriving, Kind.RING)
            and one.begin <= number < one.end
        )
        yield arriving_stage(network, group.arriving), (None, rings)
