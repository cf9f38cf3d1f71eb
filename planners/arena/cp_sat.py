"""Arena plans by the constraint solver CP-SAT of OR-Tools (extra: cp).

A second opinion on the problem that the searches of planners.arena solve: offsets of buffers in one
arena, so that buffers with overlapping lifetimes do not overlap, with the minimum peak.
"""

from __future__ import annotations

from ortools.sat.python import cp_model

from csdf.status import Ended, Reason, Status, Why, because
from csdf.time_limit import ENDS, Budget, Stop, reason_of, stop_of
from planners.arena.blocks import Blocks, blocks_of, clique_bound, cliques_of
from planners.arena.problem import MemoryPlan, Problem

# Units of deterministic time per second of effort. A unit takes 6 to 9 seconds for 60 and 80 random
# buffers; 1 / 0.15 is 6.7 seconds.
UNITS_PER_SECOND = 0.15


class CpSatWhy(Why):
    """The reasons for the status of a plan of CP-SAT."""

    PROVED = "CP-SAT proved it"
    ENDED = "CP-SAT: {end}"
    SOLVER = "CP-SAT ended by itself"


def plan_with_cp_sat(problem: Problem, *, budget: Budget) -> MemoryPlan:
    """Return the best plan that CP-SAT finds within the budget, without using in-place pairs.

    Effort is measured in deterministic time of OR-Tools: with one worker and one seed the same problem
    gets the same plan under any load. A limit in seconds of the clock applies in addition. A Boolean
    for each conflict states which block is above. Offsets of the model are in units of `blocks.unit`
    bytes, as are `size`, `alignment`, `lowest`, `rise` and `lift`; the peak and `room` are in bytes.
    """
    stop = stop_of(budget)
    blocks = blocks_of(problem)
    bound = clique_bound(blocks, cliques_of(blocks)).peak
    try:
        stop.look()
    except ENDS as error:
        end = because(CpSatWhy.ENDED, end=reason_of(error))
        return MemoryPlan(problem=problem, lower_bound=bound, status=Status.UNKNOWN, reason=end)
    model = cp_model.CpModel()
    # An upper bound on offsets: all blocks above each other and above every fixed block.
    highest = sum(blocks.size) + sum(blocks.alignment) + sum(blocks.lowest)
    peak = model.new_int_var(bound, highest * blocks.unit, "peak")
    offsets = [_offset(model, blocks, block, highest, peak) for block in range(len(blocks))]
    for block in range(len(blocks)):
        for entry in range(blocks.neighbour_start[block], blocks.neighbour_start[block + 1]):
            upper = int(blocks.neighbour[entry])
            if upper > block:
                # The disjunction of a pair is one Boolean: a 2D no-overlap constraint would allow
                # only conflicts by lifetime.
                is_above = model.new_bool_var(f"{upper}above{block}")
                # Minimum distances of the two offsets, with `upper` or with `block` above.
                rise, lift = int(blocks.rise[entry]), int(blocks.lift[entry])
                model.add(offsets[upper] >= offsets[block] + rise).only_enforce_if(is_above)
                model.add(offsets[block] >= offsets[upper] + lift).only_enforce_if(~is_above)
    model.minimize(peak)
    solver = cp_model.CpSolver()
    # Several workers race each other, and the plan would depend on the load.
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 1
    if (effort := stop.effort_left) is not None:
        solver.parameters.max_deterministic_time = effort * UNITS_PER_SECOND
    if (left := stop.seconds_left) is not None:
        solver.parameters.max_time_in_seconds = left
    outcome = solver.solve(model)
    end = _end(solver, stop, effort)
    if outcome not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return MemoryPlan(problem=problem, lower_bound=bound, status=Status.UNKNOWN, reason=end)
    # Buffers without bytes are in no block.
    plan_offsets = {b.name: b.offset or 0 for b in problem.buffers if not b.takes_bytes}
    for (buffer,), offset in zip(blocks.members, offsets, strict=True):
        plan_offsets[buffer.name] = solver.value(offset) * blocks.unit
    proved = outcome == cp_model.OPTIMAL
    return MemoryPlan(
        problem=problem,
        offsets=plan_offsets,
        lower_bound=solver.value(peak) if proved else bound,
        status=Status.OPTIMAL if proved else Status.FEASIBLE,
        reason=because(CpSatWhy.PROVED) if proved else end,
    )


def _end(solver: cp_model.CpSolver, stop: Stop, effort: float | None) -> Reason:
    """Return why a search without a proof ended: its effort first, then the clock."""
    spent = solver.response_proto.deterministic_time
    if effort is not None and spent >= effort * UNITS_PER_SECOND:
        return because(CpSatWhy.ENDED, end=because(Ended.EFFORT, seconds=effort))
    if stop.seconds is not None:
        return because(CpSatWhy.ENDED, end=because(Ended.TIME_LIMIT, seconds=stop.seconds))
    return because(CpSatWhy.SOLVER)


def _offset(
    model: cp_model.CpModel, blocks: Blocks, block: int, highest: int, peak: cp_model.IntVar
) -> cp_model.IntVar:
    """Return the offset of a block, a multiple of its alignment, such that the block ends by the peak.

    highest: upper bound of the offset, in units.
    """
    minimum = blocks.lowest[block]  # the offset of a fixed block, else 0
    maximum = minimum if blocks.is_fixed[block] else highest
    offset = model.new_int_var(minimum, maximum, f"at{block}")
    if blocks.alignment[block] > 1:
        step = model.new_int_var(0, highest, f"step{block}")
        model.add(offset == blocks.alignment[block] * step)
    model.add(blocks.unit * offset + blocks.room[block] <= peak)
    return offset
