"""The work of `csdf fit`: plans are searched or checked, told, run and written."""

from __future__ import annotations

import argparse
import json
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from importlib import import_module  # of modules that few options need
from typing import TYPE_CHECKING, Any

from cnn2csdf.commands.cnn import chosen
from cnn2csdf.commands.cnn import options as shared
from cnn2csdf.commands.cnn.chosen import durations_table, with_weights
from cnn2csdf.network import Network
from cnn2csdf.parameters import network_multiply_accumulates
from cnn2csdf.platforms import NANOSECONDS, BoardMemory, platform_named
from cnn2csdf.weights import Model
from csdf.cli import answers, loading
from csdf.cli.frame import output
from csdf.cli.frame.long_work import stop_after
from csdf.cli.project import WITHOUT_EFFECT, words_without
from csdf.errors import CsdfError
from csdf.status import Ended, Status
from csdf.time_limit import Stop
from csdf.units import bytes_in_words, time_in_words
from planners.memory.alternatives import answer_with_alternatives
from planners.memory.answer import RESIDENT, SEARCHED, Fit, Hop, SlowTraffic
from planners.memory.command.answer import (
    as_json,
    as_lines,
    different_elements,
    remark_on_elements,
)
from planners.memory.command.interpreted import interpreters_of
from planners.memory.command.main import memories_of_options
from planners.memory.fit import FRONT, answer, slow_front
from planners.memory.request import FitRequest, fit_request
from planners.memory.several_networks import Together, within_time
from planners.memory.shared_memories import taking_turns
from planners.plan.plan import StreamingPlan
from planners.plan.ram import RamBeside, ram_beside

if TYPE_CHECKING:
    from planners.memory.command.verify import Check

# Options that csdf deploy does not have, or that change no plan, with the number of their values.
OF_FIT = {
    **WITHOUT_EFFECT,
    **dict.fromkeys(("--plot", "--plot-tradeoff", "--column", "--parameter-bytes"), 1),
    **dict.fromkeys(("--fps", "--durations"), 1),
    **dict.fromkeys(("--verify", "--show-plan", "--explain"), 0),
}
# Options of a search, which a plan replaces.
OF_SEARCH = dict.fromkeys(("--input", "--output-memory", "--memory", "--order", "--effort"), 1)


def work(options: argparse.Namespace) -> int:
    """Print the answer; return the exit code: 0 fits, 1 does not, 3 unknown."""
    if options.show_plan and options.json:
        raise CsdfError("--show-plan prints words; with --json leave it out, and give -o plan.json")
    memories = memories_of_options(options)
    if memories and options.plot_tradeoff and len(options.models) > 1:
        raise CsdfError("--plot-tradeoff with --memory is of one network; plan each alone")
    begin = time.perf_counter()
    models: list[Model] = []
    fits: list[Fit] = []
    for source, plan in zip(options.models, _given_plans(options), strict=True):
        # Ctrl-C ends the searches of all networks: those that follow have their first plans only.
        is_interrupted = any(fit.reason.has(Ended.INTERRUPTED) for fit in fits)
        model, fit = _fitted(source, plan, options, memories, is_interrupted=is_interrupted)
        models.append(model)
        fits.append(fit)
    networks = [model.network for model in models]
    seconds = time.perf_counter() - begin
    if not memories and any(fit.platform is not None for fit in fits):
        shared.remark_on_platform("csdf fit", options)
    if options.plan is None and len(fits) > 1:

        def again(number: int, changes: Mapping[str, Any]) -> Fit:
            request = replace(_request(networks[number], options, memories), **changes)
            return _answered(request, options.models[number], options)

        fits = list(taking_turns(fits, again))
    all_of = within_time(Together(fits=tuple(fits), flash=options.flash, longest=_longest(options)))
    plans = [(network, fit.shown.plan) for network, fit in zip(networks, all_of.fits, strict=True)]
    checks = _checks(models, plans, options.seed) if options.verify else []
    is_fitting = all_of.verdict[0] == Status.FEASIBLE
    written = options.output if is_fitting else None
    text = import_module("planners.plan.carried_out").format_own_plans(plans) if written else ""
    _print(all_of, checks, seconds, plans, options)
    if written:
        output.write("csdf fit", written, text)
    elif options.output:
        output.refusal("csdf fit", f"{options.output} is not written: there is no plan that fits")
    if written or not (options.is_element_given or options.plan):
        remark_on_elements("csdf fit", written, plans)
    _draw(networks, all_of.fits, memories, options)
    is_cut_short = any(fit.is_cut_short for fit in all_of.fits) and not options.best_effort
    return _exit_code(all_of, checks, is_cut_short=is_cut_short)


