"""`csdf plan primitives`: how each convolution is computed, for time and memory."""

from __future__ import annotations

import argparse

from cnn2csdf.commands.cnn import options as shared
from csdf.cli import option_values, parsers

PUBLISHED = "published"
# The values of Objective, repeated: its module imports numpy, and this module is imported for --help.
OBJECTIVES = ("network", "workspace")
BUDGETS = 50  # memory limits, each with a point of the solver's front and of the greedy choice


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of this command."""
    parser = parsers.new_parser(
        "csdf plan primitives",
        "Choose for each convolution how it is computed (direct, im2col, Winograd, ...) and in which "
        "layouts: the fastest network within a memory, or the smallest within a time, proved over "
        "all selections, from times measured on this machine or read from a table (after Wen et "
        "al., TASO, SBAC-PAD 2020). Without a limit: the fastest.",
        "csdf plan primitives resnet8 --max-memory 1MB --save-profile resnet8.csv --run",
        "csdf plan primitives resnet8 --profile resnet8.csv --front --plot front.svg",
        work="planners.primitives.command.work",
        check=_check,
        notes="Sizes: MB is 1,000,000 bytes and MiB 2^20; kB, KiB, GB, GiB and plain bytes too.",
    )
    shared.add_model_options(parser)
    _add_question(parser)
    parsers.add_time_limit(
        parser,
        "limit for measuring, and for the search, which ends with the best plan so far",
        default=None,
    )
    _add_times(parser)
    parsers.add_json_option(parser)
    parsers.add_plot_option(parser, "the front")
    parsers.add_output_option(
        parser, "the plan: maps, transformed tensors and workspaces in one arena, in JSON", "json"
    )
    return parser


def _add_question(parser: argparse.ArgumentParser) -> None:
    """Add the limits, the meaning of memory, and the solver."""
    limits = parser.add_mutually_exclusive_group()
    limits.add_argument(
        "--max-memory",
        type=option_values.size,
        metavar="SIZE",
        help="minimise time within this memory, as --objective counts it; e.g. 20MB",
    )
    limits.add_argument(
        "--time",
        type=_nanoseconds,
        metavar="TIME",
        help="minimise memory within this time, e.g. 50ms",
    )
    parser.add_argument(
        "--objective",
        choices=OBJECTIVES,
        default=OBJECTIVES[0],
        help="memory that counts; network (default): workspaces, weights and transformed tensors "
        "of all layers together; workspace: the largest workspace of any layer, shared by all "
        "layers",
    )
    parser.add_argument(
        "--accounting",
        choices=("own", PUBLISHED),
        default="own",
        help="own (default): all memory except the feature maps; published: as TASO's formulas 9 "
        "and 15 count, convolutions only and layout transformations free; the workspace is then "
        "the largest sum of input, output, weights and scratch",
    )
    parser.add_argument(
        "--front", action="store_true", help="print all Pareto-optimal pairs of memory and time"
    )
    parser.add_argument(
        "--solver",
        choices=("dp", "ilp"),
        default="dp",
        help="dp (default): dynamic programming, which gives the whole front; ilp: an integer program "
        f"in HiGHS for each question, with a front at {BUDGETS} memories; both are exact",
    )


def _add_times(parser: argparse.ArgumentParser) -> None:
    """Add where the times of primitives come from, and how they are measured."""
    group = parser.add_argument_group("times of primitives")
    group.add_argument(
        "--profile", metavar="FILE", help="a table (CSV) of a profile, instead of measuring now"
    )
    group.add_argument(
        "--save-profile",
        type=parsers.output_file(),
        metavar="FILE",
        help="write the measured times, for --profile",
    )
    group.add_argument(
        "--without",
        nargs="+",
        metavar="NAME",
        default=[],
        help="leave out primitives whose names begin with NAME, e.g. fourier, which has no C code",
    )
    group.add_argument(
        "--repeats",
        type=option_values.positive,
        metavar="N",
        default=5,
        help="number of runs whose median is written; default 5",
    )
    group.add_argument(
        "--run",
        action="store_true",
        help="run the plan: print its time and compare its outputs with a run without a plan",
    )
    group.add_argument(
        "--seed",
        type=option_values.integer,
        metavar="N",
        default=0,
        help="seed of the frame and random weights",
    )


def _check(options: argparse.Namespace) -> None:
    if options.profile and options.save_profile:
        options.refuse("--profile reads what --save-profile would measure and write; give one")


def _nanoseconds(text: str) -> int:
    value = option_values.exact_seconds(text) * 10**9
    if value <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time above zero, such as 50ms")
    if value.denominator != 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of nanoseconds")
    return int(value)
