"""Applications made ready to run, and run beside each network alone."""

from cnn2csdf.execution.calibration import calibrated_weights
from cnn2csdf.execution.compare import difference, random_frames
from cnn2csdf.execution.layer_by_layer import run_layer_by_layer
from cnn2csdf.weights import Model
from csdf.errors import GaveUp
from csdf.time_limit import Progress, Stop
from planners.memory.plan_runs import run_in_turn
from planners.plan.carried_out import require_carried_out
from planners.plan.checker import require_apart
from planners.reuse.deployment import deployment, streaming_plans
from planners.reuse.placement import free_offsets, whole_buffers

TOLERANCE = 1e-4  # sums of up to thousands of products, in another order


def as_published(evaluator, genes):
    plan = evaluator.plan(genes)
    return deployment(evaluator, plan, whole_buffers(evaluator, plan))


def by_offsets(evaluator, genes, steps=20):
    """With the offsets that are found in so many steps of the search."""
    plan = evaluator.plan(genes)
    return deployment(
        evaluator, plan, free_offsets(evaluator, plan, budget=Stop(report=after(steps)))
    )


def after(steps):
    left = iter(range(steps))

    def watch(_: Progress) -> None:
        if next(left, None) is None:
            raise GaveUp(f"{steps} steps")

    return watch


def calibrated(application):
    return {one.name: calibrated_weights(one.network, 1) for one in application.members}


def checked(application, plan, element_bytes=None):
    """The plans of all networks in the form of all plans, each checked, and all beside one another."""
    plans = streaming_plans(plan, element_bytes=element_bytes)
    for member, one in zip(application.members, plans, strict=True):
        require_carried_out(member.network, one)
    require_apart(plans)
    return plans


def run(application, plan, *, weights=None, counts=2, element_bytes=None):
    """The largest relative difference of any output of any frame from the network alone.

    counts: frames of each network, or a number for all of them.
    """
    weights = weights or calibrated(application)
    if isinstance(counts, int):
        counts = {one.name: counts for one in application.members}
    frames = [random_frames(one.network, counts[one.name], 2) for one in application.members]
    models = [Model(network=one.network, weights=weights[one.name]) for one in application.members]
    found = run_in_turn(models, checked(application, plan, element_bytes), frames)
    worst = 0.0
    for model, given, outputs in zip(models, frames, found, strict=True):
        assert len(outputs) == len(given)
        for frame, ours in zip(given, outputs, strict=True):
            alone = run_layer_by_layer(model, frame)
            assert ours.keys() == alone.keys()
            for name in alone:
                relative = difference(ours[name], alone[name]).relative
                assert relative == relative, f"{name} has a NaN"
                worst = max(worst, relative)
    return worst
