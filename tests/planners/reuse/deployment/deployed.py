"""Applications made ready to run, and run beside each network alone."""

from cnn2csdf.execution.calibration import calibrated_weights
from cnn2csdf.execution.compare import difference, random_frames
from cnn2csdf.execution.whole import run_whole
from cnn2csdf.weights import Model
from csdf.errors import GaveUp
from csdf.stopping import Progress, Stop
from planners.reuse.deployment.execution import run_deployment
from planners.reuse.deployment.making import deployment
from planners.reuse.deployment.placement import free_offsets, whole_buffers

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


def run(application, plan, *, weights=None, counts=3, frames_a_turn=2):
    """The largest relative difference of any output of any frame from the network alone.

    counts: frames of each network, or a number for all of them.
    """
    weights = weights or calibrated(application)
    if isinstance(counts, int):
        counts = {one.name: counts for one in application.members}
    frames = {
        one.name: random_frames(one.network, counts[one.name], 2) for one in application.members
    }
    found = run_deployment(
        application, plan, weights=weights, frames=frames, frames_a_turn=frames_a_turn
    )
    worst = 0.0
    for member in application.members:
        model = Model(network=member.network, weights=weights[member.name])
        assert len(found[member.name]) == counts[member.name]
        for frame, ours in zip(frames[member.name], found[member.name], strict=True):
            alone = run_whole(model, frame)
            assert ours.keys() == alone.keys()
            for name in alone:
                relative = difference(ours[name], alone[name]).relative
                assert relative == relative, f"{name} has a NaN"
                worst = max(worst, relative)
    return worst
