"""`csdf fifo hls`: cycles, deadlocks and smallest FIFO depths of a Vitis HLS dataflow design."""

from __future__ import annotations

import argparse

from csdf.cli import option_values, parsers
from planners.fifo.command.group import add_page

PROGRAM = "csdf fifo hls"
# Seconds of a usual machine for each search; 46 of 56 published designs are proved within it.
EFFORT = 10.0
TRACE_SECONDS = 60.0
OBJECTIVES = ("bits", "elements", "bram", "lut")
STORAGES = ("srl", "lutram", "bram", "uram")
FULL_SKEW = "full"


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of this command."""
    parser = parsers.new_parser(
        PROGRAM,
        "Cycles, deadlocks and the smallest FIFO depths of a Vitis HLS DATAFLOW design, from its "
        "C++ and the report of one C synthesis. The source is compiled and run with its test "
        "bench to trace the FIFO accesses; intervals and depths of pipelines come from the "
        "report. No vendor tool is needed. By default: the smallest depths for the minimum "
        "number of cycles.",
        "csdf fifo hls models/fifo/hls_branch/branch.cpp --report models/fifo/hls_branch/csynth.xml",
        "csdf fifo hls models/fifo/hls_branch/branch.cpp --report models/fifo/hls_branch --front "
        "--objective bram",
        work="planners.fifo.command.hls_work",
        notes="THE SOURCE IS COMPILED AND RUN on this machine, in a folder of its own that is "
        "removed, with limits of time and memory, as far as the operating system keeps them: run "
        "only what you trust. Lanes of an array of streams may be read later than the report "
        "says, by up to the depth of their reader: depths assume the maximum; --skew sets a "
        "smaller bound, and --schedule reads the exact stages. A .csv file instead of the source "
        "contains one access per line: process,loop,iteration,fifo,read|write,stage.",
    )
    _add_design(parser)
    _add_goal(parser)
    _add_model(parser)
    _add_outputs(parser)
    parsers.add_effort(
        parser, "effort of each search, which ends with the best result so far", EFFORT
    )
    parser.add_argument(
        "--trace-time",
        type=option_values.seconds,
        metavar="TIME",
        default=TRACE_SECONDS,
        help=f"time limit of each run of the source; default: {TRACE_SECONDS:g}s",
    )
    parser.add_argument(
        "--trace-memory", type=option_values.size, metavar="SIZE", default=2 * 10**9,
        help="memory limit of each run of the source; default: 2GB",
    )  # fmt: skip
    parsers.add_json_option(parser)
    parsers.add_output_option(
        parser, "copy of the source with the pragmas of the depths, or the depths alone (.json)"
    )
    return parser


def _add_design(parser: argparse.ArgumentParser) -> None:
    """Add the sources of the design, and how they are compiled and run."""
    parser.add_argument(
        "source",
        metavar="FILE",
        nargs="+",
        help="C++ of the design (.cpp), or a table of accesses (.csv)",
    )
    parser.add_argument(
        "--report",
        metavar="PATH",
        help="csynth.xml, or a folder with it or with <module>_csynth.xml of all modules; or .xml.gz",
    )
    parser.add_argument(
        "--testbench", metavar="TB.cpp", nargs="+", default=None,
        help="test bench whose main calls the top function; default: the function is called with zeros",
    )  # fmt: skip
    parser.add_argument(
        "--top", metavar="NAME", help="top function; default: the top of the report"
    )
    parser.add_argument(
        "-I",
        dest="include",
        metavar="FOLDER",
        action="append",
        default=[],
        help="folder of headers",
    )
    parser.add_argument(
        "-D", dest="defines", metavar="NAME=VALUE", action="append", default=[], help="macro"
    )
    parser.add_argument(
        "--compiler", metavar="PROGRAM", help="g++ or clang++; default: the first found"
    )
    parser.add_argument(
        "--runs", metavar="TB.cpp", nargs="+", default=[],
        help="more test benches, one a run: the depths suffice for all of them",
    )  # fmt: skip


def _add_goal(parser: argparse.ArgumentParser) -> None:
    """Add the required speed of the design."""
    goal = parser.add_mutually_exclusive_group()
    goal.add_argument(
        "--cycles",
        type=option_values.positive,
        metavar="N",
        help="maximum number of cycles of a call",
    )
    goal.add_argument(
        "--fps", type=option_values.above_zero, metavar="N",
        help="minimum number of calls per second, without overlap, at the clock of the report",
    )  # fmt: skip
    goal.add_argument(
        "--deadlock-free", action="store_true", help="the smallest memory without deadlock"
    )
    goal.add_argument(
        "--front", action="store_true", help="the Pareto front of the objective and the cycles"
    )


def _add_model(parser: argparse.ArgumentParser) -> None:
    """Add the cost of FIFOs, and the assumptions about their timing."""
    parser.add_argument(
        "--objective",
        choices=OBJECTIVES,
        default="bits",
        help="cost to minimise: bits, elements, block RAMs of 18 kbit (none up to 1024 bits), "
        "or LUTs of shift registers; default: bits",
    )
    parser.add_argument(
        "--storage",
        choices=STORAGES,
        help="all FIFOs as this kind of BIND_STORAGE; default: as in the source, else by their depths",
    )
    parser.add_argument(
        "--skew",
        type=_skew,
        metavar="N",
        default=None,
        help="maximum number of stages by which a lane is read later, or `full` for all stages "
        "of its reader; default: full",
    )
    parser.add_argument(
        "--schedule", metavar="FOLDER", help="*.verbose.sched.rpt of Vitis, in .autopilot/db"
    )
    parser.add_argument(
        "--separate",
        action="store_true",
        help="choose the depth of each FIFO separately, not one depth for each array of FIFOs",
    )


def _add_outputs(parser: argparse.ArgumentParser) -> None:
    """Add the files that are written besides the answer."""
    parser.add_argument(
        "--in-place", action="store_true", help="write the pragmas of the depths into the source"
    )
    parser.add_argument(
        "--tcl",
        type=parsers.output_file(),
        metavar="FILE",
        help="write set_directive_stream of the depths",
    )
    add_page(parser)
    parser.add_argument(
        "--csdf",
        type=parsers.output_file("xml", "json"),
        metavar="FILE",
        help="write the design with the computed depths as a CSDF graph: .xml or .json",
    )


def _skew(text: str) -> int | None:
    """The skew; None for the most."""
    return None if text == FULL_SKEW else option_values.from_zero(text)
