"""`csdf cnn measure`: time every phase on this machine."""

from __future__ import annotations

import argparse

from cnn2csdf.commands.cnn import options as shared
from csdf.cli import option_values, parsers


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of this command."""
    parser = parsers.new_parser(
        "csdf cnn measure",
        "Time each phase of each layer in the executor of this package (numpy, on this "
        "machine) and write a table that the other commands take as --durations.",
        "csdf cnn measure samos_example -o times.csv",
        work="cnn2csdf.commands.cnn.work.measure",
    )
    shared.add_model_options(parser)
    shared.add_granularity_options(parser)
    parsers.add_output_option(parser, "the table (CSV)", required=True)
    parser.add_argument(
        "--repeats",
        type=option_values.positive,
        metavar="N",
        default=5,
        help="number of runs whose median is written; default 5",
    )
    shared.add_seed_option(parser, "seed of the frame and the weights")
    return parser
