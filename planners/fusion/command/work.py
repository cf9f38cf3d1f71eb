"""The work of `csdf plan fusion`: groups and tiles are searched, told, run and written."""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import replace

from cnn2csdf.commands.cnn import chosen
from cnn2csdf.commands.cnn import options as shared
from cnn2csdf.commands.cnn.chosen import with_weights
from cnn2csdf.execution.compare import difference, random_frames
from cnn2csdf.execution.whole import run_layers
from cnn2csdf.fixed_point.flash import flash_bytes
from cnn2csdf.network import Network
from cnn2csdf.parameters import parameter_bytes
from cnn2csdf.platforms import PLATFORMS
from cnn2csdf.weights import Model
from csdf.cli import answers, loading
from csdf.cli.frame import output
from csdf.cli.frame.long_work import stop_after
from csdf.outcome import Reason, Status, Why, because
from planners.formats.c_header import format_header
from planners.fusion.chains import Chain, chain_of
from planners.fusion.command.answer import Check, as_json, as_text
from planners.fusion.command.main import FITTED, PUBLISHED, is_chosen
from planners.fusion.configurations import Configuration
from planners.fusion.planning import FusionWhy, best_plan, fusion_plan, run_fused
from planners.fusion.plans import FusionAnswer, FusionPlan
from planners.fusion.search import Terms
from planners.fusion.ways import Scratch
from planners.limits import Limits
from planners.published.mafat import (
    MB,
    Predictor,
    named_configuration,
    paper_name,
    paper_search,
    predicted,
)
from planners.streaming.command.beside import fit_beside
from planners.streaming.given.plan_text import format_plans
from planners.tiling.layer_ranges import layer_range

PREDICTORS = {PUBLISHED: Predictor.PRINTED, FITTED: Predictor.FITTED}  # by --method


class ChosenWhy(Why):
    """The source of a plan that no search here has found."""

    GIVEN = "{name} as given; MAFAT predicts {printed:.1f} MiB, with the fit {fitted:.1f} MiB"
    PUBLISHED = (
        "Algorithm 3 of MAFAT chooses {name}; predicted {printed:.1f} MiB, with the fit "
        "{fitted:.1f} MiB"
    )
    TOO_LARGE = (
        "Algorithm 3 of MAFAT finds nothing below {limit} bytes and takes {name}; predicted "
        "{printed:.1f} MiB, with the fit {fitted:.1f} MiB"
    )
    BEYOND = "{name} as given needs an arena of {needed} bytes, more than {limit}"


def chosen_answer(
    chain: Chain, terms: Terms, options: argparse.Namespace, limit: int | None
) -> FusionAnswer:
    """Return the plan of the configuration that is given, or that MAFAT's search chooses.

    Raises InvalidPlan where the configuration does not fit the chain.
    """
    if options.configuration is not None:
        groups = named_configuration(chain, options.configuration)
        reason = _reason(ChosenWhy.GIVEN, chain, groups)
    else:
        memory, predictor = limit or 0, PREDICTORS[options.method]
        groups = paper_search(chain, memory, predictor)
        fits = predicted(chain, groups, predictor) < memory
        why = ChosenWhy.PUBLISHED if fits else ChosenWhy.TOO_LARGE
        reason = _reason(why, chain, groups, limit=memory)
    plan = fusion_plan(chain, groups, terms)
    answer = FusionAnswer(plan=plan, front=(), status=Status.FEASIBLE, reason=reason, lower_bound=0)
    if options.configuration is None or limit is None or plan.memory <= limit:
        return answer
    beyond = because(ChosenWhy.BEYOND, name=options.configuration, needed=plan.memory, limit=limit)
    return FusionAnswer(
        plan=None, front=(), status=Status.INFEASIBLE, reason=beyond, lower_bound=plan.memory
    )


def _reason(why: ChosenWhy, chain: Chain, groups: Configuration, **values: int) -> Reason:
    """Why, with what both predictors say of the configuration."""
    printed, fitted = (predicted(chain, groups, one) / MB for one in Predictor)
    return because(why, name=paper_name(groups), printed=printed, fitted=fitted, **values)


def _header(plan: FusionPlan) -> str:
    return format_header([plan.arena])


def _document(plan: FusionPlan, layers: tuple[int, int] | None) -> str:
    return format_plans([replace(plan.plan, layers=layers)])


