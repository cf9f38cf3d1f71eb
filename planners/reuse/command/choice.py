"""The plan of `csdf plan reuse`: chosen from what the search found, placed in an arena, and run."""

from __future__ import annotations

import argparse
import functools
import time
from collections.abc import Sequence
from dataclasses import replace

from cnn2csdf.execution.calibration import calibrated_weights
from cnn2csdf.execution.compare import difference, random_frames
from cnn2csdf.execution.whole import run_whole
from cnn2csdf.weights import Model
from csdf.outcome import because
from csdf.stopping import Stop
from planners.arena.allocation import ArenaWhy
from planners.limits import Limits
from planners.memory.several import Together
from planners.reuse.application.application import Application
from planners.reuse.command.answer import ReusePlans
from planners.reuse.command.options import PUBLISHED
from planners.reuse.command.published import chosen_as_published
from planners.reuse.cost.bounds import tensor_bound
from planners.reuse.cost.comparison import comparison
from planners.reuse.cost.evaluation import Evaluator
from planners.reuse.cost.least_load import searched_bound
from planners.reuse.deployment.as_plans import streaming_plans
from planners.reuse.deployment.deployment import Deployment
from planners.reuse.deployment.making import deployment
from planners.reuse.deployment.placement import free_offsets, whole_buffers
from planners.reuse.front.candidates import fastest, smallest, uniform_points
from planners.reuse.front.problem import Front, Point
from planners.reuse.front.selection import Demands, selected
from planners.streaming.at_work.in_turn import run_in_turn
from planners.streaming.command.beside import fit_beside
from planners.streaming.plan import StreamingPlan

MOST_STEPS = 2000  # of the search for offsets, after which the best by then is taken
BOUND_STEPS = 300  # of the search for the least in use together, at most
EVALUATIONS_A_STEP = 10  # that are allowed, for each of these steps


def concluded(
    evaluator: Evaluator,
    front: Front,
    options: argparse.Namespace,
    demands: Demands,
    *,
    begin: float,
    stop: Stop,
) -> ReusePlans:
    """Choose from the front, place the buffers, run the plan if asked to.

    A front without points has that of all layers whole: whoever has no time has this plan.
    """
    application, costs = evaluator.application, evaluator.costs
    front = replace(front, points=front.points or uniform_points(evaluator, ()))
    limits = Limits(ram=options.ram, flash=options.flash, memory=options.memory)
    room = limits.room(evaluator.weights, evaluator.flash_bytes)
    if room is not None:
        demands = replace(demands, memory=evaluator.weights + room)
    placed = functools.cache(functools.partial(_by_offsets, evaluator, stop=stop))
    least = smallest(evaluator, front.points, options.rows, Demands(), budget=stop)
    chosen = least
    is_published = options.selection == PUBLISHED
    if demands != Demands() or options.whole_buffers or is_published:
        chosen = _chosen(evaluator, front.points, options, demands, stop)
    plan = None
    if chosen is not None:
        plan = (
            _by_buffers(evaluator, chosen)
            if options.whole_buffers or is_published
            else placed(chosen)
        )
    run = plan is not None and options.verify
    return ReusePlans(
        application=application,
        evaluator=evaluator,
        methods=comparison(application, costs, known=evaluator),
        front=front,
        whole=placed(uniform_points(evaluator, ())[0]),
        smallest=placed(least or front.points[0]),
        limits=limits,
        memory=demands.memory,
        rows=options.rows,
        chosen=chosen,
        deployment=plan,
        bound=_bound(evaluator, options, stop),
        fit=_fit(application, evaluator, options, room, stop),
        difference=_largest_difference(application, plan, options) if plan and run else None,
        seconds=time.perf_counter() - begin,
    )


def _fit(
    application: Application,
    evaluator: Evaluator,
    options: argparse.Namespace,
    room: int | None,
    stop: Stop,
) -> Together | None:
    """Return what csdf fit finds; None for networks at the same time, and for published figures."""
    is_published = PUBLISHED in (options.selection, options.accounting)
    if application.parallel or is_published or (room is not None and room < 0):
        return None
    return fit_beside(
        [member.network for member in application.members],
        stop,
        ram=room,
        element_bytes=evaluator.costs.element_bytes if options.is_element_given else None,
        parameter_bytes=options.parameter_bytes,
        is_streamed=True,
        platform=evaluator.costs.platform,
    )


def _bound(evaluator: Evaluator, options: argparse.Namespace, stop: Stop) -> int:
    """Bytes that no chromosome is below, where readers of a tensor may share its place."""
    genes = [None, *filter(None, options.rows)]
    evaluations = options.generations * options.population
    steps = min(BOUND_STEPS, evaluations // EVALUATIONS_A_STEP)
    searched = searched_bound(evaluator, genes, steps=steps, shares_tensors=True, budget=stop)
    return max(tensor_bound(evaluator, genes), searched)


def _chosen(
    evaluator: Evaluator,
    points: Sequence[Point],
    options: argparse.Namespace,
    demands: Demands,
    stop: Stop,
) -> Point | None:
    """The point that meets the demands: by its offsets, or by whole buffers where these are asked."""
    if options.selection == PUBLISHED:
        return chosen_as_published(evaluator, points, demands)
    if options.whole_buffers:
        return selected(evaluator.application, points, demands)
    choose = smallest if demands.memory is None else fastest
    return choose(evaluator, points, options.rows, demands, budget=stop)


def _by_buffers(evaluator: Evaluator, point: Point) -> Deployment:
    """The published plan of a point: whole buffers one after another."""
    plan = evaluator.plan(tuple(gene or None for gene in point.chromosome))
    return deployment(evaluator, plan, whole_buffers(evaluator, plan))


def _by_offsets(evaluator: Evaluator, point: Point, *, stop: Stop) -> Deployment:
    """The final plan of a point; the search for offsets ends after some steps."""
    plan = evaluator.plan(tuple(gene or None for gene in point.chromosome))
    reason = because(ArenaWhy.NO_SMALLER, steps=MOST_STEPS)
    steps = stop.part(steps=MOST_STEPS, reason=reason)
    return deployment(evaluator, plan, free_offsets(evaluator, plan, budget=steps))


def plans_of(
    application: Application, plan: Deployment, options: argparse.Namespace
) -> tuple[StreamingPlan, ...]:
    """Return the plan in the form of all plans, one for each network."""
    size = plan.element_bytes if options.is_element_given else None
    return streaming_plans(application, plan, element_bytes=size)


def _largest_difference(
    application: Application, plan: Deployment, options: argparse.Namespace
) -> float:
    """Run all networks in the arena, two frames each, and compare with each network alone."""
    models = [
        Model(network=one.network, weights=calibrated_weights(one.network, options.seed))
        for one in application.members
    ]
    frames = [random_frames(one.network, 2, options.seed) for one in application.members]
    found = run_in_turn(models, plans_of(application, plan, options), frames)
    worst = 0.0
    for model, given, outputs in zip(models, frames, found, strict=True):
        for frame, ours in zip(given, outputs, strict=True):
            for name, expected in run_whole(model, frame).items():
                worst = max(worst, difference(ours[name], expected).relative)
    return worst
