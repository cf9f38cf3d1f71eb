"""Several networks in one arena, in turn or at the same time: RAM is shared, flash and time add up.

They are executed sequentially in one array of bytes, as their plans say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from typing import NamedTuple

import numpy as np

from cnn2csdf.execution.layer_by_layer import checked_frame
from cnn2csdf.network import Shape
from cnn2csdf.weights import Array, Model
from csdf.arguments import public
from csdf.errors import InvalidPlan
from csdf.status import Status, because
from csdf.units import nanoseconds_in_words
from planners.memory.answer import Fit, FitWhy
from planners.plan.computing import ModelComputing
from planners.plan.executor import PlanMachine
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

    def __post_init__(self) -> None:
        require_one_memory([(fit.best or fit.least).plan for fit in self.fits])

    @property
    def ram_bytes(self) -> int:
        """Bytes of the arena: those of the neediest network."""
        return max((fit.best or fit.least).ram_bytes for fit in self.fits)

    @property
    def state_bytes(self) -> int:
        """Bytes of the execution states of all networks, which each has for itself."""
        return sum((fit.best or fit.least).state_bytes for fit in self.fits)

    @property
    def needed_ram(self) -> int:
        """Bytes of RAM: the arena, all execution states, and one stack and reserve."""
        beside = self.fits[0].beside
        return self.ram_bytes + self.state_bytes + (0 if beside is None else beside.bytes)

    @property
    def is_concurrent(self) -> bool:
        """Whether groups of two networks may work at the same time."""
        words = [
            {group.concurrent for group in (fit.best or fit.least).plan.groups} - {None}
            for fit in self.fits
        ]
        return any(first & second for first, second in combinations(words, 2))

    @property
    def flash_bytes(self) -> int:
        """Bytes of the parameters of all networks."""
        return sum(fit.flash_bytes for fit in self.fits)

    @property
    def lower_bound(self) -> int:
        """Bytes of RAM that no way of working in one arena is below."""
        return max(fit.lower_bound for fit in self.fits)

    @property
    def nanoseconds(self) -> int | None:
        """Predicted time of a frame of each network; None where one has no prediction."""
        times = [(fit.best or fit.least).nanoseconds for fit in self.fits]
        times_known = [time for time in times if time is not None]
        return sum(times_known) if len(times_known) == len(times) else None

    @property
    def shown_nanoseconds(self) -> int | None:
        """The time of a frame of each network as JSON has it."""
        return self.fits[0].shown_nanoseconds(self.nanoseconds)

    @property
    def verdict(self) -> tuple[Status, str]:
        """Whether they fit together: a status, and why."""
        for status in (Status.INFEASIBLE, Status.UNKNOWN):
            for fit in self.fits:
                if fit.status == status:
                    return status, f"{fit.network}: {fit.reason}"
        if self.flash is not None and self.flash_bytes > self.flash:
            return Status.INFEASIBLE, (
                f"the parameters of all need {self.flash_bytes} bytes of flash, "
                f"{self.flash} are there"
            )
        ram = self.fits[0].ram
        if ram is not None and self.needed_ram > ram:
            return Status.UNKNOWN, (
                f"with the execution states of all, {self.needed_ram} bytes of RAM are needed, "
                f"{ram} are there"
            )
        time = self.nanoseconds
        if self.longest is not None and (time is None or time > self.longest):
            return Status.INFEASIBLE, (
                "too slow: a frame of each in turn takes "
                f"{'an unknown time' if time is None else nanoseconds_in_words(time)}, "
                f"{nanoseconds_in_words(int(self.longest))} are there"
            )
        if self.is_concurrent:
            return Status.FEASIBLE, "the arena that the plans share sets the RAM"
        return Status.FEASIBLE, "the neediest network sets the RAM"


def require_one_memory(plans: Sequence[StreamingPlan]) -> None:
    """Raise InvalidPlan for plans of several networks of which one lies in several memories."""
    for plan in plans if len(plans) > 1 else ():
        if plan.memories:
            raise InvalidPlan(
                f"network {plan.network!r} is planned in several memories, and networks in turn have "
                "one arena; plan it alone"
            )


def within_one_ram(fits: Sequence[Fit], again: Callable[[int, int], Fit]) -> list[Fit]:
    """Return the answers for networks in one arena, each with RAM for the execution states of all.

    again: the answer for the network of a number with so many bytes of RAM, asked for where the states
    of the other networks leave too few.
    """
    states = [(fit.best or fit.least).state_bytes for fit in fits]
    found = []
    for number, fit in enumerate(fits):
        state_bytes = sum(states) - states[number]
        if fit.best is not None and fit.ram is not None:
            left = fit.ram - state_bytes
            if fit.needed_ram(fit.best) > left:
                fit = replace(again(number, left), ram=fit.ram, hop=fit.hop)
        found.append(fit)
    return found


@public
def with_states_apart(
    fits: Sequence[Fit], again: Callable[[int, int], Fit] | None = None
) -> list[Fit]:
    """Return the answers for networks in one arena, in which each that keeps a state has its own bytes.

    What stays of all networks lies at the bottom; what passes, above it, shares bytes as before.
    again: the answer for the network of a number with so many bytes of RAM, asked for where a network
    without a state takes more than the states leave. Where that is too much too, it fits no longer.
    """
    if len(fits) < 2:
        return list(fits)
    ways = [fit.best or fit.least for fit in fits]
    tops = [top + -top % ALIGNMENT for top in (_top(way.plan) for way in ways)]
    if not any(tops):
        return list(fits)
    moved_plans, base, kept = [], 0, sum(tops)
    for number, (fit, way, top) in enumerate(zip(fits, ways, tops, strict=True)):
        around = 0 if fit.beside is None else fit.beside.bytes
        left = None if fit.ram is None else fit.ram - kept - around
        is_late = left is not None and fit.best is not None and way.with_state - top > left
        if is_late and not top and again is not None and left is not None and left > 0:
            fit = replace(again(number, left + around), ram=fit.ram, hop=fit.hop)
            is_late = fit.best is None
        methods = tuple(
            replace(method, plan=_moved(method.plan, base, kept)) for method in fit.methods
        )
        base += top
        chosen = (new for old, new in zip(fit.methods, methods, strict=True) if old is fit.best)
        best = None if is_late else next(chosen, None)
        moved = replace(fit, methods=methods, best=best)
        if is_late:
            least = moved.needed_ram(moved.least)
            reason = because(FitWhy.BESIDE_STATES, kept=kept, least=least)
            status = Status.UNKNOWN if fit.status is Status.UNKNOWN else Status.INFEASIBLE
            moved = replace(moved, status=status, reason=reason)
        moved_plans.append(moved)
    return moved_plans


ALIGNMENT = 4  # bytes: of what networks keep, beside one another


def _top(plan: StreamingPlan) -> int:
    """Return the bytes from the first one to the last that stays."""
    return max((buffer.offset + buffer.size for buffer in plan.buffers if buffer.stays), default=0)


def _moved(plan: StreamingPlan, base: int, passing: int) -> StreamingPlan:
    """The plan with what stays from byte `base` on, all else from byte `passing` on."""
    shift = passing - _top(plan)
    buffers = tuple(
        replace(
            buffer, offset=buffer.offset + (base if buffer.stays else shift if buffer.size else 0)
        )
        for buffer in plan.buffers
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
    outputs_found: list[list[Outputs]] = [[] for _ in models]
    for turn in range(max(map(len, frames), default=0)):
        for number, (model, plan) in enumerate(zip(models, plans, strict=True)):
            if turn < len(frames[number]):
                outputs_found[number].append(outputs_of(model, plan, frames[number][turn], memory))
    return outputs_found


def outputs_of(
    model: Model, plan: StreamingPlan, frame: Frame, memory: Array | None = None
) -> Outputs:
    """Return the outputs of one frame, computed as in `run_plan`."""
    return run_plan(model, plan, frame, memory).outputs


class PlanRun(NamedTuple):
    """The outputs of one frame. high_water_bytes: of the arena, up to the last byte written.

    slow_bytes: counted as they moved to and from slow memories.
    """

    outputs: Outputs
    high_water_bytes: int
    slow_bytes: int


@public
def run_plan(
    model: Model, plan: StreamingPlan, frame: Frame, memory: Array | None = None
) -> PlanRun:
    """Return the outputs of one frame, computed as the plan says, in an array of its bytes.

    memory: the array, as others have left it; by default a poisoned one. Raises ExecutionError where
    a byte that is read does not hold what the layer is to read.
    """
    checked = checked_frame(model.network, frame)
    worked = worked_model(model, plan.rematerialised)
    computing = ModelComputing(worked, checked)
    machine = PlanMachine(worked.network, plan, computing, memory=memory)
    machine.run()
    slow_bytes = machine.arena.slow_bytes
    outputs = {
        layer.name: _in_dims(machine.output(layer.inputs[0]), layer.shape)
        for layer in model.network.outputs
    }
    return PlanRun(outputs, machine.arena.most, slow_bytes)


@public
def run_frames(model: Model, plan: StreamingPlan, frames: Sequence[Frame]) -> list[PlanRun]:
    """Return the outputs of frames one after the other, with what stays between them.

    Behind each frame all other bytes are poisoned. Raises ExecutionError as `run_plan` does.
    """
    worked = worked_model(model, plan.rematerialised)
    machine: PlanMachine | None = None
    runs = []
    for frame in frames:
        computing = ModelComputing(worked, checked_frame(model.network, frame))
        if machine is None:
            machine = PlanMachine(worked.network, plan, computing)
            machine.run()
        else:
            machine.next_frame(computing)
        slow_bytes = machine.arena.slow_bytes
        outputs = {
            layer.name: _in_dims(machine.output(layer.inputs[0]), layer.shape)
            for layer in model.network.outputs
        }
        runs.append(PlanRun(outputs, machine.arena.most, slow_bytes))
    return runs


def _in_dims(rows: Array, shape: Shape) -> Array:
    """A tensor, (rows, columns, channels), in the order of its dims."""
    values: Array = (rows.transpose(2, 0, 1) if shape.is_map else rows).reshape(shape.dims)
    return values
