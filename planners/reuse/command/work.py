"""The work of `csdf plan reuse`: plans of several networks are searched, chosen, told and written."""

from __future__ import annotations

import argparse
import functools
import json
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import PurePath
from random import Random
from typing import TypeGuard

from cnn2csdf.commands.cnn import chosen
from cnn2csdf.commands.cnn import options as shared
from cnn2csdf.commands.cnn.chosen import durations_table
from cnn2csdf.execution.calibration import calibrated_weights
from cnn2csdf.execution.compare import differences, random_frames, worst_of
from cnn2csdf.execution.layer_by_layer import run_layer_by_layer
from cnn2csdf.platforms import NANOSECONDS, platform_named
from cnn2csdf.rewrite_names import REWRITE_NAMES
from cnn2csdf.weights import Model
from csdf.cli import answers
from csdf.cli.frame import long_work, output
from csdf.cli.frame.long_work import stop_after
from csdf.cli.loading import suffix_of
from csdf.errors import CsdfError
from csdf.io.files import is_file_or_stream, read_bytes
from csdf.io.json_value import JsonValue
from csdf.status import Status, because
from csdf.time_limit import Progress, Stop
from csdf.units import bytes_in_words
from planners.arena.allocation import ArenaWhy
from planners.memory.answer import MemoryLimits
from planners.memory.command.beside import fit_beside
from planners.memory.plan_runs import run_in_turn
from planners.memory.several_networks import Together
from planners.plan.carried_out import format_own_plans
from planners.plan.plan import StreamingPlan
from planners.published.nsga2 import SearchLimits, Settings, evolve
from planners.published.todaes import (
    as_published,
    comparison,
    read_published_application,
    selected_as_published,
)
from planners.reuse.application import (
    WHOLE,
    YAML_SUFFIXES,
    Application,
    ApplicationNetwork,
    Chromosome,
    of_one_size,
    read_application,
    single_partition,
)
from planners.reuse.bounds import memory_bound
from planners.reuse.c_tables import format_tables
from planners.reuse.command.answer import ReusePlans, as_json, as_lines, plot
from planners.reuse.command.main import LOCAL, NSGA2, PUBLISHED, PUBLISHED_STRIDE
from planners.reuse.deployment import Deployment, deployment, streaming_plans
from planners.reuse.edge_buffers import best_shared, shared_buffers
from planners.reuse.evaluation import Costs, Evaluator
from planners.reuse.executors import Checkpoint
from planners.reuse.local_search import local_search
from planners.reuse.partition import PhaseTimes
from planners.reuse.placement import free_offsets, whole_buffers
from planners.reuse.problem import (
    Front,
    SearchEnd,
    scored,
    search_problem,
)
from planners.reuse.process_pool import cluster_executor, local_executor
from planners.reuse.selection import (
    Constraints,
    chosen_point,
    placed_front,
    uniform_points,
)

PROGRAM = "csdf plan reuse"
LAYERS = "_DNN__layers"  # only networks in JSON have this key
OF_MODELS = "--shape, --simplify, and --repair are for models; an application says itself how"
MOST_STEPS = 2000  # of the search for offsets, after which the best by then is taken
BOUND_STEPS = 300  # of the search for the least live bytes, at most
EVALUATIONS_A_STEP = 10  # that are allowed, for each of these steps


