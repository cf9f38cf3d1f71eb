"""Baseline plans: layer by layer and row by row, with their memory and frame rate.

Layer by layer, each tensor is stored whole. Row by row, each tensor has a line buffer, inputs arrive
row by row, and outputs leave row by row. Buffers are counted in two variants: separately, each with
its own bytes for the whole frame, as in SAMOS 2020; and in one arena, where buffers with disjoint
lifetimes share bytes, as in any runtime.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from importlib import import_module
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from cnn2csdf.fixed_point.flash import flash_bytes
from cnn2csdf.granularity import ROWS as BY_ROWS
from cnn2csdf.granularity import WHOLE, Granularity
from cnn2csdf.network import Network
from cnn2csdf.parameters import parameter_bytes
from csdf.arguments import Positive, public
from csdf.model.shown import Shown
from csdf.time_limit import ENDS, Budget, stop_of
from planners.arena.problem import Buffer, MemoryPlan, Problem
from planners.memory.answer import EXTERNAL, ROWS
from planners.memory.build import bounded_plan
from planners.memory.labels import WIDTHS, PlanFront
from planners.memory.line_buffers import Keeping, kept_places
from planners.memory.moves import GroupMove, GroupMoves, JoinedMoves
from planners.memory.order import TopologicalOrder, topological_order
from planners.memory.stages import StageTable
from planners.memory.stateful import BoundedPlan, arena_within_steps, stateful_plan
from planners.plan.accumulators import sums_over_rows
from planners.plan.plan import Kind, Mode, Stage, StreamingPlan

if TYPE_CHECKING:
    from cnn2csdf.lowering import Durations

WHOLE_ARENA = "layer by layer, one arena"
WHOLE_SEPARATE = "layer by layer, separate buffers"
ROWS_ARENA = "row by row, one arena"
ROWS_SEPARATE = "row by row, separate buffers"


def external_tensors(network: Network, source: str, output: str) -> frozenset[str]:
    """Return the tensors in the caller's memory. source: of INPUTS, output: of OUTPUT_MEMORIES.

    Results that layers or the next frame read are resident, and so are results that are inputs, unless
    all inputs are external.
    """
    ends = network.outputs  # without the layers that write state variables
    read = {name for layer in network.layers if layer not in ends for name in layer.inputs}
    inputs = {layer.name for layer in network.inputs}
    external = inputs if source == EXTERNAL else set()
    results = network.results - read - inputs if output == EXTERNAL else set()
    return frozenset(external | results)


def whole_tensors(
    network: Network, *, element_bytes: int | None = None, external: frozenset[str] = frozenset()
) -> Problem:
    """Return a buffer for each tensor of a network executed layer by layer, without scratch.

    A tensor is live from the step of the layer that writes it, an input from the first step, to the
    step of its last reader; an output to the end. element_bytes: of all tensors; by default each has
    its own. external: tensors in other memory.
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
            start=0 if layer.is_input else step,
            end=last[layer.name] + 1,
            alignment=element_bytes or layer.element_bytes,
        )
        for step, layer in enumerate(network.layers)
        if not layer.is_output and layer.name not in external
    )
    return Problem(name=network.name, buffers=buffers)


@public
def whole_arena(
    network: Network,
    *,
    element_bytes: Positive | None = None,
    external: frozenset[str] = frozenset(),
    budget: Budget = None,
) -> MemoryPlan:
    """Return one arena for the whole tensors of a network: minimal, or with a lower bound.

    external: tensors in other memory. budget: a stop, or seconds; when it or Ctrl-C ends the search,
    the best arena so far is returned.
    """
    problem = whole_tensors(network, element_bytes=element_bytes, external=external)
    return arena_within_steps(problem, budget)


