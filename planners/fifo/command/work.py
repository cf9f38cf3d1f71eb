"""The work of `csdf fifo`: a design is read, its FIFOs are sized, and the answer is told."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from csdf.cli import answers, loading
from csdf.cli.frame.long_work import stops_of_searches
from csdf.cli.frame.output import remark, write
from csdf.cli.reporting.origin import origin_of
from csdf.errors import CsdfError, UnreadableFile, UnwritableFile
from csdf.io.files import write_text
from csdf.search.memory_cost import OBJECTIVES, UNITS
from csdf.status import Status
from planners.fifo.cheapest_memories import MemoryCost
from planners.fifo.command import hls4ml
from planners.fifo.command.answer import (
    as_json,
    as_text,
    config_text,
    exit_code,
    front_json,
    front_text,
)
from planners.fifo.command.page import fifo_page
from planners.fifo.cores import CoreCost
from planners.fifo.design import Design
from planners.fifo.finn.reading import Folding, fifo_depths, folding_text, read_design, read_folding
from planners.fifo.hls.call import cost as hls_cost
from planners.fifo.hls4ml_project import project_design, read_source, with_depths
from planners.fifo.study import Study, front, study
from planners.fifo.timing.cluster import TimingOptions


class Builder(NamedTuple):
    """The tool of a design, and the costs of its memories by objective."""

    name: str
    costs: Mapping[str, MemoryCost]


FINN = Builder("FINN", OBJECTIVES)
HLS4ML = Builder(
    "hls4ml",
    {objective: partial(hls_cost, kind="", objective=objective) for objective in OBJECTIVES},
)


def work(options: argparse.Namespace) -> int:
    """Print the answer; return the exit code: 0 found, 1 there are none, 3 unknown."""
    _require_one_question(options)
    if options.program == hls4ml.PROGRAM:
        return _hls4ml(options)
    if PurePath(options.model).suffix.lower() == ".json":
        folding = read_folding(options.model)
        value = {"file": options.model, "fifos": fifo_depths(folding)}
        _print(value, config_text(options.model, folding), options)
        return answers.ANSWERED
    return _finn(options)


def _require_one_question(options: argparse.Namespace) -> None:
    """Refuse options of a single answer together with those of the trade-off."""
    is_front = options.front or bool(options.plot)
    subject = "--front lists" if options.front else "--plot draws"
    for name in ("fps", "period", "deadlock_free", "output", "in_place", "sensitivity", "page"):
        if is_front and getattr(options, name, None):
            option = "-o" if name == "output" else f"--{name.replace('_', '-')}"
            raise CsdfError(f"{subject} the trade-off: give it without {option}")


def _print(value: dict[str, Any], lines: list[str], options: argparse.Namespace) -> None:
    print(json.dumps(value, indent=2) if options.json else answers.in_words(lines, options))


def _finn(options: argparse.Namespace) -> int:
    if Path(options.model).is_dir():
        raise UnreadableFile(
            f"{options.model}: is a folder; expected a model of FINN (.onnx); csdf fifo hls4ml reads "
            "the folder of a project of hls4ml"
        )
    if Path(options.model).suffix.lower() == ".cpp":
        raise UnreadableFile(
            f"{options.model}: C++; expected a model of FINN (.onnx); csdf fifo hls reads a design of "
            "Vitis HLS"
        )
    folding: Folding = read_folding(options.folding) if options.folding else {}

    def design_of(timing: TimingOptions) -> Design:
        with answers.working(f"reading {options.model}"):
            return read_design(options.model, timing, folding)

    timing = TimingOptions(
        latencies=dict(options.latency),
        clock_ns=float(1000 / options.clock),
        dsp=options.dsp,
        restart_gap=options.restart_gap,
    )
    answered = _answered(design_of, timing, FINN, options)
    if options.output and answered is not None and answered.cores:
        write_text(options.output, folding_text(answered.design, answered.cores, folding))
        remark(options.program, f"wrote {options.output}, a folding file with these depths")
    if answered is None:
        return answers.ANSWERED
    return exit_code(answered.sizing, is_best_effort=options.best_effort)


def _hls4ml(options: argparse.Namespace) -> int:
    source = read_source(options.project)
    if options.in_place and not source.is_written:
        raise UnwritableFile(
            f"{options.project}: its project is not written yet, so there is no C++ for --in-place; "
            "let hls4ml write it first"
        )
    timing = TimingOptions(latencies=dict(options.latency), restart_gap=options.restart_gap)
    answered = _answered(partial(project_design, source), timing, HLS4ML, options)
    if answered is None:
        return answers.ANSWERED
    depths = dict(answered.design.named(answered.sizing.depths)) if answered.sizing.depths else {}
    if options.output and depths:
        write_text(options.output, json.dumps(depths, indent=2) + "\n")
        remark(options.program, f"wrote {options.output}: the depth of each stream")
    if options.in_place and depths:
        write_text(source.file, with_depths(source, depths))
        remark(options.program, f"wrote {source.file}, the project with these depths")
    return exit_code(answered.sizing, is_best_effort=options.best_effort)


def _answered(
    design_of: Callable[[TimingOptions], Design],
    timing: TimingOptions,
    builder: Builder,
    options: argparse.Namespace,
) -> Study | None:
    """Print the answer for a design, and return it; None if it is a front."""
    design = design_of(timing)
    names = {layer.name for layer in design.layers}
    operators = {layer.kind.removesuffix("_hls").removesuffix("_rtl") for layer in design.layers}
    for name, _ in options.latency:
        if name not in names | operators | {"AddStreams", "MVAU", "VVAU"}:  # a slip of the pen
            raise CsdfError(
                f"--latency {name}: the design has no such node or operator; it has "
                f"{', '.join(sorted(operators))}"
            )
    if options.front or options.plot:
        _front(design, builder, options)
        return None
    answered = _study(design, builder, options)
    text = as_text(
        answered, options.clock, all_layers=options.layers, builder=builder.name,
        objective=options.objective, effort=options.effort,
    )  # fmt: skip
    if builder is FINN and answered.cores and not options.output:
        text += ["", "next: -o folding.json writes the depths; --folding tries other PE and SIMD"]
    _print(as_json(answered, options.clock), text, options)
    if options.page:
        _write_page(answered, options)
    if options.sensitivity and answered.sizing.depths:
        other_study = _study(design_of(replace(timing, more=options.sensitivity)), builder, options)
        print(_changed(answered, other_study, options), file=sys.stderr)
    return answered


def _write_page(answered: Study, options: argparse.Namespace) -> None:
    """Write the page about an answer, with the files that it is made from."""
    files = [file for name in ("folding",) if (file := getattr(options, name, None))]
    model = getattr(options, "model", None) or options.project
    command = options.program.removeprefix("csdf ")
    origin = origin_of(command, options.words, [model], files, ())
    write_text(options.page, fifo_page(answered, options.clock, options.objective, origin))
    remark(options.program, f"wrote {options.page}")


def _question(design: Design, builder: Builder, options: argparse.Namespace) -> dict[str, Any]:
    """The objective, and the stop of each search for it."""
    return {
        "weights": [1] * len(design.fifos) if options.objective == "elements" else None,
        "cost": builder.costs.get(options.objective),
        "is_split": builder is FINN and options.split,
        "stops": stops_of_searches(
            options.time_limit, f"{design.name}: sizing its FIFOs", effort=options.effort
        ),
    }


def _study(design: Design, builder: Builder, options: argparse.Namespace) -> Study:
    period = None if options.period is None else Fraction(options.period)
    if options.fps is not None:
        period = Fraction(options.clock * 10**6) / Fraction(options.fps)
    answered = study(
        design,
        period=period,
        only_live=options.deadlock_free,
        **_question(design, builder, options),
    )
    if builder is FINN:
        return answered
    pairs = [*zip(answered.sizing.depths, design.fifos, strict=False)]
    luts, blocks = (
        sum(builder.costs[objective](depth, fifo.bits) for depth, fifo in pairs)
        for objective in ("lut", "bram")
    )
    return replace(  # the rule for depths, and the cores, are those of FINN
        answered,
        automatic=None,
        written=None,
        cores=((),) * len(answered.cores),
        cost=CoreCost(luts, blocks),
    )


def _changed(found: Study, other: Study, options: argparse.Namespace) -> str:
    """Say which depths change where all guessed latencies are longer."""
    depths: list[Sequence[int]] = [found.sizing.depths, other.sizing.depths]
    changes = [
        f"{fifo.name!r} {old} -> {new}"
        for fifo, old, new in zip(found.design.fifos, *depths, strict=False)
        if old != new
    ]
    before, after = (found.design.bits(depth) if depth else 0 for depth in depths)
    listed = ", ".join(changes) or "no depth changes"
    return (
        f"{options.program}: with all assumed latencies {options.sensitivity} longer: "
        f"{before} -> {after} bits: {listed}"
    )


def _front(design: Design, builder: Builder, options: argparse.Namespace) -> None:
    objective = options.objective
    points = front(design, **_question(design, builder, options))
    if not points:
        why = "deadlocks for any FIFO depths, or no depths were found in time"
        raise CsdfError(f"{design.name} {why if design.fifos else 'has no FIFOs'}")
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
            "the effort was spent before all points were proved; --effort gives each more",
        )
