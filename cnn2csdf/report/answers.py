"""Everything a page says about a network: its memory as a whole and by parts, and its graph."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import NamedTuple

from cnn2csdf.commands.cnn import options as shared
from cnn2csdf.describe import describe
from cnn2csdf.granularity import WHOLE, Granularity
from cnn2csdf.lowering import lower
from cnn2csdf.network import Network
from cnn2csdf.parameters import layer_parameters, multiply_accumulates
from cnn2csdf.parts_memory import MemoryComparison, NetworkMemory, memory_comparison
from csdf.cli.reporting.budget import Budget
from csdf.cli.reporting.graph_answers import graph_findings
from csdf.draw.report.findings import (
    Arena,
    Box,
    GraphFindings,
    LayerFigures,
    NetworkFindings,
    WayOfWork,
)
from csdf.errors import CsdfError, GaveUp
from csdf.model.graph import Graph
from csdf.search.pareto import ParetoPoint, SmallestStorage
from csdf.search.trade_off import Progress
from planners.arena.allocation import Progress as ArenaProgress
from planners.arena.allocation import plan_arena
from planners.reuse.applications.application import Application, undivided
from planners.reuse.evaluation import Costs, Evaluator
from planners.reuse.offset_problem import offset_problem

PATIENCE = 60  # steps of the search for an arena; the same plan on every machine


class Answers(NamedTuple):
    """What is known about the graph of a network, and about its memory."""

    graph: GraphFindings
    network: NetworkFindings


def network_findings(network: Network, options: argparse.Namespace, budget: Budget) -> Answers:
    """Return what was found out about a network that works as the options say."""
    granularity = shared.granularity_of(options)
    durations = shared.durations_of(network, options)
    left_out: dict[str, str] = {}
    comparison = None
    try:
        with budget.limited(0.35):
            comparison = memory_comparison(
                network, granularity, durations,
                element_bytes=options.element_bytes, watch=budget.watch(0.3, _in_words),
            )  # fmt: skip
    except GaveUp as end:
        left_out["memory"] = str(end)
    graph = lower(
        network, granularity,
        durations=durations(granularity), element_bytes=options.element_bytes,
    )  # fmt: skip
    arenas = tuple(_arenas(network, granularity, options, budget, left_out))
    smallest = None if comparison is None else _smallest(comparison.by_parts)
    return Answers(
        graph=graph_findings(graph, budget, unit="bytes", time="ns", smallest=smallest),
        network=NetworkFindings(
            name=network.name,
            layers=tuple(_layers(network, graph, comparison, options.element_bytes)),
            whole=None if comparison is None else _way(comparison.whole),
            by_parts=None if comparison is None else _way(comparison.by_parts),
            arenas=arenas,
            capacity=options.memory,
            left_out=left_out,
        ),
    )


def _in_words(progress: Progress) -> str:
    return f"buffers: at least {progress.lower_bound} bytes"


def _way(memory: NetworkMemory) -> WayOfWork:
    return WayOfWork(
        buffers=memory.buffers,
        parameters=memory.parameters,
        sequential=memory.sequential,
        pipelined=memory.pipelined,
        status=memory.status,
        gap=memory.gap,
    )


def _smallest(memory: NetworkMemory) -> SmallestStorage:
    """The buffers by parts as the answer of a search, which they are."""
    bound = memory.buffers / (1 + (memory.gap or Fraction(0)))
    point = ParetoPoint(
        size=memory.buffers, period=memory.pipelined, capacities=dict(memory.capacities)
    )
    return SmallestStorage(
        status=memory.status, point=point, lower_bound=int(bound), reason="", evaluations=0
    )


def _layers(
    network: Network, graph: Graph, comparison: MemoryComparison | None, element_bytes: int
) -> Iterator[LayerFigures]:
    parameters = layer_parameters(network)
    whole, parts = (
        {} if memory is None else _read_bytes(memory.graph, element_bytes)
        for memory in (
            (None, None) if comparison is None else (comparison.whole, comparison.by_parts)
        )
    )
    for layer in network.layers:
        durations = graph.actor(layer.name).durations
        yield LayerFigures(
            name=layer.name,
            operator=describe(layer),
            output=str(layer.shape),
            phases=len(durations),
            parameters=parameters[layer.name] * element_bytes,
            multiply_accumulates=multiply_accumulates(layer, network.input_shapes(layer)),
            output_bytes=layer.shape.elements * element_bytes,
            whole_buffers=whole.get(layer.name, 0),
            parts_buffers=parts.get(layer.name, 0),
            nanoseconds=sum(durations),
        )


def _read_bytes(graph: Graph, element_bytes: int) -> dict[str, int]:
    """Bytes of the buffers that each layer reads."""
    found: dict[str, int] = {}
    for channel in graph.channels:
        if channel.capacity is not None:
            before = found.get(channel.consumer, 0)
            found[channel.consumer] = before + channel.capacity * element_bytes
    return found


def _arenas(
    network: Network,
    granularity: Granularity,
    options: argparse.Namespace,
    budget: Budget,
    left_out: dict[str, str],
) -> Iterator[Arena]:
    """One arena for the network as a whole, and one by parts."""
    costs = Costs(
        element_bytes=options.element_bytes,
        parameter_bytes=options.element_bytes,
        platform=shared.platform_of(options),
    )
    try:
        application = Application(name=network.name, members=(undivided(network),))
        evaluator = Evaluator(application, costs)
        for title, chosen in (("whole layers", WHOLE), ("by parts", granularity)):
            with budget.limited(0.3):
                arena = _arena(evaluator, title, chosen, budget)
            yield arena
    except CsdfError as refusal:
        left_out["arena"] = str(refusal)


def _arena(evaluator: Evaluator, title: str, granularity: Granularity, budget: Budget) -> Arena:
    layers = [layer for _, layer in evaluator.application.layers]
    plan = evaluator.plan(tuple(granularity.layers.get(one, granularity.rows) for one in layers))
    problem = offset_problem(evaluator, plan)
    memory = plan_arena(problem, watch=_patient_watch(title, budget))
    names = [layer.name for layer in evaluator.models[0].table.layers]
    prefix = f"{evaluator.application.members[0].name}: "
    boxes = (
        Box(
            name=one.name.removeprefix(prefix),
            start=one.start,
            end=one.end,
            offset=memory.offsets[one.name],
            size=one.size,
        )
        for one in problem.buffers
    )
    return Arena(
        title=title,
        boxes=tuple(boxes),
        order=tuple(names[number] for number in plan.orders[0]),
        peak=memory.peak,
        lower_bound=memory.lower_bound,
        status=memory.status,
        reason=memory.reason,
    )


def _patient_watch(title: str, budget: Budget) -> Callable[[ArenaProgress], None]:
    """A watch that ends the search in time, and after so many steps everywhere."""
    look = budget.watch(
        0.2, lambda one: f"arena, {title}: {one.peak} bytes, at least {one.lower_bound}"
    )
    steps = iter(range(PATIENCE))

    def watch(progress: ArenaProgress) -> None:
        look(progress)
        if next(steps, None) is None:
            raise GaveUp(f"{PATIENCE} steps found no smaller arena")

    return watch