def layer_by_layer(
    layer_order: TopologicalOrder,
    table: StageTable,
    *,
    is_streamed: bool = False,
    budget: Budget = None,
) -> BoundedPlan:
    """Return the plan that executes layer by layer, in the arena of `whole_arena`.

    is_streamed: the input arrives row by row, and is collected before the first layer is computed.
    """
    size, external = table.element_bytes, table.outside
    arena = whole_arena(layer_order.network, element_bytes=size, external=external, budget=budget)
    groups: list[JoinedMoves] = [()] if is_streamed else []
    for cut in range(layer_order.sections):
        layers = layer_order.between(cut, cut + 1)
        stages = tuple(Stage(layers=(layer.name,), rows=layer.shape.rows) for layer in layers)
        groups.append((GroupMove(cut, cut + 1, stages, in_turn=(1,) * len(stages)),))
    plan, _ = bounded_plan(
        layer_order, table, groups, is_streamed=is_streamed, offsets=arena.offsets
    )
    return BoundedPlan(
        plan, arena.lower_bound, sum(buffer.size for buffer in arena.problem.buffers)
    )


class RowMoves(GroupMoves):
    """The moves of single layers, row by row, without recomputation."""

    longest_stage = 1
    most_partitions = 1

    def __init__(
        self, layer_order: TopologicalOrder, table: StageTable, granularity: Granularity
    ) -> None:
        """Take the rows that each layer computes in a firing."""
        super().__init__(layer_order, table)
        self._granularity = granularity

    def moves_from(self, begin: int, entry: int) -> Iterator[GroupMove]:
        """Yield the moves after a separator; entry: rows of a batch of its tensor, or WHOLE."""
        for move in super().moves_from(begin, entry):
            if all(len(stage.layers) == 1 for stage in move.stages):
                stages = (self.with_rows(stage) for stage in move.stages)
                yield move._replace(stages=tuple(stages))

    def with_rows(self, stage: Stage) -> Stage:
        """Return the stage with its rows of a firing; an accumulating stage reads one row in each."""
        height = self.table.height(stage.result)
        rows = self._granularity.layers.get(stage.result, self._granularity.rows) or height
        return stage if stage.mode is Mode.ACCUMULATING else replace(stage, rows=min(rows, height))

    def plain(self, *, streams_all: bool, accumulates: bool) -> list[JoinedMoves]:
        """Return groups that end where the live tensor has a single row, as it is stored whole anyway.

        streams_all: each of several inputs is a stage of its own, which delivers it row by row.
        accumulates: reductions accumulate row by row instead of reading a whole tensor.
        """
        layer_order, groups = self.layer_order, list[JoinedMoves]()
        cuts = (
            separator
            for separator in range(1, layer_order.sections)
            if self.table.height(layer_order.at(separator)) == 1
        )
        for begin, end in pairwise((0, *cuts, layer_order.sections)):
            stages = []
            if begin == 0 and streams_all and layer_order.others:
                stages += [
                    Stage(layers=(name,)) for name in (layer_order.at(0), *layer_order.others)
                ]
            for layer in layer_order.between(begin, end):
                stage = self.with_rows(Stage(layers=(layer.name,)))
                if accumulates and stage.rows == 1 and sums_over_rows(layer_order.network, layer):
                    stage = replace(stage, mode=Mode.ACCUMULATING)
                stages.append(stage)
            groups.append((GroupMove(begin, end, tuple(stages)),))
        return groups


