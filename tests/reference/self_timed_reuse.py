"""How fast the networks are where every layer has a processor of its own: the engine's answer."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from cnn2csdf.durations import platform_durations
from cnn2csdf.granularity import Granularity
from cnn2csdf.lowering import channel_names, lower
from cnn2csdf.platforms import NANOSECONDS
from csdf.analysis.bound_channels import with_capacities
from csdf.analysis.throughput import throughput
from csdf.errors import InvalidPlan
from csdf.model.graph import Graph
from csdf.time_limit import Budget
from planners.reuse.application import Chromosome
from planners.reuse.evaluation import Evaluator, ReusePlan


def self_timed_periods(
    evaluator: Evaluator, genes: Chromosome, *, budget: Budget = None
) -> tuple[Fraction, ...]:
    """Return seconds from frame to frame of each network, in the buffers of a chromosome.

    Each layer fires as soon as it has its input and room for its output. What is outside of the
    application takes no time. An answer of the engine takes up to seconds: it is no part of an
    evaluation. Raises GaveUp where `watch` ends an analysis.
    """
    plan = evaluator.plan(genes)
    places = dict(zip(evaluator.application.layers, genes, strict=True))
    return tuple(
        _period(_bounded_graph(evaluator, number, plan, places), budget)
        for number in range(len(evaluator.application.members))
    )


def _period(graph: Graph, budget: Budget) -> Fraction:
    period = throughput(graph, budget=budget).period
    if period is None:
        raise InvalidPlan(f"network {graph.name!r} deadlocks in the buffers of its plan")
    return period / NANOSECONDS


def _bounded_graph(
    evaluator: Evaluator,
    number: int,
    plan: ReusePlan,
    genes: dict[tuple[str, str], int | None],
) -> Graph:
    """The network of one member as a graph; copies of one edge are one larger buffer."""
    member = evaluator.application.members[number]
    granularity = Granularity(
        rows=None, layers={layer: genes[member.name, layer] for layer in member.layers}
    )
    costs = evaluator.costs
    durations = platform_durations(
        member.network, granularity, costs.platform, element_bytes=costs.element_bytes
    )
    names = channel_names(member.network)
    capacities: dict[str, int] = {}
    for edge, elements in zip(plan.edges, plan.capacities, strict=True):
        if edge.member == number:
            name = names[edge.connection]
            capacities[name] = capacities.get(name, 0) + elements
    graph = lower(member.network, granularity, durations=durations)
    return with_capacities(_without(graph, member.outside), capacities)


def _without(graph: Graph, outside: frozenset[str]) -> Graph:
    """The graph without these actors and their channels."""
    return replace(
        graph,
        actors=tuple(actor for actor in graph.actors if actor.name not in outside),
        channels=tuple(
            channel
            for channel in graph.channels
            if not {channel.producer, channel.consumer} & outside
        ),
    )
