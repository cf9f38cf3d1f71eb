"""The work of `csdf plan reuse`: plans of several networks are searched, told and written.

The application of `csdf plan reuse`: read from its own file, or made of models.

The plan of `csdf plan reuse`: chosen from what the search found, placed in an arena, and run.

The search of `csdf plan reuse`: ours, or the published evolution.

`csdf plan reuse` as published: Algorithm 9's choice, the rates, measured phase times.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import PurePath
from random import Random

from cnn2csdf.commands.cnn import chosen
from cnn2csdf.commands.cnn import options as shared
from cnn2csdf.commands.cnn.chosen import durations_table
from cnn2csdf.execution.calibration import calibrated_weights
from cnn2csdf.execution.compare import difference, random_frames
from cnn2csdf.execution.whole import run_whole
from cnn2csdf.platforms import PLATFORMS
from cnn2csdf.rewrites.steps import STEPS
from cnn2csdf.weights import Model
from csdf.cli import answers
from csdf.cli.frame import long_work, output
from csdf.cli.frame.long_work import stop_after
from csdf.cli.loading import suffix_of
from csdf.errors import CsdfError
from csdf.io.files import read_bytes
from csdf.io.json_value import JsonValue
from csdf.outcome import because
from csdf.time_limit import Progress, Stop
from csdf.words import bytes_in_words
from planners.arena.allocation import ArenaWhy
from planners.memory.answer import Limits
from planners.memory.command.beside import fit_beside
from planners.memory.several import Together, run_in_turn
from planners.plan.plan import StreamingPlan
from planners.plan.text import format_plans
from planners.reuse.application.application import Application, Member, of_one_size, undivided
from planners.reuse.application.application_files import YAML_SUFFIXES, read_application
from planners.reuse.application.published_applications import (
    as_published,
    read_published_application,
)
from planners.reuse.command.answer import ReusePlans, as_json, as_text, plot
from planners.reuse.command.main import PUBLISHED
from planners.reuse.cost.bounds import tensor_bound
from planners.reuse.cost.evaluation import Costs, Evaluator, comparison
from planners.reuse.cost.least_load import searched_bound
from planners.reuse.deployment.c_tables import format_tables
from planners.reuse.deployment.deployment import (
    Deployment,
    deployment,
    free_offsets,
    streaming_plans,
    whole_buffers,
)
from planners.reuse.edge_buffers import best_shared, shared_buffers
from planners.reuse.front.candidates import (
    Demands,
    fastest,
    selected,
    selected_as_published,
    smallest,
    uniform_points,
)
from planners.reuse.front.guided.beyond_search import search_beyond
from planners.reuse.front.nsga2.checkpoint import Checkpoint
from planners.reuse.front.nsga2.nsga2 import SearchLimits, SearchState, Settings, evolve, origin_of
from planners.reuse.front.places.evaluation import Place
from planners.reuse.front.places.executors import cluster_place, local_place
from planners.reuse.front.problem import Front, FrontWhy, Point, Problem
from planners.reuse.front.search_problem import Scoring, search_problem
from planners.reuse.partition.evaluated_partition import PhaseTimes


def work(options: argparse.Namespace) -> int:
    """Search, choose, print; return the exit code: 1 if no plan meets the demands."""
    demands = Demands(throughput=dict(options.throughput))
    application = application_of(options)
    if options.is_element_given:
        application = of_one_size(application)
    if options.accounting == PUBLISHED:
        application = as_published(application)
    demands.check_names(application)
    answer = _answer(application, options, demands)
    _remark_on_platform(application, options)
    if options.output and answer.deployment is not None:
        text = _document(application, answer.deployment, options)
        output.write("csdf plan reuse", options.output, text)
    elif options.output:
        print(
            f"csdf plan reuse: {options.output} is not written: there is no plan", file=sys.stderr
        )
    print(json.dumps(as_json(answer), indent=2) if options.json else as_text(answer))
    if options.plot:
        plot(options.plot, answer)
    if answer.chosen is None:
        is_proved = answer.front.is_proved or answer.is_below_bound
        return answers.NO if is_proved else answers.UNKNOWN
    return answers.ANSWERED if answer.is_equal and answer.is_within_limit else answers.NO


def _remark_on_platform(application: Application, options: argparse.Namespace) -> None:
    """Say of which processor the times are, of networks without measured ones."""
    measured = dict.fromkeys(name for name, _ in options.durations)
    if len(measured) < len(application.members):
        shared.remark_on_platform("csdf plan reuse", options, tuple(measured))


def _document(application: Application, plan: Deployment, options: argparse.Namespace) -> str:
    """The plan as JSON in the form of all plans, or as tables for C."""
    if suffix_of(options.output) == "h":
        return format_tables(plan)
    return format_plans(plans_of(application, plan, options))


def _answer(application: Application, options: argparse.Namespace, demands: Demands) -> ReusePlans:
    begin = time.perf_counter()
    size = options.element_bytes if options.is_element_given else application.unit
    costs = Costs(
        element_bytes=size,
        parameter_bytes=options.parameter_bytes or (size if options.is_element_given else None),
        platform=PLATFORMS[options.platform],
        measured=measured_times(application, options.durations),
    )
    is_ours = options.method == "beyond" and options.selection != PUBLISHED
    evaluator = Evaluator(application, costs, share=best_shared if is_ours else shared_buffers)
    stop = stop_after(options.time_limit)
    front = front_at_once(evaluator, options) or searched(evaluator, options, stop)
    with answers.working("placing buffers, proving bounds"):
        return concluded(evaluator, front, options, demands, begin=begin, stop=stop)


LAYERS = "_DNN__layers"  # only networks in JSON have this key
OF_MODELS = (
    "--shape, --simplify, --fuse and --repair are for models; an application says itself how"
)


def application_of(options: argparse.Namespace) -> Application:
    """Return the application of a file, or one of all models.

    Raises CsdfError for an application beside something else, and what the readers raise.
    """
    described = [one for one in options.models if options.entry or _is_application(one)]
    if not described:
        return _application_of_models(options.models, options)
    if len(options.models) > 1:
        raise CsdfError(f"{described[0]} is an application of its own; give it alone")
    if options.shape or options.repair or options.simplify != STEPS:
        raise CsdfError(f"{described[0]}: {OF_MODELS}")
    if options.entry:
        return read_published_application(described[0], options.entry)
    return read_application(described[0])


def _is_application(name: str) -> bool:
    """Whether a name is that of a YAML file, or of a JSON file that is no network."""
    suffix = PurePath(name).suffix.lower()
    if suffix != ".json":
        return suffix in YAML_SUFFIXES
    found = JsonValue.parse(read_bytes(name).decode("utf-8", "replace"), name).value
    return not (isinstance(found, dict) and LAYERS in found)


def _application_of_models(models: Sequence[str], options: argparse.Namespace) -> Application:
    """The networks run one after another; a network of a file has the name that stands there."""
    members: list[Member] = []
    names: list[str] = []
    for source in (one for text in models for one in _sources(text)):
        network = chosen.read_source(source, options).network
        members.append(undivided(network))
        names.append(network.name if os.path.exists(source) else source)
    return Application(name="+".join(names), members=tuple(members))


def _sources(text: str) -> Iterator[str]:
    """A file, or what stands between plus signs."""
    if os.path.exists(text):
        yield text
    else:
        yield from text.split("+")


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

    If the time was too short for any point, the plan is that of all layers whole.
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


def searched(evaluator: Evaluator, options: argparse.Namespace, stop: Stop) -> Front:
    """Return the front that the method chosen finds within the limits."""
    if options.checkpoint and options.method != "evolution":
        raise CsdfError("--checkpoint is for --method evolution")
    with _place(evaluator, options) as place:
        if options.method == "evolution":
            return _evolved(search_problem(evaluator, options.rows), place, options, stop)
        return search_beyond(
            evaluator,
            random=Random(options.seed),
            evaluations=options.generations * options.population,
            alleles=options.rows,
            place=place,
            budget=long_work.telling(stop, "searching"),
        ).front


def _evolved(problem: Problem, place: Place, options: argparse.Namespace, stop: Stop) -> Front:
    """The evolution, from the two plans that everybody has: all whole, all by rows."""
    settings = Settings(population=max(2, options.population))
    whole = tuple(alleles[0] for alleles in problem.alleles)
    parts = tuple(alleles[-1] for alleles in problem.alleles)
    seeds = [whole] if whole == parts else [whole, parts]
    random = Random(options.seed)
    state: SearchState | None = None
    keep = _shown()
    if options.checkpoint:
        checkpoint = Checkpoint(options.checkpoint, problem)
        if os.path.exists(options.checkpoint):
            origin = origin_of(problem, random=random, settings=settings, seeds=seeds)
            with answers.working("evaluating again what the checkpoint says"):
                state = checkpoint.read(origin, place, stop)
        show = keep

        def keep(now: SearchState) -> None:
            show(now)
            checkpoint.write(now)

    return evolve(
        problem,
        place,
        random=random,
        limits=SearchLimits(generations=options.generations),
        settings=settings,
        seeds=seeds,
        budget=stop,
        keep=keep,
        state=state,
    )


def _place(evaluator: Evaluator, options: argparse.Namespace) -> AbstractContextManager[Place]:
    evaluate = Scoring(evaluator)
    if options.scheduler:
        return cluster_place(evaluate, options.scheduler)
    return local_place(evaluate, workers=options.workers)


def _shown() -> Callable[[SearchState], None]:
    """Return a function that shows a generation now and then on standard error."""
    report = long_work.shown(_in_words)

    def show(state: SearchState) -> None:
        sizes = (int(one.score.objectives[0]) for one in state.archive)
        smallest = min(sizes, default=0)
        report(Progress(done=state.generation, found=len(state.archive), best=smallest))

    return show


def _in_words(progress: Progress) -> str:
    return (
        f"generation {progress.done}, {answers.counted(progress.found, 'point')}, smallest "
        f"{bytes_in_words(progress.best or 0)}"
    )


def measured_times(
    application: Application, files: Sequence[tuple[str, str]]
) -> dict[str, PhaseTimes]:
    """Return what the phases of each network take that has files.

    Raises CsdfError for a network that is not there, and what reading raises.
    """
    names = [member.name for member in application.members]
    found: dict[str, dict[str, dict[int, int]]] = {}
    for name, path in files:
        if name not in names:
            raise CsdfError(
                f"--durations {name}={path}: the application has no network {name!r}; it has "
                f"{', '.join(names)}"
            )
        for layer, times in durations_table(path).items():
            found.setdefault(name, {}).setdefault(layer, {})[len(times)] = sum(times)
    return dict(found)


def front_at_once(evaluator: Evaluator, options: argparse.Namespace) -> Front | None:
    """Return the one point of all layers whole where Algorithm 9 takes it; None where it searches."""
    limits = Limits(ram=options.ram, flash=options.flash, memory=options.memory)
    room = limits.room(evaluator.weights, evaluator.flash_bytes)
    (whole,) = uniform_points(evaluator, ())
    if options.selection != PUBLISHED or room is None:
        return None
    if whole.score.objectives[0] > evaluator.weights + room:
        return None
    return Front(
        points=(whole,),
        is_finished=True,
        is_proved=False,
        reason=because(FrontWhy.AT_ONCE),
        generations=0,
        evaluations=1,
        least_violation=0,
    )


def chosen_as_published(
    evaluator: Evaluator, points: Sequence[Point], demands: Demands
) -> Point | None:
    """Return the point of Algorithm 9, and say on standard error by which step it was taken."""
    (whole,) = uniform_points(evaluator, ())
    point, step = selected_as_published(evaluator.application, whole, points, demands)
    print(f"csdf plan reuse: Algorithm 9: {step.value}", file=sys.stderr)
    return point
