"""A plan that was made before, as an answer to whether a network fits: judged, not searched."""

from __future__ import annotations

from fractions import Fraction

from cnn2csdf.fixed_point.flash import flash_bytes
from cnn2csdf.network import Network
from cnn2csdf.parameters import multiply_accumulates
from csdf.outcome import Reason, Status, Why, because
from planners.memory.answer import OUTSIDE, RESIDENT, ROWS, Fit, FitWay
from planners.streaming.given.judge import require_carried_out
from planners.streaming.plan import Kind, StreamingPlan

GIVEN = "the plan that is given"


class GivenWhy(Why):
    """Reasons for the answer about a given plan."""

    JUDGED = "the plan that is given works this network; no other was looked for"
    JUDGED_PART = (
        "the plan that is given works layers {first}:{end} of this network; no other was looked for"
    )
    TOO_LARGE = "the plan that is given takes {needed} bytes of RAM, {ram} are there"
    FLASH = "the parameters need {needed} bytes of flash, {flash} are there"


def fit_of(
    network: Network, plan: StreamingPlan, *, ram: int | None = None, flash: int | None = None
) -> Fit:
    """Return whether a network, worked as a plan says, fits.

    Raises InvalidPlan where the plan does not work this network, with what is wrong.
    """
    require_carried_out(network, plan)
    once = sum(multiply_accumulates(layer, network.input_shapes(layer)) for layer in network.layers)
    work = Fraction(plan.multiply_accumulates, max(once, 1))
    way = FitWay(name=GIVEN, plan=plan, work=work, nanoseconds=None)
    needed = flash_bytes(network, plan.element_bytes)
    status, reason = _verdict(plan, needed, ram, flash)
    places = _places(network, plan)
    return Fit(
        network=network.name,
        input=places[0],
        result=places[1],
        ram=ram,
        flash=flash,
        flash_bytes=needed,
        ways=(way,),
        best=way if status is Status.FEASIBLE else None,
        lower_bound=_lower_bound(network, plan),
        status=status,
        reason=reason,
    )


def _verdict(
    plan: StreamingPlan, needed: int, ram: int | None, flash: int | None
) -> tuple[Status, Reason]:
    if ram is not None and plan.arena_bytes > ram:
        return Status.INFEASIBLE, because(GivenWhy.TOO_LARGE, needed=plan.arena_bytes, ram=ram)
    if flash is not None and needed > flash:
        return Status.INFEASIBLE, because(GivenWhy.FLASH, needed=needed, flash=flash)
    if plan.layers is not None:
        first, end = plan.layers
        return Status.FEASIBLE, because(GivenWhy.JUDGED_PART, first=first, end=end)
    return Status.FEASIBLE, because(GivenWhy.JUDGED)


def _places(network: Network, plan: StreamingPlan) -> tuple[str, str]:
    """Return the places of inputs and results, in the words of `csdf fit`."""
    outside = {one.tensor for one in plan.buffers if one.kind is Kind.OUTSIDE}
    inputs = {layer.name for layer in network.inputs}
    source = OUTSIDE if inputs & outside else RESIDENT
    made = {one.stage.result for group in plan.groups for one in group.stages}
    arrives = plan.groups[0].arriving is not None and not plan.is_copied(0)
    is_streamed = arrives or bool(inputs & made)
    source = ROWS if is_streamed else source
    return source, OUTSIDE if outside - inputs else RESIDENT


def _lower_bound(network: Network, plan: StreamingPlan) -> int:
    """Bytes that lie in the arena at the start, or at the end, of any plan with the same places."""
    results = {source for layer in network.outputs for source in layer.inputs}
    size = {one.tensor: one.size for one in plan.buffers if one.kind is Kind.WHOLE}
    if plan.collects_input:  # another plan may take its rows as they come
        size.pop(plan.groups[0].arriving or "")
    return max(
        sum(size.get(layer.name, 0) for layer in network.inputs),
        sum(size.get(name, 0) for name in results),
    )
