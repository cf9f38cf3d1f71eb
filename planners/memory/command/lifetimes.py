"""A plan over time: the order of its firings, and the lifetime of each buffer in firings."""

from __future__ import annotations

from cnn2csdf.network import Network
from planners.memory.stages import StageTable
from planners.plan.firing import firing_order
from planners.plan.plan import Kind, PlannedGroup, StreamingPlan
from planners.rewrites.rematerialisation import executed_network

Life = tuple[str, int, int, int, int]
"""A buffer with its lifetime: its name, its first firing, one past its last, its offset, its size."""


def firings_and_lives(
    network: Network, plan: StreamingPlan
) -> tuple[tuple[str, ...], tuple[Life, ...]]:
    """Return the results of the firings of a frame in order, and the lifetimes of buffers.

    A tiled stage is one firing. Only buffers in the arena that a firing uses are listed, in plan
    order.
    """
    worked = executed_network(network, plan.rematerialised)
    table = StageTable(worked, element_bytes=plan.element_bytes)
    order: list[str] = []
    begins = [0]
    for group in plan.groups:
        order += _order(table, group)
        begins.append(len(order))
    fired: dict[str, tuple[int, int]] = {}  # the first and the last firing that makes each result
    for step, name in enumerate(order):
        fired[name] = fired.get(name, (step, step))[0], step
    stages = [stage for group in plan.groups for stage in group.stages]
    maker = {name: stage.result for stage in stages for name in stage.layers}
    lives = []
    for buffer in plan.buffers:
        if not buffer.size or buffer.kind is Kind.EXTERNAL:
            continue
        begin, end = begins[buffer.begin], begins[buffer.end] - 1
        steps = {begin, end}
        if buffer.has_rows:
            tensors = [buffer.tensor, *(a.tensor for a in plan.aliases if a.host == buffer.tensor)]
            readers = {name for tensor in tensors for name in worked.consumers[tensor]}
            users = {maker.get(name, name) for name in (*tensors, *(buffer.readers or readers))}
            steps = {step for name in users for step in fired.get(name, ())}
            if not fired.keys() >= {maker.get(name, name) for name in tensors}:
                steps.add(begin)  # an input that is there
            if any(layer.name in readers - fired.keys() for layer in worked.outputs):
                steps.add(end)
        if steps:
            first, last = (min(max(step, begin), end) for step in (min(steps), max(steps)))
            lives.append((buffer.name, first, last + 1, buffer.offset, buffer.size))
    return tuple(order), tuple(lives)


def _order(table: StageTable, group: PlannedGroup) -> list[str]:
    if group.order:
        return list(group.firings)
    firings = table.group(group.stages, group.streamed_input).firings
    return [firings[place].result for place in firing_order(firings)]
