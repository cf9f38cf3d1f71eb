"""Everything a page says about a network: its memory as a whole and by parts, and its graph."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from cnn2csdf.describe import describe
from cnn2csdf.granularity import Granularity
from cnn2csdf.lowering import lower
from cnn2csdf.network import Network
from cnn2csdf.parameters import layer_parameters, multiply_accumulates, parameter_bytes
from csdf.cli.networks import options as shared
from csdf.cli.reporting.budget import Budget
from csdf.cli.reporting.graph_answers import graph_findings
from csdf.draw.report.findings import (
    Arena,
    Box,
    GraphFindings,
    LayerFigures,
    Limit,
    Mark,
    NetworkFindings,
    Way,
    WayOfWork,
)
from csdf.draw.report.words import byte_count
from csdf.errors import CsdfError, GaveUp
from csdf.model.graph import Graph
from csdf.search.pareto import ParetoPoint, SmallestStorage
from csdf.search.trade_off import Progress
from planners.arena.allocation import Progress as ArenaProgress
from planners.limits import Limits
from planners.memory_ways import (
    PARTS_APART,
    PARTS_ARENA,
    WHOLE_APART,
    WHOLE_ARENA,
    MemoryWay,
    least_way,
    reduction,
)
from planners.network_arena import NetworkArena, parts_arena, whole_arena
from planners.parts_memory import (
    MemoryApart,
    NetworkMemory,
    memory_apart,
    way_apart,
    way_in_arena,
)


class Answers(NamedTuple):
    """What is known about the graph of a network, and about its memory."""

    graph: GraphFindings
    network: NetworkFindings


def network_findings(network: Network, options: argparse.Namespace, budget: Budget) -> Answers:
    """Return what was found out about a network that works as the options say."""
    granularity = shared.granularity_of(options)
    durations = shared.durations_of(network, options)
    left_out: dict[str, str] = {}
    apart = None
    try:
        with budget.limited(0.35):
            apart = memory_apart(
                network, granularity, durations,
                element_bytes=options.element_bytes, watch=budget.watch(0.3, _in_words),
            )  # fmt: skip
    except GaveUp as end:
        left_out["memory"] = str(end)
    graph = lower(
        network, granularity,
        durations=durations(granularity), element_bytes=options.element_bytes,
    )  # fmt: skip
    arenas = dict(_arenas(network, granularity, options, budget, left_out))
    whole, parts = (None, None) if apart is None else apart
    smallest = None if parts is None else _smallest(parts)
    weights = parameter_bytes(network, options.element_bytes)
    return Answers(
        graph=graph_findings(graph, budget, unit="bytes", time="ns", smallest=smallest),
        network=_with_ways(
            NetworkFindings(
                name=network.name,
                layers=tuple(_layers(network, graph, apart, options.element_bytes)),
                whole=None if whole is None else _way_of_work(whole),
                by_parts=None if parts is None else _way_of_work(parts),
                arenas=tuple(_drawn(title, arena) for title, arena in arenas.items()),
                limit=limit_of(options, weights),
                left_out=left_out,
            ),
            list(_ways(whole, parts, arenas, weights)),
        ),
    )


def limit_of(options: argparse.Namespace, weights: int) -> Limit | None:
    """Return what the network should fit; weights: bytes of its parameters."""
    limits = Limits(ram=options.ram, flash=options.flash, memory=options.memory)
    if not limits.is_given:
        return None
    room = limits.room(weights)
    marks = (
        ("--memory", limits.memory, 0),
        ("--ram, behind the parameters", limits.ram, weights),
        ("--flash, for parameters", limits.flash, 0),
    )
    return Limit(
        title=str(limits),
        room=sys.maxsize if room is None else room,  # flash alone leaves any room for buffers
        elsewhere=limits.memory if limits.ram is None and limits.flash is None else None,
        marks=tuple(
            Mark(f"{name}: {byte_count(size)}", before + size)
            for name, size, before in marks
            if size is not None
        ),
    )


def _ways(
    whole: NetworkMemory | None,
    parts: NetworkMemory | None,
    arenas: Mapping[str, NetworkArena],
    weights: int,
) -> Iterator[MemoryWay]:
    """The ways that were found in time, in one order."""
    for memory, apart, arena in (
        (whole, WHOLE_APART, WHOLE_ARENA),
        (parts, PARTS_APART, PARTS_ARENA),
    ):
        if memory is not None:
            yield way_apart(apart, memory)
        if arena in arenas:
            yield way_in_arena(arena, arenas[arena].plan, weights)


def _with_ways(findings: NetworkFindings, ways: Sequence[MemoryWay]) -> NetworkFindings:
    """Add the ways, and the least of them."""
    whole = [way for way in ways if way.is_whole]
    return replace(
        findings,
        ways=tuple(_shown(way) for way in ways),
        least=_shown(least_way(ways)) if ways else None,
        least_whole=_shown(least_way(whole)) if whole else None,
        saving=reduction(ways),
    )


def _shown(way: MemoryWay) -> Way:
    return Way(way.title, way.buffers, way.parameters)


def _in_words(progress: Progress) -> str:
    return f"buffers: at least {progress.lower_bound} bytes"


def _way_of_work(memory: NetworkMemory) -> WayOfWork:
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
    point = ParetoPoint(
        size=memory.buffers, period=memory.pipelined, capacities=dict(memory.capacities)
    )
    return SmallestStorage(
        status=memory.status, point=point, lower_bound=memory.lower_bound, reason="", evaluations=0
    )


def _layers(
    network: Network, graph: Graph, apart: MemoryApart | None, element_bytes: int
) -> Iterator[LayerFigures]:
    parameters = layer_parameters(network)
    whole, parts = (
        ({}, {})
        if apart is None
        else (_read_bytes(memory.graph, element_bytes) for memory in apart)
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
) -> Iterator[tuple[str, NetworkArena]]:
    """One arena for the network as a whole, and one by parts."""
    size = options.element_bytes
    try:
        with budget.limited(0.3):
            watch = _arena_watch(WHOLE_ARENA, budget)
            whole = whole_arena(network, element_bytes=size, watch=watch)
        yield WHOLE_ARENA, whole
        with budget.limited(0.3):
            watch = _arena_watch(PARTS_ARENA, budget)
            parts = parts_arena(network, granularity, element_bytes=size, watch=watch)
        yield PARTS_ARENA, parts
    except CsdfError as refusal:
        left_out["arena"] = str(refusal)


def _arena_watch(title: str, budget: Budget) -> Callable[[ArenaProgress], None]:
    return budget.watch(0.2, lambda one: f"{title}: {one.peak} bytes, at least {one.lower_bound}")


def _drawn(title: str, arena: NetworkArena) -> Arena:
    """The arena as the page draws it."""
    plan = arena.plan
    prefix = f"{plan.problem.name}: "
    boxes = (
        Box(
            name=one.name.removeprefix(prefix),
            start=one.start,
            end=one.end,
            offset=plan.offsets[one.name],
            size=one.size,
        )
        for one in plan.problem.buffers
    )
    return Arena(
        title=title,
        boxes=tuple(boxes),
        order=arena.order,
        peak=plan.peak,
        lower_bound=plan.lower_bound,
        status=plan.status,
        reason=plan.reason,
    )
