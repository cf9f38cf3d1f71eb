"""`csdf plan traffic`: least DRAM traffic of layers that share a buffer on the chip."""

from __future__ import annotations

import argparse

from cnn2csdf.commands.cnn import options as shared
from csdf.cli import option_values, parsers

PUBLISHED = "published"
# Seconds of a usual machine; networks of the catalogue of up to 160 layers take 1 to 12 of them.
EFFORT = 60.0
# Maximum number of stages of a group, by --fusion; None: any number.
LONGEST: dict[str, int | None] = {"none": 1, "pairs": 2, "groups": None}
TITLES = {"none": "layer by layer", "pairs": "pairs", "groups": "groups"}  # by --fusion


def _check_and_complete(options: argparse.Namespace) -> None:
    """Refuse contradictions, and set the default of --fusion, which depends on --accounting."""
    if options.buffer is None and options.sweep is None:
        options.refuse("give --buffer, --sweep or both")
    if options.accounting == PUBLISHED and options.fusion == "groups":
        options.refuse(
            "--accounting published knows pairs of layers at most; give --fusion none or pairs"
        )
    options.fusion = options.fusion or ("pairs" if options.accounting == PUBLISHED else "groups")


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of this command."""
    parser = parsers.new_parser(
        "csdf plan traffic",
        "Minimum DRAM traffic of layers with an on-chip buffer of a given size: each layer "
        "alone, pairs of layers with their intermediate tensor in the buffer, or groups of any "
        "length. For a layer, all loop nests with one or two levels of tiles are searched. For a "
        "group, all uniform tilings are searched, with weights stationary and the halo cached, "
        "spilled to DRAM or recomputed. Other schedules may move less, but none moves less than "
        "the lower bound that is printed with every answer.",
        "csdf plan traffic resnet8 --buffer 64KiB --fusion pairs",
        work="planners.traffic.command.work",
        check=_check_and_complete,
        notes="Sizes: KiB is 1024 bytes, as for memories on chips; kB is 1000, MB 1,000,000, MiB "
        "2^20. MODEL may also be a text that describes layers: "
        "conv:56x56x64,64,3x3,stride=1,pad=1 is a convolution of 56 rows x 56 columns x 64 maps "
        "with 64 filters of 3x3; dilation=2 and groups=64 too; a plus sign appends layers: "
        "+conv:64,3x3,pad=1+pool:2x2,stride=2.",
    )
    shared.add_model_options(parser)
    parser.add_argument(
        "--buffer",
        type=option_values.size,
        metavar="SIZE",
        help="size of the buffer on the chip, e.g. 512KiB, 65536",
    )
    parser.add_argument(
        "--sweep",
        type=_range,
        metavar="FROM:TO",
        help="range of buffer sizes, doubled at each step, e.g. 32KiB:4MiB",
    )
    parser.add_argument(
        "--fusion",
        choices=tuple(LONGEST),
        help="layers fused through the buffer: none, pairs, or groups of any length, branches "
        "included; default: groups, and pairs as published",
    )
    parser.add_argument(
        "--accounting",
        choices=("own", PUBLISHED),
        default="own",
        help="own (default): every byte transferred; published: by the formulas of Liao et al., T "
        "= T_I + T_W + 2 T_O for a layer, T_I + T_W and T_W + 2 T_O for a pair of convolutions, "
        "with the input halo reloaded, the halo between tiles spilled to DRAM and all weights "
        "once for each tile",
    )
    parser.add_argument("--layer", metavar="NAME", help="only this layer of the model")
    shared.add_element_bytes_option(parser, is_by_tensor=True)
    parser.add_argument(
        "--nest", action="store_true", help="print the loops of every layer and group"
    )
    parsers.add_effort(parser, "effort of the search, which ends with the best plan so far", EFFORT)
    parsers.add_json_option(parser)
    parsers.add_plot_option(parser, "each group as bars, or with --sweep traffic over buffers,")
    return parser


def _range(text: str) -> tuple[int, int]:
    first, colon, last = text.partition(":")
    if not colon:
        raise argparse.ArgumentTypeError(f"{text!r} is not a range of sizes such as 32KiB:4MiB")
    smallest, largest = option_values.size(first), option_values.size(last)
    if not 0 < smallest <= largest:
        raise argparse.ArgumentTypeError(f"{text!r} does not rise from above zero")
    return smallest, largest
