"""`csdf fifo hls4ml`: the smallest depths of the streams in a project of hls4ml."""

from __future__ import annotations

import argparse

from csdf.cli import parsers
from planners.fifo.command.group import add_sizing

PROGRAM = "csdf fifo hls4ml"
EFFORT = 3.0  # seconds of a usual machine for each search


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of this command."""
    parser = parsers.new_parser(
        PROGRAM,
        "The smallest depths of the streams in a project that hls4ml has written with io_stream: "
        "its C++ gives the functions of each stream, and the order of the elements.",
        "csdf fifo hls4ml models/fifo/small_hls4ml -o depths.json",
        "csdf fifo hls4ml models/fifo/small_hls4ml/hls4ml_config.yml --fps 900000 --clock 200",
        work="planners.fifo.command.work",
        notes="An element is a pixel with all its channels. Cycles are those of the loops in "
        "nnet_utils with assumed latencies: measured latencies are in the synthesis report; set "
        "them with --latency. The source of a project with strategy Resource contains no "
        "interval; the reuse factor is used instead.",
    )
    parser.add_argument(
        "project",
        metavar="FILE",
        help="the folder of a project, or its hls4ml_config.yml; if the project has no C++ yet, "
        "hls4ml has to be installed",
    )
    add_sizing(
        parser, latency_name="NAME", latency_owner="a function such as conv_2d_cl or of one layer",
        block_free="1024 bits", effort=EFFORT, output="the depth of each stream, in JSON",
    )  # fmt: skip
    parser.add_argument(
        "--in-place", action="store_true", help="write the depths into the C++ of the project"
    )
    return parser
