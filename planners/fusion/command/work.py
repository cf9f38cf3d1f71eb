"""The work of `csdf plan fusion`: groups and tiles are searched, told, run and written."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from cnn2csdf.commands.cnn import chosen
from cnn2csdf.commands.cnn import options as shared
from cnn2csdf.commands.cnn.chosen import with_weights
from cnn2csdf.fixed_point.flash import and_in_flash, flash_bytes
from cnn2csdf.network import Network
from cnn2csdf.parameters import network_multiply_accumulates, parameter_bytes
from cnn2csdf.platforms import platform_named
from cnn2csdf.weights import Model
from csdf.cli import answers, loading
from csdf.cli.frame import output
from csdf.cli.frame.long_work import stop_after
from csdf.status import Status, Why, because
from csdf.units import nanoseconds_in_words, needed_bytes_in_words, time_in_words
from planners.formats.c_header import format_header
from planners.fusion.command.main import FITTED, PUBLISHED, is_chosen
from planners.fusion.groups import Terms
from planners.fusion.measured import MeasuredPlan, fitted_platform, or_measured, read_measured
from planners.fusion.planning import (
    FusionAnswer,
    FusionPlan,
    FusionWhy,
    best_plan,
    fusion_plan,
)
from planners.memory.answer import MemoryLimits, ScratchCount
from planners.memory.command.beside import as_json as fit_as_json
from planners.memory.command.beside import fit_beside, in_words
from planners.memory.command.verify import Check, verified
from planners.memory.order import TopologicalOrder, chain_of
from planners.memory.several_networks import Together
from planners.memory.times import measured_work
from planners.plan.carried_out import format_own_plans
from planners.plan.regions import layer_range
from planners.published.mafat import (
    MB,
    Predictor,
    named_configuration,
    paper_name,
    paper_search,
    predicted,
    tiled_sections,
)

PROGRAM = "csdf plan fusion"
KIB = 2**10
PREDICTORS = {PUBLISHED: Predictor.PRINTED, FITTED: Predictor.FITTED}  # by --method


class ChosenWhy(Why):
    """The source of a plan that no search here has found."""

    REST = "{answer}; layers from {first!r} on cannot be tiled and run one by one"

    GIVEN = "{name} as given; MAFAT predicts {printed}, with the fit {fitted}"
    PUBLISHED = "Algorithm 3 of MAFAT chooses {name}; predicted {printed}, with the fit {fitted}"
    TOO_LARGE = (
        "no configuration of MAFAT's Algorithm 3 is below {limit} bytes; its last candidate is "
        "{name}; predicted {printed}, with the fit {fitted}"
    )
    BEYOND = "{name} as given needs an arena of {needed} bytes, more than {limit}"


def work(options: argparse.Namespace) -> int:
    """Print the plan; return the exit code: 1 if none fits or a run differs, 3 if it is unknown."""
    begin = time.perf_counter()
    whole = chosen.read(options, with_weights=options.verify)
    model = whole if options.layers == (0, None) else layer_range(whole, *options.layers)
    if options.verify:
        model = with_weights(PROGRAM, model, options.seed)
    chain = chain_of(model.network)
    terms, measured, error = _terms(options, model.network, chain)
    weights = parameter_bytes(model.network, options.element_bytes)
    limit = MemoryLimits(ram=options.ram, memory=options.memory).room(weights, weights)
    stop = stop_after(options.time_limit, "groups", effort=options.effort)
    beside = None
    if is_chosen(options):
        answer = chosen_answer(chain, terms, options, limit)
    else:
        answer = best_plan(chain, terms, sys.maxsize if limit is None else max(0, limit), stop)
        answer = answer if error is None else or_measured(answer, measured, error, limit)
        if terms.measured is None:  # csdf fit has no measured times
            beside = fit_beside(
                [model.network],
                stop,
                ram=limit,
                element_bytes=options.element_bytes,
                platform=terms.platform,
            )
    is_cut_short = stop.is_cut_short and answer.status is not Status.OPTIMAL
    core = terms.platform.core_name
    stored = flash_bytes(model.network, options.element_bytes, core)  # as csdf fit counts
    if options.memory is not None and weights > options.memory:
        reason = because(FusionWhy.PARAMETERS, needed=weights, memory=options.memory)
        answer = replace(answer, plan=None, status=Status.INFEASIBLE, reason=reason)
    if options.flash is not None and stored > options.flash:
        reason = because(FusionWhy.FLASH, needed=stored, flash=options.flash)
        answer = replace(answer, plan=None, status=Status.INFEASIBLE, reason=reason)
    check = None
    if options.verify and answer.plan is not None:
        check = verified(model, answer.plan.plan, options.seed)
    seconds = time.perf_counter() - begin
    if error is None:
        shared.remark_on_platform(PROGRAM, options)
    else:
        launch, speed = terms.platform.launch, terms.platform.operations_per_second
        output.remark(
            PROGRAM,
            f"fitted to {len(measured)} times: {float(launch) * 1e6:.4g} us to start a phase, "
            f"{float(speed) / 1e9:.4g} GOP/s, at most {float(error):.1%} too fast",
        )
    if options.json:
        print(json.dumps(as_json(answer, beside, check, seconds, options), indent=2))
    else:
        shows_plan = limit is not None or is_chosen(options)
        stored_bytes = stored if shows_plan else None
        lines = as_lines(model, answer, beside, check, options, stored_bytes)
        if is_cut_short:
            lines = with_cut_short(lines, model.network.name)
        lines.append(answers.Detail(f"  time                {time_in_words(seconds)}"))
        print(answers.in_words(lines, options))
    if options.output:
        first, _ = options.layers
        end = first + sum(not layer.is_end for layer in model.network.layers)
        planned_layers = None if options.layers == (0, None) else (first, end)
        _write(options.output, model.network, answer.plan, planned_layers)
    if options.plot:
        _plot(options.plot, answer, options.model, limit)
    return _exit_code(answer, check, options, is_cut_short=is_cut_short)


def _terms(
    options: argparse.Namespace, network: Network, chain: TopologicalOrder
) -> tuple[Terms, tuple[MeasuredPlan, ...], Fraction | None]:
    """Return the terms of the search; with --measured, the times and the error of their fit."""
    # MAFAT counts the scratch of im2col, all other methods count none.
    usual = ScratchCount.IM2COL if is_chosen(options) else ScratchCount.NONE
    platform = platform_named(options.platform)
    durations = None
    if options.durations is not None:
        table = chosen.durations_table(options.durations)
        durations = measured_work(network, table, platform.launch)
    sides = range(1, options.tiles + 1)
    terms = Terms(
        platform=platform,
        measured=durations,
        scratch=usual if options.scratch is None else ScratchCount(options.scratch),
        element_bytes=options.element_bytes,
        tilings=tuple((down, across) for down in sides for across in sides),
        modes=options.modes,
    )
    if options.measured is None:
        return terms, (), None
    measured = read_measured(options.measured, chain, terms)
    platform, error = fitted_platform(chain, terms, measured)
    return replace(terms, platform=platform), measured, error


def _exit_code(
    answer: FusionAnswer,
    check: Check | None,
    options: argparse.Namespace,
    *,
    is_cut_short: bool,
) -> int:
    """Return the exit code; print the reason of an answer that is not proved or not shown."""
    if check is not None and not check.is_equal:
        return answers.NO
    if answer.status == Status.FEASIBLE or (options.json and answer.plan is None):
        output.refusal(PROGRAM, f"{answer.status}: {answer.reason}")
    if answer.plan is None:
        return answers.UNKNOWN if answer.status == Status.UNKNOWN else answers.NO
    if is_cut_short and not options.best_effort:
        return answers.UNKNOWN
    return answers.ANSWERED


def chosen_answer(
    chain: TopologicalOrder, terms: Terms, options: argparse.Namespace, limit: int | None
) -> FusionAnswer:
    """Return the plan of the configuration that is given, or that MAFAT's search chooses.

    Raises InvalidPlan where the configuration does not fit the chain.
    """
    memory = limit or 0
    if options.configuration is not None:
        groups, why = named_configuration(chain, options.configuration), ChosenWhy.GIVEN
    else:
        predictor = PREDICTORS[options.method]
        groups = paper_search(chain, memory, predictor, options.bias)
        fits = predicted(chain, groups, predictor, options.bias) < memory
        why = ChosenWhy.PUBLISHED if fits else ChosenWhy.TOO_LARGE
    sizes = [predicted(chain, groups, predictor, options.bias) for predictor in Predictor]
    by_printed, by_fitted = (
        f"{size / MB:.1f} MiB" if size >= MB else f"{size / KIB:.1f} KiB" for size in sizes
    )
    name = paper_name(groups)
    reason = because(why, name=name, printed=by_printed, fitted=by_fitted, limit=memory)
    if options.configuration is None and (end := tiled_sections(chain)) < chain.sections:
        first = chain.between(end, end + 1)[0].name
        reason = because(ChosenWhy.REST, answer=reason, first=first)
    plan = fusion_plan(chain, groups, terms)
    if options.configuration is not None and limit is not None and plan.memory > limit:
        name, needed = options.configuration, plan.memory
        reason = because(ChosenWhy.BEYOND, name=name, needed=needed, limit=limit)
        return FusionAnswer(plan=None, status=Status.INFEASIBLE, reason=reason, lower_bound=needed)
    return FusionAnswer(plan=plan, status=Status.FEASIBLE, reason=reason, lower_bound=0)


def _write(
    path: str, network: Network, plan: FusionPlan | None, layers: tuple[int, int] | None
) -> None:
    """Write a plan. layers: first and one past the last of the planned layers; None for all."""
    if plan is None:
        output.refusal(PROGRAM, f"{path} is not written: there is no plan")
        return
    text = format_own_plans([(network, replace(plan.plan, layers=layers))])
    if loading.suffix_of(path) == "h":
        text = format_header([plan.arena])
    output.write(PROGRAM, path, text)


def _plot(path: str, answer: FusionAnswer, name: str, limit: int | None) -> None:
    draw = loading.drawing("planners.fusion.command.picture")
    marks = {"limit": limit, "plan": None if answer.plan is None else answer.plan.memory}
    picture = draw.front_picture(
        f"{name}: time over memory",
        [(point.memory, point.nanoseconds) for point in answer.front],
        across="arena",
        up="predicted time (ms)",
        label="fastest that fits",
        marks=marks,
        suffix=loading.suffix_of(path),
    )
    output.write(PROGRAM, path, picture)


def as_lines(
    model: Model,
    answer: FusionAnswer,
    beside: Together | None,
    check: Check | None,
    options: argparse.Namespace,
    stored: int | None,
) -> list[str]:
    """Return the plan and the front, as requested, and the result of a run.

    beside: what csdf fit finds. stored: bytes of the parameters in flash; None to leave the plan out.
    """
    lines = []
    if answer.plan is None:
        lines.append(f"{model.network.name}: {answer.status}: {answer.reason}")
    elif stored is not None:
        lines += _plan_lines(answer.plan, answer.status, stored)
    for point in answer.to_records() if options.front else ():
        duration = nanoseconds_in_words(point["nanoseconds"], 4)
        lines.append(
            f"  {point['arena_bytes']:>12} bytes  {duration:>9}  {', '.join(point['groups'])}"
        )
    if beside is not None:
        lines += [f"  csdf fit            {in_words(beside)}"]
    if check is not None:
        verdict = "equal" if check.is_equal else "DIFFERENT"
        lines += [
            f"{model.network.name}: {verdict}: the run in its arena and the run without a plan",
            f"  largest difference  {check.difference.largest:.3g} "
            f"({check.difference.relative:.3g} of the largest output)",
            f"  high water mark     {needed_bytes_in_words(check.high_water_bytes)} of the arena; "
            "each access inside its buffer",
            answers.Detail(f"  time of the run     {time_in_words(check.seconds)}"),
        ]
    return lines


def with_cut_short(lines: Sequence[str], network: str) -> list[str]:
    """Return the lines of an answer; the first line says that the time limit ended the search."""
    if lines and lines[0].startswith(f"{network}: "):
        return [answers.cut_short(lines[0]), *lines[1:]]
    return [answers.cut_short(f"{network}: the points found by then"), *lines]


def _plan_lines(plan: FusionPlan, status: str, stored: int) -> list[str]:
    groups = plan.to_records()
    names = [
        f"{group['first']} to {group['last']}" if group["layers"] > 1 else group["first"]
        for group in groups
    ]
    width = max(map(len, names))
    network, scratch = plan.chain.network, plan.terms.scratch
    necessary = network_multiply_accumulates(network)
    counted = "" if scratch is ScratchCount.NONE else f", scratch of convolutions: {scratch.value}"
    extra = plan.redundant / max(1, necessary)
    recomputation = f"{extra:.2%} redundant MACs" if plan.redundant else "no recomputation"
    return [
        f"{network.name}: arena {needed_bytes_in_words(plan.memory)} ({plan.memory} bytes), "
        f"{recomputation}, predicted {nanoseconds_in_words(plan.nanoseconds, 4)}; {status}",
        f"  {'group':<{width}}  {'layers':>9}  tiles (rows x columns) and halo",
        *(
            f"  {name:<{width}}  {group['layers']:>9}  {group['mode']}"
            for name, group in zip(names, groups, strict=True)
        ),
        f"  parameters          {needed_bytes_in_words(plan.parameter_bytes)}, outside the arena"
        f"{and_in_flash(plan.parameter_bytes, stored)}",
        answers.Detail(f"  necessary MACs      {necessary}"),
        answers.Detail(f"  counted             input and tensors between groups whole{counted}"),
    ]


def as_json(
    answer: FusionAnswer,
    beside: Together | None,
    check: Check | None,
    seconds: float,
    options: argparse.Namespace,
) -> dict[str, Any]:
    """Return all of the answer."""
    document = answer.to_json()
    if not options.front:
        del document["front"]
    if check is not None:
        document["verified"] = check.to_json()
    return {**document, "fit": fit_as_json(beside), "seconds": round(seconds, 6)}
