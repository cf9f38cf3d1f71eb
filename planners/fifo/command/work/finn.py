"""The work of `csdf fifo finn`: a design is read, its FIFOs are sized and told."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import PurePath

from csdf.cli import answers, loading
from csdf.cli.frame.long_work import stop_after
from csdf.cli.frame.output import remark, write
from csdf.errors import CsdfError
from csdf.io.files import write_text
from csdf.outcome import Status
from csdf.search.memory_cost import OBJECTIVES, UNITS
from csdf.time_limit import Stop
from planners.fifo.command.answer import (
    as_json,
    as_text,
    config_text,
    front_json,
    front_text,
)
from planners.fifo.command.finn import PROGRAM
from planners.fifo.design import Design
from planners.fifo.finn.folding_file import Folding, fifo_depths, folding_text, read_folding
from planners.fifo.finn.reading import read_design
from planners.fifo.study import Study, front, study
from planners.fifo.timing.cluster import TimingOptions


def work(options: argparse.Namespace) -> int:
    """Print the answer; return the exit code: 0 found, 1 there are none, 3 unknown."""
    if PurePath(options.model).suffix.lower() == ".json":
        return _config(options)
    folding = read_folding(options.folding) if options.folding else {}
    timing = _timing(options)
    with answers.working(f"reading {options.model}"):
        design = read_design(options.model, timing, folding)
    _require_known(options, design)
    if options.front or options.plot:
        return _front(design, options)
    return _study(design, folding, timing, options)


def _config(options: argparse.Namespace) -> int:
    folding = read_folding(options.model)
    if options.json:
        print(json.dumps({"file": options.model, "fifos": fifo_depths(folding)}, indent=2))
    else:
        print(config_text(options.model, folding))
    return answers.ANSWERED


def _timing(options: argparse.Namespace) -> TimingOptions:
    return TimingOptions(
        latencies=dict(options.latency),
        clock_ns=float(1000 / options.clock),
        dsp=options.dsp,
        idle=options.idle,
    )


def _require_known(options: argparse.Namespace, design: Design) -> None:
    """Refuse a latency for something that the design does not have: a slip of the pen."""
    known = {layer.name for layer in design.layers}
    operators = {layer.kind.removesuffix("_hls").removesuffix("_rtl") for layer in design.layers}
    for name, _ in options.latency:
        if name not in known and name not in operators | {"AddStreams", "MVAU", "VVAU"}:
            raise CsdfError(
                f"--latency {name}: the design has no such node or operator; it has "
                f"{', '.join(sorted(operators))}"
            )


def _study(
    design: Design, folding: Folding, timing: TimingOptions, options: argparse.Namespace
) -> int:
    found = _found(design, options)
    if options.json:
        print(json.dumps(as_json(found, options.clock), indent=2))
    else:
        print(as_text(found, options.clock, all_layers=options.layers, objective=options.objective))
    if options.sensitivity and found.sizing.depths:
        other = read_design(options.model, replace(timing, more=options.sensitivity), folding)
        print(_changed(found, _found(other, options), options.sensitivity), file=sys.stderr)
    if options.output and found.cores:
        write_text(options.output, folding_text(design, found.cores, folding))
        remark(PROGRAM, f"wrote {options.output}: a folding file with these depths")
    if found.sizing.status is Status.INFEASIBLE:
        return answers.NO
    return answers.UNKNOWN if found.sizing.status is Status.UNKNOWN else answers.ANSWERED


def _found(design: Design, options: argparse.Namespace) -> Study:
    return study(
        design,
        period=_period(options),
        only_live=options.least,
        is_split=options.split,
        weights=_weights(design, options),
        cost=OBJECTIVES.get(options.objective),
        stops=lambda: _stop(design, options),
    )


def _weights(design: Design, options: argparse.Namespace) -> list[int] | None:
    return [1] * len(design.fifos) if options.objective == "words" else None


def _stop(design: Design, options: argparse.Namespace) -> Stop:
    return stop_after(options.time_limit, f"{design.name}: sizing its FIFOs")


def _period(options: argparse.Namespace) -> Fraction | None:
    if options.fps is not None:
        return Fraction(options.clock * 10**6) / Fraction(options.fps)
    return None if options.period is None else Fraction(options.period)


def _changed(found: Study, other: Study, more: int) -> str:
    """Say which depths change where all guessed latencies are larger."""
    changes = [
        f"{fifo.name!r} {old} -> {new}"
        for fifo, old, new in zip(
            found.design.fifos, found.sizing.depths, other.sizing.depths, strict=False
        )
        if old != new
    ]
    before, after = (
        one.design.bits(one.sizing.depths) if one.sizing.depths else 0 for one in (found, other)
    )
    bits = f"{before} -> {after} bits"
    listed = ", ".join(changes) or "no depth changes"
    return f"{PROGRAM}: with all assumed latencies {more} longer: {bits}: {listed}"


def _front(design: Design, options: argparse.Namespace) -> int:
    objective = options.objective
    points = front(
        design,
        weights=_weights(design, options),
        cost=OBJECTIVES.get(objective),
        stops=lambda: _stop(design, options),
    )
    if not points:
        raise CsdfError(
            f"{design.name} deadlocks whatever its FIFOs hold, or nothing was found in time"
        )
    if options.json:
        print(json.dumps(front_json(design, points, objective), indent=2))
    else:
        print(front_text(design, points, options.clock, objective))
    if options.plot:
        draw = loading.drawing("planners.fifo.command.picture")
        picture = draw.front_picture(
            design.name, points, UNITS.get(objective, objective), options.clock,
            loading.suffix_of(options.plot),
        )  # fmt: skip
        write(PROGRAM, options.plot, picture)
    if any(point.status is not Status.OPTIMAL for point in points):
        remark(
            PROGRAM, "the time was up before all points were proved; --time-limit gives each more"
        )
    return answers.ANSWERED