def row_by_row(
    layer_order: TopologicalOrder,
    table: StageTable,
    granularity: Granularity = BY_ROWS,
    *,
    is_streamed: bool = False,
    is_searched: bool = False,
    budget: Budget = None,
) -> BoundedPlan:
    """Return the plan in which each tensor has a line buffer.

    granularity: rows that a firing computes. is_streamed: inputs arrive row by row. is_searched:
    groups with whole tensors between them are searched, and used if they need less. budget: a stop, or
    seconds; it ends the search.
    """
    moves = RowMoves(layer_order, table, granularity)
    is_single = is_streamed and not layer_order.others
    variants = [
        moves.plain(streams_all=is_streamed, accumulates=accumulates)
        for accumulates in (True, False)
    ]
    plans = [
        (*bounded_plan(layer_order, table, groups, is_streamed=is_single), groups)
        for number, groups in enumerate(variants)
        if groups not in variants[:number]
    ]
    plan, least, groups = min(plans, key=lambda entry: entry[0].arena_bytes)
    stages = [stage for (move,) in groups for stage in move.stages]
    whole_network = table.group(stages, layer_order.at(0) if is_single else None)
    keeping = dict.fromkeys(whole_network.row_bytes, Keeping.RING)
    rings = kept_places(whole_network.firings, keeping)
    whole = {buffer.tensor for buffer in plan.buffers if buffer.has_all_rows}
    separate = sum(stage.accumulator for stage in whole_network.stages) + sum(
        rows * table.row_bytes(name) for name, rows in rings.items() if name not in whole
    )
    separate += sum(buffer.size for buffer in plan.buffers if buffer.kind is Kind.WHOLE)
    if is_searched:
        limit, stop = plan.arena_bytes, stop_of(budget)
        with suppress(*ENDS):
            front = PlanFront(moves, limit, is_streamed=is_single, labels=WIDTHS[0], budget=stop)
            for _, _, chain in front.plans:
                bounded = bounded_plan(layer_order, table, chain, is_streamed=is_single)
                plan, least = min((plan, least), bounded, key=lambda pair: pair[0].arena_bytes)
    return BoundedPlan(plan, least, separate)


class Method(NamedTuple):
    """A storage method of a network, and its bytes.

    lower_bound: proved lower bound on the buffers of this kind.
    """

    title: str
    buffers: int
    lower_bound: int
    parameters: int

    @property
    def total(self) -> int:
        """Bytes of buffers and parameters."""
        return self.buffers + self.parameters

    @property
    def is_whole(self) -> bool:
        """Whether the network is executed layer by layer."""
        return self.title in (WHOLE_ARENA, WHOLE_SEPARATE)


def least_method(methods: Sequence[Method]) -> Method:
    """Return the method with the smallest buffers; of equal ones layer by layer, then the first."""
    return min(methods, key=lambda method: (method.buffers, not method.is_whole))


