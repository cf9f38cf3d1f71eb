"""`csdf plan primitives`: how each convolution is computed, for time and memory."""

from __future__ import annotations

import argparse

from cnn2csdf.commands.cnn import options as shared
from csdf.cli import answers, parsers

PUBLISHED = "published"
OBJECTIVES = ("network", "workspace")  # the values of Objective, which is slow to import
BUDGETS = 50  # at which the solver gives its front, and the greedy choice is drawn


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
    limits = parser.add_mutually_exclusive_group()
    limits.add_argument(
        "--max-memory",
        type=answers.size,
        metavar="SIZE",
        help="at most, of what --objective counts, weights among it; e.g. 20MB; minimises time",
    )
    limits.add_argument(
        "--time", type=_nanoseconds, metavar="TIME", help="limit, e.g. 50ms; minimises memory"
    )
    parser.add_argument(
        "--objective",
        choices=OBJECTIVES,
        default=OBJECTIVES[0],
        help="what memory is: network (default): workspaces, weights and transformed tensors of all "
        "layers together; workspace: the largest workspace of a layer, which all use in turn",
    )
    parser.add_argument(
        "--accounting",
        choices=("own", PUBLISHED),
        default="own",
        help="own (default): all that a plan adds to the feature maps; published: as TASO's formulas 9 "
        "and 15 count, convolutions only and layout transformations free; the workspace is then the "
        "largest sum of input, output, weights and scratch",
    )
    parser.add_argument(
        "--front", action="store_true", help="print all Pareto-optimal pairs of memory and time"
    )
    parser.add_argument(
        "--solver",
        choices=("dp", "ilp"),
        default="dp",
        help="dp (default): dynamic programming, the whole front at once; ilp: an integer program in "
        f"HiGHS, one for each question, its front at {BUDGETS} memories; both exact",
    )
    parsers.add_time_limit(
        parser,
        "limit for measuring, and for the search, which ends with the best plan so far",
        default=None,
    )
    group = parser.add_argument_group("times of primitives")
    group.add_argument(
        "--profile", metavar="FILE", help="a table (CSV) of a profile, instead of measuring now"
    )
    group.add_argument(
        "--save-profile",
        type=parsers.output_file(),
        metavar="FILE",
        help="write what was measured, for later",
    )
    group.add_argument(
        "--without",
        nargs="+",
        metavar="NAME",
        default=[],
        help="leave out primitives whose names begin so, e.g. fourier, which has no C in csdf deploy",
    )
    group.add_argument(
        "--repeats",
        type=answers.positive,
        metavar="N",
        default=5,
        help="number of runs whose median is written; default 5",
    )
    group.add_argument(
        "--run",
        action="store_true",
        help="run the plan: time, and output against the whole network",
    )
    group.add_argument(
        "--seed", type=answers.integer, metavar="N", default=0, help="of frame and random weights"
    )
    parsers.add_json_option(parser)
    parsers.add_plot_option(parser, "the front")
    parsers.add_output_option(
        parser, "the plan: maps, transformed tensors and workspaces in one arena, in JSON", "json"
    )
    return parser


def _check(options: argparse.Namespace) -> None:
    if options.profile and options.save_profile:
        options.refuse("--profile reads what --save-profile would measure and write; give one")


def _nanoseconds(text: str) -> int:
    value = answers.exact_seconds(text) * 10**9
    if value <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time above zero, such as 50ms")
    if value.denominator != 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of nanoseconds")
    return int(value)
