"""Networks on the page of a report: reading, and the answers of csdf fit and csdf cnn memory."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from cnn2csdf.commands.cnn import chosen
from cnn2csdf.commands.cnn import options as shared
from cnn2csdf.commands.cnn.chosen import durations_table
from cnn2csdf.fixed_point.flash import flash_by_layer
from cnn2csdf.lowering import lower
from cnn2csdf.weights import Model
from csdf.cli import answers
from csdf.cli.frame.long_work import limited_part, stop_after, telling
from csdf.cli.frame.output import remark
from csdf.errors import CsdfError, GaveUp, InvalidNetwork
from csdf.io.files import is_file_or_stream
from csdf.time_limit import Stop
from csdf.units import rate_in_words, time_in_words
from planners.arena.allocation import bytes_so_far
from planners.memory.answer import RESIDENT, SEARCHED, MemoryLimits
from planners.memory.command.main import EFFORT
from planners.memory.plain_plans import WHOLE_ARENA, memory_comparison
from planners.memory.request import fit_request
from planners.plan.plan import StreamingPlan
from planners.plan.ram import ram_beside
from planners.plan.text import plans_for
from planners.report.plans import FitAnswer, answer_of_search, answers_about_plans
from planners.report.subject import NetworkSubject


def subject(options: argparse.Namespace, stop: Stop) -> NetworkSubject:
    """Return the network of the options with its memory layer by layer and row by row."""
    plans = _plans_of_files(options)
    if plans and plans[0][1].element_bytes is not None:  # the page counts as the first plan does
        stated = {"element_bytes": plans[0][1].element_bytes, "is_element_given": True}
        options = argparse.Namespace(**{**vars(options), **stated})
    model = chosen.read(options, knows_state=True)
    network = model.network
    granularity, size = chosen.granularity_of(options), options.element_bytes
    stated_bytes = size if options.is_element_given else None
    limits = MemoryLimits(ram=options.ram, flash=options.flash, memory=options.memory)
    platform = shared.platform_of(options)
    core = platform.core_name if platform and "is_platform_given" in options else None
    layer_flash = flash_by_layer(network, stated_bytes, core)
    flash = sum(layer_flash.values())
    room = limits.room(flash, flash)
    # Where the parameters alone are too large, the page says what the network would take.
    room = None if room is None or room < 0 else room
    answers = _answers(model, plans, options, core, room=room, stop=stop)
    durations = chosen.durations_of(network, options)
    graph = lower(network, granularity, durations=durations(granularity), element_bytes=size)
    comparison, reason = None, ""
    try:
        with limited_part(stop, 0.2, partial(bytes_so_far, WHOLE_ARENA)) as part:
            comparison = memory_comparison(
                network, granularity, durations, element_bytes=size, budget=part
            )
    except CsdfError as refusal:
        reason = str(refusal)
    shared.remark_on_platform("csdf report", options)
    measured = (options.durations,) if options.durations else ()
    return NetworkSubject(
        value=network,
        graph=graph,
        element_bytes=size,
        flash_by_layer=layer_flash,
        limits=limits,
        basis=f"{'from' if options.durations else 'for'} {_platform_name(options)}",
        comparison=comparison,
        reason=reason,
        answers=answers,
        files=(*measured, *options.plans),
        terms=tuple(_terms(options)),
    )


def _plans_of_files(options: argparse.Namespace) -> list[tuple[str, StreamingPlan]]:
    """Return the plans of the options with their files.

    Raises CsdfError for an option that may contradict a plan.
    """
    choices = {
        "--input": options.input is not None,
        "--output-memory": options.output_memory is not None,
        "--element-bytes": options.is_element_given,
    }
    for name, is_given in choices.items():
        if options.plans and is_given:
            raise CsdfError(
                f"{name} is for the search, a plan has its own; leave out {name} or --plan"
            )
    if options.plans and options.compare is not None:
        raise CsdfError("--plan is for plans of one network; leave out --plan or --compare")
    return [(path, plans_for(path, 1)[0]) for path in options.plans]


def _answers(
    model: Model,
    plans: Sequence[tuple[str, StreamingPlan]],
    options: argparse.Namespace,
    core: str | None,
    *,
    room: int | None,
    stop: Stop,
) -> tuple[FitAnswer, ...]:
    """Return the answer of `csdf fit` with the same options, or those about plans of files.

    core: of the platform of the options. room: bytes for buffers. Empty if no plan is found in time.
    """
    terms: dict[str, Any] = {
        "ram": room,
        "flash": options.flash,
        "platform": shared.platform_of(options),
        "durations": None if options.durations is None else durations_table(options.durations),
        "beside": ram_beside(
            model.network,
            core,
            element_bytes=options.element_bytes if options.is_element_given else None,
            reserve_bytes=options.reserve,
        ),
    }
    if plans:
        return answers_about_plans(model, plans, **terms)
    text = f"{model.network.name}: line buffers and strips"
    part = (
        stop_after(None, text, effort=EFFORT)
        if options.time_limit is None
        else telling(stop.part(effort=EFFORT), text)
    )
    try:
        request = fit_request(
            model.network,
            element_bytes=options.element_bytes if options.is_element_given else None,
            input=options.input or RESIDENT,
            output=options.output_memory or RESIDENT,
            searched=SEARCHED,
            **terms,
        )
        return (answer_of_search(request, part),)
    except (GaveUp, InvalidNetwork) as end:
        remark("csdf report", f"no plan of csdf fit: {end}")
        return ()


def _terms(options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """Yield name and text of each assumption about a network."""
    size = options.element_bytes
    if not is_file_or_stream(options.model):
        yield "network", f"{options.model} of the catalogue of this version"
    sizes = "each tensor and parameter as in the file"
    if size is not None:
        sizes = f"{answers.counted(size, 'byte')}; parameters have the same"
    yield "element size", sizes
    yield "platform", _platform(options)


def _platform_name(options: argparse.Namespace) -> str:
    if options.durations:
        return f"measured times of {options.durations}"
    replaced = (options.operations, options.bandwidth, options.launch)
    return options.platform if replaced == (None, None, None) else f"{options.platform}, changed"


def _platform(options: argparse.Namespace) -> str:
    name, chosen = _platform_name(options), shared.platform_of(options)
    if options.durations:
        return name
    if chosen.core is not None:
        return f"{name}, not calibrated: {chosen.core.in_words()}, the maximum"
    return (
        f"{name}: {rate_in_words(chosen.operations_per_second, 4)} operations/s, "
        f"{rate_in_words(chosen.bytes_per_second, 4)} bytes/s, "
        f"{time_in_words(chosen.launch, 4)} to start a phase"
    )
