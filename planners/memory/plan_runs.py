"""Runs of memory plans on a simulated memory: an array of bytes, which detects reads of stale bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from cnn2csdf.execution.layer_by_layer import checked_frame
from cnn2csdf.operators.moves import from_memory_order
from cnn2csdf.weights import Array, Model
from csdf.arguments import public
from planners.plan.computing import ModelComputing
from planners.plan.executor import PlanMachine
from planners.plan.plan import StreamingPlan
from planners.plan.shadow_arena import POISON
from planners.rewrites.rematerialisation import executed_model

Frame = Mapping[str, Array]
Outputs = dict[str, Array]  # by output layer


def run_in_turn(
    models: Sequence[Model], plans: Sequence[StreamingPlan], frames: Sequence[Sequence[Frame]]
) -> list[list[Outputs]]:
    """Return the outputs of all frames of each network.

    All networks run in one array, poisoned at the start: one frame of each network, then the next
    frame of each. Bytes that another network left there must not be read. models: with weights. Raises
    ExecutionError if a byte that is read does not hold the element that the layer needs, or if an
    input is not a frame of its network.
    """
    memory = np.full(max((plan.all_bytes for plan in plans), default=0), POISON, np.uint8)
    outputs: list[list[Outputs]] = [[] for _ in models]
    for turn in range(max(map(len, frames), default=0)):
        for number, (model, plan) in enumerate(zip(models, plans, strict=True)):
            if turn < len(frames[number]):
                outputs[number].append(run_plan(model, plan, frames[number][turn], memory).outputs)
    return outputs


class PlanRun(NamedTuple):
    """The outputs of one frame. high_water_bytes: of the arena, up to the last byte written.

    slow_bytes: bytes that moved to and from slow memories, counted during execution.
    """

    outputs: Outputs
    high_water_bytes: int
    slow_bytes: int


@public
def run_plan(
    model: Model, plan: StreamingPlan, frame: Frame, memory: Array | None = None
) -> PlanRun:
    """Return the outputs of one frame, computed by the plan in an array with the bytes of its memories.

    memory: the array, as other networks have left it; by default a poisoned array. Raises
    ExecutionError if a byte that is read does not hold the element that the layer needs.
    """
    return _runs(model, plan, [frame], memory)[0]


@public
def run_frames(model: Model, plan: StreamingPlan, frames: Sequence[Frame]) -> list[PlanRun]:
    """Return the outputs of consecutive frames, with the state retained between them.

    After each frame all other bytes are poisoned. Raises ExecutionError as `run_plan` does.
    """
    return _runs(model, plan, frames)


def _runs(
    model: Model, plan: StreamingPlan, frames: Sequence[Frame], memory: Array | None = None
) -> list[PlanRun]:
    worked = executed_model(model, plan.rematerialised)
    machine: PlanMachine | None = None
    runs = []
    for frame in frames:
        computing = ModelComputing(worked, checked_frame(model.network, frame))
        if machine is None:
            machine = PlanMachine(worked.network, plan, computing, memory=memory)
            machine.run()
        else:
            machine.next_frame(computing)
        slow_bytes = machine.arena.slow_bytes
        outputs = {}
        for layer in model.network.outputs:
            elements = machine.output(layer.inputs[0]).reshape(-1)
            outputs[layer.name] = from_memory_order(elements, layer.shape.dims)
        runs.append(PlanRun(outputs, machine.arena.written_end, slow_bytes))
    return runs
