"""`csdf fifo finn`: the smallest FIFO depths of a design that FINN has made."""

from __future__ import annotations

import argparse

from csdf.cli import option_values, parsers
from planners.fifo.command.group import add_sizing

PROGRAM = "csdf fifo finn"
EFFORT = 3.8  # seconds of a usual machine for each search


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of this command."""
    parser = parsers.new_parser(
        PROGRAM,
        "The smallest FIFO depths of a design of FINN, from its ONNX model: layers are timed "
        "from their attributes, cycle by cycle, and the depths are searched. By default the "
        "depths reach the maximum rate, which the slowest layer sets. With a folding file, its "
        "depths are evaluated.",
        "csdf fifo finn models/fifo/residual.onnx",
        "csdf fifo finn models/fifo/residual.onnx --fps 50000 --clock 200 -o folding_out.json",
        "csdf fifo finn models/fifo/residual.onnx --deadlock-free --latency DuplicateStreams=5",
        work="planners.fifo.command.work",
        notes="RTL layers of FINN are timed exactly, for the DSP and the clock given. The HLS "
        "scheduler decides the latencies of HLS layers: the answer lists the assumed latencies, "
        "--latency sets them, and --sensitivity shows their influence. Sizes are proved for this "
        "model of the design.",
    )
    parser.add_argument("model", metavar="MODEL", help="the hardware layers: .onnx or .onnx.gz")
    parser.add_argument("--folding", metavar="FILE", help="PE, SIMD and depths by node, in JSON")
    add_sizing(
        parser, latency_name="OP", latency_owner="an HLS operator or of one node",
        block_free="256 elements", effort=EFFORT,
        output="folding file with the computed depths, in JSON",
    )  # fmt: skip
    parser.add_argument(
        "--dsp",
        type=option_values.positive,
        choices=(48, 58),
        default=48,
        help="DSP of the part; default: 48",
    )
    parser.add_argument(
        "--split",
        action="store_true",
        help="split a FIFO into a chain of cores as SplitLargeFIFOs does, instead of rounding its "
        "depth up",
    )
    return parser
