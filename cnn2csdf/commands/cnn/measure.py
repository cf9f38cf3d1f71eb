"""`csdf cnn measure`: time every phase on this machine."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from cnn2csdf.commands.cnn import chosen
from cnn2csdf.commands.cnn import options as shared
from cnn2csdf.durations import format_durations
from cnn2csdf.execution.calibration import calibrated_weights
from cnn2csdf.execution.measure import measure_phases
from cnn2csdf.lowering import lower
from cnn2csdf.weights import Model
from csdf.cli import answers, parsers
from csdf.io.files import write_text


def main(argv: Sequence[str]) -> int:
    """Measure and write the table; return the exit code."""
    options = command_parser().parse_args(argv)
    network = chosen.read(options).network
    model = Model(network=network, weights=calibrated_weights(network, options.seed))
    graph = lower(network, chosen.granularity_of(options), element_bytes=options.element_bytes)
    with answers.working(f"timing the phases of {network.name}"):
        found = measure_phases(model, graph, repeats=options.repeats, seed=options.seed)
    write_text(options.output, format_durations(found))
    total = sum(sum(times) for times in found.values())
    print(
        f"csdf cnn measure: wrote {options.output}: "
        f"{answers.counted(sum(map(len, found.values())), 'phase')}, "
        f"{total / 1e6:.4g} ms a frame",
        file=sys.stderr,
    )
    return answers.ANSWERED


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of this command."""
    parser = parsers.new_parser(
        "csdf cnn measure",
        "Time each phase of each layer in the executor of this package (numpy, on this "
        "machine) and write a table that the other commands take as --durations.",
        "csdf cnn measure samos_example -o times.csv",
    )
    shared.add_model_options(parser)
    shared.add_granularity_options(parser)
    parsers.add_output_option(parser, "the table (CSV)", required=True)
    parser.add_argument(
        "--repeats", type=answers.positive, metavar="N", default=5, help="median of; default 5"
    )
    parser.add_argument(
        "--seed", type=answers.integer, metavar="N", default=0, help="of the frame and the weights"
    )
    return parser
