"""Stages of a plan as the scheduler of a C library numbers them, and their firing order.

`placed_stages` numbers the stages of all groups consecutively. In each group, stages that copy a
tensor from one buffer to another come first: a transfer copies an entire tensor before the group
fires; a streamed input is copied row by row into the rings of its readers. `firing_order` is the
order of the plan as C executes it: sequences of stage numbers with repetitions. The order `2 times
(0, 1), 1 time (1)` is

    all_turns = {{0, 2, 2}, {2, 1, 1}}     first index, length and repetitions of each sequence
    order     = {0, 1, 1}                  the sequences, concatenated

Some plans have no C: those with a first memory that is slow, for example. `require_in_c` raises
InvalidPlan for them, with the reason.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from cnn2csdf.geometry import Range
from cnn2csdf.network import Layer, Network
from csdf.errors import InvalidPlan
from planners.code.c_text import table_row
from planners.plan.plan import Kind, Mode, Stage, StreamBuffer, StreamingPlan
from planners.plan.running_stage import RunningStage, streamed_input_stage


class BufferCopy(NamedTuple):
    """A copy of a tensor: from a buffer (None: the one its producer writes) into other buffers."""

    source: StreamBuffer | None
    targets: tuple[StreamBuffer, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedStage:
    """A stage of a plan with its numbers in C.

    running: the stage, with the rows of every firing.
    number: number among the stages of all groups.
    group: number of its group.
    copied: the buffers of a stage that copies a tensor; None for a stage that computes.
    """

    running: RunningStage
    number: int
    group: int
    copied: BufferCopy | None = None

    @property
    def is_transfer(self) -> bool:
        """Whether the stage copies a whole tensor or a state, before its group executes or after it."""
        return self.copied is not None and self.copied.source is not None

    @property
    def mode(self) -> str:
        """The constant in C for the execution mode of the stage."""
        if self.copied is not None:
            return "COPIED"
        if self.running.is_streamed_input:
            return "ARRIVING"
        if self.running.stage.accumulating_layer is not None:
            return "BY_PARTS"
        return {
            Mode.ROWS: "BY_ROWS",
            Mode.ACCUMULATING: "INTO_SUMS",
            Mode.CHANNELS: "BY_CHANNELS",
            Mode.TILES: "BY_TILES",
        }[self.running.stage.mode]

    @property
    def layers(self) -> Sequence[Layer]:
        """The layers that the stage computes; none if it copies a tensor, or if its rows arrive."""
        return () if self.copied or self.running.is_streamed_input else self.running.layers

    @property
    def sources(self) -> tuple[str, ...]:
        """The tensors that the stage reads from other stages."""
        return tuple(self.running.needs)

    @property
    def operands(self) -> tuple[str, ...]:
        """The tensors that layers of the stage may read: its own, then those of other stages."""
        return (*self.running.stage.layers, *self.sources)


def placed_stages(network: Network, plan: StreamingPlan) -> list[PlacedStage]:
    """Return the stages of all groups in order.

    In each group, copying stages come first; the copies of states back to slow memory are last.
    """
    stages: list[PlacedStage] = []
    for number, group in enumerate(plan.groups):
        running: list[tuple[RunningStage, BufferCopy | None]] = []
        running += _copying_stages(network, plan, number)
        if group.streamed_input is not None and not plan.is_copied(number):
            running.append((streamed_input_stage(network, group.streamed_input), None))
        running += [(RunningStage(stage, network, None), None) for stage in group.stages]
        running += _state_copies(network, plan, number, is_back=True)
        for running_stage, copied in running:
            stages.append(
                PlacedStage(running=running_stage, number=len(stages), group=number, copied=copied)
            )
    return stages


def _copying_stages(
    network: Network, plan: StreamingPlan, number: int
) -> Iterator[tuple[RunningStage, BufferCopy]]:
    """The stages of a group that copy a tensor: entire before the group fires, or row by row."""
    group = plan.groups[number]
    buffers = {buffer.name: buffer for buffer in plan.buffers if buffer.has_all_rows}
    for transfer in group.transfers:
        yield _whole_copy(network, buffers[transfer.source], buffers[transfer.target])
    yield from _state_copies(network, plan, number, is_back=False)
    if group.streamed_input is not None and plan.is_copied(number):
        rings = tuple(
            buffer
            for buffer in plan.buffers
            if (buffer.tensor, buffer.kind) == (group.streamed_input, Kind.RING)
            and buffer.is_live(number)
        )
        yield streamed_input_stage(network, group.streamed_input), BufferCopy(None, rings)


def _state_copies(
    network: Network, plan: StreamingPlan, number: int, *, is_back: bool
) -> Iterator[tuple[RunningStage, BufferCopy]]:
    """The stages that copy the states of layers in slow memory, to their copies or back."""
    homes = {buffer.tensor: buffer for buffer in plan.buffers if buffer.kind is Kind.STATE}
    for buffer in plan.buffers:
        if buffer.kind is Kind.STATE_COPY and buffer.begin == number:
            home = homes[buffer.tensor]
            yield _whole_copy(network, *((buffer, home) if is_back else (home, buffer)))


def _whole_copy(
    network: Network, source: StreamBuffer, target: StreamBuffer
) -> tuple[RunningStage, BufferCopy]:
    """A stage that copies a whole tensor, or the state of a layer, between its buffers."""
    stage = Stage(layers=(source.tensor,), rows=network.layer(source.tensor).shape.rows)
    return RunningStage(stage, network, source.tensor), BufferCopy(source, (target,))


MOST_TURNS = 65535  # stages in a repeated sequence, and repetitions: both are uint16_t in C


class ScheduleOrder(NamedTuple):
    """The firing order of a plan as two tables of C.

    turns: initialisers of repeated sequences: first index in `stages`, length, repetitions.
    stages: stage numbers of all sequences, concatenated.
    """

    turns: list[str]
    stages: list[int]

    def append(self, times: int, numbers: Sequence[int]) -> None:
        """Add a sequence of stage numbers that is fired `times` times."""
        if times > MOST_TURNS or len(numbers) > MOST_TURNS:
            raise InvalidPlan(f"turns of more than {MOST_TURNS} firings, or times")
        self.turns.append(table_row(first=len(self.stages), length=len(numbers), times=times))
        self.stages.extend(numbers)


def firing_order(plan: StreamingPlan, stages: Sequence[PlacedStage]) -> ScheduleOrder:
    """Return the firing order of the stages of a plan; empty if firing is demand-driven.

    stages: of all groups, in the order of `placed_stages`. Raises InvalidPlan if some groups
    have an order and another group of several stages has none.
    """
    order = ScheduleOrder([], [])
    is_ordered = any(group.order or group.transfers for group in plan.groups)
    if not (is_ordered or any(buffer.kind is Kind.STATE_COPY for buffer in plan.buffers)):
        return order
    for number, group in enumerate(plan.groups):
        members = [stage for stage in stages if stage.group == number]
        fired = [stage for stage in members if not stage.is_transfer]
        number_of = {stage.running.result: stage.number for stage in fired}
        copying = [stage.number for stage in members if stage.is_transfer]
        for copy in copying:
            if copy < fired[0].number:
                order.append(1, [copy])
        if not group.order:
            if len(fired) > 1:
                raise InvalidPlan(
                    f"no C code for group {number + 1}, several stages without an order, beside "
                    "groups with one"
                )
            order.append(len(fired[0].running.targets), [fired[0].number])
        for turns in group.order:
            order.append(turns.times, [number_of[name] for name in turns.results])
        for copy in copying:
            if copy > fired[0].number:
                order.append(1, [copy])
    return order


def require_in_c(plan: StreamingPlan, inputs: Collection[str]) -> None:
    """Raise InvalidPlan, with the reason, for a plan that the scheduler cannot execute.

    inputs: the names of the inputs of the network.
    """
    if plan.memories and plan.memories[0].is_slow:
        raise InvalidPlan("no C code for memories of which the first is slow")
    copied_weights = {Kind.WEIGHTS, Kind.RESIDENT} & {buffer.kind for buffer in plan.buffers}
    if copied_weights and not any(group.order for group in plan.groups):
        raise InvalidPlan("no C code for weights that are copied, without an order of firings")
    if plan.memories and any(buffer.kind is Kind.EXTERNAL for buffer in plan.buffers):
        raise InvalidPlan("no C code for tensors outside the arena beside several memories")
    for stage in (stage for group in plan.groups for stage in group.stages):
        if stage.result in inputs:
            raise InvalidPlan(
                f"no C code for input {stage.result!r}, one of several, as it comes by rows"
            )


def look_ahead(needs: Sequence[Range], height: int) -> int:
    """Return the maximum distance, in firings, from a firing to the one that reads the lowest row.

    needs: rows of a tensor that each firing reads, as (first, end). The lowest row of a firing is
    the minimum over the rows that it and all later firings read; until that row has been read, the
    ring of the tensor must keep it. Windows in order, (0, 3), (1, 4), (2, 5), have distance 0: each
    firing reads its lowest row itself. With (4, 5), (4, 6), (2, 5) the third firing reads the
    lowest row of the first: distance 2.
    """
    distance, lowest_row = 0, height
    lowest_firing = len(needs)  # the first firing, from this one on, that reads the lowest row
    for number in reversed(range(len(needs))):
        first, end = needs[number]
        if first < end and first <= lowest_row:
            lowest_row, lowest_firing = first, number
        if lowest_firing < len(needs):
            distance = max(distance, lowest_firing - number)
    return distance
