"""Answer of `fit` about a loaded plan: the plan is checked, and no plan is searched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from cnn2csdf.network import Network
from cnn2csdf.platforms import Platform
from csdf.status import Status, Why, because
from planners.memory.answer import EXTERNAL, GIVEN, RESIDENT, ROWS, Fit
from planners.memory.fit import answer_about
from planners.memory.request import FitRequest, plan_times
from planners.memory.search import method_of
from planners.memory.stages import StageTable
from planners.plan.carried_out import require_carried_out
from planners.plan.plan import Kind, StreamingPlan
from planners.plan.ram import RamBeside


class GivenWhy(Why):
    """Reasons for the answer about a loaded plan."""

    CHECKED = "the loaded plan is valid for this network; no search"
    CHECKED_PART = "the loaded plan is valid for layers {first}:{end} of this network; no search"
    TOO_LARGE = "the loaded plan takes {needed} bytes of RAM, the limit is {ram}"


def fit_of(
    network: Network,
    plan: StreamingPlan,
    *,
    ram: int | None = None,
    flash: int | None = None,
    platform: Platform | None = None,
    durations: Mapping[str, Sequence[int]] | None = None,
    beside: RamBeside | None = None,
) -> Fit:
    """Return whether a network fits with a loaded plan, and the predicted time if a platform is set.

    The arguments are those of `fit`; ram and flash in bytes, not as texts. Raises InvalidPlan, with the
    cause, if the plan is invalid for this network.
    """
    require_carried_out(network, plan)
    times = layer_times(network, plan, platform=platform, durations=durations)
    request = FitRequest(
        network=network,
        ram=ram,
        flash=flash,
        element_bytes=plan.element_bytes,
        platform=platform,
        durations=durations,
        beside=None if plan.memories else beside,  # memories have their sizes
    )
    time = None if times is None else sum(times.values())
    method = method_of(GIVEN, plan, network, time, beside=request.beside)
    status, reason = Status.FEASIBLE, because(GivenWhy.CHECKED)
    if plan.layers is not None:
        first, end = plan.layers
        reason = because(GivenWhy.CHECKED_PART, first=first, end=end)
    if not request.has_room_for(method):
        status = Status.INFEASIBLE
        reason = because(GivenWhy.TOO_LARGE, needed=method.needed_ram, ram=ram)
    about_plan = answer_about(
        [method], request, status, reason, lower_bound=_least_bytes_of_ends(network, plan)
    )
    external = {buffer.tensor for buffer in plan.buffers if buffer.kind is Kind.EXTERNAL}
    inputs = {layer.name for layer in network.inputs}
    return replace(
        about_plan,
        input=_input_memory(plan, inputs, external),
        output=EXTERNAL if external - inputs else RESIDENT,
    )


def _least_bytes_of_ends(network: Network, plan: StreamingPlan) -> int:
    """Return a lower bound on the RAM of plans with the same inputs, results and retained bytes."""
    size = {buffer.tensor: buffer.size for buffer in plan.buffers if buffer.kind is Kind.WHOLE}
    if plan.collects_input:  # another plan may read its rows as they arrive
        size.pop(plan.groups[0].streamed_input or "")
    inputs = {layer.name for layer in network.inputs}
    ends = max(sum(size.get(name, 0) for name in names) for names in (inputs, network.results))
    return max(ends, plan.kept_bytes)


def _input_memory(plan: StreamingPlan, inputs: set[str], external: set[str]) -> str:
    """Return the memory of the inputs, of INPUTS. external: all tensors in the caller's memory."""
    # An input by rows is streamed into the first group, or collected by a stage of its own.
    is_streamed = plan.groups[0].streamed_input is not None and not plan.is_copied(0)
    results_of_stages = {stage.result for group in plan.groups for stage in group.stages}
    if is_streamed or inputs & results_of_stages:
        return ROWS
    return EXTERNAL if inputs & external else RESIDENT


def layer_times(
    network: Network,
    plan: StreamingPlan,
    *,
    platform: Platform | None = None,
    durations: Mapping[str, Sequence[int]] | None = None,
) -> dict[str, int] | None:
    """Return the predicted nanoseconds of each layer in a frame of a plan, by layer.

    None without a platform; for a plan in several memories, because its copies belong to no layer; and
    for a plan that names primitives, because their instructions are not counted.
    """
    if plan.memories or any(stage.primitive for group in plan.groups for stage in group.stages):
        return None
    table = StageTable(network, element_bytes=plan.element_bytes)
    times = plan_times(table, platform, durations, plan.element_bytes)
    return None if times is None else times.of_layers(plan)
