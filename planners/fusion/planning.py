"""Memory plan of a configuration of fused groups, and the fastest plan under a memory limit.

A configuration is a sequence of groups that covers the execution order, each group with a mode: layer
by layer, row by row, or tile by tile (planners.fusion.groups). `Terms` are the cost model and the modes
and tilings to search. The search combines the options of single groups to a Pareto front of memory and
time. A point of the front becomes a plan as its buffers get offsets in the arena.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cnn2csdf.parameters import network_multiply_accumulates, parameter_bytes
from csdf.arguments import Bytes, byte_count, public
from csdf.model.shown import Shown
from csdf.status import Reason, Status, Why, because
from csdf.time_limit import ENDS, Budget, Stop, reason_of, stop_of
from planners.arena.allocation import plan_arena
from planners.arena.problem import MemoryPlan, Problem
from planners.fusion.groups import (
    Configuration,
    FusionPoint,
    SectionRange,
    Terms,
    merged,
    require_covering,
    row_stages,
    tiled_stage,
    whole_stages,
)
from planners.fusion.search import best_under, front, least_memory, options, row_scratch
from planners.fusion.tiles import tile_buffers
from planners.memory.answer import GroupMode
from planners.memory.build import plan_with_blocks
from planners.memory.order import TopologicalOrder
from planners.memory.placement import arena_buffer
from planners.memory.stages import GroupGeometry, StageTable
from planners.memory.times import PlanTimes
from planners.plan.plan import (
    Kind,
    PlannedGroup,
    Stage,
    StreamBuffer,
    StreamingPlan,
)
from planners.plan.regions import TileRanges

MOST_STEPS = 200  # of the search for offsets of the buffers inside a group


class FusionWhy(Why):
    """The reasons for the status of a plan of groups."""

    FASTEST = "none that fits is faster"
    MAY_BE_FASTER = "a faster one may fit"
    LEAST = "no groups in these modes ({modes}) need less than {bound} bytes"
    NOT_COVERED = "no groups in these modes ({modes}) cover the network"
    NOT_PLACED = "no offsets were found for the smallest buffers"
    SMALLEST_FOUND = "{end}; the smallest found needs {found} bytes, {least}"
    NOTHING_FOUND = "{end}; {least}"
    PARAMETERS = "the parameters alone are {needed} bytes, more than the {memory} of --total-memory"
    FLASH = "the tables of parameters are {needed} bytes, more than the flash of {flash}"
    LARGEST_GROUP = "the largest group alone needs as many bytes"
    PLACED = "no smaller arena was found"


@dataclass(frozen=True, slots=True, kw_only=True)
class FusionPlan(Shown):
    """A configuration, its time, and the plan in which all of its buffers have offsets.

    least_bytes: lower bound on the arena, for any offsets of these buffers. parameter_bytes: outside
    the arena.
    """

    chain: TopologicalOrder
    terms: Terms
    configuration: Configuration
    nanoseconds: int
    plan: StreamingPlan
    least_bytes: int
    parameter_bytes: int

    @property
    def groups(self) -> tuple[PlannedGroup, ...]:
        """The groups of the plan; a layer that executes whole is a group of its own."""
        return self.plan.groups

    @property
    def memory(self) -> int:
        """Bytes of the arena."""
        return self.plan.arena_bytes

    @property
    def arena(self) -> MemoryPlan:
        """The buffers with their offsets; a time is a group, in which tiles may share bytes."""
        buffers = tuple(
            arena_buffer(
                buffer,
                self.terms.element_bytes or self.chain.network.layer(buffer.tensor).element_bytes,
            )
            for buffer in self.plan.buffers
            if buffer.size
        )
        is_least = self.memory == self.least_bytes
        return MemoryPlan(
            problem=Problem(name=self.plan.network, buffers=buffers),
            offsets={buffer.name: buffer.offset for buffer in self.plan.buffers if buffer.size},
            lower_bound=self.least_bytes,
            status=Status.OPTIMAL if is_least else Status.FEASIBLE,
            reason=because(FusionWhy.LARGEST_GROUP if is_least else FusionWhy.PLACED),
        )

    @property
    def redundant(self) -> int:
        """Multiply-accumulates beyond those of the network as a whole."""
        return self.plan.multiply_accumulates - network_multiply_accumulates(self.chain.network)

    def to_json(self) -> dict[str, Any]:
        """Return groups, figures and offsets as a JSON value."""
        return {
            "groups": [
                {
                    "layers": [layer.name for layer in self.chain.between(group.first, group.upto)],
                    "mode": group.mode.value,
                    "row_ends": list(group.tiles.row_ends) if group.is_tiled else None,
                    "column_ends": list(group.tiles.column_ends) if group.is_tiled else None,
                }
                for group in self.configuration
            ],
            "arena_bytes": self.memory,
            "parameter_bytes": self.parameter_bytes,
            "nanoseconds": self.nanoseconds,
            "multiply_accumulates": self.plan.multiply_accumulates,
            "redundant_multiply_accumulates": self.redundant,
            "buffers": [
                {"name": buffer.name, "offset": buffer.offset, "size": buffer.size}
                for buffer in self.plan.buffers
                if buffer.size
            ],
        }

    def to_records(self) -> list[dict[str, Any]]:
        """Return a row for each group of the configuration, as for a data frame."""
        groups = [self.chain.between(group.first, group.upto) for group in self.configuration]
        return [
            {
                "first": layers[0].name,
                "last": layers[-1].name,
                "layers": len(layers),
                "mode": str(group),
            }
            for layers, group in zip(groups, self.configuration, strict=True)
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class FusionAnswer(Shown):
    """The answer of the search for the fastest plan within a memory limit.

    front: Pareto-optimal configurations among those searched. status: of `plan`; "optimal": no
    configuration of the search space is faster and fits. lower_bound: on the memory of all
    configurations, in bytes.
    """

    plan: FusionPlan | None
    front: tuple[FusionPoint, ...] = ()
    status: Status
    reason: Reason
    lower_bound: int

    def to_json(self) -> dict[str, Any]:
        """Return the answer with its front as a JSON value."""
        return {
            "status": str(self.status),
            "reason": str(self.reason),
            "lower_bound_bytes": self.lower_bound,
            "plan": None if self.plan is None else self.plan.to_json(),
            "front": self.to_records(),
        }

    def to_records(self) -> list[dict[str, Any]]:
        """Return a row for each point of the front, as for a data frame."""
        return [
            {
                "arena_bytes": point.memory,
                "nanoseconds": point.nanoseconds,
                "multiply_accumulates": point.multiply_accumulates,
                "groups": [f"{group.first}:{group.upto} {group}" for group in merged(point.groups)],
            }
            for point in self.front
        ]


def fusion_plan(chain: TopologicalOrder, groups: Configuration, terms: Terms) -> FusionPlan:
    """Return a configuration with an offset for every buffer.

    Raises InvalidPlan where the groups do not cover the chain, InvalidNetwork where a tiled layer
    cannot be tiled.
    """
    require_covering(chain, groups)
    table = StageTable(chain.network, element_bytes=terms.element_bytes)
    geometries: list[GroupGeometry] = []
    blocks: dict[int, tuple[StreamBuffer, ...]] = {}
    for group in groups:
        for stages in _stages(chain, group):
            if block := _block(table, group, stages, terms, len(geometries)):
                blocks[len(geometries)] = block
            geometries.append(table.group(stages))
    plan, least = plan_with_blocks(chain, table, geometries, blocks)
    return FusionPlan(
        chain=chain,
        terms=terms,
        configuration=groups,
        nanoseconds=PlanTimes(table, terms.platform, terms.element_bytes, terms.measured).of(plan),
        plan=plan,
        least_bytes=least,
        parameter_bytes=parameter_bytes(chain.network, terms.element_bytes),
    )


def _stages(chain: TopologicalOrder, group: SectionRange) -> Iterator[tuple[Stage, ...]]:
    """Yield sets of stages that execute interleaved: the whole group, or its layers one by one."""
    layers = chain.between(group.first, group.upto)
    if group.is_tiled:
        yield (tiled_stage(layers, group.tiles),)
    elif group.mode is GroupMode.ROWS:
        yield tuple(row_stages(chain.network, layers))
    else:
        yield from ((stage,) for stage in whole_stages(layers))


def _block(
    table: StageTable, group: SectionRange, stages: Sequence[Stage], terms: Terms, number: int
) -> tuple[StreamBuffer, ...]:
    """The buffers of the tiles and the scratch of a group, at their offsets in one block.

    number: of the group of the plan that executes the stages.
    """
    network = table.network
    layers = [network.layer(name) for stage in stages for name in stage.layers]
    if group.is_tiled:
        buffers = list(tile_buffers(TileRanges(network, stages[0]), terms, table))
    else:
        size, layer = row_scratch(network, layers, terms)
        if group.mode is GroupMode.WHOLE:
            size *= layer.shape.height  # all rows in one firing; the group is a single layer
        readers = tuple(layer.name for layer in layers)
        scratch = StreamBuffer.of_group(Kind.SCRATCH, layer.name, 0, size=size)
        buffers = [replace(scratch, readers=readers)]
    buffers = [buffer for buffer in buffers if buffer.size]
    if not buffers:
        return ()

    def alignment(buffer: StreamBuffer) -> int:
        is_scratch = buffer.kind is Kind.SCRATCH  # in elements of the input of its layer
        return table.bytes_of(
            network.layer(buffer.tensor).inputs[0] if is_scratch else buffer.tensor
        )

    problem = Problem(
        name=network.name,
        buffers=tuple(arena_buffer(buffer, alignment(buffer)) for buffer in buffers),
    )
    offsets = plan_arena(problem, budget=Stop(steps=MOST_STEPS)).offsets
    return tuple(
        replace(buffer, offset=offsets[buffer.name], begin=number, end=number + 1)
        for buffer in buffers
    )


@public
def best_plan(
    chain: TopologicalOrder, terms: Terms, memory: Bytes, budget: Budget = None
) -> FusionAnswer:
    """Return the fastest plan whose arena fits the memory, in bytes, and the whole Pareto front.

    The search is exact over all groups and all choices of the terms. Only offsets are heuristic: a
    configuration whose buffers are not placed in the memory is skipped. budget: a stop, or seconds;
    when it or Ctrl-C ends the search, the best plan so far is returned.
    """
    memory = byte_count(memory)
    group_options: list[FusionPoint] = []
    ended: Reason | None = None
    try:
        for option in options(chain, terms, stop_of(budget)):
            group_options.append(option)
    except ENDS as end:
        ended = reason_of(end)
    points = tuple(front(group_options, chain.sections))
    bound = least_memory(chain, terms) if ended else points[0].memory if points else 0
    plan, limit = None, memory
    # On a Pareto front a point of less memory has a higher cost: the points are placed from the lowest
    # cost up, and the first that fits has the minimum cost of those that fit.
    while plan is None and (point := best_under(points, limit)) is not None:
        placed = fusion_plan(chain, merged(point.groups), terms)
        plan = placed if placed.memory <= memory else None
        limit = point.memory - 1
    if plan is None:
        return _without_plan(points, bound, memory, terms, ended)
    best = best_under(points, memory)
    is_best = (
        not ended
        and best is not None
        and (plan.nanoseconds, plan.plan.multiply_accumulates) == best.cost
    )
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
    """Return the answer without a plan: infeasible, or not found."""
    modes = ", ".join(sorted(mode.value for mode in terms.modes))
    least = because(FusionWhy.LEAST, modes=modes, bound=bound)
    status, reason = Status.INFEASIBLE, least
    if not points and ended is None:
        reason = because(FusionWhy.NOT_COVERED, modes=modes)
    elif memory >= bound:
        status, end = Status.UNKNOWN, ended or because(FusionWhy.NOT_PLACED)
        reason = because(FusionWhy.NOTHING_FOUND, end=end, least=least)
        if points:
            smallest = points[0].memory
            reason = because(FusionWhy.SMALLEST_FOUND, end=end, found=smallest, least=least)
    return FusionAnswer(
        plan=None, front=tuple(points), status=status, reason=reason, lower_bound=bound
    )
