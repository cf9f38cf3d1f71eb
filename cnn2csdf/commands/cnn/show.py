"""`csdf cnn show`: layers, shapes, parameters and multiply-accumulates."""

from __future__ import annotations

import argparse

from cnn2csdf.commands.cnn import options as shared
from csdf.cli import parsers


def _check(options: argparse.Namespace) -> None:
    if options.model is None and not options.supported:
        options.refuse("give a MODEL, or --supported")


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of this command."""
    parser = parsers.new_parser(
        "csdf cnn show",
        "The layers of a network: shape and bytes of what each writes, trained parameters, "
        "multiply-accumulates, and phases when the network runs row by row.",
        "csdf cnn show samos_example",
        work="cnn2csdf.commands.cnn.work.show",
        check=_check,
    )
    shared.add_model_argument(parser, "model", nargs="?", help=shared.MODEL_HELP)
    shared.add_reading_options(parser)
    parser.add_argument(
        "--scales", action="store_true", help="also print the quantisation of tensors and weights"
    )
    parser.add_argument(
        "--supported",
        action="store_true",
        help="list the operators that each reader supports, with restrictions, instead of a "
        "network",
    )
    shared.add_element_bytes_option(parser, is_by_tensor=True)
    parsers.add_json_option(parser)
    return parser