def work(options: argparse.Namespace) -> int:
    """Search, choose, print; return the exit code: 1 if no plan meets the constraints."""
    begin = time.perf_counter()
    application = application_of(options)
    constraints = Constraints(throughput=dict(options.throughput))
    constraints.check_names(application)
    size = options.element_bytes if options.is_element_given else application.unit
    costs = Costs(
        element_bytes=size,
        parameter_bytes=options.parameter_bytes or (size if options.is_element_given else None),
        platform=platform_named(options.platform),
        measured=measured_times(application, options.durations),
    )
    is_ours = options.method == LOCAL and options.selection != PUBLISHED
    evaluator = Evaluator(application, costs, share=best_shared if is_ours else shared_buffers)
    limits = MemoryLimits(ram=options.ram, flash=options.flash, memory=options.memory)
    room = limits.room(evaluator.weights, evaluator.flash_bytes)
    if room is not None:
        constraints = replace(constraints, memory=evaluator.weights + room)
    stop = stop_after(options.time_limit)
    front = searched(evaluator, options, constraints, stop)
    stop.interrupt_after(front.reason)
    with answers.working("placing buffers, proving bounds"):
        answer = concluded(evaluator, front, options, constraints, limits=limits, stop=stop)
    seconds = time.perf_counter() - begin
    measured = dict.fromkeys(name for name, _ in options.durations)
    if len(measured) < len(application.members):
        shared.remark_on_platform(PROGRAM, options, tuple(measured))
    if options.output and answer.has_plan:
        output.write(PROGRAM, options.output, _text_of(answer, options))
    elif options.output:
        output.refusal(PROGRAM, f"{options.output} is not written: there is no plan")
    if options.json:
        print(json.dumps(as_json(answer, seconds), indent=2))
    else:
        print(answers.in_words(as_lines(answer, seconds), options))
    if options.plot:
        plot(options.plot, answer)
    if not answer.has_plan:
        is_proved = answer.is_exhausted or answer.is_below_bound
        return answers.NO if is_proved else answers.UNKNOWN
    return answers.ANSWERED if answer.is_equal and answer.is_within_limit else answers.NO


def _text_of(answer: ReusePlans, options: argparse.Namespace) -> str:
    """Return the file of the answer: tables of C, or a plan for each network."""
    if suffix_of(options.output) == "h" and answer.deployment is not None:
        return format_tables(answer.deployment)
    networks = [member.network for member in answer.application.members]
    planned = answer.deployment or answer.fit
    assert planned is not None
    plans = plans_of(planned, options)
    return format_own_plans(list(zip(networks, plans, strict=True)))


def application_of(options: argparse.Namespace) -> Application:
    """Return the application of a file, or of all models, in the accounting of the options.

    The models run in sequence. Raises CsdfError for an application with a further argument, and the
    exceptions of the readers.
    """
    application = _application_read(options)
    if options.is_element_given:
        application = of_one_size(application)
    if options.accounting in (PUBLISHED, PUBLISHED_STRIDE):
        keeps_stride = options.accounting == PUBLISHED_STRIDE
        application = as_published(application, keeps_stride=keeps_stride)
    return application


def _application_read(options: argparse.Namespace) -> Application:
    described = [model for model in options.models if options.entry or _is_application(model)]
    if described:
        if len(options.models) > 1:
            raise CsdfError(f"{described[0]} is an application of its own; give it alone")
        of_files = (options.shape, options.constant, options.begin, options.until, options.repair)
        if any(of_files) or options.simplify != REWRITE_NAMES:
            raise CsdfError(f"{described[0]}: {OF_MODELS}")
        if options.entry:
            return read_published_application(described[0], options.entry)
        return read_application(described[0])
    members: list[ApplicationNetwork] = []
    names: list[str] = []
    for text in options.models:
        for source in [text] if is_file_or_stream(text) else text.split("+"):
            network = chosen.read_source(source, options).network
            members.append(single_partition(network))
            names.append(network.name if is_file_or_stream(source) else source)
    return Application(name="+".join(names), members=tuple(members))


def _is_application(name: str) -> bool:
    """Whether a name ends as a YAML file does, or names a JSON file that is no network."""
    suffix = PurePath(name).suffix.lower()
    if suffix != ".json":
        return suffix in YAML_SUFFIXES
    document = JsonValue.parse(read_bytes(name).decode("utf-8", "replace"), name).value
    return not (isinstance(document, dict) and LAYERS in document)


def measured_times(
    application: Application, files: Sequence[tuple[str, str]]
) -> dict[str, PhaseTimes]:
    """Return the times of the phases of each network with files.

    Raises CsdfError for a network that does not exist, and what reading raises.
    """
    names = [member.name for member in application.members]
    measured: dict[str, dict[str, dict[int, int]]] = {}
    for name, path in files:
        if name not in names:
            raise CsdfError(
                f"--durations {name}={path}: the application has no network {name!r}; it has "
                f"{', '.join(names)}"
            )
        for layer, times in durations_table(path).items():
            measured.setdefault(name, {}).setdefault(layer, {})[len(times)] = sum(times)
    return dict(measured)


