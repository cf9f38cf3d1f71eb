"""Minimum DRAM traffic of a network: layer by layer, in pairs, or in fused groups of any length.

The stages of the network execute in one order, which is cut into groups by dynamic programming: no
other cut of this order moves less. In a group, each stage slides over the single input of the group
or over results of earlier stages, which form a chain or branches that fork and join. A tensor with
readers outside its group is written to DRAM, and each of these readers reads it there. A tensor
with several readers in the group, or with a later elementwise reader, stays in the buffer. If a
later stage adds the input of the group, the input stays in the buffer or is read twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

from cnn2csdf.granularity import require_few_parts
from cnn2csdf.network import Network
from cnn2csdf.parameters import ElementSizes
from csdf.errors import GaveUp, InvalidPlan
from csdf.model.shown import Shown
from csdf.status import Reason, Status, Why, because
from csdf.time_limit import ENDS, Budget, Progress, Stop, reason_of, stop_of
from planners.traffic.convolution import ArrayBytes
from planners.traffic.fused.bounds import network_traffic_bound, seen_elements, stage_traffic_bound
from planners.traffic.fused.search import GroupSearch
from planners.traffic.fused.stages import TrafficStage, groups_of, stages_of
from planners.traffic.nest import Halo, LayerTraffic, listing
from planners.traffic.one_layer import MOST_PAIRS, NestSearches, check_lengths, minimum_traffic


class TrafficWhy(Why):
    """The reasons for the status of the traffic of a network."""

    ONE_LEVEL = "only nests with one level of tiles were searched"
    LEAST = (
        "no loop nest of a layer with up to two levels of tiles and no uniform tiling of a group "
        "moves less; the bound holds for any schedule"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkTraffic(Shown):
    """The groups of a network with the minimum traffic, in execution order.

    bound_bytes: inputs, weights and outputs of the network once, a lower bound for every schedule
    and buffer. element_bytes: of each element and weight; None: as the network stores them.
    element_sizes: sizes of elements of its tensors. status: "optimal" over all cuts into groups of
    the allowed length, loop nests with up to two levels of tiles and uniform tilings of groups;
    "feasible" if the search ended early.
    """

    name: str
    buffer_bytes: int
    element_bytes: int | None
    element_sizes: tuple[int, ...]
    groups: tuple[GroupTraffic, ...]
    bound_bytes: int
    status: Status
    reason: Reason

    @property
    def total_bytes(self) -> int:
        """All that moves between buffer and DRAM."""
        return sum(group.total_bytes for group in self.groups)

    @property
    def parts(self) -> dict[str, int]:
        """Bytes of all groups by kind: input, weight, output, halo."""
        return {
            "input": sum(group.input_bytes for group in self.groups),
            "weight": sum(group.weight_bytes for group in self.groups),
            "output": sum(group.output_bytes for group in self.groups),
            "halo": sum(group.halo_bytes for group in self.groups),
        }

    def to_json(self) -> dict[str, Any]:
        """Return the traffic of the network and of each group as a JSON value."""
        return {
            "network": self.name,
            "status": str(self.status),
            "reason": str(self.reason),
            "buffer_bytes": self.buffer_bytes,
            "element_bytes": self.element_bytes,
            "traffic_bytes": self.total_bytes,
            "bound_bytes": self.bound_bytes,
            **{f"{part}_bytes": size for part, size in self.parts.items()},
            "groups": self.to_records(),
        }

    def to_records(self) -> list[dict[str, Any]]:
        """Return a row for each group, as for a data frame."""
        return [group.to_json() for group in self.groups]


class NetworkSearch:
    """Search for the minimum traffic of one network, for any number of buffer sizes.

    element_bytes: of each element and weight; None: as the network stores them. Raises GaveUp for a
    layer with too many tiles to enumerate.
    """

    proof: Why = TrafficWhy.LEAST  # of a search that came to its end

    def __init__(self, network: Network, element_bytes: int | None) -> None:
        """Take the network. Raises InvalidNetwork where its rows are too many to be listed."""
        require_few_parts(network)
        self.network = network
        self.element_bytes = element_bytes
        for layer in network.layers:
            if max(layer.shape.height, layer.shape.width) > MOST_PAIRS:
                raise GaveUp(
                    f"layer {layer.name!r} is too large to look at its rows: its maps are "
                    f"{layer.shape.height}x{layer.shape.width}"
                )
        self._sizes = ElementSizes(network, element_bytes)
        self.stages = stages_of(network, self._sizes)
        for stage in self.stages:
            if stage.convolution is not None:
                check_lengths(stage.convolution)
        self._nests = NestSearches()
        self._search_of = cache(GroupSearch)  # equal groups share a search
        self._searches_of = cache(self._searches_of_stages)

    def best(
        self, buffer_bytes: int, longest: int | None = None, budget: Budget = None
    ) -> NetworkTraffic:
        """Return the minimum traffic with groups of at most `longest` stages; None: of any length.

        budget: a stop, or seconds; its progress is the number of finished stages. If it or Ctrl-C
        ends the search, each remaining stage executes alone, by its best nest with one level of
        tiles. Raises InvalidPlan, naming the layer, if such a stage does not fit into the buffer.
        """
        stop = stop_of(budget)
        # Answers within a second, for the stages that remain when the search ends early.
        quick, ended = self._each_alone(buffer_bytes)
        # For each number of first stages: bytes and groups of their best split.
        best_splits: list[tuple[int, tuple[GroupTraffic, ...]]] = [(0, ())]
        for end, stage in enumerate(self.stages, 1):
            alone = quick[end - 1]
            # The quick answer is not proved minimal: search the nests of this stage.
            if alone.layer is not None and alone.layer.ended and ended is None:
                alone = self._alone(stage, buffer_bytes, self._of_stage(stop, end - 1))
                ended = None if alone.layer is None else alone.layer.ended
            # Dynamic programming: the last group of the first `end` stages is this stage alone, or a
            # fused group that begins at `first`.
            total, groups = best_splits[end - 1]
            minimum = total + alone.total_bytes, (*groups, alone)
            try:
                for first in () if ended else self._starts(end, longest, buffer_bytes):
                    before_bytes, before = best_splits[first]
                    below = minimum[0] - before_bytes
                    traffic = self._fused(first, end, buffer_bytes, below, stop)
                    if traffic is not None:
                        minimum = before_bytes + traffic.total_bytes, (*before, traffic)
            except ENDS as end_of_search:
                # The remaining stages execute alone, by their quick answers.
                ended = reason_of(end_of_search)
            best_splits.append(minimum)
        return NetworkTraffic(
            name=self.network.name,
            buffer_bytes=buffer_bytes,
            element_bytes=self.element_bytes,
            element_sizes=self._sizes.all,
            groups=best_splits[-1][1],
            bound_bytes=network_traffic_bound(self.network, self.stages, self._sizes),
            status=Status.FEASIBLE if ended else Status.OPTIMAL,
            reason=ended or because(self.proof),
        )

    def _each_alone(self, buffer_bytes: int) -> tuple[list[GroupTraffic], Reason | None]:
        """Return each stage with its best nest with one level of tiles, in at most a second.

        Also the reason if Ctrl-C ended the search meanwhile; a second Ctrl-C is raised.
        """
        at_once = Stop(steps=0, reason=because(TrafficWhy.ONE_LEVEL))
        groups: list[GroupTraffic] = []
        ended: Reason | None = None
        while len(groups) < len(self.stages):
            try:
                groups.append(self._alone(self.stages[len(groups)], buffer_bytes, at_once))
            except KeyboardInterrupt as end:
                if ended is not None:
                    raise
                ended = reason_of(end)
        return groups, ended

    def _alone(self, stage: TrafficStage, buffer_bytes: int, stop: Stop) -> GroupTraffic:
        """The minimum traffic of a stage; PublishedSearch counts otherwise."""
        return stage_alone(stage, buffer_bytes, stop, searches=self._nests)

    def _of_stage(self, stop: Stop, done: int) -> Stop:
        """The stop of the search for one stage, after the stages that are done."""
        progress = Progress(done=done, total=len(self.stages))
        return stop.part(as_whole=lambda _: progress)

    def _starts(self, end: int, longest: int | None, buffer_bytes: int) -> Iterator[int]:
        """Yield the first stages of groups that could end before `end`, the shortest group first.

        If a group cannot fit, no longer group can, because its buffer contains that of the shorter
        one.
        """
        shortest = 0 if longest is None else max(end - longest, 0)
        for first in range(end - 1, shortest - 1, -1):
            if self.stages[first].window is None:
                return
            searches = self._searches_of(first, end)
            if searches and not any(search.could_fit(buffer_bytes) for search in searches):
                return
            if searches:
                yield first

    def _fused(
        self, first: int, end: int, buffer_bytes: int, below: int, stop: Stop
    ) -> GroupTraffic | None:
        """The best schedule of stages [first, end) as one, if it moves less than this many bytes."""
        best, limit = None, below
        for search in self._searches_of(first, end):
            schedule = search.best(buffer_bytes, limit, self._of_stage(stop, end - 1))
            if schedule is not None:
                best, limit = schedule, schedule.total
        if best is None:
            return None
        moved = best.moved
        return GroupTraffic(
            stages=tuple(self.stages[first:end]),
            input_bytes=moved.input,
            weight_bytes=moved.weights,
            output_bytes=moved.output,
            halo_bytes=moved.halo_written + moved.halo_read,
            held_bytes=best.held,
            bound_bytes=best.bound,
            fused=best,
        )

    def _searches_of_stages(self, first: int, end: int) -> tuple[GroupSearch, ...]:
        """Return the searches of stages [first, end) as one group."""
        return tuple(map(self._search_of, groups_of(self.stages, first, end)))


class FusedRun(Protocol):
    """The schedule of a fused group."""

    def in_short(self) -> str:
        """Return it in a few words."""

    def listing(self, names: Sequence[str]) -> str:
        """Return its loops, line by line; names: of the layers."""

    def to_json(self) -> dict[str, Any]:
        """Return it as a JSON value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTraffic:
    """The bytes that a group moves; a group of one stage is a layer that is not fused.

    input_bytes: bytes read, without weights. halo_bytes: written and read back between tiles.
    held_bytes: peak in the buffer. bound_bytes: lower bound for any buffer (fused) or for this
    buffer (layer). layer, fused: its schedule; both None if its input and output only stream.
    """

    stages: tuple[TrafficStage, ...]
    input_bytes: int
    weight_bytes: int
    output_bytes: int
    halo_bytes: int = 0
    held_bytes: int
    bound_bytes: int
    layer: LayerTraffic | None = None
    fused: FusedRun | None = None

    @property
    def total_bytes(self) -> int:
        """All that moves between buffer and DRAM."""
        return self.input_bytes + self.weight_bytes + self.output_bytes + self.halo_bytes

    def to_json(self) -> dict[str, Any]:
        """Return what the group moves and holds, and how it runs, as a JSON value."""
        return {
            "layers": [name for stage in self.stages for name in stage.layers],
            "input_bytes": self.input_bytes,
            "weight_bytes": self.weight_bytes,
            "output_bytes": self.output_bytes,
            "halo_bytes": self.halo_bytes,
            "traffic_bytes": self.total_bytes,
            "bound_bytes": self.bound_bytes,
            "held_bytes": self.held_bytes,
            **({} if self.fused is None else self.fused.to_json()),
        }

    def in_short(self) -> str:
        """Return in a few words how the group runs."""
        run = self.fused or self.layer
        return "streamed once" if run is None else run.in_short()

    def listing(self) -> str:
        """Return the loops of the group."""
        if self.fused is not None:
            return self.fused.listing([stage.layers[0] for stage in self.stages])
        if self.layer is not None:
            return listing(self.layer.convolution, self.layer.nest)
        return "read all inputs once, write the output once"


