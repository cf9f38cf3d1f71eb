"""A configuration of a chain with every buffer in its place; the best one under a memory limit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from cnn2csdf.execution.whole import checked_frame
from cnn2csdf.network import Layer
from cnn2csdf.parameters import multiply_accumulates, parameter_bytes
from cnn2csdf.weights import Array, Model
from csdf.outcome import Reason, Status, Why, because
from csdf.time_limit import ENDS, Budget, Stop, reason_of, stop_of
from planners.arena.allocation import plan_arena
from planners.arena.problem import Problem
from planners.fusion.configurations import Chain, Configuration, Group, check_configuration
from planners.fusion.plans import FusionAnswer, FusionPlan
from planners.fusion.search import (
    NOTHING,
    Cost,
    FusionPoint,
    Option,
    Rows,
    Terms,
    best_under,
    front,
    least_memory,
    merged,
    options,
)
from planners.fusion.tiles import (
    TiledGroup,
    edge_name,
    lines_name,
    scratch_bytes,
    scratch_name,
    tile_name,
    tiled_buffers,
    tiled_group,
)
from planners.fusion.tilings import LayerCost, lengths, price_of
from planners.fusion.ways import Way
from planners.memory.making import Block, WorkingGroup, plan_with_blocks
from planners.plan.computing import ModelComputing
from planners.plan.executor import Machine
from planners.plan.plan import Kind, Mode, Stage, StreamBuffer, Tiles
from planners.tiling.regions import COLUMNS, ROWS, Needs, fresh

OF_TILES = (
    (Kind.TILE, tile_name),
    (Kind.TILE_ROWS, lines_name),
    (Kind.TILE_COLUMNS, edge_name),
    (Kind.SCRATCH, scratch_name),
)
MOST_STEPS = 200  # of the search for offsets at a better arena, which chains never need


class FusionWhy(Why):
    """The reasons for the status of a plan of groups."""

    FASTEST = "none that fits is faster"
    MAY_BE_FASTER = "a faster one may fit"
    LEAST = "no groups that work in these ways ({ways}) need less than {bound} bytes"
    NOT_COVERED = "no groups that work in these ways ({ways}) cover the network"
    NOT_PLACED = "no offsets were found for the smallest buffers"
    SMALLEST_FOUND = "{end}; the smallest found needs {found} bytes, {least}"
    NOTHING_FOUND = "{end}; {least}"
    FLASH = "the tables of parameters are {needed} bytes, more than the flash of {flash}"


def fusion_plan(chain: Chain, groups: Configuration, terms: Terms) -> FusionPlan:
    """Return a configuration with a place for every buffer.

    Raises InvalidPlan where the groups do not cover the chain, InvalidNetwork where a tiled layer
    cannot be tiled.
    """
    check_configuration(chain, groups)
    planning = _Planning(chain, terms)
    costs = [planning.add(group) for group in groups]
    plan, least = plan_with_blocks(
        chain.course, planning.rows.table, planning.groups, planning.blocks
    )
    cost = _sum(costs)
    return FusionPlan(
        chain=chain,
        terms=terms,
        groups=groups,
        cost=cost,
        plan=replace(plan, multiply_accumulates=cost.multiply_accumulates),
        least_bytes=least,
        parameter_bytes=parameter_bytes(chain.network, terms.element_bytes),
    )


def best_plan(chain: Chain, terms: Terms, memory: int, budget: Budget = None) -> FusionAnswer:
    """Return the plan of least time whose arena fits the memory, in bytes, and the whole front.

    Exact over all groups and all choices of the terms, but for offsets that are not found. budget: a
    stop, or seconds; it ends the search with what was found by then, as Ctrl-C does.
    """
    found: list[Option] = []
    ended: Reason | None = None
    try:
        for option in options(chain, terms, stop_of(budget)):
            found.append(option)
    except ENDS as end:
        ended = reason_of(end)
    points = tuple(front(found, len(chain.sections)))
    bound = least_memory(chain, terms) if ended else points[0].memory if points else 0
    plan = _fitting(chain, terms, points, memory)
    if plan is None:
        return _without_plan(points, bound, memory, terms, ended)
    best = best_under(points, memory)
    is_best = not ended and best is not None and plan.cost == best.cost
    return FusionAnswer(
        plan=plan,
        front=points,
        status=Status.OPTIMAL if is_best else Status.FEASIBLE,
        reason=ended or because(FusionWhy.FASTEST if is_best else FusionWhy.MAY_BE_FASTER),
        lower_bound=bound,
    )


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
        why = ended or because(FusionWhy.NOT_PLACED)
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
    chain: Chain, terms: Terms, points: Sequence[FusionPoint], memory: int
) -> FusionPlan | None:
    """The fastest plan that fits with all of its offsets."""
    limit = memory
    while (point := best_under(points, limit)) is not None:
        plan = fusion_plan(chain, merged(point.groups), terms)
        if plan.memory <= memory:
            return plan
        limit = point.memory - 1
    return None


def tiles_of(chain: Chain, group: Group) -> TiledGroup:
    """Return a group of tiles with what each of them holds."""
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


class _Planning:
    """Groups on their way to a plan, each with its stages and what it has besides lines."""

    def __init__(self, chain: Chain, terms: Terms) -> None:
        self._chain, self._terms = chain, terms
        self.rows = Rows(chain, terms)
        self.groups: list[WorkingGroup] = []
        self.blocks: dict[int, Block] = {}

    def add(self, group: Group) -> Cost:
        """Add a group; return its time and work."""
        layers = self._chain.layers(group.first, group.upto)
        if group.way is Way.ROWS:
            self._add_stages(self.rows.stages(group.first, group.upto))
            largest = max(layers, key=self.rows.scratch)
            self._add_scratch(
                largest, self.rows.scratch(largest), tuple(one.name for one in layers)
            )
            return self.rows.cost(group.first, group.upto)
        if group.is_tiled:
            return self._add_tiles(group)
        return _sum([self._add_whole(layer) for layer in layers])

    def _add_stages(self, stages: Sequence[Stage]) -> None:
        geometry = tuple(self.rows.table.geometry(stage) for stage in stages)
        self.groups.append(WorkingGroup(geometry, None))

    def _add_whole(self, layer: Layer) -> Cost:
        network, terms = self._chain.network, self._terms
        self._add_stages([Stage(layers=(layer.name,), rows=layer.shape.rows)])
        places = layer.shape.height * layer.shape.width
        size = scratch_bytes(network, layer, places, terms.scratch, terms.element_bytes)
        self._add_scratch(layer, size, (layer.name,))
        work = multiply_accumulates(layer, network.input_shapes(layer))
        return Cost(self._layer_cost(layer).whole(), work)

    def _layer_cost(self, layer: Layer) -> LayerCost:
        return LayerCost(
            network=self._chain.network,
            layer=layer,
            price=price_of(self._terms.platform),
            element_bytes=self._terms.element_bytes,
        )

    def _add_scratch(self, layer: Layer, size: int, users: tuple[str, ...]) -> None:
        """Scratch of a layer for the group that was added last, where it has some."""
        if size:
            unit = self.rows.table.bytes_of(layer.inputs[0])
            scratch = self._part(scratch_name(layer.name), Kind.SCRATCH, layer.name, size, 0, users)
            self.blocks[len(self.groups) - 1] = Block(size, unit, (scratch,))

    def _add_tiles(self, group: Group) -> Cost:
        """Tiles: a stage, and a block in which what a layer needs lies over what no layer needs."""
        tiles, grid = tiles_of(self._chain, group), group.grid
        stage = Stage(
            layers=tuple(layer.name for layer in tiles.layers),
            rows=tiles.layers[-1].shape.rows,
            mode=Mode.TILES,
            tiles=Tiles(row_ends=grid.rows, column_ends=grid.columns, halo_cached=tiles.keeps),
        )
        self._add_stages([stage])
        buffers = tuple(
            tiled_buffers(
                tiles, self._terms.scratch, begin=0, element_bytes=self._terms.element_bytes
            )
        )
        problem = Problem(name=self._chain.network.name, buffers=buffers)
        inner = plan_arena(problem, budget=Stop(steps=MOST_STEPS))
        kinds = {
            name_of(layer.name): (kind, layer.name, (layer.name,) if kind is Kind.SCRATCH else ())
            for layer in tiles.layers
            for kind, name_of in OF_TILES
        }
        parts = tuple(
            self._part(one.name, kind, tensor, one.size, inner.offsets[one.name], users)
            for one in buffers
            for kind, tensor, users in (kinds[one.name],)
        )
        if parts:
            unit = max(one.alignment for one in buffers)
            self.blocks[len(self.groups) - 1] = Block(inner.peak, unit, parts)
        return self._cost_of_tiles(tiles)

    def _part(
        self,
        name: str,
        kind: Kind,
        tensor: str,
        size: int,
        offset: int,
        users: tuple[str, ...],
    ) -> StreamBuffer:
        """A buffer of the group that was added last, at an offset in its block."""
        number = len(self.groups) - 1
        return StreamBuffer(
            name=name,
            kind=kind,
            tensor=tensor,
            rows=0,
            size=size,
            offset=offset,
            begin=number,
            end=number + 1,
            readers=users,
        )

    def _cost_of_tiles(self, tiles: TiledGroup) -> Cost:
        needs, total = Needs(self._chain.network), 0
        for layer in tiles.layers:
            held = tiles.rows[layer.name], tiles.columns[layer.name]
            rows, columns = map(fresh, held) if tiles.keeps else held
            total += self._layer_cost(layer).tiled(
                lengths(needs, layer, rows, ROWS), lengths(needs, layer, columns, COLUMNS)
            )
        return Cost(total, tiles.multiply_accumulates)


@dataclass(frozen=True, slots=True, kw_only=True)
class FusedRun:
    """The outputs of a run. arena_bytes: of the arena; touched: up to the last byte written."""

    output: Array
    arena_bytes: int
    touched: int


def run_fused(model: Model, plan: FusionPlan, frame: Mapping[str, Array]) -> FusedRun:
    """Return the output of a frame, computed as the plan says, in an arena of its bytes.

    Raises ExecutionError where a byte that is read does not hold what the layer is to read, and for a
    tile that is larger than its buffer.
    """
    given = checked_frame(model.network, frame)
    machine = Machine(model.network, plan.plan, ModelComputing(model, given))
    machine.run()
    result = plan.chain.network.layer(plan.chain.result)
    found = machine.output(result.name)
    found = found.transpose(2, 0, 1) if result.shape.is_map else found
    return FusedRun(
        output=found.reshape(result.shape.dims),
        arena_bytes=plan.memory,
        touched=machine.arena.most,
    )