def reduction(methods: Sequence[Method]) -> Fraction:
    """Return the fraction of memory saved compared with the smallest layer-by-layer method.

    Parameters count. 0 if the smallest method of all is layer by layer, or no such method is listed.
    """
    whole = [method for method in methods if method.is_whole]
    if not whole:
        return Fraction(0)
    return 1 - Fraction(least_method(methods).total, max(1, least_method(whole).total))


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryComparison(Shown):
    """A network layer by layer and row by row.

    core: whose library the flash counts; None: the portable library. nanoseconds: of a frame on one
    processor, layer by layer and row by row. pipelined: time of a frame row by row with a processor
    for each layer, whose buffers never stall it: the time of the slowest layer.
    """

    network: Network
    element_bytes: int | None
    core: str | None = None
    whole: BoundedPlan
    rows: BoundedPlan
    nanoseconds: tuple[int, int]
    pipelined: int

    def plan(self) -> StreamingPlan:
        """Return the smaller plan; of equal ones the layer-by-layer plan."""
        return min(self.whole, self.rows, key=lambda arena: arena.arena_bytes).plan

    @property
    def parameters(self) -> int:
        """Bytes of the parameters."""
        return parameter_bytes(self.network, self.element_bytes)

    @property
    def flash_bytes(self) -> int:
        """Bytes of flash of the parameters and their requantisation data in the library of the core."""
        return flash_bytes(self.network, self.element_bytes, self.core)

    @property
    def methods(self) -> tuple[Method, ...]:
        """The four methods, each with its bytes."""
        titles = ((WHOLE_SEPARATE, WHOLE_ARENA), (ROWS_SEPARATE, ROWS_ARENA))
        return tuple(
            Method(title, size, bound, self.parameters)
            for pair, arena in zip(titles, (self.whole, self.rows), strict=True)
            for title, size, bound in (
                (pair[0], arena.separate_bytes, arena.separate_bytes),
                (pair[1], arena.arena_bytes, arena.lower_bound),
            )
        )

    @property
    def least(self) -> Method:
        """The method with the smallest buffers."""
        return least_method(self.methods)

    @property
    def reduction(self) -> Fraction:
        """The fraction of memory that rows save compared with the smallest layer-by-layer method."""
        return reduction(self.methods)

    @property
    def loss(self) -> Fraction:
        """The fraction of the throughput that is lost on one processor."""
        return 1 - Fraction(*self.nanoseconds)

    def to_json(self) -> dict[str, Any]:
        """Return all methods and the effect of rows, as a JSON value; fractions as strings."""
        names = ("layer_by_layer", "row_by_row")
        plans = zip(names, (self.whole, self.rows), self.nanoseconds, strict=True)
        return {
            "parameter_bytes": self.parameters,
            "flash_bytes": self.flash_bytes,
            **{
                name: {
                    "separate_bytes": arena.separate_bytes,
                    "arena_bytes": arena.arena_bytes,
                    "lower_bound_bytes": arena.lower_bound,
                    "nanoseconds": time,
                }
                for name, arena, time in plans
            },
            "pipelined_nanoseconds": self.pipelined,
            **({"kept_bytes": kept} if (kept := self.plan().kept_bytes) else {}),
            "min": {
                "method": self.least.title,
                "buffer_bytes": self.least.buffers,
                "total_bytes": self.least.total,
            },
            "reduction": str(self.reduction),
            "throughput_loss": str(self.loss),
        }

    def to_records(self) -> list[dict[str, Any]]:
        """Return a row for each method, as for a data frame."""
        return [
            {
                "method": method.title,
                "buffers": method.buffers,
                "lower_bound": method.lower_bound,
                "parameters": method.parameters,
                "total": method.total,
                "nanoseconds": self.nanoseconds[not method.is_whole],
            }
            for method in self.methods
        ]


@public
def memory_comparison(
    network: Network,
    granularity: Granularity = BY_ROWS,
    durations: Callable[[Granularity], Durations | None] = lambda _: None,
    *,
    element_bytes: Positive | None = None,
    core: str | None = None,
    budget: Budget = None,
) -> MemoryComparison:
    """Return the network layer by layer, and row by row at the given granularity.

    durations: by default one time unit for each phase. element_bytes: of each element and parameter;
    by default those of the file. core: whose library the flash counts. budget: a stop, or seconds, for
    the search for offsets of whole tensors.
    """
    lower = import_module("cnn2csdf.lowering").lower  # of no other plan
    row_granularity = WHOLE if network.keeps_state else granularity
    whole_works, row_works = (
        [
            sum(actor.durations)
            for actor in lower(
                network, variant, durations=durations(variant), element_bytes=element_bytes
            ).actors
        ]
        for variant in (WHOLE, row_granularity)
    )
    if network.keeps_state:  # the only plan is layer by layer
        whole = rows = stateful_plan(network, element_bytes=element_bytes, budget=budget)
    else:
        layer_order = topological_order(network)
        resident = StageTable(network, element_bytes=element_bytes)
        whole = layer_by_layer(layer_order, resident, budget=budget)
        external = external_tensors(network, ROWS, EXTERNAL)
        rows = row_by_row(
            layer_order,
            StageTable(network, element_bytes=element_bytes, outside=external),
            granularity,
            is_streamed=not network.results & {layer_order.at(0), *layer_order.others},
            is_searched=True,
            budget=budget,
        )
    return MemoryComparison(
        network=network,
        element_bytes=element_bytes,
        core=core,
        whole=whole,
        rows=rows,
        nanoseconds=(sum(whole_works), sum(row_works)),
        pipelined=max(row_works),
    )