def stage_alone(
    stage: TrafficStage,
    buffer_bytes: int,
    budget: Budget = None,
    *,
    halo: Halo = Halo.CACHED,
    searches: NestSearches | None = None,
) -> GroupTraffic:
    """Return the minimum traffic of one stage: of its best loop nest, or of a single pass.

    budget, halo, searches: as in `minimum_traffic`. Raises InvalidPlan, naming the layer, if the
    buffer is too small.
    """
    if stage.window is None:
        return _streamed(stage, stage.reads, 0)
    window = stage.window
    window_bytes = window.outputs * sum(window.bytes_by_operand)
    if stage.convolution is None:
        held = _held_by_window(stage)
        if held > buffer_bytes:
            raise InvalidPlan(
                f"layer {stage.layers[0]!r} holds {held} bytes of its windows; "
                f"the buffer has {buffer_bytes}"
            )
        return _streamed(stage, seen_elements(window) * stage.source_bytes + window_bytes, held)
    bound, separate = stage_traffic_bound(stage)
    operand = window.widest_operand
    sizes = ArrayBytes(stage.source_bytes, window.weight_bytes, stage.element_bytes)
    if buffer_bytes - operand < sum(sizes):
        raise InvalidPlan(
            f"layer {stage.layers[0]!r} needs an element of each operand in the buffer, at least "
            f"{operand + sum(sizes)} bytes; the buffer has {buffer_bytes}"
        )
    traffic = minimum_traffic(
        stage.convolution,
        buffer_bytes=buffer_bytes - operand,
        element_bytes=sizes,
        halo=halo,
        budget=budget,
        searches=searches,
    )
    if stage.distinct_maps == window.channels:
        bound = max(bound, traffic.lower_bound_bytes + separate)
    return GroupTraffic(
        stages=(stage,),
        input_bytes=traffic.input_bytes + window_bytes,
        weight_bytes=traffic.weight_bytes,
        output_bytes=traffic.output_bytes,
        held_bytes=traffic.held_bytes + operand,
        bound_bytes=bound,
        layer=traffic,
    )


def _streamed(stage: TrafficStage, reads: int, held: int) -> GroupTraffic:
    """The traffic of a stage in a single pass. reads: bytes of inputs; held: bytes in the buffer."""
    return GroupTraffic(
        stages=(stage,),
        input_bytes=reads,
        weight_bytes=stage.parameters,
        output_bytes=stage.output_bytes,
        held_bytes=held,
        bound_bytes=stage_traffic_bound(stage)[0],
    )


def _held_by_window(stage: TrafficStage) -> int:
    """Return the minimum bytes of windows over one map, and of one row of the widest operand.

    Either the rows under a window are in the buffer, with a row of the result; or all rows of the
    result, to which each row of the source is added.
    """
    layer = stage.window
    if layer is None:
        return 0
    rows, columns = layer.rows, layer.columns
    extent = min(rows.inputs, rows.dilation * (rows.kernel - 1) + 1)
    source_row = columns.inputs * stage.source_bytes
    result_row = columns.outputs * stage.element_bytes
    by_window = extent * source_row + result_row
    by_output = rows.outputs * result_row + source_row
    return min(by_window, by_output) + columns.outputs * layer.widest_operand
