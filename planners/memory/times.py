"""Predicted time of a frame of a memory plan: roofline or instruction-count model of a platform.

With a roofline, each firing of a stage, and each tile, is a phase that costs its start-up time plus
the maximum of compute time and transfer time. With measured layers, a phase costs its share of the
measured time of the layer plus the start-up time. On a core, a stage costs the instructions of its
C kernels times the upper limit of cycles per instruction; `stage_loops`, `group_loops` and
`frame_loops` count the loop iterations.

Example of a roofline: start-up 1000 ns, 2 operations/ns, 4 bytes/ns. A firing of 1000 operations
and 500 bytes takes 1000 + max(500, 125) = 1500 ns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, pairwise
from math import ceil, lcm
from operator import mul

import numpy as np

from cnn2csdf.geometry import Range
from cnn2csdf.instructions import loops, tabulated_loops
from cnn2csdf.instructions import work as layer_work
from cnn2csdf.network import Layer, Network, Shape
from cnn2csdf.operators.kernel_loops import READ_IN_EACH_CALL
from cnn2csdf.parameters import layer_parameter_bytes, operations
from cnn2csdf.platforms import NANOSECONDS, Platform, Table
from cnn2csdf.weights import Array
from csdf.errors import InvalidNetwork
from planners.kernels import ranges
from planners.memory.stages import StageTable
from planners.plan.plan import Mode, Stage, StreamingPlan
from planners.plan.regions import COLUMNS, ROWS, Needs, TileRanges
from planners.rewrites.layer_copies import Copy
from planners.rewrites.rematerialisation import executed_layers

Loops = Counter[tuple[str, str]]  # by kernel and loop


def stage_loops(table: StageTable, stage: Stage, known: Table | None = None) -> dict[str, Loops]:
    """Return the iterations of each loop of each kernel in a frame of a stage, by layer.

    A stage of several layers calls each kernel for each column, on the columns in the strip of the
    kernel's input. Firings count for the layer that produces the result.

    known: instructions of kernels; a layer with a kernel outside this table counts as operations
        and elements.
    """
    network, geometry = table.network, table.geometry(stage)
    strips = {strip.layer: strip.columns for strip in geometry.stage.strips}
    loops_of: dict[str, Loops] = {}
    for name in stage.layers:
        counts: Loops = Counter()
        layer = network.layer(name)
        ring = strips.get(layer.inputs[0], 0) if layer.inputs else 0
        is_accumulated = stage.mode is Mode.ACCUMULATING and name == stage.result
        of_frame = loops(network, layer, table.bytes_of(name), ring=ring, adds_up=is_accumulated)
        if known is not None:
            of_frame = tabulated_loops(network, layer, of_frame, known)
        computed_rows, firings = layer.shape.rows, geometry.firings.count
        if stage.mode in (Mode.ROWS, Mode.ACCUMULATING) and not is_accumulated:
            ranges_of_firings = geometry.ranges[name]
            computed_rows = sum(end - first for first, end in ranges_of_firings)
            firings = sum(first < end for first, end in ranges_of_firings)
        calls_per_firing = layer.shape.width if strips else 1
        calls = firings * calls_per_firing
        for (kernel, loop), number in of_frame.items():
            if loop == READ_IN_EACH_CALL:
                counts[kernel, loop] += number * calls
                continue
            # Each call iterates over the rows of a firing; calls divide the other loops among them.
            repeats = calls_per_firing if loop == "rows" else 1
            counts[kernel, loop] += number * repeats * computed_rows // layer.shape.rows
        counts["firing", "columns" if strips else "calls"] += calls
        if table.state_rings:  # each view of a tensor is compared with the window of each ring
            views = calls * (1 + len(layer.inputs))
            counts["firing", "rings seen"] = views * table.state_rings
        loops_of[name] = counts
    loops_of[stage.result]["firing", "firings"] += geometry.firings.count
    return loops_of


def group_loops(table: StageTable, stages: Sequence[Stage]) -> Loops:
    """Return the iterations of the loops around the stages of a group.

    The scheduler of a group examines a stage when the stage fires, and once more for each firing that
    the stage waited for: of the stages whose results it reads. Example: a chain of 3 stages with 10
    firings each: 30 firings, 20 of them waited for.
    """
    firings = [table.geometry(stage).firings for stage in stages]
    read = {reading.tensor for stage in firings for reading in stage.readings}
    counts: Loops = Counter({("frame", "groups"): 1})
    for stage, geometry in zip(stages, firings, strict=True):
        counts["frame", "firings"] += geometry.count
        counts["frame", "ranges"] += geometry.count * (len(stage.layers) + len(geometry.readings))
        counts["frame", "firings waited for"] += geometry.count * (geometry.result in read)
    return counts


def frame_loops(table: StageTable) -> Loops:
    """Return the loops around all groups: start of a frame, copies of inputs, results and state."""
    ends = (*table.network.inputs, *table.network.outputs)
    copied = sum(table.tensor_bytes(end.name) for end in ends)
    return Counter(
        {
            ("frame", "frames"): 1,
            ("frame", "bytes copied"): copied,
            ("frame", "variables"): len(table.network.variables),
        }
    )


FEMTOSECONDS = Fraction(10**15)  # of a second
Work = Mapping[str, int]  # femtoseconds of each layer in a frame


def measured_work(
    network: Network, durations: Mapping[str, Sequence[int]], launch: Fraction
) -> Work:
    """Return the compute time of each layer in a frame in femtoseconds, without phase start-ups.

    Inputs and outputs cost no time. Raises InvalidNetwork for a layer without durations.

    durations: nanoseconds of the phases of each layer, whole or row by row.
    launch: start-up time of a phase in seconds.
    """
    ends = [end.name for end in (*network.inputs, *network.outputs)]
    layers = [layer.name for layer in network.layers if layer.name not in ends]
    missing = [name for name in layers if name not in durations]
    if missing:
        raise InvalidNetwork(
            f"layer {missing[0]!r} of network {network.name!r} has no durations; csdf cnn measure "
            "writes those of all layers"
        )
    start = launch * FEMTOSECONDS
    work = dict.fromkeys(ends, 0)
    for name in layers:
        times = durations[name]
        work[name] = max(0, int(sum(times) * FEMTOSECONDS / NANOSECONDS - len(times) * start))
    return work


def work_of(layer: Layer, inputs: Sequence[Shape], measured: Work | None) -> int:
    """Return the operations of a layer in a frame, or its measured compute time in femtoseconds."""
    return operations(layer, inputs) if measured is None else measured[layer.name]


class PlanTimes:
    """Predicted times of the plans of a network on a platform, by plan, layer and stage."""

    def __init__(
        self,
        table: StageTable,
        platform: Platform,
        parameter_bytes: int | None = None,
        measured: Work | None = None,
    ) -> None:
        """Set the network's stage table and the platform.

        parameter_bytes: bytes of each parameter, if they differ from the bytes of an element.
        measured: compute times of the layers, from `measured_work`.
        """
        self._table, self._platform, self._measured = table, platform, measured
        self._core = None if measured is not None else platform.core
        self._parameter_bytes = parameter_bytes
        self._stage_times: dict[Stage, int] = {}

    @cached_property
    def _work(self) -> Work | None:
        """Compute times of the layers: measured, or counted on a core; None for a roofline."""
        return self._measured if self._core is None else _counted_work(self._table, self._platform)

    @cached_property
    def _rates(self) -> Platform:
        """The platform whose rates convert the work of phases, and bytes, into times.

        Operations on this platform are femtoseconds if compute times are known, which include
        transfers: a byte then takes a femtosecond, so that the compute time is the maximum.
        """
        if self._work is None:
            return self._platform
        return replace(
            self._platform, operations_per_second=FEMTOSECONDS, bytes_per_second=FEMTOSECONDS
        )

    @cached_property
    def tile_times(self) -> TileTimes:
        """Times of stages in tiles of columns, which few plans have."""
        platform, table = self._rates, self._table
        if self._core is not None:  # a tile starts as a layer that is a group of its own
            start = self._core.table["frame"]["groups"] * self._core.most / self._core.hertz
            platform = replace(platform, launch=platform.launch + start)
        return TileTimes(
            table.network, platform, table.element_bytes, self._parameter_bytes, self._work
        )

    def of_copies(self, table: StageTable, copies: Mapping[str, Copy]) -> PlanTimes:
        """Return the times of a network that contains copies of layers of this network.

        A copy takes its share of the measured time of its original, by elements. Layers that only join
        heads or tiles, or cut tensors, take no time. table: of that network.
        """
        if self._measured is None:
            return PlanTimes(table, self._platform, self._parameter_bytes)
        measured = {}
        for layer in table.network.layers:
            original = self._table.network.layer(copies.get(layer.name, Copy(layer.name)).layer)
            only_moves = layer.operator.moves and layer.operator != original.operator
            elements = 0 if only_moves else layer.shape.elements
            time = self._measured[original.name]
            measured[layer.name] = time * elements // original.shape.elements
        return PlanTimes(table, self._platform, self._parameter_bytes, measured)

    def of(self, plan: StreamingPlan) -> int:
        """Return the nanoseconds of a frame."""
        if plan.rematerialised:
            times, worked, _ = self._worked(plan)
            return times.of(worked)
        groups = [group.stages for group in plan.groups]
        total = sum(sum(map(self.of_stage, group)) + self.interleaving(group) for group in groups)
        return total + self.around_groups()

    def around_groups(self) -> int:
        """Return the nanoseconds of the start and the end of a frame on a core."""
        return 0 if self._core is None else ceil(self._of_loops(frame_loops(self._table)))

    def interleaving(self, stages: Sequence[Stage]) -> int:
        """Return the nanoseconds that a core spends on scheduling interleaved stages."""
        if self._core is None or len(stages) == 1:
            return 0
        alone = sum(ceil(self._of_loops(group_loops(self._table, [stage]))) for stage in stages)
        return ceil(self._of_loops(group_loops(self._table, stages))) - alone

    def _of_loops(self, *counts: Mapping[tuple[str, str], int]) -> Fraction:
        """Nanoseconds of loops of kernels on a core."""
        assert self._core is not None
        table = self._core.table
        instructions = sum(
            (
                table.get(kernel, {}).get(loop, Fraction(0)) * number
                for count in counts
                for (kernel, loop), number in count.items()
            ),
            Fraction(0),
        )
        return instructions * self._core.most * NANOSECONDS / self._core.hertz

    def of_layers(self, plan: StreamingPlan) -> dict[str, int]:
        """Return the nanoseconds of each layer of the network in a frame; their sum is `of`.

        Recomputation counts for the layer that is recomputed. Scheduling counts for the layers that
        produce the results of the stages, each time within its group.
        """
        copies: Mapping[str, Copy] = {}
        times, worked = self, plan
        if plan.rematerialised:
            times, worked, copies = self._worked(plan)
        nanoseconds_of = dict.fromkeys(
            (layer.name for layer in self._table.network.layers), Fraction(0)
        )
        nanoseconds_of[self._table.network.outputs[0].name] += times.around_groups()
        for group in worked.groups:
            stages = group.stages
            firings = [times._table.geometry(stage).firings.count for stage in stages]
            between = Fraction(times.interleaving(stages), sum(firings) or 1)
            if not stages and group.streamed_input is not None:  # which is collected
                nanoseconds_of[group.streamed_input] += between
            for stage, count in zip(stages, firings, strict=True):
                for name, time in times._parts(stage).items():
                    nanoseconds_of[copies.get(name, Copy(name)).layer] += time
                nanoseconds_of[copies.get(stage.result, Copy(stage.result)).layer] += (
                    between * count
                )
        return apportioned(self.of(plan), nanoseconds_of)

    def _parts(self, stage: Stage) -> dict[str, Fraction]:
        """Time of a stage in nanoseconds by layer, before the time of the stage is rounded up."""
        table = self._table
        if stage.tiles is not None:
            times = self.tile_times.by_layer(TileRanges(table.network, stage))
            return {name: Fraction(time) for name, time in times.items()}
        if self._core is not None:
            counts_of = stage_loops(table, stage, self._core.table)
            parts = {name: self._of_loops(counts) for name, counts in counts_of.items()}
            parts[stage.result] += self._of_loops(group_loops(table, [stage]))
            return parts
        works = self._works(stage)
        total, time = sum(works.values()), self.of_stage(stage)
        if not total:
            return {stage.result: Fraction(time)}
        return {name: time * work / total for name, work in works.items()}

    def _worked(self, plan: StreamingPlan) -> tuple[PlanTimes, StreamingPlan, Mapping[str, Copy]]:
        """Return the times of the network with copies of layers, its plan, and the copies."""
        network, copies = executed_layers(self._table.network, plan.rematerialised)
        times = self.of_copies(self._table.of(network), copies)
        return times, replace(plan, rematerialised=()), copies

    def of_stage(self, stage: Stage) -> int:
        """Return the nanoseconds of a stage in a frame, cached."""
        if stage not in self._stage_times:
            self._stage_times[stage] = self._of_firings(stage)
        return self._stage_times[stage]

    def _of_firings(self, stage: Stage) -> int:
        """The nanoseconds of a stage in a frame.

        Each firing has a start-up time, reads its parameters and rows, and writes rows.
        """
        table = self._table
        if stage.tiles is not None:
            return sum(self.tile_times.by_layer(TileRanges(table.network, stage)).values())
        if self._core is not None:
            counts_of = stage_loops(table, stage, self._core.table)
            return ceil(self._of_loops(*counts_of.values(), group_loops(table, [stage])))
        network, geometry = table.network, table.geometry(stage)
        firings, work = geometry.firings.count, sum(self._works(stage).values(), Fraction(0))
        parameters = sum(
            layer_parameter_bytes(layer, network.input_shapes(layer), self._parameter_bytes)
            for layer in map(network.layer, stage.layers)
        )
        moved = table.tensor_bytes(stage.result) + sum(
            table.tensor_bytes(reading.tensor) for reading in geometry.firings.readings
        )
        each_firing = self._rates.nanoseconds(work / firings, Fraction(moved, firings) + parameters)
        return each_firing * firings

    def _works(self, stage: Stage) -> dict[str, Fraction]:
        """The operations of each layer of a stage in a frame, including recomputed rows."""
        network, rows_of = self._table.network, self._table.geometry(stage).ranges
        works = {}
        for name in stage.layers:
            layer = network.layer(name)
            work = Fraction(work_of(layer, network.input_shapes(layer), self._work))
            if stage.mode is not Mode.ACCUMULATING or name != stage.result:
                work *= Fraction(sum(end - first for first, end in rows_of[name]), layer.shape.rows)
            works[name] = work
        return works


def apportioned(total: int, parts: Mapping[str, Fraction]) -> dict[str, int]:
    """Return integers with the sum `total` in the ratio of the parts, by cumulative rounding down.

    All integers are 0 if all parts are 0, which have no ratio. Example: 10 in the ratio a : b = 1 : 2
    gives a = 3, b = 7.
    """
    sums = list(accumulate(parts.values(), initial=Fraction(0)))
    ends = [total * partial_sum // sums[-1] if sums[-1] else 0 for partial_sum in sums]
    return {name: end - before for name, (before, end) in zip(parts, pairwise(ends), strict=True)}


def _counted_work(table: StageTable, platform: Platform) -> Work:
    """Femtoseconds of the kernels of each layer on a core in a frame."""
    network, work = table.network, {}
    for layer in network.layers:
        instructions = layer_work(platform, network, layer, table.bytes_of(layer.name))
        work[layer.name] = int(instructions * FEMTOSECONDS / platform.operations_per_second)
    return work


class TileTimes:
    """Predicted times of layers that are computed tile by tile; each tile of a layer is a phase.

    element_bytes: bytes of an element of all tensors; None for the network's element types.
    """

    def __init__(
        self,
        network: Network,
        platform: Platform,
        element_bytes: int | None,
        parameter_bytes: int | None,
        measured: Work | None,
    ) -> None:
        """Express `Platform.nanoseconds` in integers over a common denominator.

        A phase takes (launch + max(operations * operation, bytes * byte)) / scale nanoseconds,
        rounded up, and at least 1 ns. Example: 1000 ns start-up, 2 operations/ns, 4 bytes/ns: scale
        4, launch 4000, operation 2, byte 1.

        parameter_bytes: bytes of each parameter; None for the bytes of an element.
        measured: femtoseconds of each layer in a frame; None without measured layers.
        """
        self.element_bytes = element_bytes
        self._network, self._parameter_bytes, self._measured = network, parameter_bytes, measured
        prices = (
            platform.launch * NANOSECONDS,
            NANOSECONDS / platform.operations_per_second,
            NANOSECONDS / platform.bytes_per_second,
        )
        self._scale = lcm(*(price.denominator for price in prices))
        self._launch, self._operation, self._byte = (int(price * self._scale) for price in prices)

    def by_layer(self, tiles: TileRanges) -> dict[str, int]:
        """Return the nanoseconds of each layer of a stage of tiles in a frame."""
        needs = Needs(self._network)
        return {
            layer.name: int(
                self.of_layer(
                    layer,
                    tile_lengths(needs, layer, tiles.computed_rows(layer.name), ROWS),
                    tile_lengths(needs, layer, tiles.computed_columns(layer.name), COLUMNS),
                ).sum()
            )
            for layer in tiles.layers
        }

    def of_layer(self, layer: Layer, rows: Sequence[Lengths], columns: Sequence[Lengths]) -> Array:
        """Return the nanoseconds of each tile of a layer, (rows, columns), from their lengths."""
        inputs, shape = self._network.input_shapes(layer), layer.shape
        tensors = (layer, *map(self._network.layer, layer.inputs))
        pixels = [
            tensor.shape.channels * (self.element_bytes or tensor.element_bytes)
            for tensor in tensors
        ]
        parameters = layer_parameter_bytes(layer, inputs, self._parameter_bytes)
        work = work_of(layer, inputs, self._measured) // (shape.height * shape.width)
        largest = [max(row) * max(column) for row in rows for column in columns]
        busy = (
            self._launch
            + max(largest) * (work * self._operation + sum(pixels) * self._byte)
            + parameters * self._byte
        )  # of any tile, at most
        kind = ranges.number_type(busy * len(largest) * len(self._network.layers))
        down, across = np.array(rows, kind), np.array(columns, kind)
        areas = [np.multiply.outer(down[:, i], across[:, i]) for i in range(len(pixels))]
        moved = sum(map(mul, pixels, areas)) + parameters
        busiest = np.maximum(areas[0] * work * self._operation, moved * self._byte)
        prices: Array = np.maximum(-(-(self._launch + busiest) // self._scale), 1)
        return prices


Lengths = tuple[int, ...]  # of a tile along an axis: of the output, then of each input


def tile_lengths(needs: Needs, layer: Layer, tiles: Sequence[Range], axis: int) -> list[Lengths]:
    """Return the extent of each tile along an axis, for the tiles that compute elements of a layer."""
    inputs = needs.of(layer, axis)
    return [
        (
            tile[1] - tile[0],
            *(end - first for first, end in (need.clipped(tile) for need in inputs)),
        )
        for tile in tiles
        if tile[0] < tile[1]
    ]
