"""Plans of networks with a state: layer by layer, with the state at the bottom of the arena.

The buffers that later frames read are rows of ring buffers, variables, and internal state of layers.
Their offsets stay the same from frame to frame. The tensors of the current frame are above them;
tensors with disjoint lifetimes share bytes. A frame has few rows, so its tensors are stored whole.
States in slow memory are copied into the arena for the groups that read them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

from cnn2csdf.network import Layer, Network
from cnn2csdf.parameters import multiply_accumulates
from cnn2csdf.rings import rings_of
from csdf.errors import InvalidNetwork
from csdf.status import because
from csdf.time_limit import Budget, stop_of
from planners.arena.allocation import ArenaWhy, plan_arena
from planners.arena.problem import MemoryPlan, Problem
from planners.memory.build import external_buffers
from planners.memory.placement import arena_buffer
from planners.memory.stages import StageTable
from planners.plan.accumulators import sums_over_rows
from planners.plan.plan import (
    ACCUMULATOR_BYTES,
    Alias,
    Kind,
    Memory,
    Mode,
    PlannedGroup,
    Stage,
    StreamBuffer,
    StreamingPlan,
    Transfer,
)
from planners.plan.state import layer_state_bytes, state_updates

MOST_STEPS = 60  # steps of the search for an arena; the same plan on every machine


def arena_within_steps(problem: Problem, budget: Budget = None) -> MemoryPlan:
    """Return the arena of a search of MOST_STEPS steps, or of fewer where the budget ends it."""
    reason = because(ArenaWhy.NO_SMALLER, steps=MOST_STEPS)
    return plan_arena(problem, budget=stop_of(budget).part(steps=MOST_STEPS, reason=reason))


class BoundedPlan(NamedTuple):
    """A plan, a lower bound on the arena of its buffers, and the bytes of separate buffers.

    separate_bytes: the arena if no two buffers share bytes. Each tensor is stored whole; in a plan
    row by row it is a ring buffer with the additional rows of one firing.
    """

    plan: StreamingPlan
    lower_bound: int
    separate_bytes: int

    @property
    def arena_bytes(self) -> int:
        """Bytes of the arena."""
        return self.plan.arena_bytes


def stateful_plan(
    network: Network,
    *,
    element_bytes: int | None = None,
    external: Collection[str] = (),
    away: Collection[str] = (),
    budget: Budget = None,
) -> BoundedPlan:
    """Return the plan that executes layer by layer, with state buffers and the tensors of a frame.

    element_bytes: of all tensors; by default each has its own. external: inputs and results in the
    caller's memory. away: variables, and layers with a state, whose states are in slow memory; the plan
    then has a fast and a slow memory. Raises InvalidNetwork if states have other element sizes than
    those of the file.
    """
    if element_bytes is not None and any(
        layer.operator.kept(network.input_shapes(layer)) for layer in network.layers
    ):
        raise InvalidNetwork(
            f"network {network.name!r} keeps numbers of several types from frame to frame; leave out "
            "element_bytes"
        )
    return _StatefulPlanning(network, element_bytes, frozenset(external), frozenset(away)).plan(
        budget
    )


class _StatefulPlanning:
    """The buffers of a network, before placement."""

    def __init__(
        self,
        network: Network,
        element_bytes: int | None,
        external: frozenset[str],
        away: frozenset[str],
    ) -> None:
        """Divide the layers into groups, and find aliases and copies of variables."""
        self._network, self._element_bytes, self._external = network, element_bytes, external
        self._table = StageTable(network, element_bytes=element_bytes)
        self._away = away
        self._windows = rings_of(network)
        self._layers = [
            layer
            for layer in network.layers
            if not layer.is_end and layer.name not in self._windows
        ]
        self._summed = self._reduced_by_row()
        reductions = set(self._summed.values())
        firsts = [layer for layer in self._layers if layer.name not in reductions]
        self._groups = [
            [first, network.layer(self._summed[first.name])]
            if first.name in self._summed
            else [first]
            for first in firsts
        ]
        self._group_of = {
            layer.name: number for number, group in enumerate(self._groups) for layer in group
        }
        aliases = map(self._channel_alias, self._layers)
        self._aliases = {alias.tensor: alias for alias in aliases if alias is not None}
        self._copied = {
            layer.name: readers
            for layer, _ in network.variables
            if layer.name in away
            and (readers := self._groups_of_readers(layer.name))
            and not self._is_read_in_place(readers)
        }

    def _groups_of_readers(self, variable: str) -> dict[str, list[int]]:
        """The readers of a variable, layers or windows of rings, with the groups that read it."""
        consumers, groups_of = self._network.consumers, {}
        for reader in consumers[variable]:
            layers = consumers[reader] if reader in self._windows else (reader,)
            groups = [self._group_of[layer] for layer in layers if layer in self._group_of]
            if groups:
                groups_of[reader] = groups
        return groups_of

    def _reduced_by_row(self) -> dict[str, str]:
        """Return the layers that are computed row by row, each with the reduction that reads it.

        One row of such a layer and the accumulators of the reduction are smaller than the whole tensor.
        """
        network, consumers = self._network, self._network.consumers
        followers = {}
        for layer in self._layers:
            readers = [network.layer(name) for name in consumers[layer.name]]
            if len(readers) == 1 and sums_over_rows(network, readers[0]):
                sums = ACCUMULATOR_BYTES * readers[0].shape.elements
                is_next = readers[0] in self._layers and readers[0].name not in followers
                if is_next and self._bytes(layer) > self._bytes(layer) // layer.shape.rows + sums:
                    followers[layer.name] = readers[0].name
        return followers

    def _channel_alias(self, layer: Layer) -> Alias | None:
        """Return the alias of a channel slice of a single pixel in the tensor that it is cut from."""
        source = layer.inputs[0]
        cut = layer.operator.sliced_range
        if (
            cut is None
            or (cut.axis, cut.step) != (0, 1)
            or not layer.shape.rows == layer.shape.width == 1
            or not layer.shape.is_map
            or layer.epilogue
            or source not in self._group_of
            or self._network.layer(source).operator.sliced_range is not None
            or source in self._external
            or layer.name in self._network.results
            or layer.quantization != self._network.layer(source).quantization
        ):
            return None
        return Alias(layer.name, source, channel=cut.start)

    def _is_read_in_place(self, readers: Collection[str]) -> bool:
        """Whether the only reader is a depthwise convolution of a ring to one pixel.

        It reads each byte once, so a copy in fast memory would save nothing.
        """
        windows = [name for name in readers if name in self._windows]
        layers = [
            self._network.layer(layer)
            for name in windows
            for layer in self._network.consumers[name]
            if layer in self._group_of
        ]
        if len(readers) > 1 or len(layers) != 1:
            return False
        bank, source = layers[0].operator.filter_bank, self._network.layer(windows[0]).shape
        return (
            bank is not None
            and bank.groups == bank.filters == source.channels
            and bank.window.kernel == (source.rows, source.width)
            and bank.window.dilation == (1, 1)
            and not any((*bank.window.padding, *bank.window.overhang))
        )

    def _reads_to_the_end(self, reduction: str, source: str) -> bool:
        """Whether a reduction reads the last row of its source."""
        stage = self._stage(self._network.layer(reduction))
        (rows,) = self._table.geometry(stage).firings.readings
        return rows.upto[-1] == self._table.height(source)

    def _may_overwrite(self, layer: Layer, source: Layer) -> bool:
        """Whether a layer may overwrite its input in place, element by element."""
        if layer.operator.converts and not layer.epilogue:
            is_narrower = self._bytes(layer) <= self._bytes(source)
            return is_narrower and None not in (layer.quantization, source.quantization)
        return layer.operator.overwrites_input and self._bytes(layer) == self._bytes(source)

    def _bytes(self, layer: Layer) -> int:
        """Bytes of the tensor of a layer."""
        return self._table.tensor_bytes(layer.name)

    def _unit(self, layer: Layer) -> int:
        """Bytes of an element of the tensor of a layer."""
        return self._table.bytes_of(layer.name)

    def plan(self, budget: Budget) -> BoundedPlan:
        """Return the plan, with its lower bound."""
        groups = tuple(map(self._planned_group, range(len(self._groups))))
        kept, top = self._kept(is_away=False)
        away, slow_bytes = self._kept(is_away=True)
        work = sum(
            multiply_accumulates(layer, self._network.input_shapes(layer)) for layer in self._layers
        )
        empty = StreamingPlan(
            network=self._network.name,
            element_bytes=self._element_bytes,
            groups=groups,
            buffers=(*kept, *away),
            arena_bytes=top,
            multiply_accumulates=work,
            aliases=tuple(self._aliases.values()),
        )
        read_after = self._read_after_groups(empty)
        frame = dict(self._frame_buffers(self._last_groups(read_after)))
        problem = self._problem(frame, read_after)
        arena = arena_within_steps(problem, budget)
        fast = end = top + arena.peak
        if away:
            fast += -fast % max(map(self._unit, self._network.layers))
            end = fast + slow_bytes
        buffers = (
            *kept,
            *(replace(buffer, offset=fast + buffer.offset) for buffer in away),
            *(replace(buffer, offset=top + arena.offsets[buffer.name]) for buffer in frame),
            *external_buffers(self._table, self._external, len(groups), end),
            *(
                StreamBuffer.of_group(Kind.STAGING, last.name, number, size=0)
                for number, (*_, last) in enumerate(self._groups)
            ),
        )
        memories = (
            Memory(name="fast", size=fast),
            Memory(name="slow", size=slow_bytes, is_slow=True),
        )
        plan = replace(empty, buffers=buffers, arena_bytes=end, memories=memories if away else ())
        tensors = [*self._network.inputs, *self._layers]
        separate = sum(self._bytes(layer) for layer in tensors if layer.name not in self._external)
        return BoundedPlan(plan, top + arena.lower_bound, top + separate)

    def _planned_group(self, number: int) -> PlannedGroup:
        """Return a group, with the copies of variables that begin with it.

        C executes copies in an explicit order only: with a state in slow memory each group has one.
        """
        stages = tuple(map(self._stage, self._groups[number]))
        transfers = tuple(
            Transfer(source=self._buffer_name(name, " kept"), target=name)
            for name, readers in self._copied.items()
            if min(map(min, readers.values())) == number
        )
        if not self._away or len(stages) == 1:
            return PlannedGroup(stages=stages, transfers=transfers)
        return replace(self._table.group(stages).planned(in_step=True), transfers=transfers)

    def _stage(self, layer: Layer) -> Stage:
        """Return the execution mode of a layer: whole, row by row, or accumulating rows."""
        rows = 1 if layer.name in self._summed else layer.shape.rows
        is_sum = layer.name in self._summed.values()
        return Stage(
            layers=(layer.name,), rows=rows, mode=Mode.ACCUMULATING if is_sum else Mode.ROWS
        )

    def _kept(self, *, is_away: bool) -> tuple[list[StreamBuffer], int]:
        """Return the buffers retained between frames, widest elements first, and their aligned end.

        is_away: whether of the states in slow memory; otherwise of the others.
        """
        retained: list[tuple[int, Layer, Kind, int]] = []
        for layer in self._network.layers:
            if (layer.name in self._away) is not is_away:
                continue
            if layer.is_input and layer.operator.is_state:
                retained.append((self._unit(layer), layer, Kind.KEPT, self._bytes(layer)))
            elif size := layer_state_bytes(self._network, layer):
                retained.append((self._state_unit(layer), layer, Kind.STATE, size))
        buffers, end = [], 0
        for unit, layer, kind, size in sorted(retained, key=lambda entry: -entry[0]):
            end += -end % (unit if kind is Kind.KEPT else 1)
            buffers.append(
                StreamBuffer(
                    name=self._buffer_name(layer.name, " kept"),
                    kind=kind,
                    tensor=layer.name,
                    rows=layer.shape.rows if kind is Kind.KEPT else 0,
                    size=size,
                    offset=end,
                    begin=0,
                    end=len(self._groups),
                )
            )
            end += size
        return buffers, end + -end % self._frame_alignment()

    def _buffer_name(self, layer: str, suffix: str) -> str:
        """The name of a buffer of a layer that does not hold its result; no tensor has this name."""
        name, tensors = f"{layer}{suffix}", {layer.name for layer in self._network.layers}
        while name in tensors:
            name += "'"
        return name

    def _frame_alignment(self) -> int:
        """The alignment of the end of retained buffers, from which offsets of a frame count."""
        sums = [ACCUMULATOR_BYTES] if self._summed else []
        return max([*sums, *map(self._unit, self._network.layers)])

    def _state_unit(self, layer: Layer) -> int:
        kept = layer.operator.kept(self._network.input_shapes(layer)).values()
        return max(variable.element.bytes for variable in kept)

    def _read_after_groups(self, plan: StreamingPlan) -> set[tuple[str, int]]:
        """The tensors read after a group, with the group: by updates of variables, and as results."""
        uses = [(source, group) for group, _, source in state_updates(self._network, plan)]
        uses += [(layer.inputs[0], len(self._groups) - 1) for layer in self._network.outputs]
        return {(self._holder(name), group) for name, group in uses}

    def _holder(self, name: str) -> str:
        """The tensor in whose buffer the current frame holds a tensor, or the new rows of a window."""
        tensor = self._windows[name].new if name in self._windows else name
        return self._aliases[tensor].host if tensor in self._aliases else tensor

    def _last_groups(self, read_after: Collection[tuple[str, int]]) -> dict[str, int]:
        """The last group of each tensor of a frame: the last that reads it, or after which it is read.

        read_after: as `_read_after_groups` returns it.
        """
        reads = [
            (self._holder(name), self._group_of[layer.name])
            for layer in self._layers
            for name in layer.inputs
        ]
        inputs = [layer.name for layer in self._network.inputs]
        last_groups = dict.fromkeys(inputs, 0) | self._group_of
        for name, group in (*reads, *read_after):
            if name in last_groups:
                last_groups[name] = max(last_groups[name], group)
        return last_groups

    def _frame_buffers(self, last_groups: Mapping[str, int]) -> Iterator[tuple[StreamBuffer, int]]:
        """Yield the buffers of a frame, without offsets, each with its alignment in bytes.

        Buffers of a frame: tensors, accumulators of reductions, copies of states in slow memory.

        last_groups: of each tensor, as `_last_groups` returns it.
        """
        for name, last in last_groups.items():
            if name in self._aliases or name in self._external:
                continue
            layer, begin = self._network.layer(name), self._group_of.get(name, 0)
            kind, rows = (Kind.LINE, 1) if name in self._summed else (Kind.WHOLE, layer.shape.rows)
            size = self._bytes(layer) // layer.shape.rows * rows
            tensor = StreamBuffer.of_group(kind, name, begin, last + 1, size=size, rows=rows)
            yield replace(tensor, name=name), self._unit(layer)
        for name in self._summed.values():
            size = ACCUMULATOR_BYTES * self._network.layer(name).shape.elements
            begin = self._group_of[name]
            sums = StreamBuffer.of_group(Kind.ACCUMULATORS, name, begin, size=size, rows=1)
            yield replace(sums, name=self._buffer_name(name, ": sums")), ACCUMULATOR_BYTES
        for name, readers in self._copied.items():
            layer, groups = self._network.layer(name), list(chain.from_iterable(readers.values()))
            begin, end, size = min(groups), max(groups) + 1, self._bytes(layer)
            rows = layer.shape.rows
            variable = StreamBuffer.of_group(Kind.WHOLE, name, begin, end, size=size, rows=rows)
            yield replace(variable, name=name, readers=tuple(readers)), self._unit(layer)
        for layer in self._layers:
            if layer.name in self._away:
                begin, size = self._group_of[layer.name], layer_state_bytes(self._network, layer)
                copy = StreamBuffer.of_group(Kind.STATE_COPY, layer.name, begin, size=size)
                name = self._buffer_name(layer.name, f" {Kind.STATE_COPY.value}")
                yield replace(copy, name=name), self._state_unit(layer)

    def _problem(
        self, frame: Mapping[StreamBuffer, int], read_after: Collection[tuple[str, int]]
    ) -> Problem:
        """The allocation problem of a frame. frame: its buffers, each with its alignment.

        read_after: as `_read_after_groups` returns it; a layer of the group does not overwrite them.
        """
        buffers = [arena_buffer(buffer, alignment) for buffer, alignment in frame.items()]
        whole = {buffer.tensor: buffer for buffer in frame if buffer.kind is Kind.WHOLE}
        in_place = [
            (layer.inputs[0], layer.name)
            for layer in self._layers
            if whole.keys() >= {layer.inputs[0], layer.name}
            and whole[layer.inputs[0]].end == self._group_of[layer.name] + 1
            and (layer.inputs[0], self._group_of[layer.name]) not in read_after
            and self._may_overwrite(layer, self._network.layer(layer.inputs[0]))
        ]
        # A reduction writes its result after its last row, which the result may overlap unless the
        # source has further rows, which are written later.
        over = [
            (source, reduction)
            for source, reduction in self._summed.items()
            if reduction in whole and self._reads_to_the_end(reduction, source)
        ]
        return Problem(
            name=self._network.name,
            buffers=tuple(buffers),
            in_place=tuple(in_place),
            may_overlap=tuple(over),
        )