def _checks(
    models: Sequence[Model], plans: Sequence[tuple[Network, StreamingPlan]], seed: int
) -> list[Check]:
    """Compare a run of each plan with a run of its network layer by layer."""
    verified = import_module("planners.memory.command.verify").verified
    return [
        verified(with_weights("csdf fit", model, seed), plan, seed)
        for model, (_, plan) in zip(models, plans, strict=True)
    ]


def _print(
    all_of: Together,
    checks: Sequence[Check],
    seconds: float,
    plans: Sequence[tuple[Network, StreamingPlan]],
    options: argparse.Namespace,
) -> None:
    """Print the answer as words or JSON, with the arenas of an interpreter for the same files."""
    interpreters = [interpreters_of(source, options) for source in options.models]
    if options.json:
        document = as_json(all_of, checks, seconds)
        values = document.get("networks", [document])
        for value, (_, interpreter) in zip(values, interpreters, strict=True):
            value |= interpreter
        print(json.dumps(document, indent=2))
        return
    interpreted = [lines for lines, _ in interpreters]
    is_fitting = all_of.verdict[0] == Status.FEASIBLE
    deploy = _deploy(options, all_of.fits, plans) if is_fitting else None
    print(answers.in_words(as_lines(all_of, checks, seconds, interpreted, deploy), options))
    for _, plan in plans if options.show_plan else ():
        print(f"\n{plan}")


def _draw(
    networks: Sequence[Network],
    fits: Sequence[Fit],
    memories: Sequence[BoardMemory],
    options: argparse.Namespace,
) -> None:
    """Write the pictures of --plot and --plot-tradeoff."""
    if options.plot:
        draw = loading.drawing("planners.memory.command.picture")
        text = draw.plan_picture(networks, fits, loading.suffix_of(options.plot))
        output.write("csdf fit", options.plot, text)
    if options.plot_tradeoff:
        draw = loading.drawing("planners.memory.command.picture")
        suffix = loading.suffix_of(options.plot_tradeoff)
        if memories:
            (network,) = networks  # work() refuses several
            front = _front(_request(network, options, memories), options)
            text = draw.traffic_picture(network.name, front, suffix)
        else:
            text = draw.fit_picture(fits, suffix)
        output.write("csdf fit", options.plot_tradeoff, text)


def _deploy(
    options: argparse.Namespace,
    fits: Sequence[Fit],
    plans: Sequence[tuple[Network, StreamingPlan]],
) -> str | None:
    """Return the command that writes the plans as C; None for plans that C does not execute."""
    if any(next(different_elements(network, plan), None) for network, plan in plans):
        return None
    words = words_without(options.words, OF_FIT)
    if options.output and options.plan is None:
        words = [*words_without(words, OF_SEARCH), "--plan", options.output]
    elif options.fps or options.durations or any(fit.is_cut_short for fit in fits):
        return None  # csdf deploy can choose another plan
    return shlex.join(["csdf", "deploy", *words, "-o", "firmware"])


def _given_plans(options: argparse.Namespace) -> Sequence[StreamingPlan | None]:
    """The plans of the plan file, one for each model; None for each model without a plan file."""
    if options.plan is None:
        return [None for _ in options.models]
    for name in ("input", "output-memory", "fps", "durations"):
        if getattr(options, name.replace("-", "_")) is not None:
            raise CsdfError(f"--{name} is for the search; leave out --{name} or --plan")
    if options.plot_tradeoff is not None:
        raise CsdfError("--plot-tradeoff is of a search; leave out --plot-tradeoff or --plan")
    if options.is_element_given or options.parameter_bytes is not None:
        name = "--element-bytes" if options.is_element_given else "--parameter-bytes"
        raise CsdfError(f"{name} is for the search, a plan has its own; leave out {name} or --plan")
    plans: Sequence[StreamingPlan] = import_module("planners.plan.text").plans_for(
        options.plan, len(options.models)
    )
    return plans


