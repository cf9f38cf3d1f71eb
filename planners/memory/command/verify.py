"""Comparison of a run of a plan in its arena with a run of the network layer by layer (`--verify`)."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from cnn2csdf.execution.compare import Difference, difference, random_frames, worst_of
from cnn2csdf.execution.layer_by_layer import first_states, run_layer_by_layer
from cnn2csdf.weights import Model
from csdf.cli import answers
from planners.memory.plan_runs import run_frames
from planners.plan.plan import StreamingPlan

FRAMES = 50  # of a network that keeps a state
TOLERANCE = 1e-4  # relative to the largest output: single precision, sums in another order


class Check(NamedTuple):
    """Comparison of a run of a plan with a run of the network layer by layer."""

    difference: Difference
    high_water_bytes: int
    seconds: float
    slow_bytes: int | None = None

    @property
    def is_equal(self) -> bool:
        """Whether the outputs are equal within TOLERANCE."""
        return self.difference.relative <= TOLERANCE

    def to_json(self) -> dict[str, Any]:
        """Return the findings as a JSON value."""
        return {
            "equal": self.is_equal,
            "largest_difference": self.difference.largest,
            "relative_difference": self.difference.relative,
            "high_water_bytes": self.high_water_bytes,
            **({} if self.slow_bytes is None else {"slow_bytes": self.slow_bytes}),
            "seconds": round(self.seconds, 6),
        }


def verified(model: Model, plan: StreamingPlan, seed: int) -> Check:
    """Run a plan in its arena and the network layer by layer on the same random frame, and compare.

    A network with a state runs on FRAMES consecutive frames.
    """
    count = FRAMES if model.network.keeps_state else 1
    frames = random_frames(model.network, count, seed)
    begin = time.perf_counter()
    with answers.working(f"running {model.network.name} in {plan.arena_bytes} bytes"):
        runs = run_frames(model, plan, frames)
        seconds = time.perf_counter() - begin
        states = first_states(model)
        wanted = [run_layer_by_layer(model, frame, states) for frame in frames]
    differences = [
        {name: difference(run.outputs[name], expected[name]) for name in expected}
        for run, expected in zip(runs, wanted, strict=True)
    ]
    slow_bytes = runs[-1].slow_bytes if plan.memories else None
    return Check(worst_of(differences), runs[-1].high_water_bytes, seconds, slow_bytes)
