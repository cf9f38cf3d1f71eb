"""Plans of a single arena for all tensors of a network: as any runtime lays them, and by parts.

Whole layers need a buffer for each tensor (`whole_tensors`). By parts each tensor keeps the rows that
its readers need, and a step is the firing of one part on one processor.

The buffers of a network that works layer by layer, as any runtime lays them.

Each tensor needs a buffer from the step of the layer that writes it to the step of the last layer
that reads it, or to the end where it goes out of the network. A step is a layer, in the order of the
network.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from cnn2csdf.granularity import Granularity
from cnn2csdf.network import Connection, Network
from cnn2csdf.operators import Output
from csdf.outcome import because
from csdf.time_limit import Budget, Stop, stop_of
from planners.arena.allocation import ArenaWhy, plan_arena
from planners.arena.problem import Buffer, MemoryPlan, Problem
from planners.memory.order import course_of
from planners.memory.ordered import GroupInOrder, PartsInOrder, Ring, in_order, whole_layers
from planners.memory.stages import StageTable
from planners.plan.plan import StreamingPlan
from planners.reuse.application import Application, single_partition, with_one_size
from planners.reuse.evaluation import Costs, Evaluator
from planners.reuse.placement import tensor_places

MOST_STEPS = 60  # steps of the search for an arena; the same plan on every machine


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkArena:
    """The offsets of all buffers of a network, and the layer that fires in each step.

    By parts: rows of a part of each layer, and for each buffer the connections whose rows it holds.
    """

    plan: MemoryPlan
    order: tuple[str, ...]
    rows: Mapping[str, int] = field(default_factory=dict)
    held: Mapping[str, tuple[Connection, ...]] = field(default_factory=dict)


def whole_arena(
    network: Network,
    *,
    element_bytes: int | None = None,
    outside: frozenset[str] = frozenset(),
    budget: Budget = None,
) -> NetworkArena:
    """Return one arena for the whole tensors of a network: the least, or with a lower bound.

    outside: tensors in other memory. budget: a stop, or seconds; it ends the search with the best
    arena by then, as Ctrl-C does.
    """
    problem = whole_tensors(network, element_bytes=element_bytes, outside=outside)
    return NetworkArena(
        plan=plan_arena(problem, budget=_at_most(budget)),
        order=tuple(layer.name for layer in network.layers),
    )


def parts_arena(
    network: Network,
    granularity: Granularity,
    *,
    element_bytes: int | None = None,
    budget: Budget = None,
) -> NetworkArena:
    """Return one arena for a network by parts, in the smallest buffers of its edges.

    Of these buffers, with the lifetimes of one schedule on one processor, it is the least, or has a
    lower bound. Other buffers or schedules may need less. element_bytes: of all tensors; by default
    each has its own. budget: as in `whole_arena`.
    """
    sized = network if element_bytes is None else with_one_size(network)
    application = Application(name=network.name, members=(single_partition(sized),))
    costs = Costs(element_bytes=element_bytes or application.unit, parameter_bytes=element_bytes)
    evaluator = Evaluator(application, costs)
    names = application.members[0].layers
    plan = evaluator.plan(tuple(granularity.layers.get(one, granularity.rows) for one in names))
    layers = [layer.name for layer in evaluator.models[0].table.layers]
    places = tensor_places(evaluator, plan)
    held: dict[str, list[Connection]] = defaultdict(list)
    for edge in plan.edges:
        held[places.place_of[edge.name]].append(edge.connection)
    return NetworkArena(
        plan=plan_arena(places.tensors, budget=_at_most(budget)),
        order=tuple(layers[number] for number in plan.orders[0]),
        rows=dict(zip(layers, plan.rows[0], strict=True)),
        held={name: tuple(found) for name, found in held.items()},
    )


def whole_plan(
    network: Network, arena: NetworkArena, *, element_bytes: int | None = None
) -> StreamingPlan:
    """Return what `whole_arena` found as a plan that can be checked and run.

    element_bytes: as there.
    """
    table = StageTable(network, element_bytes=element_bytes)
    return whole_layers(course_of(network), table, arena.plan.offsets)


def parts_plan(
    network: Network, arena: NetworkArena, *, element_bytes: int | None = None
) -> StreamingPlan:
    """Return what `parts_arena` found as a plan that can be checked and run.

    element_bytes: as there.
    """
    rings = tuple(
        Ring(
            name=buffer.name,
            tensor=arena.held[buffer.name][0].producer,
            readers=tuple(dict.fromkeys(one.consumer for one in arena.held[buffer.name])),
            size=buffer.size,
            offset=arena.plan.offsets[buffer.name],
            last=buffer.end - 1,
        )
        for buffer in arena.plan.problem.buffers
    )
    parts = PartsInOrder(
        network=network,
        element_bytes=element_bytes,
        rings=rings,
        rows=arena.rows,
        groups=(GroupInOrder(arena.order),),
        arena_bytes=arena.plan.peak,
    )
    return in_order(parts)


def _at_most(budget: Budget) -> Stop:
    """The stop of a search that ends after so many steps everywhere."""
    reason = because(ArenaWhy.NO_SMALLER, steps=MOST_STEPS)
    return stop_of(budget).part(steps=MOST_STEPS, reason=reason)


def whole_tensors(
    network: Network, *, element_bytes: int | None = None, outside: frozenset[str] = frozenset()
) -> Problem:
    """Return a buffer for each tensor of a network that works layer by layer, without scratch.

    element_bytes: of all tensors; by default each has its own. outside: tensors in other memory.
    """
    last = {layer.name: step for step, layer in enumerate(network.layers)}
    for step, layer in enumerate(network.layers):
        last.update(dict.fromkeys(layer.inputs, step))
    for layer in network.outputs:  # stay until the frame ends
        last.update(dict.fromkeys(layer.inputs, len(network.layers) - 1))
    buffers = tuple(
        Buffer(
            name=layer.name,
            size=layer.shape.elements * (element_bytes or layer.element_bytes),
            start=step,
            end=last[layer.name] + 1,
            alignment=element_bytes or layer.element_bytes,
        )
        for step, layer in enumerate(network.layers)
        if not isinstance(layer.operator, Output) and layer.name not in outside
    )
    return Problem(name=network.name, buffers=buffers)