def work(options: argparse.Namespace) -> int:
    """Print the plan; return the exit code: 1 if none fits or a run differs, 3 if it gave up."""
    begin = time.perf_counter()
    model = _model(options)
    chain = chain_of(model.network)
    terms = _terms(options)
    weights = parameter_bytes(model.network, options.element_bytes)
    stored = flash_bytes(model.network, options.element_bytes)  # as csdf fit counts
    limit = _limit(options, weights)
    stop = stop_after(options.budget, "groups")
    if is_chosen(options):
        answer = chosen_answer(chain, terms, options, limit)
    else:
        answer = best_plan(chain, terms, sys.maxsize if limit is None else limit, stop)
    answer = _in_flash(answer, options.flash, stored)
    beside = None
    if not is_chosen(options):
        beside = fit_beside(
            [model.network],
            stop,
            ram=limit,
            element_bytes=options.element_bytes,
            platform=PLATFORMS[options.platform],
        )
    check = None
    if options.verify and answer.plan is not None:
        check = _verified(model, answer.plan, options.seed)
    seconds = time.perf_counter() - begin
    shared.remark_on_platform("csdf plan fusion", options)
    if options.json:
        print(json.dumps(as_json(answer, beside, check, seconds, options), indent=2))
    else:
        shows_plan = limit is not None or is_chosen(options)
        print(as_text(model, answer, beside, check, seconds, options, shows_plan=shows_plan))
    if options.output:
        _write(options.output, answer.plan, _worked_layers(model.network, options))
    if options.plot:
        _plot(options.plot, answer, options.model, limit)
    return _exit_code(answer, check)


def _limit(options: argparse.Namespace, weights: int) -> int | None:
    """Bytes of the arena at most; None without a limit. --memory is that of the arena, as in MAFAT."""
    limits = Limits(
        ram=options.ram if options.with_weights else _least(options.ram, options.memory),
        memory=options.memory if options.with_weights else None,
    )
    return limits.room(weights, weights)  # flash is a limit of its own


def _least(*sizes: int | None) -> int | None:
    return min((size for size in sizes if size is not None), default=None)


def _in_flash(answer: FusionAnswer, flash: int | None, stored: int) -> FusionAnswer:
    """The answer, or that there is none where the tables are more than the flash holds."""
    if flash is None or stored <= flash:
        return answer
    reason = because(FusionWhy.FLASH, needed=stored, flash=flash)
    return replace(answer, plan=None, status=Status.INFEASIBLE, reason=reason)


def _write(path: str, plan: FusionPlan | None, layers: tuple[int, int] | None) -> None:
    if plan is None:
        print(f"csdf plan fusion: {path} is not written: there is no plan", file=sys.stderr)
        return
    is_header = loading.suffix_of(path) == "h"
    text = _header(plan) if is_header else _document(plan, layers)
    output.write("csdf plan fusion", path, text)


def _worked_layers(network: Network, options: argparse.Namespace) -> tuple[int, int] | None:
    """The layers of the whole network that are planned, first and one past the last; None for all."""
    first, end = options.layers
    if (first, end) == (0, None):
        return None
    ends = len(network.inputs) + len(network.outputs)
    return first, first + len(network.layers) - ends


def _exit_code(answer: FusionAnswer, check: Check | None) -> int:
    if check is not None and not check.is_equal:
        return answers.NO
    if answer.plan is None:
        print(f"csdf plan fusion: {answer.status}: {answer.reason}", file=sys.stderr)
        return answers.GAVE_UP if answer.status == Status.GAVE_UP else answers.NO
    if answer.status == Status.FEASIBLE:
        print(f"csdf plan fusion: {answer.status}: {answer.reason}", file=sys.stderr)
    return answers.ANSWERED


def _model(options: argparse.Namespace) -> Model:
    model = chosen.read(options, with_weights=options.verify)
    if options.layers != (0, None):
        model = layer_range(model, *options.layers)
    return with_weights("csdf plan fusion", model, options.seed) if options.verify else model


def _terms(options: argparse.Namespace) -> Terms:
    sides = range(1, options.tiles + 1)
    usual = Scratch.IM2COL if is_chosen(options) else Scratch.NONE  # as MAFAT counts; as all others
    return Terms(
        platform=PLATFORMS[options.platform],
        scratch=usual if options.scratch is None else Scratch(options.scratch),
        element_bytes=options.element_bytes,
        tilings=tuple((down, across) for down in sides for across in sides),
        ways=options.ways,
    )


def _verified(model: Model, plan: FusionPlan, seed: int) -> Check:
    (frame,) = random_frames(model.network, 1, seed)
    begin = time.perf_counter()
    with answers.working("running the plan in its arena, and the whole network"):
        run = run_fused(model, plan, frame)
        seconds = time.perf_counter() - begin
        reference = run_layers(model, frame)[plan.chain.result]
    return Check(difference(run.output, reference), run.touched, seconds)


def _plot(path: str, answer: FusionAnswer, name: str, limit: int | None) -> None:
    draw = loading.drawing("planners.fusion.command.picture")
    line = draw.Line(
        "fastest that fits",
        [point.memory for point in answer.front],
        [point.cost.nanoseconds / 1e6 for point in answer.front],
        "steps",
    )
    chosen = None if answer.plan is None else answer.plan.memory
    largest = max((point.memory for point in answer.front), default=0)
    unit, size = ("MB", 10**6) if largest >= 10**6 else ("kB", 1000)
    picture = draw.lines_picture(
        f"{name}: time over memory",
        [line],
        across=f"arena ({unit} = {size:,} bytes)",
        up="predicted time (ms)",
        scale=size,
        marks={"limit": limit, "plan": chosen},
        is_front=True,
        suffix=loading.suffix_of(path),
    )
    output.write("csdf plan fusion", path, picture)
