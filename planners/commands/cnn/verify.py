"""`csdf cnn verify`: run it row by row in its buffers and compare."""

from __future__ import annotations

import argparse

from cnn2csdf.commands.cnn import options as shared
from csdf.cli import answers, parsers

TOLERANCE = 1e-4  # relative to the largest output: single precision, sums in another order


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of this command."""
    parser = parsers.new_parser(
        "csdf cnn verify",
        "Find the smallest buffers to run row by row, execute the network in arrays of "
        "exactly these sizes, firing by firing, several frames behind one another, and compare "
        "each output with that of a run layer by layer; with that of ONNX Runtime too, where it is "
        "installed and the model is an ONNX file. An access outside a buffer is an error.",
        "csdf cnn verify samos_example --frames 3",
        work="planners.commands.cnn.work.verify",
    )
    shared.add_model_options(parser)
    shared.add_granularity_options(parser)
    shared.add_duration_options(parser)
    parser.add_argument("--frames", type=answers.positive, metavar="N", default=2, help="default 2")
    parser.add_argument(
        "--seed",
        type=answers.integer,
        metavar="N",
        default=0,
        help="of the frames and of random weights",
    )
    parser.add_argument(
        "--random-weights", action="store_true", help="also where the model has weights of its own"
    )
    parser.add_argument(
        "--tolerance",
        type=_tolerance,
        metavar="X",
        default=TOLERANCE,
        help=f"relative; default {TOLERANCE:g}",
    )
    shared.add_time_limit(parser)
    parsers.add_json_option(parser)
    return parser


def _tolerance(text: str) -> float:
    value = answers.fraction(text)
    if abs(value) > 1:
        raise answers.unfit(text, "a relative difference of at most 1")
    return float(value)
