"""The work of `csdf fifo hls4ml`: a project is read, its streams are sized and told."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace

from csdf.cli import answers
from csdf.cli.frame.long_work import stop_after
from csdf.cli.frame.output import remark
from csdf.errors import UnwritableFile
from csdf.io.files import write_text
from csdf.outcome import Status
from planners.fifo.command.answer import as_json, as_text
from planners.fifo.command.hls4ml import PROGRAM
from planners.fifo.hls.reading import project_design, read_source, with_depths
from planners.fifo.study import study
from planners.fifo.timing.cluster import TimingOptions


def work(options: argparse.Namespace) -> int:
    """Print the answer; return the exit code: 0 found, 1 there are none, 3 unknown."""
    source = read_source(options.project)
    if options.in_place and not source.is_written:
        raise UnwritableFile(
            f"{options.project}: its project is not written yet, so there is no C++ for --in-place; "
            "let hls4ml write it first"
        )
    timing = TimingOptions(latencies=dict(options.latency), idle=options.idle)
    design = project_design(source, timing)
    found = study(
        design,
        period=options.period,
        only_live=options.least,
        stops=lambda: stop_after(options.time_limit, f"{design.name}: sizing its streams"),
    )
    found = replace(found, automatic=None)  # a rule of FINN
    text = json.dumps(as_json(found, options.clock), indent=2) if options.json else None
    print(text or as_text(found, options.clock, builder="hls4ml"))
    depths = dict(design.named(found.sizing.depths)) if found.sizing.depths else {}
    if options.output and depths:
        write_text(options.output, json.dumps(depths, indent=2) + "\n")
        remark(PROGRAM, f"wrote {options.output}: the depth of each stream")
    if options.in_place and depths:
        write_text(source.file, with_depths(source, depths))
        remark(PROGRAM, f"wrote {source.file}: with these depths")
    if found.sizing.status is Status.INFEASIBLE:
        return answers.NO
    return answers.UNKNOWN if found.sizing.status is Status.UNKNOWN else answers.ANSWERED
