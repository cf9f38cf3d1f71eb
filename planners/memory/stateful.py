"""Plans of networks with a state: layer by layer, with the state at the bottom of the arena.

Buffers that later frames need keep their offset: rows of ring buffers, variables, internal state of
layers. Above them are the tensors of the current frame; tensors with disjoint lifetimes share bytes. A
frame has few rows, so its tensors are stored whole.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import NamedTuple

from cnn2csdf.network import Layer, Network
from cnn2csdf.parameters import multiply_accumulates
from cnn2csdf.rings import rings_of
from csdf.errors import InvalidNetwork
from csdf.status import because
from csdf.time_limit import Budget, stop_of
from planners.arena.allocation import ArenaWhy, plan_arena
from planners.arena.problem import Buffer, Problem
from planners.plan.accumulators import sums_over_rows
from planners.plan.kept import state_bytes, take_overs
from planners.plan.plan import (
    ACCUMULATOR_BYTES,
    Alias,
    Kind,
    Mode,
    PlannedGroup,
    PlannedStage,
    Stage,
    StreamBuffer,
    StreamingPlan,
)

MOST_STEPS = 60  # steps of the search for an arena; the same plan on every machine
SUMS = ": sums"  # suffix of the name of a layer: its accumulators


class BoundedPlan(NamedTuple):
    """A plan, a lower bound on the arena of its buffers, and the bytes of separate buffers.

    separate_bytes: each tensor has its own bytes for the whole frame; row by row a ring buffer, with
    room for the rows that a firing computes.
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
        self._summed = self._rows_that_are_summed()
        made_with = set(self._summed.values())
        firsts = [layer for layer in self._layers if layer.name not in made_with]
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
            alias.tensor: alias for layer in self._layers for alias in self._inside(layer)
        }

    def _rows_that_are_summed(self) -> dict[str, str]:
        """Return the layers with a single live row, each with the reduction that reads it.

        A layer is included if one row and the accumulators are smaller than the whole tensor.
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

    def _inside(self, layer: Layer) -> list[Alias]:
        """Return the alias of a channel slice of a single pixel in the tensor that it is cut from."""
        source = layer.inputs[0]
        cut = layer.operator.cut
        if (
            cut is None
            or (cut.axis, cut.step) != (0, 1)
            or not layer.shape.rows == layer.shape.width == 1
            or not layer.shape.is_map
            or layer.epilogue
            or source not in self._step
            or self._network.layer(source).operator.cut is not None
            or source in self._external
        ):
            return []
        is_alike = layer.name not in self._network.results and (
            layer.quantization == self._network.layer(source).quantization
        )
        return [Alias(layer.name, source, channel=cut.start)] if is_alike else []

    def _may_lie_over(self, layer: Layer, source: Layer) -> bool:
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
            PlannedGroup(stages=tuple(PlannedStage(stage=self._stage(layer)) for layer in group))
            for group in self._groups
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
        reason = because(ArenaWhy.NO_SMALLER, steps=MOST_STEPS)
        arena = plan_arena(problem, budget=stop_of(budget).part(steps=MOST_STEPS, reason=reason))
        buffers, end, outside = list(kept), top + arena.peak, top + arena.peak
        for buffer in problem.buffers:
            layer = self._network.layer(buffer.name.removesuffix(SUMS))
            is_line = layer.name in self._summed
            kind = Kind.LINE if is_line else Kind.WHOLE
            buffers.append(
                StreamBuffer(
                    name=buffer.name,
                    kind=kind if buffer.name == layer.name else Kind.ACCUMULATORS,
                    tensor=layer.name,
                    rows=1 if is_line or buffer.name != layer.name else layer.shape.rows,
                    size=buffer.size,
                    offset=top + arena.offsets[buffer.name],
                    begin=buffer.start,
                    end=buffer.end,
                )
            )
        for name in sorted(self._external):
            layer = self._network.layer(name)
            outside += -outside % self._unit(layer)
            buffers.append(
                StreamBuffer(
                    name=name,
                    kind=Kind.EXTERNAL,
                    tensor=name,
                    rows=layer.shape.rows,
                    size=self._bytes(layer),
                    offset=outside,
                    begin=0,
                    end=len(groups),
                )
            )
            outside += self._bytes(layer)
        for number, (*_, last) in enumerate(self._groups):
            buffers.append(StreamBuffer.of_group(Kind.STAGING, last.name, number, size=0))
        plan = replace(empty, buffers=tuple(buffers), arena_bytes=end)
        return BoundedPlan(plan, top + arena.lower_bound, top + sum(map(self._bytes, self._layers)))

    def _stage(self, layer: Layer) -> Stage:
        """Return the execution mode of a layer: whole, row by row, or accumulating rows."""
        rows = 1 if layer.name in self._summed else layer.shape.rows
        is_sum = layer.name in self._summed.values()
        return Stage(
            layers=(layer.name,), rows=rows, mode=Mode.ACCUMULATING if is_sum else Mode.ROWS
        )

    def _kept(self, groups: int) -> tuple[list[StreamBuffer], int]:
        """Return the buffers retained between frames, widest elements first, and their end."""
        wanted: list[tuple[int, Layer, Kind, int]] = []
        for layer in self._network.layers:
            if layer.is_input and layer.operator.is_state:
                wanted.append((self._unit(layer), layer, Kind.KEPT, self._bytes(layer)))
            elif size := state_bytes(self._network, layer):
                kept = layer.operator.kept(self._network.input_shapes(layer)).values()
                unit = max(variable.element.bytes for variable in kept)
                wanted.append((unit, layer, Kind.STATE, size))
        pieces, end = [], 0
        for unit, layer, kind, size in sorted(wanted, key=lambda piece: -piece[0]):
            end += -end % (unit if kind is Kind.KEPT else 1)
            pieces.append(
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
        widest = max(map(self._unit, self._network.layers))
        widest = widest if self._element_bytes or self._is_real() else 1
        return pieces, end + -end % (ACCUMULATOR_BYTES if self._summed else widest)

    def _is_real(self) -> bool:
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
        for take_over in take_overs(self._network, plan):
            use(take_over.source, take_over.group)
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
                    alignment=self._unit(layer) if self._is_real() else 1,
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
        names_read = {buffer.name for buffer in buffers} - set(self._summed)
        pairs = [
            (layer.inputs[0], layer.name)
            for layer in self._layers
            if names_read.issuperset((layer.inputs[0], layer.name))
            and ends[layer.inputs[0]] == self._step[layer.name]
            and self._may_lie_over(layer, self._network.layer(layer.inputs[0]))
        ]
        # A reduction writes its result after the last row, which the result may overlap.
        over = [pair for pair in self._summed.items() if pair[1] in names_read]
        return Problem(
            name=self._network.name,
            buffers=tuple(buffers),
            in_place=tuple(pairs),
            may_overlap=tuple(over),
        )
