"""Loops of kernels that the stages of a plan run as C, and how often: for predicted instructions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from cnn2csdf.instructions import loops, other_loops
from cnn2csdf.platforms import Table
from planners.memory.stages import StageTable
from planners.plan.plan import Mode, Stage

Loops = Counter[tuple[str, str]]  # by kernel and loop


def stage_loops(table: StageTable, stage: Stage, known: Table | None = None) -> dict[str, Loops]:
    """Return how often each loop of each kernel runs in a frame of a stage, by its layers.

    A stage of several layers calls each of them for each column, with what its input's strip holds.
    Firings are those of the layer that makes the result. known: instructions of kernels; a layer of
    another counts as operations and elements.
    """
    network, found = table.network, table.geometry(stage)
    strips = {one.layer: one.columns for one in found.strips}
    loops_of: dict[str, Loops] = {}
    for name in stage.layers:
        counts: Loops = Counter()
        layer = network.layer(name)
        inputs = network.input_shapes(layer)
        ring = strips.get(layer.inputs[0], 0) if layer.inputs else 0
        bytes_of_element = table.bytes_of(name)
        kernel, of_frame = loops(layer, inputs, bytes_of_element, ring)
        if known is not None and kernel not in known:
            kernel, of_frame = other_loops(layer, inputs)
        rows, calls = layer.shape.rows, found.firings.count
        made = rows
        if not found.accumulator and stage.mode is Mode.ROWS:
            made = sum(end - first for first, end in found.ranges[name])
            calls = sum(first < end for first, end in found.ranges[name])
        columns = layer.shape.width if strips else 1
        for loop, number in of_frame.items():
            times = columns if loop == "rows" else 1
            counts[kernel, loop] += number * times * made // rows
        counts["firing", "columns" if strips else "calls"] += calls * columns
        loops_of[name] = counts
    loops_of[stage.result]["firing", "firings"] += found.firings.count
    return loops_of


def group_loops(table: StageTable, stages: Sequence[Stage]) -> Loops:
    """Return the loops around the stages of a group.

    Before each firing of several stages, all of them are looked at.
    """
    firings = sum(table.geometry(one).firings.count for one in stages)
    counts: Loops = Counter({("frame", "groups"): 1, ("frame", "firings"): firings})
    if len(stages) > 1:
        counts["frame", "firings among others"] = firings
        counts["frame", "stages seen"] = firings * len(stages)
    return counts