def _front(request: FitRequest, options: argparse.Namespace) -> list[SlowTraffic]:
    """Return the traffic for smaller and larger sizes of the first memory."""
    name, first = request.network.name, request.memories[0].name
    effort_each = f", an effort of {time_in_words(options.effort)} each"
    output.remark("csdf fit", f"drawing {len(FRONT)} sizes of {first}{effort_each}")
    return slow_front(
        request, lambda size: _stop(options, f"{name}: {bytes_in_words(size)} of {first}")
    )


def _longest(options: argparse.Namespace) -> Fraction | None:
    """Time limit of a frame in nanoseconds."""
    return None if options.fps is None else NANOSECONDS / options.fps


def _fitted(
    source: str,
    plan: StreamingPlan | None,
    options: argparse.Namespace,
    memories: Sequence[BoardMemory],
    *,
    is_interrupted: bool,
) -> tuple[Model, Fit]:
    """Return the model of a file or a built-in model, with weights only for a run, and its answer.

    plan: the plan to check. is_interrupted: whether the search ends at once.
    """
    model = chosen.read_source(source, options, with_weights=options.verify, knows_state=True)
    window = model.network
    if options.hop is not None:
        model = import_module("cnn2csdf.streams").as_stream(model, options.hop)
    if plan is not None:
        model = import_module("planners.plan.text").worked_part(model, plan)
        fit = import_module("planners.memory.command.beside").checked_fit(
            options.plan,
            model.network,
            plan,
            ram=options.ram,
            flash=options.flash,
            platform=platform_named(options.platform),
            beside=_beside(model.network, options),
        )
    else:
        request = _request(model.network, options, memories)
        fit = _answered(request, source, options, is_interrupted=is_interrupted)
    if options.hop is not None:
        fit = replace(fit, hop=_beside_window(model.network, window, source, options))
    return model, fit


def _beside_window(
    network: Network, window: Network, source: str, options: argparse.Namespace
) -> Hop:
    """Return the MACs of a hop, and MACs and RAM of the whole window with the fewest MACs."""
    size = options.element_bytes if options.is_element_given else None
    work, window_work = map(network_multiply_accumulates, (network, window))
    plain = fit_request(window, element_bytes=size, searched=())
    whole = answer(plain, _stop(options, f"{source}: the whole window"))
    return Hop(
        rows=options.hop,
        multiply_accumulates=work,
        window_multiply_accumulates=window_work,
        window_ram=whole.shown.ram_bytes,
        hops_before=import_module("cnn2csdf.streams").first_result(window, options.hop),
    )


def _stop(options: argparse.Namespace, what: str) -> Stop:
    return stop_after(options.time_limit, what, effort=options.effort)


def _request(
    network: Network, options: argparse.Namespace, memories: Sequence[BoardMemory]
) -> FitRequest:
    """Return the question that the options ask about a network."""
    return fit_request(
        network,
        ram=options.ram,
        flash=options.flash,
        nanoseconds=_longest(options),
        element_bytes=options.element_bytes if options.is_element_given else None,
        parameter_bytes=options.parameter_bytes,
        input=options.input or RESIDENT,
        output=options.output_memory or RESIDENT,
        searched=SEARCHED,
        platform=platform_named(options.platform),
        durations=None if options.durations is None else durations_table(options.durations),
        memories=memories,
        beside=_beside(network, options),
        order=options.order,
    )


def _beside(network: Network, options: argparse.Namespace) -> RamBeside:
    """Return the RAM in addition to the arena, on the core of a stated platform, or on any core."""
    is_stated = "is_platform_given" in options
    core = platform_named(options.platform).core_name if is_stated else None
    return ram_beside(
        network,
        core,
        element_bytes=options.element_bytes if options.is_element_given else None,
        reserve_bytes=options.reserve,
    )


def _answered(
    request: FitRequest, source: str, options: argparse.Namespace, *, is_interrupted: bool = False
) -> Fit:
    stop = _stop(options, f"{source}: line buffers and strips")
    if is_interrupted:
        stop.interrupt()
    return answer_with_alternatives(request, stop)


def _exit_code(all_of: Together, checks: Sequence[Check], *, is_cut_short: bool) -> int:
    """Return the exit code; is_cut_short: the time limit ended a search, so its best is no answer."""
    if not all(check.is_equal for check in checks):
        return answers.NO
    status, _ = all_of.verdict
    if status == Status.UNKNOWN or (is_cut_short and status == Status.FEASIBLE):
        return answers.UNKNOWN
    return answers.ANSWERED if status == Status.FEASIBLE else answers.NO
