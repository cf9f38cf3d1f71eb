"""Lifetimes of tensors in an order of execution, as a problem of offsets in one arena."""

from __future__ import annotations

from collections.abc import Sequence

from csdf.arguments import public
from csdf.names import free_name
from planners.arena.problem import Buffer, Pair, Problem
from planners.order.problem import OrderProblem


@public
def tensor_lifetimes(graph: OrderProblem, order: Sequence[str]) -> Problem:
    """Return a buffer for each tensor, live as in the order, with a pair for each step in place.

    Time k is step k of the order. A step that may overwrite several tensors that die at it gets a pair
    with the first. Scratch is a buffer with the name of its step.
    """
    position = {name: number for number, name in enumerate(order)}
    steps = {step.name: step for step in graph.steps}
    end = max(1, len(order))
    starts = {tensor: position[step.name] for step in graph.steps for tensor in step.writes}
    last_read = _last_reads(graph, order)
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
    pairs = tuple(choices[0] for choices in pairs_in_place(graph, order))
    return Problem(name=graph.name, buffers=tuple(buffers), in_place=pairs)


def pairs_in_place(graph: OrderProblem, order: Sequence[str]) -> list[list[Pair]]:
    """Return for each step in place the pairs of its result and a tensor that may lie below it.

    Such a tensor is one that the step may overwrite, and that no later step reads.
    """
    steps = {step.name: step for step in graph.steps}
    last_read = _last_reads(graph, order)
    rows = [
        [
            (steps[name].writes[0], tensor)
            for tensor in steps[name].overwrites
            if last_read[tensor] == position and tensor not in graph.outputs
        ]
        for position, name in enumerate(order)
    ]
    return [row for row in rows if row]


def _last_reads(graph: OrderProblem, order: Sequence[str]) -> dict[str, int]:
    """Return the place in the order of the last step that reads each tensor."""
    steps = {step.name: step for step in graph.steps}
    return {tensor: position for position, name in enumerate(order) for tensor in steps[name].reads}
