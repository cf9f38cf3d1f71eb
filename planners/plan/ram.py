"""RAM of a C library besides its arena: the execution state, bounded from the plan, and the stack.

The library has no globals and allocates nothing (see the README of a library), so arena, state and
stack are all of its RAM. `state_bytes` is the size of the structure in the header, at most, with
addresses of 64 bits. `planners.plan.stack` bounds the stack from measured kernels.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from cnn2csdf.network import Network
from planners.plan.plan import Kind, StreamingPlan
from planners.plan.stack import known_core, most_stages, stack_bytes_of

CMSIS_STACK_BYTES = 1500  # with CMSIS-NN, at most; measured on Cortex-M4 and Cortex-M55
FIELD_BYTES = 24  # of the state: address of the arena, staging buffer, group
TURN_BYTES = 6  # the firing of an order that is next
COUNTER_BYTES = 2  # of a stage: its firings, of a variable: its oldest row
ADDRESS_BYTES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class RamBeside:
    """Bytes of RAM besides arena and state: the stack of the library, and a reserve of the user.

    The stack is the maximum of the kernels, by default of all networks on all cores; the stages of a
    plan add `stage_stack_bytes`. The reserve is for the application: its own stack, buffers of drivers,
    a network stack. core: the processor of the stack; None for the maximum of all cores.
    """

    stack_bytes: int = field(default_factory=stack_bytes_of)
    reserve_bytes: int = 0
    core: str | None = None

    @property
    def bytes(self) -> int:
        """Both together."""
        return self.stack_bytes + self.reserve_bytes

    def to_json(self, stage_stack: int) -> dict[str, int]:
        """Return both as a JSON value. stage_stack: bytes that the stages of the plan add."""
        stack = self.stack_bytes + stage_stack
        return {"stack_bytes": stack, "reserve_bytes": self.reserve_bytes}


def ram_beside(
    network: Network,
    core: str | None = None,
    *,
    element_bytes: int | None = None,
    reserve_bytes: int = 0,
) -> RamBeside:
    """Return the RAM in addition to the arena of a network.

    core: the processor, a key of `planners.plan.stack.stack_table`; otherwise the largest stack of all
    cores. element_bytes: of the tensors without quantisation; 4 by default.
    """
    stack = stack_bytes_of(network, core, element_bytes)
    return RamBeside(stack_bytes=stack, reserve_bytes=reserve_bytes, core=known_core(core))


def state_bytes(plan: StreamingPlan, network: Network) -> int:
    """Return the bytes of the execution state of a plan in C, at most; without scratch of CMSIS-NN."""
    outside = sum(buffer.kind is Kind.EXTERNAL for buffer in plan.buffers)
    return state_bytes_of(
        stages=most_stages(plan),
        variables=len(network.variables),
        has_turns=any(group.order or group.transfers for group in plan.groups),
        scratch_bytes=max(
            (
                layer.operator.scratch_bytes(network.input_shapes(layer), layer.element_bytes)
                for layer in network.layers
            ),
            default=0,
        ),
        addresses=outside + len(plan.memories[1:]),
    )


def state_bytes_of(
    *, stages: int, variables: int, has_turns: bool, scratch_bytes: int, addresses: int
) -> int:
    """Return the bytes of an execution state, at most: structures are padded to 8 bytes.

    stages: of a group, the most. addresses: of memory outside of the arena, and of further memories.
    """
    counters = COUNTER_BYTES * (stages + variables) + (TURN_BYTES if has_turns else 0)
    fields = FIELD_BYTES + counters + 4
    return -(-fields // 8) * 8 + -(-scratch_bytes // 8) * 8 + ADDRESS_BYTES * addresses
