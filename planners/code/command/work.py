"""The work of `csdf deploy`: networks are planned and written as a C library."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from cnn2csdf.commands.cnn import chosen
from cnn2csdf.commands.cnn.trained import with_weights
from cnn2csdf.granularity import require_few_parts
from cnn2csdf.platforms import PLATFORMS, USUAL_PLATFORM
from cnn2csdf.quantized_layers import stores_integers
from cnn2csdf.weights import Model
from csdf.cli import answers
from csdf.cli.frame.long_work import stop_after
from csdf.errors import CsdfError, InvalidPlan
from csdf.outcome import Status
from csdf.words import bytes_in_words
from planners.code.library import library as library_of
from planners.code.library import write_folder
from planners.code.sources import Written
from planners.code.together import Member, together
from planners.memory.answer import RESIDENT, SEARCHED, Fit, FitWay
from planners.memory.fit import fit
from planners.memory.given_plans import fit_of
from planners.streaming.given.files import plans_for, worked_part
from planners.streaming.plan import StreamingPlan

REAL_BYTES = 4  # of an element of a network without quantised tensors, in C


class Planned(NamedTuple):
    """A model, what was found for it, and the way that is written."""

    model: Model
    fit: Fit
    way: FitWay


def work(options: argparse.Namespace) -> int:
    """Write the library; return the exit code: 1 where no plan fits, 3 where the search gave up."""
    plans = _plans(options)
    planned: list[Planned] = []
    for number, source in enumerate(options.models):
        model = _model(source, options)
        model = worked_part(model, plans[number]) if plans else model
        found = _judged(model, plans[number], options) if plans else _fitted(model, options)
        if found.best is None or found.status != Status.FEASIBLE:
            print(f"csdf deploy: {found.network}: {found.status}: {found.reason}", file=sys.stderr)
            return answers.GAVE_UP if found.status == Status.GAVE_UP else answers.NO
        planned.append(Planned(model, found, found.best))
    stored = sum(one.fit.flash_bytes for one in planned)
    if options.flash is not None and stored > options.flash:
        print(
            f"csdf deploy: {Status.INFEASIBLE}: the parameters of "
            f"{answers.counted(len(planned), 'network')} take {stored} bytes; "
            f"the flash has {options.flash}",
            file=sys.stderr,
        )
        return answers.NO
    with answers.working(f"writing {options.output}"):
        try:
            told = _single(planned[0], options) if len(planned) == 1 else _several(planned, options)
        except _FlashTooSmall as error:
            print(f"csdf deploy: {Status.INFEASIBLE}: {error}", file=sys.stderr)
            return answers.NO
    print(json.dumps(told.as_json, indent=2) if options.json else answers.one_text(told.lines))
    return answers.ANSWERED


class _FlashTooSmall(CsdfError):
    """The tables of a library take more than the flash; no file is written yet."""


def _require_flash(weight_bytes: int, options: argparse.Namespace) -> None:
    if options.flash is not None and weight_bytes > options.flash:
        raise _FlashTooSmall(
            f"the tables of parameters take {weight_bytes} bytes; the flash has {options.flash}"
        )


class Told(NamedTuple):
    """Return what was written, as a JSON value and as lines."""

    as_json: dict[str, Any]
    lines: list[str]


def _model(source: str, options: argparse.Namespace) -> Model:
    model = chosen.read_source(source, options, with_weights=True)
    if model.weights is None and any(
        layer.quantization is not None for layer in model.network.layers
    ):
        raise CsdfError(f"{source}: a quantised network without weights cannot be deployed")
    require_few_parts(model.network)
    return with_weights("csdf deploy", model, options.seed)


def _plans(options: argparse.Namespace) -> tuple[StreamingPlan, ...]:
    """The plans of the file that is given, one for each model; none where no file is."""
    if options.plan is None:
        return ()
    for name in ("input", "result"):
        if getattr(options, name) is not None:
            raise CsdfError(f"--{name}: the plan says where it is; leave out --{name} or --plan")
    return plans_for(options.plan, len(options.models))


def _judged(model: Model, plan: StreamingPlan, options: argparse.Namespace) -> Fit:
    try:
        with answers.working(f"judging the plan of {plan.network}"):
            return fit_of(model.network, plan, ram=options.ram, flash=options.flash)
    except InvalidPlan as error:
        raise InvalidPlan(f"{options.plan}: {error}") from None


def _fitted(model: Model, options: argparse.Namespace) -> Fit:
    is_real = not stores_integers(model.network)
    return fit(
        model.network,
        element_bytes=REAL_BYTES if is_real else None,
        ram=options.ram,
        flash=options.flash,
        input=options.input or RESIDENT,
        result=options.result or RESIDENT,
        searched=SEARCHED,
        platform=PLATFORMS[USUAL_PLATFORM],  # so that it takes what csdf fit shows
        budget=stop_after(options.budget, f"{model.network.name}: lines and strips"),
    )


def _single(one: Planned, options: argparse.Namespace) -> Told:
    library = library_of(one.model, one.way.plan, name=options.name)
    _require_flash(library.written.weight_bytes, options)
    write_folder(options.output, library.files)
    found = {
        **_planned_json(one, library.written),
        "library": library.name,
        "files": list(library.files),
    }
    lines = [
        _planned_line(one, library.written),
        f"  state    at most {library.written.state_bytes} B beside the arena",
        f"  kernels  {', '.join(library.written.kernels)}",
        *_ends(library.files, options.output),
    ]
    return Told(found, lines)


def _several(planned: Sequence[Planned], options: argparse.Namespace) -> Told:
    members = [Member(model=one.model, plan=one.way.plan) for one in planned]
    found = together(members, name=options.name or "networks")
    _require_flash(found.weight_bytes, options)
    write_folder(options.output, found.files)
    answer = {
        "library": found.name,
        "ram_bytes": found.arena_bytes,
        "networks": [
            _planned_json(one, written) for one, written in zip(planned, found.members, strict=True)
        ],
        "files": list(found.files),
    }
    lines = [
        f"{len(planned)} networks in turn in {bytes_in_words(found.arena_bytes)} of RAM "
        f"({found.arena_bytes} bytes), {bytes_in_words(found.weight_bytes)} of flash for "
        "parameters",
        *(
            f"  {_planned_line(one, written)}"
            for one, written in zip(planned, found.members, strict=True)
        ),
        f"  state    at most {sum(one.state_bytes for one in found.members)} B beside the arena",
        *_ends(found.files, options.output),
    ]
    return Told(answer, lines)


def _planned_line(one: Planned, written: Written) -> str:
    return (
        f"{one.fit.network}: {one.way.name}: {bytes_in_words(one.way.ram_bytes)} of RAM "
        f"({one.way.ram_bytes} bytes), {float(one.way.work):.4g} times the work, "
        f"{bytes_in_words(written.weight_bytes)} of flash for parameters"
    )


def _planned_json(one: Planned, written: Written) -> dict[str, Any]:
    return {
        **one.fit.to_json(),
        "flash_bytes": written.weight_bytes,
        "way": one.way.name,
        "library": written.name,
        "state_bytes": written.state_bytes,
        "weight_bytes": written.weight_bytes,
    }


def _ends(files: Iterable[str], folder: str) -> list[str]:
    return [f"  wrote    {', '.join(files)} in {folder}", f"  next     make -C {folder} test"]
