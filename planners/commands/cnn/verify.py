"""`csdf cnn verify`: run a network row by row in its buffers and compare the outputs."""

from __future__ import annotations

import argparse

from cnn2csdf.commands.cnn import options as shared
from csdf.cli import option_values, parsers

TOLERANCE = 1e-4  # relative to the largest output: single precision, sums in another order


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of this command."""
    parser = parsers.new_parser(
        "csdf cnn verify",
        "Find the smallest buffers to run row by row, execute the network in arrays of exactly "
        "these sizes, firing by firing, several frames pipelined, and compare each output with "
        "that of a run layer by layer; with that of ONNX Runtime too, where it is installed and "
        "the model is an ONNX file. An access outside a buffer is an error.",
        "csdf cnn verify samos_example --frames 3",
        work="planners.commands.cnn.work.verify",
    )
    shared.add_model_options(parser)
    shared.add_granularity_options(parser)
    shared.add_duration_options(parser)
    parser.add_argument(
        "--frames",
        type=option_values.positive,
        metavar="N",
        default=2,
        help="number of frames; default 2",
    )
    parser.add_argument(
        "--seed",
        type=option_values.integer,
        metavar="N",
        default=0,
        help="seed of the frames and of random weights",
    )
    parser.add_argument(
        "--random-weights",
        action="store_true",
        help="use random weights even if the model has weights",
    )
    parser.add_argument(
        "--tolerance",
        type=_tolerance,
        metavar="X",
        default=TOLERANCE,
        help=f"maximum relative difference; default {TOLERANCE:g}",
    )
    shared.add_time_limit(parser)
    parsers.add_json_option(parser)
    return parser


def _tolerance(text: str) -> float:
    value = option_values.fraction(text)
    if abs(value) > 1:
        raise option_values.unfit(text, "a relative difference of at most 1")
    return float(value)
