"""Placement of a network with a state in several memories: a greedy choice of states in slow memory.

The buffers of a plan layer by layer are in the nearest fast memory with room for all of them, or else
in several fast memories, the state in the nearest. If the fast memories are too small, states are in
slow memory. A frame copies such a state into fast memory for the groups that read it, unless the only
reader reads each byte once, and writes the new rows of a variable, or the state of a layer, back.

Example: the rows of a window of 10 rows that advances by a row are 9 rows of state. In slow memory
they cost 9 rows read and a row written in each frame.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from math import ceil

from cnn2csdf.platforms import NANOSECONDS
from csdf.search.pareto import improving, thinned
from csdf.status import Reason, because
from planners.memory.answer import FitMethod, FitWhy, SlowTraffic
from planners.memory.memory_plans import in_fast_memory
from planners.memory.moved_weights import BoardMemories, layout_of
from planners.memory.request import FitRequest
from planners.memory.stages import StageTable
from planners.memory.stateful import BoundedPlan
from planners.plan.plan import Kind, StreamBuffer, StreamingPlan
from planners.plan.state import state_moves
from planners.plan.weights import weight_bytes

Move = tuple[StreamBuffer, int, int]  # bytes read and written, of state_moves
MOST_LABELS = 256  # of a knapsack: subsets of states with different bytes


def state_in_memories(
    request: FitRequest, method: FitMethod, plan_away: Callable[..., BoundedPlan]
) -> tuple[FitMethod, SlowTraffic, Reason | None]:
    """Return the plan of a stateful network in several memories, its traffic, and why none fits.

    method: the plan in one arena. plan_away: returns the plan with the states of some layers in slow
    memory, the argument `away`.
    """
    network, layout = request.network, layout_of(request.memories)
    table = StageTable(network, element_bytes=request.element_bytes)
    stack_bytes = method.needed_ram - method.ram_bytes
    fast = tuple(
        replace(memory, size=max(0, memory.size - (stack_bytes if memory == layout.stack else 0)))
        for memory in layout.fast
    )
    free = layout._replace(fast=fast)
    states = frozenset(buffer.tensor for buffer in method.plan.buffers if buffer.persists)
    all_states_slow = plan_away(away=states).plan if layout.slow else method.plan
    moves = tuple(state_moves(network, all_states_slow)) if layout.slow else ()
    sizes = {buffer.tensor: buffer.size for buffer in all_states_slow.buffers if buffer.persists}
    plan = in_fast_memory(method.plan, table, free)
    if plan is None and layout.slow:
        plan = _with_states_away(
            cache(lambda away: in_fast_memory(plan_away(away=away).plan, table, free)),
            method.plan,
            sizes,
            _moved_bytes(moves),
            free.capacity,
        )
    time = _nanoseconds(request, layout, method, plan)
    traffic = _traffic(request, table, layout, method.plan, all_states_slow, moves)._replace(
        moved=None if plan is None else plan.slow_bytes, nanoseconds=time
    )
    if plan is not None:
        return replace(method, plan=plan, nanoseconds=time), traffic, None
    frame = all_states_slow.memories[0].size + stack_bytes if all_states_slow.memories else 0
    if not frame:
        reason = because(FitWhy.STATE_TOO_LARGE, least=method.needed_ram)
    elif frame <= layout.capacity:
        slow = sum(memory.size for memory in layout.slow)
        reason = because(FitWhy.SLOW_TOO_SMALL, kept=all_states_slow.kept_bytes, slow=slow)
    else:
        reason = because(FitWhy.FRAME_TOO_LARGE, least=frame, kept=all_states_slow.kept_bytes)
    return replace(method, nanoseconds=None), traffic, reason


def _with_states_away(
    plan_with: Callable[[frozenset[str]], StreamingPlan | None],
    arena: StreamingPlan,
    sizes: Mapping[str, int],
    moved: Mapping[str, int],
    capacity: int,
) -> StreamingPlan | None:
    """Return the plan with the fewest slow bytes; None if no plan of the greedy choice fits.

    All states begin in slow memory. They move to fast memory one by one, where they fit, in three
    orders: by moved bytes per byte; by moved bytes; the states of a knapsack first. The capacity of the
    knapsack is the fast memory that a frame without copies of states leaves.

    plan_with: returns the plan with some states in slow memory; None if it does not fit.
    arena: the plan in one arena. sizes: bytes of each state. moved: the bytes that a frame moves if
    the state is in slow memory.
    """
    names = sorted(sizes, key=lambda name: (-Fraction(moved[name], sizes[name]), name))
    frame = arena.arena_bytes - arena.kept_bytes
    chosen = _knapsack(names, sizes, moved, capacity - frame)
    plans: list[StreamingPlan] = []
    for order in (
        names,
        sorted(names, key=lambda name: -moved[name]),
        sorted(names, key=lambda name: name not in chosen),
    ):
        slow = frozenset(sizes)
        best = plan_with(slow)
        for name in order:
            candidate = plan_with(slow - {name})
            # A state for which fast memory has no room stays slow. But as long as no plan fits, slow
            # memory may be too small for the remaining states: the state moves without a plan.
            if candidate is not None or best is None:
                best, slow = candidate, slow - {name}
        plans += [] if best is None else [best]
    return min(plans, key=lambda plan: plan.slow_bytes, default=None)


def _moved_bytes(moves: Sequence[Move]) -> Counter[str]:
    """The bytes that a frame moves of each state."""
    moved = Counter[str]()
    for buffer, read, written in moves:
        moved[buffer.tensor] += read + written
    return moved


def _knapsack(
    names: Sequence[str], sizes: Mapping[str, int], moved: Mapping[str, int], room: int
) -> tuple[str, ...]:
    """States of at most `room` bytes that move many bytes in slow memory, by labels.

    The states move the most bytes unless labels are left out: each state leaves at most MOST_LABELS,
    among them the label that saves the most.

    A label has the bytes of a set of states, and the bytes that they add to a frame: below 0, as
    states in fast memory save their moves.
    """
    labels: list[tuple[int, int, tuple[str, ...]]] = [(0, 0, ())]
    for name in names:
        extended = [
            (size + sizes[name], added - moved[name], (*states, name))
            for size, added, states in labels
        ]
        labels = improving(
            [*labels, *(label for label in extended if label[0] <= room)], lambda label: label[:2]
        )
        labels = thinned(labels, MOST_LABELS)  # the last label saves the most
    _, _, states = min(labels, key=lambda label: label[1])
    return states


def _traffic(
    request: FitRequest,
    table: StageTable,
    layout: BoardMemories,
    arena: StreamingPlan,
    all_states_slow: StreamingPlan,
    moves: Sequence[Move],
) -> SlowTraffic:
    """Return the lower bound and the baselines of the traffic.

    Weights in flash and states that layers read cross the bus in each frame, unless they are resident
    in fast memory: the lower bound is their bytes, less the fast memory. The greedy baseline moves the
    largest states to slow memory until the arena fits.

    arena: the plan in one arena. all_states_slow: the plan with all states in slow memory. moves: of
    that plan.
    """
    network = request.network
    weights = sum(
        weight_bytes(network, layer, request.element_bytes)
        for layer in (network.layers if layout.flash else ())
    )
    tensors = sum(
        table.tensor_bytes(name)
        for stage in (stage for group in all_states_slow.groups for stage in group.stages)
        for name in (stage.result, *network.layer(stage.result).inputs)
    )
    # `tensors` has the reads of variables, which are tensors, but not the reads of layer states.
    state_bytes = sum(
        written + (read if buffer.kind is Kind.STATE else 0) for buffer, read, written in moves
    )
    moved, greedy, needed = _moved_bytes(moves), weights, arena.arena_bytes
    states = [buffer for buffer in all_states_slow.buffers if buffer.persists]
    for buffer in sorted(states, key=lambda buffer: -buffer.size) if layout.slow else ():
        if needed <= layout.capacity:
            break
        greedy, needed = greedy + moved[buffer.tensor], needed - buffer.size
    states_read = {buffer.name: buffer.size for buffer, read, _ in moves if read}
    return SlowTraffic(
        memories=layout.all,
        moved=None,
        lower_bound=max(0, weights + sum(states_read.values()) - layout.capacity),
        all_slow=weights + (tensors + state_bytes if layout.slow else 0),
        greedy=greedy,
        weights=weights,
    )


def _nanoseconds(
    request: FitRequest, layout: BoardMemories, method: FitMethod, plan: StreamingPlan | None
) -> int | None:
    """Return the time of a frame: that of the stages, and of the bytes that move; None if unknown."""
    platform = request.platform
    is_known = platform is not None and layout.has_rates(platform)
    if plan is None or method.nanoseconds is None or platform is None or not is_known:
        return None
    boards = {memory.name: memory for memory in layout.all}
    cycles = Fraction(0)
    for traffic in plan.traffic:
        read, write = boards[traffic.memory].read, boards[traffic.memory].write
        cycles += Fraction(traffic.read) / (read or 1) + Fraction(traffic.written) / (write or 1)
    copied = sum(
        buffer.size
        for buffer in plan.buffers
        if buffer.kind is Kind.STATE_COPY or (buffer.kind is Kind.WHOLE and buffer.readers)
    )
    if copied and layout.fast[0].write:
        cycles += Fraction(copied) / layout.fast[0].write
    return method.nanoseconds + ceil(cycles * NANOSECONDS / (platform.hertz or 1))
