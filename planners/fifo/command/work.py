"""The work of `csdf fifo`: a design is read, its FIFOs are sized, and the answer is told."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import PurePath
from typing import Any

from csdf.cli import answers, loading
from csdf.cli.frame.long_work import stop_after
from csdf.cli.frame.output import remark, write
from csdf.errors import CsdfError, UnwritableFile
from csdf.io.files import write_text
from csdf.search.memory_cost import OBJECTIVES, UNITS
from csdf.status import Status
from planners.fifo.command import hls4ml
from planners.fifo.command.answer import (
    as_json,
    as_text,
    config_text,
    front_json,
    front_text,
)
from planners.fifo.design import Design
from planners.fifo.finn.reading import (
    Folding,
    fifo_depths,
    folding_text,
    read_design,
    read_folding,
)
from planners.fifo.hls.reading import project_design, read_source, with_depths
from planners.fifo.study import Study, front, study
from planners.fifo.timing.cluster import TimingOptions


def work(options: argparse.Namespace) -> int:
    """Print the answer; return the exit code: 0 found, 1 there are none, 3 unknown."""
    if options.program == hls4ml.PROGRAM:
        return _hls4ml(options)
    if PurePath(options.model).suffix.lower() == ".json":
        folding = read_folding(options.model)
        value = {"file": options.model, "fifos": fifo_depths(folding)}
        _print(value, config_text(options.model, folding), options)
        return answers.ANSWERED
    return _finn(options)


def _print(value: dict[str, Any], lines: list[str], options: argparse.Namespace) -> None:
    print(json.dumps(value, indent=2) if options.json else answers.in_words(lines, options))


def _hls4ml(options: argparse.Namespace) -> int:
    source = read_source(options.project)
    if options.in_place and not source.is_written:
        raise UnwritableFile(
            f"{options.project}: its project is not written yet, so there is no C++ for --in-place; "
            "let hls4ml write it first"
        )
    timing = TimingOptions(latencies=dict(options.latency), restart_gap=options.restart_gap)
    design = project_design(source, timing)
    found = study(
        design,
        period=options.period,
        only_live=options.deadlock_free,
        stops=lambda: stop_after(options.time_limit, f"{design.name}: sizing its streams"),
    )
    found = replace(found, automatic=None)  # a rule of FINN
    text = as_text(found, options.clock, builder="hls4ml")
    _print(as_json(found, options.clock), text, options)
    depths = dict(design.named(found.sizing.depths)) if found.sizing.depths else {}
    if options.output and depths:
        write_text(options.output, json.dumps(depths, indent=2) + "\n")
        remark(options.program, f"wrote {options.output}: the depth of each stream")
    if options.in_place and depths:
        write_text(source.file, with_depths(source, depths))
        remark(options.program, f"wrote {source.file}: with these depths")
    return _exit_code(found)


def _exit_code(found: Study) -> int:
    if found.sizing.status is Status.INFEASIBLE:
        return answers.NO
    return answers.UNKNOWN if found.sizing.status is Status.UNKNOWN else answers.ANSWERED


def _finn(options: argparse.Namespace) -> int:
    folding: Folding = read_folding(options.folding) if options.folding else {}
    timing = TimingOptions(
        latencies=dict(options.latency),
        clock_ns=float(1000 / options.clock),
        dsp=options.dsp,
        restart_gap=options.restart_gap,
    )
    with answers.working(f"reading {options.model}"):
        design = read_design(options.model, timing, folding)
    known = {layer.name for layer in design.layers}
    operators = {layer.kind.removesuffix("_hls").removesuffix("_rtl") for layer in design.layers}
    for name, _ in options.latency:
        if name not in known | operators | {"AddStreams", "MVAU", "VVAU"}:  # a slip of the pen
            raise CsdfError(
                f"--latency {name}: the design has no such node or operator; it has "
                f"{', '.join(sorted(operators))}"
            )
    if options.front or options.plot:
        return _front(design, options)
    found = _study(design, options)
    text = as_text(found, options.clock, all_layers=options.layers, objective=options.objective)
    _print(as_json(found, options.clock), text, options)
    if options.sensitivity and found.sizing.depths:
        longer = replace(timing, more=options.sensitivity)
        other = _study(read_design(options.model, longer, folding), options)
        print(_changed(found, other, options), file=sys.stderr)
    if options.output and found.cores:
        write_text(options.output, folding_text(design, found.cores, folding))
        remark(options.program, f"wrote {options.output}: a folding file with these depths")
    return _exit_code(found)


def _question(design: Design, options: argparse.Namespace) -> dict[str, Any]:
    """The objective, and the stop of each search for it."""
    return {
        "weights": [1] * len(design.fifos) if options.objective == "elements" else None,
        "cost": OBJECTIVES.get(options.objective),
        "stops": lambda: stop_after(options.time_limit, f"{design.name}: sizing its FIFOs"),
    }


def _study(design: Design, options: argparse.Namespace) -> Study:
    period = None if options.period is None else Fraction(options.period)
    if options.fps is not None:
        period = Fraction(options.clock * 10**6) / Fraction(options.fps)
    return study(
        design, period=period, only_live=options.deadlock_free, is_split=options.split,
        **_question(design, options),
    )  # fmt: skip


def _changed(found: Study, other: Study, options: argparse.Namespace) -> str:
    """Say which depths change where all guessed latencies are longer."""
    depths: list[Sequence[int]] = [found.sizing.depths, other.sizing.depths]
    changes = [
        f"{fifo.name!r} {old} -> {new}"
        for fifo, old, new in zip(found.design.fifos, *depths, strict=False)
        if old != new
    ]
    before, after = (found.design.bits(one) if one else 0 for one in depths)
    listed = ", ".join(changes) or "no depth changes"
    return (
        f"{options.program}: with all assumed latencies {options.sensitivity} longer: "
        f"{before} -> {after} bits: {listed}"
    )


def _front(design: Design, options: argparse.Namespace) -> int:
    objective = options.objective
    points = front(design, **_question(design, options))
    if not points:
        raise CsdfError(
            f"{design.name} deadlocks whatever its FIFOs hold, or nothing was found in time"
        )
    text = front_text(design, points, options.clock, objective)
    _print(front_json(design, points, objective), text, options)
    if options.plot:
        draw = loading.drawing("planners.fifo.command.picture")
        picture = draw.front_picture(
            design.name, points, UNITS.get(objective, objective), options.clock,
            loading.suffix_of(options.plot),
        )  # fmt: skip
        write(options.program, options.plot, picture)
    if any(point.status is not Status.OPTIMAL for point in points):
        remark(
            options.program,
            "the time was up before all points were proved; --time-limit gives each more",
        )
    return answers.ANSWERED
