"""Plans of networks with a state: layer by layer, with the state at the bottom of the arena.

The buffers that later frames read are rows of ring buffers, variables, and internal state of layers.
Their offsets stay the same from frame to frame. The tensors of the current frame are above them;
tensors with disjoint lifetimes share bytes. A frame has few rows, so its tensors are stored whole.
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
from planners.plan.accumulators import sums_over_rows
from planners.plan.plan import (
    ACCUMULATOR_BYTES,
    Alias,
    Kind,
    Mode,
    PlannedGroup,
    Stage,
    StreamBuffer,
    StreamingPlan,
)
from planners.plan.state import state_bytes, state_updates

MOST_STEPS = 60  # steps of the search for an arena; the same plan on every machine
SUMS = ": sums"  # suffix of the name of a layer: its accumulators


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
    budget: Budget = None,
) -> BoundedPlan:
    """Return the plan that executes layer by layer, with state buffers and the tensors of a frame.

    element_bytes: of all tensors; by default each has its own. external: inputs and results in the
    caller's memory. Raises InvalidNetwork if states have other element sizes than those of the file.
    """
    if element_bytes is not None and any(
        layer.operator.kept(network.input_shapes(layer)) for layer in network.layers
    ):
        raise InvalidNetwork(
            f"network {network.name!r} keeps numbers of several types from frame to frame; leave out "
            "element_bytes"
        )
    return _StatefulPlanning(network, element_bytes, frozenset(external)).plan(budget)


class _StatefulPlanning:
    """The buffers of a network, before placement."""

    def __init__(
        self, network: Network, element_bytes: int | None, external: frozenset[str]
    ) -> None:
        self._network, self._element_bytes, self._external = network, element_bytes, external
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
        groups = tuple(
            PlannedGroup(stages=tuple(map(self._stage, group))) for group in self._groups
        )
        kept, top = self._kept(len(groups))
        work = sum(
            multiply_accumulates(layer, self._network.input_shapes(layer)) for layer in self._layers
        )
        empty = StreamingPlan(
            network=self._network.name,
            element_bytes=self._element_bytes,
            groups=groups,
            buffers=tuple(kept),
            arena_bytes=top,
            multiply_accumulates=work,
            aliases=tuple(self._aliases.values()),
        )
        problem = self._problem(empty)
        arena = arena_within_steps(problem, budget)
        end = top + arena.peak
        buffers = (
            *kept,
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
        plan = replace(empty, buffers=buffers, arena_bytes=end)
        return BoundedPlan(plan, top + arena.lower_bound, top + sum(map(self._bytes, self._layers)))

    def _frame_buffer(self, buffer: Buffer, offset: int) -> StreamBuffer:
        """Return the buffer of a tensor of the current frame, or of the accumulators of a reduction."""
        layer = self._network.layer(buffer.name.removesuffix(SUMS))
        has_accumulators = buffer.name != layer.name
        is_line = layer.name in self._summed
        kind = Kind.LINE if is_line else Kind.WHOLE
        return StreamBuffer(
            name=buffer.name,
            kind=Kind.ACCUMULATORS if has_accumulators else kind,
            tensor=layer.name,
            rows=1 if is_line or has_accumulators else layer.shape.rows,
            size=buffer.size,
            offset=offset,
            begin=buffer.start,
            end=buffer.end,
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

    def _stage(self, layer: Layer) -> Stage:
        """Return the execution mode of a layer: whole, row by row, or accumulating rows."""
        rows = 1 if layer.name in self._summed else layer.shape.rows
        is_sum = layer.name in self._summed.values()
        return Stage(
            layers=(layer.name,), rows=rows, mode=Mode.ACCUMULATING if is_sum else Mode.ROWS
        )

    def _kept(self, groups: int) -> tuple[list[StreamBuffer], int]:
        """Return the buffers retained between frames, widest elements first, and their end."""
        retained: list[tuple[int, Layer, Kind, int]] = []
        for layer in self._network.layers:
            if layer.is_input and layer.operator.is_state:
                retained.append((self._unit(layer), layer, Kind.KEPT, self._bytes(layer)))
            elif size := state_bytes(self._network, layer):
                kept = layer.operator.kept(self._network.input_shapes(layer)).values()
                unit = max(variable.element.bytes for variable in kept)
                retained.append((unit, layer, Kind.STATE, size))
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
                    end=groups,
                )
            )
            end += size
        # The tensors of the frame begin here: their offsets are relative to this end, so it is a
        # multiple of the widest alignment among them. Quantized tensors without accumulators need none.
        widest = max(map(self._unit, self._network.layers))
        widest = widest if self._element_bytes or self._is_unquantized() else 1
        return buffers, end + -end % (ACCUMULATOR_BYTES if self._summed else widest)

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
