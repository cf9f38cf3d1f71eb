"""`csdf cnn convert`: to a CSDF graph, or to ONNX."""

from __future__ import annotations

import argparse

from cnn2csdf.commands.cnn import options as shared
from cnn2csdf.geometry import Overlap
from csdf.cli import parsers
from csdf.errors import CsdfError
from csdf.io.files import suffix_of
from csdf.io.graph_files import require_format


def _check(options: argparse.Namespace) -> None:
    if suffix_of(options.output) != ".onnx":
        require_format(options.output)
    elif options.bounded or options.overlap is not None:
        raise CsdfError(
            f"{options.output}: --overlap and --bounded are for graphs; write .json, .xml or .dot"
        )


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of this command."""
    parser = parsers.new_parser(
        "csdf cnn convert",
        "Write a network as a CSDF graph: an actor for each layer, a phase for each block of "
        "rows, a token for each element. The suffix chooses the format: .xml (SDF3), .json, "
        ".dot; .onnx writes the network itself, with the model's weights or seeded random ones.",
        "csdf cnn convert samos_example -o graph.json --element-bytes 1",
        work="cnn2csdf.commands.cnn.work.convert",
        check=_check,
    )
    shared.add_model_options(parser)
    parsers.add_output_option(parser, ".xml, .json, .dot or .onnx", required=True)
    shared.add_granularity_options(parser)
    parser.add_argument(
        "--overlap",
        choices=[kind.value for kind in Overlap],
        help="rows that windows share stay in the channel (window: release rates), or in a "
        "self-loop as in the literature; default: window, where the format can hold it",
    )
    parser.add_argument(
        "--bounded", action="store_true", help="with the smallest capacities without deadlock"
    )
    shared.add_time_limit(parser)
    shared.add_seed_option(parser, "of random weights, for .onnx")
    shared.add_duration_options(parser)
    return parser
