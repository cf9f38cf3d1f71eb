"""Plans of networks with a state: layer by layer, with the state at the bottom of the arena.

The buffers that later frames read are rows of ring buffers, variables, and internal state of layers.
Their offsets stay the same from frame to frame. The tensors of the current frame are above them;
tensors with disjoint lifetimes share bytes. A frame has few rows, so its tensors are stored whole.
States in slow memory are copied into the arena for the groups that read them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import NamedTuple

from cnn2csdf.network import Layer, Network
from cnn2csdf.parameters import multiply_accumulates
from cnn2csdf.rings import rings_of
from csdf.errors import InvalidNetwork
from csdf.status import because
from csdf.time_limit import Budget, stop_of
from planners.arena.allocation import ArenaWhy, plan_arena
from planners.arena.problem import Buffer, MemoryPlan, Problem
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
SUMS = ": sums"  # suffix of the name of a layer: its accumulators
COPY = f" {Kind.STATE_COPY.value}"  # the same: the copy of its state


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
        self._network, self._element_bytes, self._external = network, element_bytes, external
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
        self._step = {
            layer.name: number for number, group in enumerate(self._groups) for layer in group
        }
        self._aliases = {
            alias.tensor: alias for layer in self._layers for alias in self._channel_alias(layer)
        }
        self._copied = {
            layer.name: readers
            for layer, _ in network.variables
            if layer.name in away
            and (readers := self._readers_in_step(network.consumers[layer.name]))
            and not self._is_read_in_place(readers)
        }

    def _readers_in_step(self, readers: Collection[str]) -> dict[str, list[int]]:
        """The layers, or windows of rings, that read a variable, with the groups of the layers."""
        layers = {
            name: self._network.consumers[name] if name in self._windows else (name,)
            for name in readers
        }
        steps = {
            name: [self._step[layer] for layer in inside if layer in self._step]
            for name, inside in layers.items()
        }
        return {name: inside for name, inside in steps.items() if inside}

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

    def _channel_alias(self, layer: Layer) -> list[Alias]:
        """Return the alias of a channel slice of a single pixel in the tensor that it is cut from."""
        source = layer.inputs[0]
        cut = layer.operator.sliced_range
        if (
            cut is None
            or (cut.axis, cut.step) != (0, 1)
            or not layer.shape.rows == layer.shape.width == 1
            or not layer.shape.is_map
            or layer.epilogue
            or source not in self._step
            or self._network.layer(source).operator.sliced_range is not None
            or source in self._external
        ):
            return []
        has_same_values = layer.name not in self._network.results and (
            layer.quantization == self._network.layer(source).quantization
        )
        return [Alias(layer.name, source, channel=cut.start)] if has_same_values else []

    def _is_read_in_place(self, readers: Collection[str]) -> bool:
        """Whether the only reader is a depthwise convolution of a ring to one pixel.

        It reads each byte once, so a copy in fast memory would save nothing.
        """
        windows = [name for name in readers if name in self._windows]
        layers = [
            self._network.layer(layer)
            for name in windows
            for layer in self._network.consumers[name]
            if layer in self._step
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

    def _may_overwrite(self, layer: Layer, source: Layer) -> bool:
        """Whether a layer may overwrite its input in place, element by element."""
        if layer.operator.converts and not layer.epilogue:
            is_narrower = self._bytes(layer) <= self._bytes(source)
            return is_narrower and None not in (layer.quantization, source.quantization)
        return layer.operator.overwrites_input and self._bytes(layer) == self._bytes(source)

    def _bytes(self, layer: Layer) -> int:
        return layer.shape.elements * (self._element_bytes or layer.element_bytes)

    def _unit(self, layer: Layer) -> int:
        return self._element_bytes or layer.element_bytes

    def plan(self, budget: Budget) -> BoundedPlan:
        """Return the plan, with its lower bound."""
        groups = tuple(map(self._group, range(len(self._groups))))
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
        problem = self._problem(empty)
        arena = arena_within_steps(problem, budget)
        fast = end = top + arena.peak
        if away:
            fast += -fast % max(map(self._unit, self._network.layers))
            end = fast + slow_bytes
        buffers = (
            *kept,
            *(replace(buffer, offset=fast + buffer.offset) for buffer in away),
            *(
                self._frame_buffer(buffer, top + arena.offsets[buffer.name])
                for buffer in problem.buffers
            ),
            *self._external_buffers(end),
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

    def _frame_buffer(self, buffer: Buffer, offset: int) -> StreamBuffer:
        """Return the buffer of a tensor of the current frame, or of the accumulators of a reduction."""
        layer = self._network.layer(buffer.name.removesuffix(SUMS).removesuffix(COPY))
        kind, rows = Kind.WHOLE, layer.shape.rows
        if buffer.name != layer.name:
            is_sum = buffer.name.endswith(SUMS)
            kind, rows = (Kind.ACCUMULATORS, 1) if is_sum else (Kind.STATE_COPY, 0)
        elif layer.name in self._summed:
            kind, rows = Kind.LINE, 1
        return StreamBuffer(
            name=buffer.name,
            kind=kind,
            tensor=layer.name,
            rows=rows,
            size=buffer.size,
            offset=offset,
            begin=buffer.start,
            end=buffer.end,
            readers=tuple(self._copied.get(layer.name, ())),
        )

    def _external_buffers(self, end: int) -> Iterator[StreamBuffer]:
        """Yield the buffers in the caller's memory, numbered on from the end of the arena."""
        for name in sorted(self._external):
            layer = self._network.layer(name)
            end += -end % self._unit(layer)
            yield StreamBuffer(
                name=name,
                kind=Kind.EXTERNAL,
                tensor=name,
                rows=layer.shape.rows,
                size=self._bytes(layer),
                offset=end,
                begin=0,
                end=len(self._groups),
            )
            end += self._bytes(layer)

    def _group(self, number: int) -> PlannedGroup:
        """Return a group, with the copies of variables that begin with it.

        C executes copies in an explicit order only: with a state in slow memory each group has one.
        """
        stages = tuple(map(self._stage, self._groups[number]))
        transfers = tuple(
            Transfer(source=f"{name} kept", target=name)
            for name, readers in self._copied.items()
            if min(map(min, readers.values())) == number
        )
        if not self._away or len(stages) == 1:
            return PlannedGroup(stages=stages, transfers=transfers)
        table = StageTable(self._network, element_bytes=self._element_bytes)
        return replace(table.group(stages).planned(in_step=True), transfers=transfers)

    def _stage(self, layer: Layer) -> Stage:
        """Return the execution mode of a layer: whole, row by row, or accumulating rows."""
        rows = 1 if layer.name in self._summed else layer.shape.rows
        is_sum = layer.name in self._summed.values()
        return Stage(
            layers=(layer.name,), rows=rows, mode=Mode.ACCUMULATING if is_sum else Mode.ROWS
        )

    def _kept(self, *, is_away: bool) -> tuple[list[StreamBuffer], int]:
        """Return the buffers retained between frames, widest elements first, and their end.

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
                    name=f"{layer.name} kept",
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
        # The tensors of the frame begin here: their offsets are relative to this end, so it is a
        # multiple of the widest alignment among them. Quantized tensors without accumulators need none.
        widest = max(map(self._unit, self._network.layers))
        widest = widest if self._element_bytes or self._is_unquantized() else 1
        return buffers, end + -end % (ACCUMULATOR_BYTES if self._summed else widest)

    def _state_unit(self, layer: Layer) -> int:
        kept = layer.operator.kept(self._network.input_shapes(layer)).values()
        return max(variable.element.bytes for variable in kept)

    def _is_unquantized(self) -> bool:
        return all(layer.quantization is None for layer in self._network.layers)

    def _problem(self, plan: StreamingPlan) -> Problem:
        """The allocation problem of the tensors of a frame, in the order of the groups."""
        last = len(self._groups) - 1
        inputs = [layer.name for layer in self._network.inputs]
        ends = dict.fromkeys(inputs, 0) | self._step

        def use(name: str, step: int) -> None:
            window = self._windows.get(name)
            name = name if window is None else window.new
            name = self._aliases[name].host if name in self._aliases else name
            if name in ends:
                ends[name] = max(ends[name], step)

        for layer in self._layers:
            for name in layer.inputs:
                use(name, self._step[layer.name])
        for group, _, source in state_updates(self._network, plan):
            use(source, group)
        for layer in self._network.outputs:
            use(layer.inputs[0], last)
        buffers = []
        for name in (*inputs, *self._step):
            if name in self._aliases or name in self._external:
                continue
            layer = self._network.layer(name)
            parts = layer.shape.rows if name in self._summed else 1
            buffers.append(
                Buffer(
                    name=name,
                    size=self._bytes(layer) // parts,
                    start=self._step.get(name, 0),
                    end=ends[name] + 1,
                    alignment=self._unit(layer) if self._is_unquantized() else 1,
                )
            )
        for name in self._summed.values():
            sums = Buffer(
                name=f"{name}{SUMS}",
                size=ACCUMULATOR_BYTES * self._network.layer(name).shape.elements,
                start=self._step[name],
                end=self._step[name] + 1,
                alignment=ACCUMULATOR_BYTES,
            )
            buffers.append(sums)
        buffers += self._copies_of_states()
        ends |= {buffer.name: buffer.end - 1 for buffer in buffers if buffer.name in self._copied}
        whole_buffers = {buffer.name for buffer in buffers} - set(self._summed)
        pairs = [
            (layer.inputs[0], layer.name)
            for layer in self._layers
            if whole_buffers.issuperset((layer.inputs[0], layer.name))
            and ends[layer.inputs[0]] == self._step[layer.name]
            and self._may_overwrite(layer, self._network.layer(layer.inputs[0]))
        ]
        # A reduction writes its result after the last row, which the result may overlap.
        over = [pair for pair in self._summed.items() if pair[1] in whole_buffers]
        return Problem(
            name=self._network.name,
            buffers=tuple(buffers),
            in_place=tuple(pairs),
            may_overlap=tuple(over),
        )

    def _copies_of_states(self) -> Iterator[Buffer]:
        """Yield the copies of states in slow memory, for the groups that use them."""
        for name, readers in self._copied.items():
            layer = self._network.layer(name)
            steps = [step for inside in readers.values() for step in inside]
            yield Buffer(
                name=name,
                size=self._bytes(layer),
                start=min(steps),
                end=max(steps) + 1,
                alignment=self._unit(layer),
            )
        for layer in self._layers:
            if layer.name in self._away:
                step = self._step[layer.name]
                yield Buffer(
                    name=f"{layer.name}{COPY}",
                    size=layer_state_bytes(self._network, layer),
                    start=step,
                    end=step + 1,
                    alignment=self._state_unit(layer),
                )
