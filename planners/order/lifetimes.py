"""Lifetimes of tensors in an order of execution, as a problem of offsets in one arena."""

from __future__ import annotations

from collections.abc import Sequence

from csdf.arguments import public
from csdf.names import free_name
from planners.arena.problem import Buffer, Problem
from planners.order.problem import OrderProblem


@public
def tensor_lifetimes(graph: OrderProblem, order: Sequence[str]) -> Problem:
    """Return a buffer for each tensor, live as in the order, and all pairs in place.

    Time k is step k of the order. The result of a step is a pair with each tensor that the step may
    overwrite, and that no later step reads. Scratch of step `s` is the buffer `s scratch`.
    """
    position = {name: number for number, name in enumerate(order)}
    steps = {step.name: step for step in graph.steps}
    end = max(1, len(order))
    starts = {tensor: position[step.name] for step in graph.steps for tensor in step.writes}
    last_read = {tensor: position[name] for name in order for tensor in steps[name].reads}
    retained = {*graph.outputs, *(tensor for tensor in graph.inputs if tensor not in last_read)}
    buffers = [
        Buffer(
            name=tensor,
            size=size,
            start=starts.get(tensor, 0),
            end=end if tensor in retained else last_read.get(tensor, starts.get(tensor, 0)) + 1,
        )
        for tensor, size in graph.sizes.items()
    ]
    for name in order:
        if steps[name].scratch:
            used_names = {buffer.name for buffer in buffers}
            buffers.append(
                Buffer(
                    name=free_name(f"{name} scratch", used_names),
                    size=steps[name].scratch,
                    start=position[name],
                    end=position[name] + 1,
                )
            )
    in_place = tuple(
        (steps[name].writes[0], tensor)
        for name in order
        for tensor in steps[name].overwrites
        if last_read[tensor] == position[name] and tensor not in graph.outputs
    )
    return Problem(name=graph.name, buffers=tuple(buffers), in_place=in_place)
