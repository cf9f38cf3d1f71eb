"""`csdf plan reuse`: memory of several networks on one device, against throughput."""

from __future__ import annotations

import argparse
from fractions import Fraction

from cnn2csdf.commands.cnn import options as shared
from csdf.cli import option_values, parsers
from csdf.cli.loading import suffix_of
from csdf.cli.parsers import add_limit_options
from csdf.errors import CsdfError

PUBLISHED, PUBLISHED_STRIDE = "published", "published-stride"  # accountings
LOCAL, NSGA2 = "local-search", "nsga2"  # methods


def _require_possible(options: argparse.Namespace) -> None:
    """Refuse, before the search, options that would fail after it."""
    if options.accounting not in (PUBLISHED, PUBLISHED_STRIDE):
        return
    if options.verify:
        raise CsdfError("--verify cannot run rates as published; leave --accounting away")
    if options.output and suffix_of(options.output) == "json":
        raise CsdfError(
            f"{options.output}: no plan runs with rates as published; leave --accounting away, or "
            "write tables for C (.h)"
        )


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of this command."""
    parser = parsers.new_parser(
        "csdf plan reuse",
        "Memory of several networks that share one device: which layers run row by row, and "
        "which buffers share memory (Minakova and Stefanov, TODAES 2022). The Pareto front of "
        "memory and the throughput of every network, and the plan that meets your constraints: "
        "the fastest within --ram, --flash or --total-memory, else the smallest that is fast "
        "enough. The layer-by-layer arena is always a candidate. csdf plan fusion plans tiles.",
        "csdf plan reuse resnet8+keyword_spotting --generations 5",
        "csdf plan reuse resnet8+keyword_spotting --generations 5 --ram 90kB -o plan.h",
        work="planners.reuse.command.work",
        check=_require_possible,
    )
    shared.add_model_argument(
        parser,
        "models",
        nargs="+",
        help="a model file (.onnx, .tflite, .cfg, .json) or networks of the catalogue, several "
        "networks with spaces or + between them; or an application in a .json, .yaml or .yml file",
    )
    parser.add_argument(
        "--entry",
        metavar="NAME",
        help="application of this name in a table of published applications",
    )
    shared.add_reading_options(parser)
    add_limit_options(
        parser, "maximum of buffers and parameters together, as published; e.g. 15MB, 256KiB"
    )
    parser.add_argument(
        "--throughput",
        action="append",
        type=_named_rate,
        metavar="NET=FPS",
        default=[],
        help="frames a second that a network must reach",
    )
    _add_search_options(parser)
    _add_cost_options(parser)
    _add_output_options(parser)
    return parser


def _add_search_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the search: its space, method, effort and processes."""
    parser.add_argument(
        "--rows",
        type=_alleles,
        metavar="N,N,..",
        default=(0, 1),
        help="rows per phase that a layer may choose; 0 is the whole tensor; default 0,1 as "
        "published",
    )
    parser.add_argument(
        "--method",
        choices=(LOCAL, NSGA2),
        default=LOCAL,
        help=f"{LOCAL} (default): exact seeds, hill climbing, threshold accepting; whole buffers are "
        f"the smaller of Algorithm 8's and those shared largest first. {NSGA2}: NSGA-II as published; "
        "whole buffers are Algorithm 8's, so the two methods may give one plan different bytes",
    )
    parser.add_argument(
        "--generations",
        type=option_values.positive,
        metavar="N",
        default=100,
        help="number of generations; evaluations are generations times --population; default 100",
    )
    parser.add_argument(
        "--population", type=option_values.positive, metavar="N", default=100, help="default 100"
    )
    parser.add_argument(
        "--seed",
        type=option_values.integer,
        metavar="N",
        default=0,
        help="seed of the search and of --verify; default 0",
    )
    parser.add_argument(
        "--workers",
        type=option_values.positive,
        metavar="N",
        default=1,
        help="processes; default 1",
    )
    parser.add_argument(
        "--scheduler", metavar="tcp://HOST:PORT", help="scheduler of Dask (extra: cluster)"
    )
    parser.add_argument(
        "--checkpoint",
        type=parsers.output_file(),
        metavar="FILE",
        help="file of scores, saved during the search; the search resumes if the file exists",
    )
    parsers.add_time_limit(parser, "limit of the search, which ends with the front so far")


def _add_cost_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of memory and time accounting."""
    shared.add_element_bytes_option(parser)
    parser.add_argument(
        "--parameter-bytes",
        type=option_values.positive,
        metavar="N",
        help="bytes of one parameter; default: as --element-bytes",
    )
    shared.add_platform_option(parser)
    parser.add_argument(
        "--durations",
        action="append",
        type=_named_file,
        metavar="NET=FILE",
        default=[],
        help="measured times of the phases of a network (CSV of csdf cnn measure), instead of those of "
        "the platform; once for each number of rows that --rows allows",
    )
    parser.add_argument(
        "--accounting",
        choices=("own", PUBLISHED, PUBLISHED_STRIDE),
        default="own",
        help="own (default): rates with which the networks run; published: those that Algorithm 1 "
        "prints, without padding, a window that skips rows moving by its kernel, and no parameters of "
        f"normalisations; {PUBLISHED_STRIDE}: the same, with the stride kept",
    )
    parser.add_argument(
        "--selection",
        choices=("fastest", PUBLISHED),
        default="fastest",
        help="fastest (default): the fastest that fits, with offsets; published: Algorithm 9 with "
        "whole buffers: all layers whole if that fits, else the least memory that meets the "
        "constraints, else the least of all",
    )


def _add_output_options(parser: argparse.ArgumentParser) -> None:
    """Add what becomes of the plan."""
    parser.add_argument(
        "--whole-buffers",
        action="store_true",
        help="share buffers whole, as published; by default every buffer has an offset of its own",
    )
    parsers.add_output_option(
        parser,
        "the chosen plan: .json, which csdf fit --plan checks, runs and draws; or tables for C (.h)",
        "json",
        "h",
    )
    parser.add_argument(
        "--verify",
        action="store_true",
        help="run all networks in one array of the planned size, and compare their outputs with "
        "runs without a plan",
    )
    parsers.add_json_option(parser)
    parsers.add_plot_option(parser, "memory against time")


def _named_rate(text: str) -> tuple[str, Fraction]:
    name, _, value = text.rpartition("=")
    if not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not NETWORK=FRAMES_PER_SECOND")
    return name, option_values.above_zero(value)


def _alleles(text: str) -> tuple[int, ...]:
    values = tuple(option_values.from_zero(value) for value in text.split(","))
    if len(set(values)) != len(values):
        raise option_values.unfit(text, "a list such as 0,1,2,4, each number once")
    return tuple(sorted(values))


def _named_file(text: str) -> tuple[str, str]:
    name, _, path = text.partition("=")
    if not name or not path:
        raise argparse.ArgumentTypeError(f"{text!r} is not NETWORK=FILE")
    return name, path
