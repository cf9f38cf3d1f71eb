"""`csdf plan fusion`: groups of layers and tiles under a memory limit."""

from __future__ import annotations

import argparse

from cnn2csdf.commands.cnn import options as shared
from csdf.cli import option_values, parsers
from csdf.cli.parsers import add_limit_options
from csdf.names import expected_names
from planners.memory.answer import GroupMode, ScratchCount

EXACT = "exact"
PUBLISHED = "published"
FITTED = "fitted"

# Seconds of a usual machine. The largest network of the catalogue, of 244 layers, takes 40; all others
# take less than 5.
EFFORT = 60.0


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of this command."""
    parser = parsers.new_parser(
        "csdf plan fusion",
        "Cut a network into groups that run layer by layer, tile by tile or row by row, such "
        "that all tensors, tiles and scratch fit an arena. The fastest plan that fits is chosen, "
        "by the times of the platform. Exact over all groups, even tilings, recomputed or cached "
        "halos.",
        "csdf plan fusion resnet8 --ram 150kB --flash 512kB --verify",
        "csdf plan fusion resnet8 --front --plot front.svg",
        work="planners.fusion.command.work",
        check=require_question,
        notes="Sizes: MB is 1,000,000 bytes and MiB 2^20 (what MAFAT calls MB); kB, KiB, GB, GiB "
        "and plain bytes too.",
    )
    shared.add_model_options(parser)
    add_limit_options(parser, "maximum of arena and parameters together; e.g. 64MB, 16MiB")
    parser.add_argument(
        "--layers",
        type=_layers,
        metavar="FIRST:END",
        default=(0, None),
        help="plan only these layers, numbered from 0",
    )
    add_chosen_options(parser)
    parser.add_argument(
        "--front",
        action="store_true",
        help="print all Pareto-optimal pairs of arena bytes and time",
    )
    parser.add_argument(
        "--verify",
        action="store_true",
        help="run the plan in its arena and compare its outputs with a run without a plan",
    )
    parser.add_argument(
        "--seed",
        type=option_values.integer,
        metavar="N",
        default=0,
        help="seed of the frame and of random weights",
    )
    _add_group_options(parser)
    _add_time_options(parser)
    shared.add_element_bytes_option(parser, is_by_tensor=True)
    parsers.add_effort(
        parser, "effort of the search, which ends with the fastest plan so far", EFFORT
    )
    parsers.add_output_option(
        parser, "the plan: .json, or its offsets as constants for C (.h)", "json", "h"
    )
    parsers.add_json_option(parser)
    parsers.add_plot_option(parser, "the front")
    return parser


def _add_group_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that restrict candidate groups: tiles, modes, scratch."""
    parser.add_argument(
        "--tiles",
        type=option_values.positive,
        metavar="N",
        default=5,
        help="maximum number of tiles along a side; default 5",
    )
    parser.add_argument(
        "--modes",
        type=_modes,
        metavar="MODE,..",
        default=frozenset(GroupMode),
        help=f"permitted modes of groups, of {','.join(mode.value for mode in GroupMode)}; default all",
    )
    parser.add_argument(
        "--scratch",
        choices=[kind.value for kind in ScratchCount],
        help="scratch of convolutions; default none, as in all commands; im2col, as in Darknet, "
        "is the default with --configuration and with --method published or fitted",
    )


def _add_time_options(parser: argparse.ArgumentParser) -> None:
    """Add the sources of execution times: platform, measured layers, measured configurations."""
    shared.add_platform_option(parser)
    parser.add_argument(
        "--durations",
        metavar="FILE",
        help="measured times of all layers (CSV of csdf cnn measure --granularity whole), in "
        "place of the platform's: a tile takes its share of the layer's time, and the platform's "
        "start time",
    )
    parser.add_argument(
        "--measured",
        metavar="FILE",
        help="measured times of configurations on your device (CSV with the columns configuration "
        "and milliseconds): the start of a phase and the speed are fitted to them in place of "
        "--platform, and the fastest measured configuration that fits is chosen unless a faster "
        "one is predicted",
    )


def _layers(text: str) -> tuple[int, int | None]:
    first, colon, upto = text.partition(":")
    if not colon:
        raise option_values.unfit(text, "a range such as 0:16")
    return option_values.from_zero(first or "0"), option_values.from_zero(upto) if upto else None


def _modes(text: str) -> frozenset[GroupMode]:
    modes = {mode.value: mode for mode in GroupMode}
    unknown = [name for name in text.split(",") if name not in modes]
    if unknown:
        raise argparse.ArgumentTypeError(
            f"there is no mode {unknown[0]!r}{expected_names(unknown[0], modes)}"
        )
    return frozenset(modes[name] for name in text.split(","))


def add_chosen_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that replace the search."""
    parser.add_argument(
        "--configuration",
        metavar="TILES[/CUT/TILES..]",
        help="plan this configuration instead of searching, in MAFAT's notation: 2x2/NoCut, or "
        "5x5/8/2x2 for 5x5 tiles up to layer 8 and 2x2 from there; halos are recomputed",
    )
    parser.add_argument(
        "--method",
        choices=(EXACT, PUBLISHED, FITTED),
        default=EXACT,
        help="exact (default): the search; published: Algorithm 3 of MAFAT with its predictor as "
        "printed, whose limit is --ram; fitted: with a predictor that is fitted to its Table 4.1",
    )
    parser.add_argument(
        "--bias",
        type=option_values.size,
        metavar="SIZE",
        help="constant term of MAFAT's predictor: weights, libraries and other memory of the "
        "process, which varies by system; default 31MiB as printed, 55MiB fitted",
    )


def require_question(options: argparse.Namespace) -> None:
    """Refuse options that ask for nothing, or for two things at once."""
    has_limit = (options.memory, options.ram) != (None, None)
    if options.bias is not None and not is_chosen(options):
        options.refuse("--bias is of MAFAT's predictor; give --method or --configuration with it")
    if options.measured is not None and is_chosen(options):
        options.refuse("--measured is for the search; --configuration and --method make none")
    if options.measured is not None and options.durations is not None:
        options.refuse("--measured has times of configurations, --durations of layers; give one")
    if not is_chosen(options):
        if not has_limit and not options.front:
            options.refuse("give --ram, --total-memory, --front or --configuration")
        return
    if options.front or options.plot:
        options.refuse("--front and --plot show a search; --configuration and --method make none")
    if options.configuration is not None and options.method != EXACT:
        options.refuse("--configuration is a choice, and --method makes one; give one of them")
    if options.configuration is None and not has_limit:
        options.refuse("--method needs a limit: give --ram or --total-memory")


def is_chosen(options: argparse.Namespace) -> bool:
    """Whether a configuration is given, or MAFAT's search asked for."""
    return options.configuration is not None or options.method != EXACT
