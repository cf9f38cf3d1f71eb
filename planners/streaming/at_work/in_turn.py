"""Networks that work in turn in one array of bytes, as their plans say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from cnn2csdf.execution.whole import checked_frame
from cnn2csdf.network import Shape
from cnn2csdf.weights import Array, Model
from planners.streaming.again import worked_model
from planners.streaming.computing import ModelComputing
from planners.streaming.held import POISON
from planners.streaming.machine import Machine
from planners.streaming.plan import StreamingPlan

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
    """Return the outputs of one frame, computed as the plan says, in an array of its bytes.

    memory: the array, as others have left it; by default a poisoned one. Raises ExecutionError where
    a byte that is read does not hold what the layer is to read.
    """
    given = checked_frame(model.network, frame)
    computing = ModelComputing(worked_model(model, plan.again), given)
    machine = Machine(model.network, plan, computing, memory=memory)
    machine.run()
    return {
        layer.name: _in_dims(machine.output(layer.inputs[0]), layer.shape)
        for layer in model.network.outputs
    }


def _in_dims(rows: Array, shape: Shape) -> Array:
    """A tensor, (rows, columns, channels), in the order of its dims."""
    found: Array = (rows.transpose(2, 0, 1) if shape.is_map else rows).reshape(shape.dims)
    return found
