"""Several networks in one arena, in turn or at the same time: RAM is shared, flash and time add up.

Networks that work in turn in one array of bytes, as their plans say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from typing import NamedTuple

import numpy as np

from cnn2csdf.execution.layer_by_layer import checked_frame
from cnn2csdf.network import Shape
from cnn2csdf.weights import Array, Model
from csdf.arguments import public
from csdf.status import Status, because
from planners.memory.answer import Fit, FitWhy
from planners.plan.computing import ModelComputing
from planners.plan.executor import Machine
from planners.plan.plan import StreamingPlan
from planners.plan.rematerialisation import worked_model
from planners.plan.shadow_arena import POISON


@dataclass(frozen=True, slots=True, kw_only=True)
class Together:
    """The best way of each network, with the same arena.

    One works after the other for each frame, unless plans that are given say that groups of several
    networks may work at the same time.

    flash: bytes there are for the parameters of all. longest: nanoseconds of a frame of all at most.
    """

    fits: tuple[Fit, ...]
    flash: int | None
    longest: Fraction | None

    @property
    def ram_bytes(self) -> int:
        """Bytes of the arena: those of the neediest network."""
        return max((one.best or one.least).ram_bytes for one in self.fits)

    @property
    def is_concurrent(self) -> bool:
        """Whether groups of two networks may work at the same time."""
        words = [
            {group.concurrent for group in (one.best or one.least).plan.groups} - {None}
            for one in self.fits
        ]
        return any(one & other for one, other in combinations(words, 2))

    @property
    def flash_bytes(self) -> int:
        """Bytes of the parameters of all networks."""
        return sum(one.flash_bytes for one in self.fits)

    @property
    def lower_bound(self) -> int:
        """Bytes of RAM that no way of working in one arena is below."""
        return max(one.lower_bound for one in self.fits)

    @property
    def nanoseconds(self) -> int | None:
        """Predicted time of a frame of each network; None where one has no prediction."""
        times = [(one.best or one.least).nanoseconds for one in self.fits]
        known = [time for time in times if time is not None]
        return sum(known) if len(known) == len(times) else None

    @property
    def verdict(self) -> tuple[Status, str]:
        """Whether they fit together: a status, and why."""
        for status in (Status.INFEASIBLE, Status.UNKNOWN):
            for one in self.fits:
                if one.status == status:
                    return status, f"{one.network}: {one.reason}"
        if self.flash is not None and self.flash_bytes > self.flash:
            return Status.INFEASIBLE, (
                f"the parameters of all need {self.flash_bytes} bytes of flash, "
                f"{self.flash} are there"
            )
        time = self.nanoseconds
        if self.longest is not None and (time is None or time > self.longest):
            return Status.INFEASIBLE, (
                f"a frame of each takes {time} ns in turn, as the platform predicts; "
                f"there are {int(self.longest)}"
            )
        if self.is_concurrent:
            return Status.FEASIBLE, "the arena that the plans share sets the RAM"
        return Status.FEASIBLE, "the neediest network sets the RAM"


def with_states_apart(fits: Sequence[Fit]) -> list[Fit]:
    """Return the answers for networks in one arena, in which each that keeps a state has its own bytes.

    What stays of all networks lies at the bottom; what passes, above it, shares bytes as before. Where
    that takes more than the RAM, a network fits no longer.
    """
    if len(fits) < 2:
        return list(fits)
    ways = [one.best or one.least for one in fits]
    tops = [top + -top % ALIGNMENT for top in (_top(way.plan) for way in ways)]
    if not any(tops):
        return list(fits)
    found, base = [], 0
    for one, way, top in zip(fits, ways, tops, strict=True):
        moved = replace(way, plan=_moved(way.plan, base, sum(tops)))
        base += top
        best = None if one.best is None else moved
        status, reason = one.status, one.reason
        if best is not None and one.ram is not None and best.ram_bytes > one.ram:
            best, status = None, Status.INFEASIBLE
            reason = because(FitWhy.STATE_TOO_LARGE, least=moved.ram_bytes)
        methods = tuple(moved if method is way else method for method in one.methods)
        found.append(replace(one, methods=methods, best=best, status=status, reason=reason))
    return found


ALIGNMENT = 4  # bytes: of what networks keep, beside one another


def _top(plan: StreamingPlan) -> int:
    """Return the bytes from the first one to the last that stays."""
    return max((one.offset + one.size for one in plan.buffers if one.stays), default=0)


def _moved(plan: StreamingPlan, base: int, passing: int) -> StreamingPlan:
    """The plan with what stays from byte `base` on, all else from byte `passing` on."""
    shift = passing - _top(plan)
    buffers = tuple(
        replace(one, offset=one.offset + (base if one.stays else shift if one.size else 0))
        for one in plan.buffers
    )
    return replace(plan, buffers=buffers, arena_bytes=max(plan.arena_bytes + shift, passing))


Frame = Mapping[str, Array]
Outputs = dict[str, Array]  # by output layer


def run_in_turn(
    models: Sequence[Model], plans: Sequence[StreamingPlan], frames: Sequence[Sequence[Frame]]
) -> list[list[Outputs]]:
    """Return the outputs of all frames of each network.

    All work in one array, poisoned at the start: a frame of each network, then the next one of each.
    What others have left there is nobody's. models: with weights. Raises ExecutionError where a byte
    that is read does not hold what the layer is to read, or what comes in is no frame of a network.
    """
    memory = np.full(max((plan.all_bytes for plan in plans), default=0), POISON, np.uint8)
    found: list[list[Outputs]] = [[] for _ in models]
    for turn in range(max(map(len, frames), default=0)):
        for number, (model, plan) in enumerate(zip(models, plans, strict=True)):
            if turn < len(frames[number]):
                found[number].append(outputs_of(model, plan, frames[number][turn], memory))
    return found


def outputs_of(
    model: Model, plan: StreamingPlan, frame: Frame, memory: Array | None = None
) -> Outputs:
    """Return the outputs of one frame, computed as in `run_plan`."""
    return run_plan(model, plan, frame, memory).outputs


class PlanRun(NamedTuple):
    """The outputs of one frame. high_water_bytes: of the arena, up to the last byte written."""

    outputs: Outputs
    high_water_bytes: int


@public
def run_plan(
    model: Model, plan: StreamingPlan, frame: Frame, memory: Array | None = None
) -> PlanRun:
    """Return the outputs of one frame, computed as the plan says, in an array of its bytes.

    memory: the array, as others have left it; by default a poisoned one. Raises ExecutionError where
    a byte that is read does not hold what the layer is to read.
    """
    given = checked_frame(model.network, frame)
    computing = ModelComputing(worked_model(model, plan.rematerialised), given)
    machine = Machine(model.network, plan, computing, memory=memory)
    machine.run()
    outputs = {
        layer.name: _in_dims(machine.output(layer.inputs[0]), layer.shape)
        for layer in model.network.outputs
    }
    return PlanRun(outputs, machine.arena.most)


def run_frames(model: Model, plan: StreamingPlan, frames: Sequence[Frame]) -> list[PlanRun]:
    """Return the outputs of frames one after the other, with what stays between them.

    Behind each frame all other bytes are poisoned. Raises ExecutionError as `run_plan` does.
    """
    worked = worked_model(model, plan.rematerialised)
    machine: Machine | None = None
    found = []
    for frame in frames:
        computing = ModelComputing(worked, checked_frame(model.network, frame))
        if machine is None:
            machine = Machine(model.network, plan, computing)
            machine.run()
        else:
            machine.next_frame(computing)
        outputs = {
            layer.name: _in_dims(machine.output(layer.inputs[0]), layer.shape)
            for layer in model.network.outputs
        }
        found.append(PlanRun(outputs, machine.arena.most))
    return found


def _in_dims(rows: Array, shape: Shape) -> Array:
    """A tensor, (rows, columns, channels), in the order of its dims."""
    found: Array = (rows.transpose(2, 0, 1) if shape.is_map else rows).reshape(shape.dims)
    return found
