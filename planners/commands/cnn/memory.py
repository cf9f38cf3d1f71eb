"""`csdf cnn memory`: layer by layer against row by row."""

from __future__ import annotations

import argparse

from cnn2csdf.commands.cnn import options as shared
from csdf.cli import parsers
from csdf.errors import CsdfError

OWN, PUBLISHED = "own", "published"  # accountings

# Seconds of a usual machine for each network; the largest of the catalogue, of 244 layers, takes 6.
EFFORT = 20.0


def _require_possible(options: argparse.Namespace) -> None:
    """Refuse, before the search, options for which no plan can be written."""
    if options.accounting == PUBLISHED and options.output:
        raise CsdfError(
            f"{options.output}: no plan runs in the published accounting, whose joins keep rows "
            "nowhere; leave --accounting away"
        )


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of this command."""
    parser = parsers.new_parser(
        "csdf cnn memory",
        "Memory and time of a network layer by layer, and row by row: its buffers as separate "
        "memories, its buffers in one arena, its parameters, the time of a frame on one processor, and "
        "the period when each layer has a processor of its own. The literature counts separate "
        "memories; runtimes have an arena. The reduction compares the smallest memory with the "
        "smallest layer by layer.",
        "csdf cnn memory samos_example resnet8",
        "csdf cnn memory resnet8 --plot memory.svg",
        "csdf cnn memory resnet8 -o plan.json",
        "csdf cnn memory resnet18 --accounting published --platform jetson-tx2-fitted",
        work="planners.commands.cnn.work.memory",
        check=_require_possible,
    )
    shared.add_model_options(parser)
    shared.add_model_argument(
        parser, "more", nargs="*", default=[], help="more networks, a row each"
    )
    parser.set_defaults(simplify=None)  # depends on the accounting
    parser.add_argument(
        "--accounting",
        choices=(OWN, PUBLISHED),
        default=OWN,
        help="own (default): buffers that a network runs in; published: as Table III of SAMOS 2020 "
        "counts. Each edge has a buffer. Rows that windows share count twice. A join writes all rows "
        "with its last row. A local response normalisation has two tensors of scratch. --simplify is "
        "eliminate-nop,fuse-bias by default",
    )
    shared.add_granularity_options(parser)
    shared.add_duration_options(parser)
    parser.add_argument(
        "--whole-durations",
        metavar="FILE",
        help="such a table for layer by layer; by default the sums over the rows of --durations",
    )
    parsers.add_effort(parser, "effort of the searches for each network", EFFORT)
    form = parser.add_mutually_exclusive_group()
    parsers.add_json_option(form)
    form.add_argument(
        "--csv", action="store_true", help="print one line a network; bytes, frames/s"
    )
    parsers.add_plot_option(parser, "memory as bars")
    parsers.add_output_option(parser, "the smaller of the two arenas as a plan, in JSON", "json")
    return parser
