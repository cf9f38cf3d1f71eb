"""Stack of generated C on a core: bounds from the call graphs that gcc prints of compiled libraries.

A call of a library is a chain of three parts: the functions that choose the next firing, the kernel of
a layer, and the functions that the kernel calls. `stack_table.json` has the bytes of the last two for
each core, kind of numbers and operator, without the arrays whose lengths are constants of a network.
The bytes of the first part follow from the plan. `python -m tests.planners.code.stack_table` measures
the table again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from cnn2csdf.dtypes import Element
from cnn2csdf.network import Layer, Network
from planners.plan.plan import StreamingPlan
from planners.plan.weights import gathered_values
from planners.rewrites.rematerialisation import executed_network

ADDRESS_BYTES, RANGE_BYTES, COUNTER_BYTES, QUEUED_BYTES = 4, 8, 4, 2  # on cores of 32 bits
# gcc 12 compiles the loop over columns of stages with several layers, and arrays of more ranges than
# these, into functions of their own.
LOOP_BYTES, APART_BYTES, INLINED_RANGES = 32, 32, 5
O3_BYTES = 64  # at most more than with -O2 and -Os, measured with gcc 12 at -O3
USUAL_ARRAYS = 512  # bytes of arrays in the kernels of an unknown network: 64 taps, 256 gathered
SCHEDULER = "scheduler"  # of a plan with single layers
GATHERING = " gathering"  # of a kernel with an array of MOST_GATHERED elements
ACTIVATION = "Activation"  # its kernel calls the same functions as a fused activation
SHORT_STEPS = ("relu", "clip")  # fused functions that need no more stack than their kernel
UNKNOWN = "other"  # the maximum of all operators of a kind of numbers


@cache
def stack_table() -> Mapping[str, Mapping[str, Mapping[str, int]]]:
    """Return bytes of stack by core, kind of numbers, and operator."""
    path = files("planners").joinpath("plan/stack_table.json")
    table: Mapping[str, Mapping[str, Mapping[str, int]]] = json.loads(
        path.read_text(encoding="utf-8")
    )
    return table


def known_core(core: str | None) -> str | None:
    """Return the core if the table has it; None for others, such as the target `host` of C."""
    return core if core in stack_table() else None


def stack_bytes_of(
    network: Network | None = None, core: str | None = None, element_bytes: int | None = None
) -> int:
    """Return the maximum stack in bytes of the kernels of a network, and of a scheduler of one layer.

    `stage_stack_bytes` adds the bytes of a plan. network: None for an unknown network. core: a
    key of `stack_table`; otherwise the maximum of all cores. element_bytes: of the tensors without
    quantisation, 4 by default.
    """
    table = stack_table()
    named = known_core(core)
    cores = tuple(table) if named is None else (named,)
    return max(_on_core(network, table[name], element_bytes) for name in cores)


def _on_core(
    network: Network | None, table: Mapping[str, Mapping[str, int]], element_bytes: int | None
) -> int:
    kernels = {kind: sizes for kind, sizes in table.items() if kind != SCHEDULER}
    scheduler = table[SCHEDULER][UNKNOWN]
    if network is None:
        return scheduler + max(max(sizes.values()) for sizes in kernels.values()) + USUAL_ARRAYS
    taps, gathered = window_constants(network)
    most = 0
    for layer in network.layers:
        sizes = kernels[numbers_of(layer, element_bytes)]
        name = kernel_name(layer, gathered)
        size = sizes.get(name, sizes[UNKNOWN]) + array_bytes(layer, name, taps, gathered)
        if any(operator.in_words() not in SHORT_STEPS for operator in layer.epilogue):
            size = max(size, sizes.get(ACTIVATION, 0))
        most = max(most, size)
    return scheduler + most


def window_constants(network: Network) -> tuple[int, int]:
    """Return MOST_TAPS and MOST_GATHERED of a network in C."""
    taps = [layer.operator.window_taps[0] for layer in network.layers]
    gathered = [gathered_values(network, layer) for layer in network.layers]
    return max(taps, default=1), max(gathered, default=0)


def array_bytes(layer: Layer, name: str, taps: int, gathered: int) -> int:
    """Return the bytes of arrays whose lengths are constants of the network, in a kernel."""
    if not layer.operator.window_taps[0]:
        return 0
    return ADDRESS_BYTES * taps + (gathered if name.endswith(GATHERING) else 0)


def numbers_of(layer: Layer, element_bytes: int | None = None) -> str:
    """Return the kind of numbers in which the kernels compute a layer: a key of the table."""
    quantization = layer.quantization
    if quantization is None:
        return {1: "int8", 2: "int16"}.get(element_bytes or 0, "float")
    if quantization.element is Element.INT16:
        return "int16"
    return "int8" if quantization.is_fixed_point else "single"


def kernel_name(layer: Layer, gathered: int) -> str:
    """Return the name of the kernel of a layer in the table.

    gathered: MOST_GATHERED, with which convolutions have a function more.
    """
    name, bank = type(layer.operator).__name__, layer.operator.filter_bank
    if bank is None or not layer.operator.window_taps[0]:
        return name
    is_by_channel = bank.groups == layer.shape.channels > 1
    return f"{name} by channel" if is_by_channel else f"{name}{GATHERING if gathered else ''}"


def stage_stack_bytes(plan: StreamingPlan, network: Network) -> int:
    """Return the stack in bytes that the stages of a plan add to `stack_bytes_of`."""
    executed = executed_network(network, plan.rematerialised)
    ranges, layers = 2, 1
    for stage in (stage for group in plan.groups for stage in group.stages):
        read = {name for layer in stage.layers for name in executed.layer(layer).inputs}
        ranges = max(ranges, len(stage.layers) + len(read - set(stage.layers)))
        layers = max(layers, len(stage.layers))
    return bytes_of_stages(ranges, layers, most_stages(plan))


def most_stages(plan: StreamingPlan) -> int:
    """Return the maximum number of stages in C of a group: also of arriving rows, and transfers."""
    return max(
        len(group.stages) + len(group.transfers) + (group.streamed_input is not None)
        for group in plan.groups
    )


def bytes_of_stages(ranges: int, layers: int, stages: int) -> int:
    """Return the stack in bytes of arrays of the scheduler, beyond the ranges of a single layer.

    ranges, layers: MOST_RANGES and MOST_LAYERS in C. stages: of a group, at most.
    """
    size = RANGE_BYTES * max(0, ranges - 2) + QUEUED_BYTES * stages
    if layers > 1:
        size += LOOP_BYTES + COUNTER_BYTES * layers
    return size + (APART_BYTES if ranges > INLINED_RANGES else 0)
