"""Checker of memory plans from any source: whether a plan executes its network correctly.

planners.plan.plan lists the rules of a valid plan. First the statements of a plan are compared with the
network, a module for each group of rules: checked_stages, checked_buffers, checked_states,
checked_weights and checked_rows. Then planners.plan.executor executes the plan without computing
values, in an arena with shadow memory that marks each byte with the element it holds.

Every check is derived from the plan and the network, with the geometry of
planners.plan.checked_geometry and the rules of planners.plan.checked_rules, which neither planners nor
the C generator use.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, permutations, product

from cnn2csdf.network import Network
from csdf.errors import ExecutionError, InvalidPlan
from planners.plan.checked_buffers import require_buffers, require_memories, require_write_buffers
from planners.plan.checked_plan import CheckedPlan
from planners.plan.checked_rows import require_rows
from planners.plan.checked_stages import require_orders, require_stages, require_work
from planners.plan.checked_states import require_states
from planners.plan.checked_weights import require_weights
from planners.plan.executor import PlanMachine
from planners.plan.plan import Kind, Stage, StreamingPlan
from planners.rewrites.copied_layers import require_same


def require_plan(network: Network, worked: Network, plan: StreamingPlan) -> None:
    """Raise InvalidPlan, naming the layer or buffer, unless the plan executes this network.

    worked: the network with the copies of layers that the plan names, from an untrusted source; it is
    compared with the network first.
    """
    require_same(network, worked)
    _require_statements(CheckedPlan(worked, plan))
    require_apart([plan])
    try:
        machine = PlanMachine(worked, plan)
        machine.run()
        _require_counts(plan, machine)
        for layer in network.outputs:
            machine.output(layer.inputs[0])
        if network.keeps_state:  # rings of rows begin elsewhere then
            machine.next_frame()
    except ExecutionError as error:
        raise InvalidPlan(f"the plan cannot be carried out: {error}") from None


def _require_statements(checked: CheckedPlan) -> None:
    """Raise InvalidPlan for the violations that are visible without executing the plan."""
    require_stages(checked)
    require_buffers(checked)
    require_states(checked)
    require_memories(checked)
    require_write_buffers(checked)
    require_weights(checked)
    require_rows(checked)
    require_orders(checked)
    require_work(checked)
    _require_layouts(checked)


def _require_counts(plan: StreamingPlan, machine: PlanMachine) -> None:
    """Require that the traffic of a frame with each slow memory is the traffic stated in the plan."""
    names = [memory.name for memory in plan.memories if memory.is_slow]
    names += [] if plan.flash is None else [plan.flash]
    if [count.memory for count in plan.traffic] != names:
        raise InvalidPlan(
            "the plan counts bytes of "
            f"{', '.join(count.memory for count in plan.traffic) or 'no memory'}"
            f"; its slow memories are {', '.join(names) or 'none'}"
        )
    for count in plan.traffic:
        read, written = machine.arena.reads[count.memory], machine.arena.writes[count.memory]
        if (read, written) != (count.read, count.written):
            raise InvalidPlan(
                f"the plan counts {count.read} bytes from {count.memory!r} and {count.written} to "
                f"it; a frame moves {read} and {written}"
            )


USUAL_LAYOUT = "HWC"  # pixel by pixel; only planners.primitives chooses the other of LAYOUTS


def _require_layouts(checked: CheckedPlan) -> None:
    """Raise InvalidPlan unless tensors have the layouts of the primitives that read and write them.

    Stages without a primitive use HWC. A primitive computes a whole layer on whole tensors.
    """
    for buffer in checked.plan.buffers:
        if buffer.layout is not None and buffer.kind is not Kind.WHOLE:
            raise InvalidPlan(f"buffer {buffer.name!r} has a layout, but is no whole tensor")
    for number, stage in checked.stages():
        primitive, result = stage.primitive, stage.result
        reads = writes = USUAL_LAYOUT
        if primitive is not None:
            reads, writes = primitive.reads, primitive.writes
            if replace(stage, primitive=None) != Stage(
                layers=(result,), rows=checked.height(result)
            ):
                raise InvalidPlan(
                    f"primitive {primitive.name!r} makes {result!r}, which does not work whole"
                )
        _require_layout(checked, result, None, number, writes)
        for name in stage.layers:
            for source in checked.network.layer(name).inputs:
                _require_layout(checked, source, name, number, reads)


def _require_layout(
    checked: CheckedPlan, tensor: str, reader: str | None, group: int, layout: str
) -> None:
    """Require the layout of a whole map where a layer of a group reads it, or writes it: None."""
    buffers = [
        buffer
        for buffer in checked.plan.buffers
        if buffer.kind is Kind.WHOLE and buffer.tensor == tensor and buffer.is_live(group)
    ]
    named = f"{tensor!r} is written"
    if reader is not None:
        of_reader = [buffer for buffer in buffers if reader in buffer.readers]
        buffers = of_reader or [buffer for buffer in buffers if not buffer.readers]
        named = f"{reader!r} reads {tensor!r}"
    for buffer in buffers if checked.network.layer(tensor).shape.is_map else ():
        stored = buffer.layout or USUAL_LAYOUT
        if stored != layout:
            raise InvalidPlan(f"{named} in {layout}, but buffer {buffer.name!r} has it in {stored}")


def require_apart(plans: Sequence[StreamingPlan]) -> None:
    """Raise InvalidPlan where groups that may work at the same time have a byte in common.

    plans: of networks in one arena, with offsets from its first byte. Compares all pairs of buffers:
    those retained between frames with all buffers of the other plans, and those of two concurrent
    groups, which have the same label.
    """
    for plan, another in permutations(plans, 2):
        retained = [b for b in plan.buffers if b.persists or b.kind is Kind.RESIDENT]
        in_arena = [b for b in another.buffers if b.kind is not Kind.EXTERNAL]
        for buffer, other in product(retained, in_arena):
            byte = buffer.common_byte(other)
            if byte is not None:
                raise InvalidPlan(
                    f"buffer {buffer.name!r} of network {plan.network!r} stays between frames, but "
                    f"{other.name!r} of network {another.network!r} takes byte {byte}, too"
                )
    groups = [(plan, number) for plan in plans for number in range(len(plan.groups))]
    for pair in combinations(groups, 2):
        labels = {plan.groups[number].concurrent for plan, number in pair}
        if None in labels or len(labels) > 1:
            continue
        live = [
            [b for b in plan.buffers if b.is_in_arena and b.is_live(number)]
            for plan, number in pair
        ]
        for first, second in product(*live):
            if first is second and first.kind is Kind.RESIDENT:
                continue  # no group writes resident weights
            byte = first.common_byte(second)
            if byte is not None:
                named = " and ".join(
                    f"group {number + 1} of network {plan.network!r}" for plan, number in pair
                )
                raise InvalidPlan(
                    f"{named} may work at the same time, but buffers {first.name!r} and "
                    f"{second.name!r} have byte {byte} in common"
                )
