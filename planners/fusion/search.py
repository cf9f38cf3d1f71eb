"""Exact trade-off of memory and time over groups of sections, by dynamic programming over separators.

The bytes, the time and the MACs of a group follow from sums over its sections (planners.fusion.groups
defines sections, groups and configurations). The memory of a configuration is the maximum over its
groups, its cost the sum over its groups. The dynamic program extends the configurations of the first
sections by one group at a time. Of the configurations that end with the same section, it retains the
Pareto front of memory and cost.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, product
from operator import add

from cnn2csdf.network import Layer, Network
from csdf.search.pareto import front_of_chains, improving
from csdf.time_limit import Budget, Stop, stop_of
from planners.fusion.groups import FusionPoint, Terms, group_of, row_stages, whole_stages
from planners.fusion.tiles import TiledGroups, live_sizes
from planners.memory.answer import GroupMode
from planners.memory.moves import WHOLE, GroupMove, GroupMoves
from planners.memory.order import TopologicalOrder
from planners.memory.stages import StageTable
from planners.memory.times import PlanTimes
from planners.plan.plan import Stage

# Effort of the search in microseconds of a usual machine; within 2x on nine built-in models.
ROW_EFFORT = 70  # per layer of a group whose row-by-row execution is costed
TILE_EFFORT = 30  # per layer of the first section of a group for which a grid of tiles is costed


def options(
    layer_order: TopologicalOrder, terms: Terms, budget: Budget = None
) -> Iterator[FusionPoint]:
    """Yield all options for all groups, the layer-by-layer options first.

    Options of the first group include the time around all groups of a frame. budget: a stop, or
    seconds; raises GaveUp when it is spent.
    """
    table = StageTable(layer_order.network, element_bytes=terms.element_bytes)
    times = PlanTimes(table, terms.platform, terms.element_bytes, terms.measured)
    start = times.around_groups()
    for option in _options(layer_order, terms, table, times, stop_of(budget)):
        is_first = option.groups[0].first == 0
        yield option._replace(nanoseconds=option.nanoseconds + start) if is_first else option


def _options(
    layer_order: TopologicalOrder, terms: Terms, table: StageTable, times: PlanTimes, stop: Stop
) -> Iterator[FusionPoint]:
    """The groups that may follow one another, without the time around all groups of a frame."""
    for section in range(layer_order.sections) if GroupMode.WHOLE in terms.modes else ():
        stages = list(whole_stages(layer_order.between(section, section + 1)))
        yield FusionPoint(
            whole_memory(layer_order, terms, table, section),
            sum(map(times.of_stage, stages)),
            sum(table.geometry(stage).work for stage in stages),
            (group_of(layer_order, section, section + 1, GroupMode.WHOLE),),
        )
    if GroupMode.ROWS in terms.modes:
        rows = _RowGroups(layer_order, terms, table, times)
        for upto in range(1, layer_order.sections + 1):
            layers = sum(layer_order.layers_between(first, upto) for first in range(upto))
            stop.spend(ROW_EFFORT * layers)
            stop.look()
            yield from reversed(list(rows.ending(upto)))
    modes = [mode for mode in (GroupMode.RECOMPUTED, GroupMode.CACHED) if mode in terms.modes]
    tiled = TiledGroups(layer_order, terms, table, times.tile_times)
    for upto, mode in product(range(1, layer_order.sections + 1), modes):
        for option in tiled.ending(upto, mode):
            (group,) = option.groups
            stop.spend(TILE_EFFORT * layer_order.layers_between(group.first, group.first + 1))
            stop.look()
            yield option


def whole_memory(
    layer_order: TopologicalOrder, terms: Terms, table: StageTable, section: int
) -> int:
    """Return the peak bytes of a section layer by layer; a longer group needs the maximum of these."""
    layers = layer_order.between(section, section + 1)
    names = (layer_order.at(section), *(layer.name for layer in layers))
    sizes = {name: table.tensor_bytes(name) for name in names}
    return max(
        int(tensors)
        + terms.scratch_bytes(layer_order.network, layer, layer.shape.height * layer.shape.width)
        for layer, tensors in zip(layers, live_sizes(layers, sizes), strict=True)
    )


def least_memory(layer_order: TopologicalOrder, terms: Terms) -> int:
    """Return a lower bound on the memory of all configurations, without costing rows or tiles.

    A section executes layer by layer, or in a fused group that contains the section. The group holds
    its whole input, the tensor at a separator at or before the begin of the section, and its whole
    result, at a separator at or after the end: at least the smallest of each.
    """
    table = StageTable(layer_order.network, element_bytes=terms.element_bytes)
    sizes = [
        table.tensor_bytes(layer_order.at(separator))
        for separator in range(layer_order.sections + 1)
    ]
    smallest_inputs = list(accumulate(sizes[:-1], min))  # by section
    smallest_results = list(accumulate(reversed(sizes[1:]), min))[::-1]
    least: list[int] = list(map(add, smallest_inputs, smallest_results))
    if GroupMode.WHOLE in terms.modes:
        wholes = [whole_memory(layer_order, terms, table, first) for first in range(len(least))]
        least = list(map(min, least, wholes)) if len(terms.modes) > 1 else wholes
    return max(least)


def row_scratch(network: Network, layers: Sequence[Layer], terms: Terms) -> tuple[int, Layer]:
    """Return the maximum scratch bytes for one row over the layers, and the layer that attains it."""
    sizes = [terms.scratch_bytes(network, layer, layer.shape.width) for layer in layers]
    return max(sizes), layers[sizes.index(max(sizes))]


class _RowGroups:
    """Options of row-by-row groups with one stage per layer.

    Their bytes and MACs follow from MoveCost, as those of groups of `csdf fit` without column strips.
    """

    def __init__(
        self, layer_order: TopologicalOrder, terms: Terms, table: StageTable, times: PlanTimes
    ) -> None:
        """Compute the costs of each section by itself: at the begin of a group, and inside."""
        self._layer_order, self._table, self._times = layer_order, table, times
        moves, network = GroupMoves(layer_order, table), layer_order.network
        self._largest_element = max(map(table.bytes_of, layer_order.layers))
        sections = [layer_order.between(first, first + 1) for first in range(layer_order.sections)]
        self._stages = [tuple(row_stages(network, layers)) for layers in sections]
        self._costs_at_begin, self._costs_inside = (
            [
                moves.cost(GroupMove(first, first + 1, stages), entry)
                for first, stages in enumerate(self._stages)
            ]
            # The input of a section is whole in memory, or arrives in firings of one row.
            for entry in (WHOLE, 1)
        )
        self._nanoseconds = [sum(map(times.of_stage, stages)) for stages in self._stages]
        self._scratch = [
            size for size, _ in (row_scratch(network, layers, terms) for layers in sections)
        ]

    def ending(self, upto: int) -> Iterator[FusionPoint]:
        """Yield the groups that end before a section, the shortest first.

        The memory of a group is the sum of its whole input and result, the line buffers of its
        sections, its staging buffer, and the scratch of the layer with the most. All stages share the
        staging buffer, so only the maximum over the stages counts. At the begin of a group the input
        of a section is whole; inside, the input is a line buffer too. Of a section, MoveCost.last is
        the staging of its last stage without its result, MoveCost.passing the maximum of its other
        stages.
        """
        layer_order, table = self._layer_order, self._table
        result = table.tensor_bytes(layer_order.at(upto))
        # Bytes of line buffers and staging of the sections after `first`; the others include `first`.
        lines = staging = scratch = nanoseconds = work = 0
        stages: tuple[Stage, ...] = ()
        for first in reversed(range(upto)):
            stages = (*self._stages[first], *stages)
            at_begin, inside = self._costs_at_begin[first], self._costs_inside[first]
            # The row that the section stages for the next section; the result of the group is whole.
            row_bytes = 0 if first + 1 == upto else table.row_bytes(layer_order.at(first + 1))
            scratch = max(scratch, self._scratch[first])
            nanoseconds += self._nanoseconds[first]
            work += at_begin.work
            buffer = max(staging, at_begin.passing, at_begin.last + row_bytes)
            # Rounded as the plan rounds it: the staging buffer has the alignment of the widest element.
            buffer = -(-buffer // self._largest_element) * self._largest_element
            whole_tensors = table.tensor_bytes(layer_order.at(first)) + result
            memory = whole_tensors + lines + at_begin.lines + buffer + scratch
            group = group_of(layer_order, first, upto, GroupMode.ROWS)
            time = nanoseconds + self._times.interleaving(stages)
            yield FusionPoint(memory, time, work, (group,))
            lines += inside.lines
            staging = max(staging, inside.passing, inside.last + row_bytes)


def front(groups: Iterable[FusionPoint], sections: int) -> list[FusionPoint]:
    """Return the Pareto front of the configurations of these groups, by increasing memory.

    Empty if the groups cannot cover all sections. Exact for the memory and cost that the groups
    state. Of configurations with equal memory and cost, one with the fewest fused groups is retained.
    """
    by_ends: list[dict[int, list[FusionPoint]]] = [{} for _ in range(sections + 1)]
    for option in groups:
        (group,) = option.groups
        by_ends[group.upto].setdefault(group.first, []).append(option)
    ending = [
        [
            (
                first,
                option.memory,
                # Time and MACs decide; the number of fused groups chooses between equal chains.
                (*option.cost, option.groups[0].mode is not GroupMode.WHOLE),
                option.groups[0],
            )
            for first, options_of_group in options_by_begin.items()
            for option in improving(options_of_group, lambda option: (option.memory, option.cost))
        ]
        for options_by_begin in by_ends
    ]
    return [
        FusionPoint(memory, time, work, configuration)
        for memory, (time, work, _), configuration in front_of_chains(ending, compared=2)
    ]


def best_under(points: Sequence[FusionPoint], memory: int) -> FusionPoint | None:
    """Return the point of a front with the minimum cost within a memory limit; None if none fits."""
    fitting = bisect_right(points, memory, key=lambda point: point.memory)
    return points[fitting - 1] if fitting else None
