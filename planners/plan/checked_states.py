"""States of networks in a plan: the buffers that the checker requires, and layer states as executed.

A variable is a tensor; the state of a layer is bytes that only its kernel reads and writes. A state in
slow memory has a copy in fast memory: that of a variable is a tensor that a transfer fills, that of a
layer is filled when its group begins and copied back when the group ends.
"""

from __future__ import annotations

from collections import Counter
from math import prod

import numpy as np

from cnn2csdf.network import Layer, Network
from cnn2csdf.weights import Array
from csdf.errors import ExecutionError, InvalidPlan, counted
from planners.plan.checked_plan import CheckedPlan
from planners.plan.checked_rules import bytes_kept
from planners.plan.plan import Kind, StreamBuffer, StreamingPlan
from planners.plan.shadow_arena import Content, MarkedArena


def require_states(checked: CheckedPlan) -> None:
    """Require one buffer in all groups for each variable, and for the state of each layer.

    Raises InvalidPlan.
    """
    plan, wanted = checked.plan, dict.fromkeys(checked.variables, Kind.KEPT)
    for layer in checked.network.layers:
        if layer.name in checked.group_of and bytes_kept(checked.network, layer):
            wanted[layer.name] = Kind.STATE
    counts = Counter((buffer.tensor, buffer.kind) for buffer in plan.buffers if buffer.persists)
    for name, kind in wanted.items():
        if counts[name, kind] != 1:
            raise InvalidPlan(
                f"{name!r} stays from frame to frame in {counted(counts[name, kind], 'buffer')}; "
                "expected one"
            )
    for buffer in plan.buffers:
        if not buffer.persists:
            continue
        if wanted.get(buffer.tensor) is not buffer.kind:
            raise InvalidPlan(f"buffer {buffer.name!r} stays, but {buffer.tensor!r} does not")
        if (buffer.begin, buffer.end) != (0, len(plan.groups)):
            raise InvalidPlan(f"buffer {buffer.name!r} stays, but some groups do not have it")
    _require_copies(checked)


def _require_copies(checked: CheckedPlan) -> None:
    """Require a copy of each layer state in slow memory, for the group of the layer alone."""
    plan = checked.plan
    copies = Counter(buffer.tensor for buffer in plan.buffers if buffer.kind is Kind.STATE_COPY)
    for buffer in plan.buffers:
        if buffer.kind is Kind.STATE:
            wanted = int(plan.is_in_slow_memory(buffer))
            if copies.pop(buffer.tensor, 0) != wanted:
                raise InvalidPlan(
                    f"buffer {buffer.name!r}: expected one copy for its group if the state is in slow "
                    "memory, and none if it is in fast memory"
                )
        group = checked.group_of.get(buffer.tensor)
        if buffer.kind is Kind.STATE_COPY and (buffer.begin, buffer.end - 1) != (group, group):
            raise InvalidPlan(
                f"buffer {buffer.name!r} is not that of the group that computes {buffer.tensor!r}"
            )
    for name in copies:
        raise InvalidPlan(f"a copy of the state of {name!r}, which keeps none")


class LayerStates:
    """States of layers in a marked arena, each in its buffer or in the copy that its group uses."""

    def __init__(self, arena: MarkedArena, network: Network, plan: StreamingPlan) -> None:
        self._arena, self._network = arena, network
        self._homes, self._copies = plan.by_tensor(Kind.STATE), plan.by_tensor(Kind.STATE_COPY)

    def _used(self, layer: Layer) -> StreamBuffer:
        return self._copies.get(layer.name) or self._home(layer.name)

    def _home(self, name: str) -> StreamBuffer:
        """Return the buffer of the state of a layer. Raises ExecutionError without a buffer for it."""
        if name not in self._homes:
            raise ExecutionError(f"there is no buffer for the state of {name!r}")
        return self._homes[name]

    def begin(self, layer: Layer, states: dict[str, Array] | None) -> None:
        """Write the initial state of a layer. Raises ExecutionError without a buffer for it."""
        self._write(self._home(layer.name), states)

    def keep(self, layer: Layer, states: dict[str, Array]) -> None:
        """Write the state of a layer where its kernel does."""
        self._write(self._used(layer), states)

    def _write(self, buffer: StreamBuffer, states: dict[str, Array] | None) -> None:
        self._arena.fill(Content.STATE, buffer.tensor, buffer.byte_range)
        if states is not None:
            arrays = [np.ascontiguousarray(state).reshape(-1) for state in states.values()]
            self._arena.memory[slice(*buffer.byte_range)] = np.concatenate(
                [row.view(np.uint8) for row in arrays]
            )

    def copy(self, group: int, *, is_end: bool) -> None:
        """Fill the copies that a group uses, or copy them back at its end."""
        for copy in self._copies.values():
            if copy.begin != group:
                continue
            home = self._home(copy.tensor)
            source, target = (copy, home) if is_end else (home, copy)
            self._require(source)
            self._arena.fill(Content.STATE, copy.tensor, target.byte_range)
            values = self._arena.memory[slice(*source.byte_range)]
            self._arena.memory[slice(*target.byte_range)] = values
            self._arena.count(self._arena.reads, source.offset, source.size)
            self._arena.count(self._arena.writes, target.offset, target.size)

    def _require(self, buffer: StreamBuffer) -> None:
        if not self._arena.holds(Content.STATE, buffer.tensor, buffer.byte_range):
            raise ExecutionError(f"what {buffer.tensor!r} keeps from frame to frame is overwritten")

    def require(self, layer: Layer) -> None:
        """Raise ExecutionError if the state that a layer uses is overwritten."""
        self._require(self._used(layer))

    def require_all(self) -> None:
        """Raise ExecutionError if a state for the next frame is overwritten."""
        for buffer in self._homes.values():
            self._require(buffer)

    def kept(self, layer: Layer) -> dict[str, Array]:
        """Return the retained state of a layer. Raises ExecutionError if it is overwritten."""
        self.require(layer)
        buffer, states = self._used(layer), {}
        memory = self._arena.memory[slice(*buffer.byte_range)].copy()
        for role, state in layer.operator.kept(self._network.input_shapes(layer)).items():
            size = prod(state.dims) * state.element.bytes
            states[role] = memory[:size].view(state.element.value).reshape(state.dims)
            memory = memory[size:]
        return states
