"""A configuration of a chain with every buffer in its place; the best one under a memory limit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from cnn2csdf.durations import platform_durations
from cnn2csdf.granularity import ROWS as BY_ROWS
from cnn2csdf.network import Network
from cnn2csdf.parameters import multiply_accumulates, parameter_bytes
from csdf.model.graph import Graph
from csdf.outcome import Reason, Status, Why, because
from csdf.stopping import ENDS, Budget, Stop, reason_of, stop_of
from planners.arena.allocation import plan_arena
from planners.fusion.chains import Chain
from planners.fusion.choices import (
    NOTHING,
    Cost,
    Option,
    Terms,
    least_memory,
    options,
)
from planners.fusion.configurations import Configuration, Group, check_configuration
from planners.fusion.cost import LayerCost, lengths, price_of
from planners.fusion.memory import last_steps, tiled_buffers, whole_buffers
from planners.fusion.plans import FusionAnswer, FusionPlan
from planners.fusion.search import FusionPoint, best_under, front, merged
from planners.fusion.streaming import Streams, streaming_buffers
from planners.fusion.tiles import TiledGroup, fresh, tiled_group
from planners.fusion.ways import Way
from planners.plan import Buffer, MemoryPlan, Problem, most_alive
from planners.tiling.layer_ranges import part_of
from planners.tiling.regions import COLUMNS, ROWS, Needs

MOST_STEPS = 200  # of the search for offsets at a better arena, which chains never need


class FusionWhy(Why):
    """The reasons for the status of a plan of groups."""

    FASTEST = "none that fits is faster"
    MAY_BE_FASTER = "a faster one may fit"
    LEAST = "no groups that work in these ways ({ways}) need less than {bound} bytes"
    NOT_COVERED = "no groups that work in these ways ({ways}) cover the network"
    NOT_PROVED = "the smallest buffers of rows are not proved"
    SMALLEST_FOUND = "{end}; the smallest found needs {found} bytes, {least}"
    NOTHING_FOUND = "{end}; {least}"
    FLASH = "the tables of parameters are {needed} bytes, more than the flash of {flash}"


def fusion_plan(
    chain: Chain,
    groups: Configuration,
    terms: Terms,
    *,
    streams: Streams | None = None,
    budget: Budget = None,
) -> FusionPlan:
    """Return a configuration with a place for every buffer.

    streams: of the chain, with the rows that are known already. budget: ends the search for a
    smaller arena. Raises InvalidPlan where the groups do not cover the chain, InvalidNetwork
    where a tiled layer cannot be tiled.
    """
    check_configuration(chain, groups)
    needs = Needs(chain.network)
    streams = streams or Streams(chain, terms.element_bytes)
    tiled = {number: _tiled(chain, group) for number, group in enumerate(groups) if group.is_tiled}
    graphs = {
        number: streams.graph(group.first, group.upto)
        for number, group in enumerate(groups)
        if group.way is Way.ROWS
    }
    costs = [
        _group_cost(needs, chain, group, terms, tiled.get(number))
        for number, group in enumerate(groups)
    ]
    buffers = tuple(_buffers(chain, groups, terms, tiled, graphs))
    return FusionPlan(
        chain=chain,
        terms=terms,
        groups=groups,
        cost=_sum(costs),
        arena=_arena(chain.network.name, buffers, stop_of(budget)),
        parameter_bytes=parameter_bytes(chain.network, terms.element_bytes),
        tiled=tiled,
        graphs=graphs,
    )


def best_plan(chain: Chain, terms: Terms, memory: int, budget: Budget = None) -> FusionAnswer:
    """Return the plan of least time whose arena fits the memory, in bytes, and the whole front.

    Exact over all groups and all choices of the terms, where the engine proves the buffers of rows
    the smallest; elsewhere what is not proved is not said. budget: a stop, or seconds;
    it ends the search with what was found by then, as Ctrl-C does.
    """
    found: list[Option] = []
    streams = Streams(chain, terms.element_bytes)
    ended: Reason | None = None
    stop = stop_of(budget)
    try:
        for option in options(chain, terms, stop, streams):
            found.append(option)
    except ENDS as end:
        ended = reason_of(end)
    points = tuple(front(found, len(chain.sections)))
    hopes = _hopes(found, points, len(chain.sections))
    bound = least_memory(chain, terms) if ended else hopes[0].memory if hopes else 0
    plan = _fitting(
        chain, terms, points, memory, streams, Stop(steps=0, reason=ended) if ended else stop
    )
    if plan is None:
        return _without_plan(points, bound, memory, terms, ended)
    best = best_under(hopes, memory)
    is_best = not ended and best is not None and plan.cost == best.cost
    return FusionAnswer(
        plan=plan,
        front=points,
        status=Status.OPTIMAL if is_best else Status.FEASIBLE,
        reason=ended or because(FusionWhy.FASTEST if is_best else FusionWhy.MAY_BE_FASTER),
        lower_bound=bound,
    )


def _hopes(
    found: Sequence[Option], points: Sequence[FusionPoint], sections: int
) -> Sequence[FusionPoint]:
    """The front if all buffers were as small as nothing proves that they cannot be."""
    if all(option.bound == option.memory for option in found):
        return points
    return front([option._replace(memory=option.bound) for option in found], sections)


def _without_plan(
    points: Sequence[FusionPoint], bound: int, memory: int, terms: Terms, ended: Reason | None
) -> FusionAnswer:
    """No plan that fits: because there is none, or because none was found."""
    ways = ", ".join(sorted(way.value for way in terms.ways))
    least = because(FusionWhy.LEAST, ways=ways, bound=bound)
    if not points and ended is None:
        least = because(FusionWhy.NOT_COVERED, ways=ways)
    is_proved = memory < bound or not (points or ended)
    if not is_proved:
        why = ended or because(FusionWhy.NOT_PROVED)
        if points:
            found = points[0].memory
            least = because(FusionWhy.SMALLEST_FOUND, end=why, found=found, least=least)
        else:
            least = because(FusionWhy.NOTHING_FOUND, end=why, least=least)
    return FusionAnswer(
        plan=None,
        front=tuple(points),
        status=Status.INFEASIBLE if is_proved else Status.GAVE_UP,
        reason=least,
        lower_bound=bound,
    )


def _fitting(
    chain: Chain,
    terms: Terms,
    points: Sequence[FusionPoint],
    memory: int,
    streams: Streams,
    stop: Stop,
) -> FusionPlan | None:
    """The fastest plan that fits with all of its offsets."""
    limit = memory
    while (point := best_under(points, limit)) is not None:
        plan = fusion_plan(chain, merged(point.groups), terms, streams=streams, budget=stop)
        if plan.memory <= memory:
            return plan
        limit = point.memory - 1
    return None


def part_of_group(chain: Chain, group: Group) -> Network:
    """Return the layers of a group as a network of their own."""
    return part_of(
        chain.network,
        chain.sections[group.first].source,
        chain.layers(group.first, group.upto),
    )


def _tiled(chain: Chain, group: Group) -> TiledGroup:
    return tiled_group(
        chain.network,
        chain.sections[group.first].source,
        chain.layers(group.first, group.upto),
        group.grid,
        keeps=group.way is Way.KEEP,
    )


def _sum(costs: Sequence[Cost]) -> Cost:
    total = NOTHING
    for cost in costs:
        total = total.plus(cost)
    return total


def _group_cost(
    needs: Needs, chain: Chain, group: Group, terms: Terms, tiles: TiledGroup | None
) -> Cost:
    layers = chain.layers(group.first, group.upto)
    network, price = chain.network, price_of(terms.platform)
    work = sum(multiply_accumulates(layer, network.input_shapes(layer)) for layer in layers)
    if group.way is Way.ROWS:
        part = part_of_group(chain, group)
        times = platform_durations(part, BY_ROWS, terms.platform, element_bytes=terms.element_bytes)
        return Cost(sum(sum(times[layer.name]) for layer in layers), work)
    total = 0
    for layer in layers:
        cost = LayerCost(
            network=network, layer=layer, price=price, element_bytes=terms.element_bytes
        )
        if tiles is None:
            total += cost.whole()
            continue
        held = tiles.rows[layer.name], tiles.columns[layer.name]
        rows, columns = map(fresh, held) if tiles.keeps else held
        total += cost.tiled(
            lengths(needs, layer, rows, ROWS), lengths(needs, layer, columns, COLUMNS)
        )
    return Cost(total, work if tiles is None else tiles.multiply_accumulates)


def _buffers(
    chain: Chain,
    groups: Configuration,
    terms: Terms,
    tiled: Mapping[int, TiledGroup],
    graphs: Mapping[int, Graph],
) -> Iterator[Buffer]:
    """Every buffer of the configuration; times are steps, one for each layer."""
    element_bytes, network = terms.element_bytes, chain.network
    start, begin = 0, 0
    for number, group in enumerate(groups):
        layers = chain.layers(group.first, group.upto)
        source = network.layer(chain.sections[group.first].source)
        size = element_bytes or source.element_bytes
        is_whole = group.way is Way.WHOLE
        last = last_steps(layers)[source.name] if is_whole else len(layers) - 1
        yield Buffer(
            name=source.name,
            size=source.shape.elements * size,
            start=start,
            end=begin + last + 1,
            alignment=size,
        )
        if is_whole:
            yield from whole_buffers(
                network, layers, terms.scratch, begin=begin, element_bytes=element_bytes
            )
        elif number in tiled:
            yield from tiled_buffers(
                tiled[number], terms.scratch, begin=begin, element_bytes=element_bytes
            )
        else:
            yield from streaming_buffers(
                network,
                graphs[number],
                layers,
                terms.scratch,
                begin=begin,
                element_bytes=element_bytes,
            )
        start = begin + len(layers) - 1 if is_whole else begin
        begin += len(layers)
    result = network.layer(chain.result)
    size = element_bytes or result.element_bytes
    yield Buffer(
        name=result.name,
        size=result.shape.elements * size,
        start=start,
        end=begin,
        alignment=size,
    )


def _arena(name: str, buffers: Sequence[Buffer], stop: Stop) -> MemoryPlan:
    problem = Problem(name=name, buffers=tuple(buffers))
    return plan_arena(problem, budget=stop.part(steps=MOST_STEPS))


def alive_bytes(plan: FusionPlan) -> int:
    """Return the most bytes alive at one time: no arena for these buffers is smaller."""
    return most_alive(plan.arena.problem.buffers)
