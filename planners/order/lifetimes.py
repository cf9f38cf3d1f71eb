"""Lifetimes of tensors in an order of execution, as a problem of offsets in one arena."""

from __future__ import annotations

from collections.abc import Sequence

from csdf.arguments import public
from csdf.names import free_name
from planners.arena.problem import Buffer, Problem
from planners.order.problem import OrderProblem


@public
def tensor_lifetimes(graph: OrderProblem, order: Sequence[str]) -> Problem:
    """Return a buffer for each tensor, live as in the order, with a pair for each step in place.

    Time k is step k of the order. A step that may overwrite several tensors that die at it gets a pair
    with the first. Scratch is a buffer with the name of its step.
    """
    place = {name: number for number, name in enumerate(order)}
    steps = {step.name: step for step in graph.steps}
    end = max(1, len(order))
    starts = {tensor: place[step.name] for step in graph.steps for tensor in step.writes}
    last_read: dict[str, int] = {}
    for name in order:
        last_read |= dict.fromkeys(steps[name].reads, place[name])
    kept = {*graph.outputs, *(tensor for tensor in graph.inputs if tensor not in last_read)}
    pairs = []
    for name in order:
        dying = [
            tensor
            for tensor in steps[name].overwrites
            if last_read[tensor] == place[name] and tensor not in kept
        ]
        if dying:
            pairs.append((steps[name].writes[0], dying[0]))
    buffers = [
        Buffer(
            name=tensor,
            size=size,
            start=starts.get(tensor, 0),
            end=end if tensor in kept else last_read.get(tensor, starts.get(tensor, 0)) + 1,
        )
        for tensor, size in graph.sizes.items()
    ]
    for name in order:
        if steps[name].scratch:
            taken = {buffer.name for buffer in buffers}
            buffers.append(
                Buffer(
                    name=free_name(f"{name} scratch", taken),
                    size=steps[name].scratch,
                    start=place[name],
                    end=place[name] + 1,
                )
            )
    return Problem(name=graph.name, buffers=tuple(buffers), in_place=tuple(pairs))
