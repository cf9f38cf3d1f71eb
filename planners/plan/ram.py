"""RAM of a C library besides its arena: the execution state, bounded from the plan, and the stack.

The library has no globals and allocates nothing (see the README of a library), so arena, state and
stack are all of its RAM. `state_bytes` is the size of the structure in the header, at most, with
addresses of 64 bits. The stack is measured: `make qemu` prints what a Cortex-M4 used, and the tests of
libraries compare the figure of each network with the bound.
"""

from __future__ import annotations

from dataclasses import dataclass

from cnn2csdf.network import Network
from planners.plan.plan import Kind, StreamingPlan

STACK_BYTES = 1250  # of the kernels here, at most; measured on Cortex-M4 and Cortex-M55
CMSIS_STACK_BYTES = 1500  # likewise, with CMSIS-NN
FIELD_BYTES = 24  # of the state: address of the arena, staging buffer, group
TURN_BYTES = 6  # the firing of an order that is next
COUNTER_BYTES = 2  # of a stage: its firings, of a variable: its oldest row
ADDRESS_BYTES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class RamBeside:
    """Bytes of RAM besides arena and state: the stack of the library, and a reserve of the user's.

    The reserve is what the application takes: its own stack, buffers of drivers, a network stack.
    """

    stack_bytes: int = STACK_BYTES
    reserve_bytes: int = 0

    @property
    def bytes(self) -> int:
        """Both together."""
        return self.stack_bytes + self.reserve_bytes

    def to_json(self) -> dict[str, int]:
        """Return both as a JSON value."""
        return {"stack_bytes": self.stack_bytes, "reserve_bytes": self.reserve_bytes}


def state_bytes(plan: StreamingPlan, network: Network) -> int:
    """Return the bytes of the execution state of a plan in C, at most; without scratch of CMSIS-NN."""
    # In C the rows of a streamed input arrive in a stage, and tensors are handed over in stages.
    stages = max(
        len(group.stages) + len(group.transfers) + (group.streamed_input is not None)
        for group in plan.groups
    )
    outside = sum(buffer.kind is Kind.EXTERNAL for buffer in plan.buffers)
    return state_bytes_of(
        stages=stages,
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