def searched(
    evaluator: Evaluator, options: argparse.Namespace, constraints: Constraints, stop: Stop
) -> Front:
    """Return the front that the chosen method reaches within its limits; it has at least one point.

    Algorithm 9 searches only if the plan of all layers whole exceeds the limit.
    """
    (whole,) = uniform_points(evaluator, ())
    limit = constraints.memory
    if options.selection == PUBLISHED and limit is not None and whole.memory <= limit:
        return Front(
            points=(whole,),
            is_finished=True,
            is_proved=False,
            reason=because(SearchEnd.AT_ONCE),
            generations=0,
            evaluations=1,
        )
    opened = (
        cluster_executor(evaluator.evaluate, options.scheduler)
        if options.scheduler
        else local_executor(evaluator.evaluate, workers=options.workers)
    )
    problem = search_problem(evaluator, options.rows)
    with opened as executor:
        if options.checkpoint:
            executor = Checkpoint(executor, options.checkpoint, problem)
            with answers.working("evaluating again the best of the checkpoint"):
                executor.open(stop)
        if options.method == NSGA2:
            # From the two plans that everybody has: all layers whole, all by rows.
            extremes = [tuple(alleles[end] for alleles in problem.alleles) for end in (0, -1)]
            front = evolve(
                problem,
                executor,
                random=Random(options.seed),
                limits=SearchLimits(generations=options.generations),
                settings=Settings(population=max(2, options.population)),
                seeds=list(dict.fromkeys(extremes)),
                budget=stop,
                tell=long_work.shown(_generation_in_words),
            )
        else:
            front = local_search(
                evaluator,
                random=Random(options.seed),
                evaluations=options.generations * options.population,
                alleles=options.rows,
                executor=executor,
                budget=long_work.telling(stop, "searching"),
            )
    return replace(front, points=front.points or (whole,))


def _generation_in_words(progress: Progress) -> str:
    return (
        f"generation {progress.done}, {answers.counted(progress.found, 'point')}, smallest "
        f"{bytes_in_words(progress.best or 0)}"
    )


def concluded(
    evaluator: Evaluator,
    front: Front,
    options: argparse.Namespace,
    constraints: Constraints,
    *,
    limits: MemoryLimits,
    stop: Stop,
) -> ReusePlans:
    """Choose from the front, place the buffers, run the plan if asked to."""
    application = evaluator.application
    is_published = options.selection == PUBLISHED
    has_whole_buffers = is_published or options.whole_buffers

    @functools.cache
    def placed(chromosome: Chromosome) -> Deployment:
        """The final plan of a chromosome; the search for offsets ends after some steps."""
        plan = evaluator.plan(chromosome)
        reason = because(ArenaWhy.NO_SMALLER, steps=MOST_STEPS)
        steps = stop.part(steps=MOST_STEPS, reason=reason)
        return deployment(evaluator, plan, free_offsets(evaluator, plan, budget=steps))

    arenas = placed_front(
        evaluator,
        front.points,
        options.rows,
        lambda chromosome: placed(chromosome).memory.peak,
        budget=stop,
    )
    printed = front.points if has_whole_buffers else arenas
    (whole,) = uniform_points(evaluator, ())
    if is_published:
        taken, step = selected_as_published(application, whole, front.points, constraints)
        output.remark(PROGRAM, f"Algorithm 9: {step.value}")
    elif (selected := chosen_point(application, printed, constraints)) is not None:
        # The point with the memory of whole buffers, which is printed next to that of the plan.
        taken = scored(evaluator, selected.chromosome)
    else:
        taken = None
    final = None
    if taken is not None and has_whole_buffers:
        plan = evaluator.plan(taken.chromosome)
        final = deployment(evaluator, plan, whole_buffers(evaluator, plan))
    elif taken is not None:
        final = placed(taken.chromosome)
    fit = _fit(evaluator, options, constraints, stop)
    is_fit_taken = taken is None and _is_answer(application, fit, constraints, options)
    plans = fit if is_fit_taken else final
    # With offsets, a plan may fit whose chromosome is dominated in whole buffers. Its periods do not
    # depend on offsets, so of an exhaustive search with offsets only the periods prove a "no".
    exact = constraints if options.whole_buffers else replace(constraints, memory=None)
    is_exhausted = front.is_proved and not exact.met_by(application, [whole, *front.points])
    bound_steps = options.generations * options.population // EVALUATIONS_A_STEP
    difference = None
    if options.verify and plans is not None:
        difference = _largest_difference(application, plans, options)
    return ReusePlans(
        evaluator=evaluator,
        methods=comparison(application, known=evaluator),
        front=front,
        whole=placed(whole.chromosome),
        plans=printed,
        smallest=placed(arenas[0].chromosome),
        limits=limits,
        memory=constraints.memory,
        rows=options.rows,
        chosen=taken,
        deployment=final,
        bound=memory_bound(
            evaluator,
            (WHOLE, *filter(None, options.rows)),
            steps=min(BOUND_STEPS, bound_steps),
            shares_tensors=True,
            budget=stop,
        ),
        is_exhausted=is_exhausted,
        fit=fit,
        is_fit_taken=is_fit_taken,
        difference=difference,
    )


