"""The work of `csdf plan fusion`: groups and tiles are searched, told, run and written.

The answer of `csdf plan fusion` in words and as JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from cnn2csdf.commands.cnn import chosen
from cnn2csdf.commands.cnn import options as shared
from cnn2csdf.commands.cnn.chosen import with_weights
from cnn2csdf.execution.compare import Difference, difference, random_frames
from cnn2csdf.execution.whole import run_layers
from cnn2csdf.fixed_point.flash import and_in_flash, flash_bytes
from cnn2csdf.network import Network
from cnn2csdf.parameters import parameter_bytes
from cnn2csdf.platforms import PLATFORMS
from cnn2csdf.weights import Model
from csdf.cli import answers, loading
from csdf.cli.frame import output
from csdf.cli.frame.long_work import stop_after
from csdf.outcome import Reason, Status, Why, because
from csdf.words import bytes_in_words, nanoseconds_in_words, time_in_words
from planners.formats.c_header import format_header
from planners.fusion.command.main import FITTED, PUBLISHED, is_chosen
from planners.fusion.configurations import Chain, Configuration, Group, chain_of
from planners.fusion.planning import FusionWhy, best_plan, fusion_plan, run_fused
from planners.fusion.plans import FusionAnswer, FusionPlan, necessary_work
from planners.fusion.search import Terms, merged
from planners.fusion.ways import Scratch
from planners.memory.command.beside import as_json as fit_as_json
from planners.memory.command.beside import fit_beside, in_words
from planners.memory.several import Together
from planners.memory_ways import Limits
from planners.plan.text import format_plans
from planners.published.mafat import (
    MB,
    Predictor,
    named_configuration,
    paper_name,
    paper_search,
    predicted,
)
from planners.tiling.regions import layer_range

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
    """Print the plan; return the exit code: 1 if none fits or a run differs, 3 if it is unknown."""
    begin = time.perf_counter()
    model = _model(options)
    chain = chain_of(model.network)
    terms = _terms(options)
    weights = parameter_bytes(model.network, options.element_bytes)
    stored = flash_bytes(model.network, options.element_bytes)  # as csdf fit counts
    limit = _limit(options, weights)
    stop = stop_after(options.time_limit, "groups")
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
        return answers.UNKNOWN if answer.status == Status.UNKNOWN else answers.NO
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


TOLERANCE = 1e-4  # relative to the largest output: single precision, sums in another order


class Check(NamedTuple):
    """The findings of a run of the plan."""

    difference: Difference
    touched: int
    seconds: float

    @property
    def is_equal(self) -> bool:
        """Whether the output is that of the network as a whole."""
        return self.difference.relative <= TOLERANCE


def as_text(
    model: Model,
    answer: FusionAnswer,
    beside: Together | None,
    check: Check | None,
    seconds: float,
    options: argparse.Namespace,
    *,
    shows_plan: bool,
) -> str:
    """Return the front and the plan, as they were asked for, and what a run showed.

    beside: what csdf fit finds.
    """
    lines = _front_lines(answer) if options.front else []
    if answer.plan is not None and shows_plan:
        lines += _plan_lines(answer.plan, answer.status)
    if beside is not None:
        lines += [f"  csdf fit            {in_words(beside)}"]
    if check is not None:
        verdict = "equal" if check.is_equal else "DIFFERENT"
        lines += [
            f"{model.network.name}: {verdict}: the whole network and the plan in its arena",
            f"  largest difference  {check.difference.largest:.3g}, "
            f"{check.difference.relative:.3g} of the largest output",
            f"  arena touched       {bytes_in_words(check.touched)}; each access inside its buffer",
            f"  time of the run     {time_in_words(check.seconds)}",
        ]
    return answers.one_text([*lines, f"  time                {time_in_words(seconds)}"])


def _answer_in_flash(plan: FusionPlan) -> str:
    stored = flash_bytes(plan.chain.network, plan.terms.element_bytes)
    return and_in_flash(plan.parameter_bytes, stored)


def _plan_lines(plan: FusionPlan, status: str) -> list[str]:
    layers = [plan.chain.layers(group.first, group.upto) for group in plan.groups]  # of each group
    names = [f"{one[0].name} to {one[-1].name}" if len(one) > 1 else one[0].name for one in layers]
    width = max(map(len, names))
    necessary = necessary_work(plan.chain.network)
    return [
        *(
            f"  {name:<{width}}  {answers.counted(len(one), 'layer'):>10}  {group}"
            for name, one, group in zip(names, layers, plan.groups, strict=True)
        ),
        f"{plan.chain.network.name}: {status}: {answers.counted(len(plan.groups), 'group')}",
        f"  arena               {bytes_in_words(plan.memory)} ({plan.memory} bytes)",
        f"  weights             {bytes_in_words(plan.parameter_bytes)}, outside the arena"
        f"{_answer_in_flash(plan)}",
        f"  predicted time      {nanoseconds_in_words(plan.cost.nanoseconds, 4)}",
        f"  redundant work      {plan.redundant / max(1, necessary):.2%} of {necessary} "
        "multiply-accumulates",
        f"  counted             input and tensors between groups whole{_scratch(plan.terms.scratch)}",
    ]


def _scratch(scratch: Scratch) -> str:
    return "" if scratch is Scratch.NONE else f", scratch of convolutions: {scratch.value}"


def _front_lines(answer: FusionAnswer) -> list[str]:
    return [
        f"  {point.memory:>12} bytes  {nanoseconds_in_words(point.cost.nanoseconds, 4):>9}  "
        f"{_groups_in_words(merged(point.groups))}"
        for point in answer.front
    ]


def _groups_in_words(groups: Sequence[Group]) -> str:
    return ", ".join(f"{group.first}:{group.upto} {group}" for group in groups)


def as_json(
    answer: FusionAnswer,
    beside: Together | None,
    check: Check | None,
    seconds: float,
    options: argparse.Namespace,
) -> dict[str, Any]:
    """Return all of the answer."""
    found = answer.to_json()
    if not options.front:
        del found["front"]
    if check is not None:
        found["verified"] = {
            "equal": check.is_equal,
            "relative_difference": check.difference.relative,
            "touched_bytes": check.touched,
            "seconds": round(check.seconds, 6),
        }
    return {**found, "fit": fit_as_json(beside), "seconds": round(seconds, 6)}