def _fit(
    evaluator: Evaluator, options: argparse.Namespace, constraints: Constraints, stop: Stop
) -> Together | None:
    """Return what csdf fit finds; None for networks at the same time, and for published figures."""
    room = None if constraints.memory is None else constraints.memory - evaluator.weights
    is_published = options.accounting != "own" or options.selection == PUBLISHED
    if evaluator.application.parallel or is_published or (room is not None and room < 0):
        return None
    return fit_beside(
        [member.network for member in evaluator.application.members],
        stop,
        ram=room,
        element_bytes=evaluator.costs.element_bytes if options.is_element_given else None,
        parameter_bytes=options.parameter_bytes,
        is_streamed=True,
        platform=evaluator.costs.platform,
    )


def _is_answer(
    application: Application,
    fit: Together | None,
    constraints: Constraints,
    options: argparse.Namespace,
) -> TypeGuard[Together]:
    """Whether the plans of csdf fit meet the constraints, and are plans that were asked for.

    Whole buffers and tables of C have only plans of this command. Measured durations are not those of
    the plans of csdf fit, so that no frames a second follow.
    """
    is_table = options.output and suffix_of(options.output) == "h"
    if fit is None or options.whole_buffers or is_table:
        return False
    if fit.verdict[0] is not Status.FEASIBLE or (constraints.throughput and options.durations):
        return False
    for member, member_fit in zip(application.members, fit.fits, strict=True):
        time = member_fit.shown.nanoseconds
        rate = constraints.throughput.get(member.name)
        if rate is not None and (time is None or time * rate > NANOSECONDS):
            return False
    return True


def plans_of(plan: Deployment | Together, options: argparse.Namespace) -> tuple[StreamingPlan, ...]:
    """Return the plan in the form of all plans, one for each network."""
    if isinstance(plan, Together):
        return tuple(fit.shown.plan for fit in plan.fits)
    size = plan.evaluator.costs.element_bytes if options.is_element_given else None
    return streaming_plans(plan, element_bytes=size)


def _largest_difference(
    application: Application, plan: Deployment | Together, options: argparse.Namespace
) -> float:
    """Run all networks in the arena, two frames each, and compare with each network alone."""
    models = [
        Model(network=member.network, weights=calibrated_weights(member.network, options.seed))
        for member in application.members
    ]
    frames = [random_frames(member.network, 2, options.seed) for member in application.members]
    outputs = run_in_turn(models, plans_of(plan, options), frames)
    references = [
        [run_layer_by_layer(model, frame) for frame in frames_of_model]
        for model, frames_of_model in zip(models, frames, strict=True)
    ]
    return worst_of(chain.from_iterable(map(differences, outputs, references))).relative
