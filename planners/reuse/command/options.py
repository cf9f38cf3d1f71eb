"""Options of `csdf plan reuse`: what shares the memory, and what is done as published."""

from __future__ import annotations

import argparse

from cnn2csdf.commands.cnn import options as shared

PUBLISHED = "published"


def add_application_options(parser: argparse.ArgumentParser) -> None:
    """Add what shares the memory."""
    shared.add_model_argument(
        parser,
        "models",
        nargs="+",
        help="a model file (.onnx, .tflite, .cfg, .json) or networks of the catalogue, several "
        "behind one another or with + between them; or an application in a .json, .yaml or .yml file",
    )
    parser.add_argument("--entry", metavar="NAME", help="one of a table of published applications")
    shared.add_reading_options(parser)


def add_published_options(parser: argparse.ArgumentParser) -> None:
    """Add what is done as published."""
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
        choices=("own", PUBLISHED),
        default="own",
        help="own (default): rates with which the networks run; published: those that Algorithm 1 "
        "prints, without padding, and no parameters of normalisations",
    )
    parser.add_argument(
        "--selection",
        choices=("fastest", PUBLISHED),
        default="fastest",
        help="fastest (default): the fastest that fits, with offsets; published: Algorithm 9 with "
        "whole buffers: all layers whole if that fits, else the least memory that meets the "
        "demands, else the least of all",
    )


def _named_file(text: str) -> tuple[str, str]:
    name, _, path = text.partition("=")
    if not name or not path:
        raise argparse.ArgumentTypeError(f"{text!r} is not NETWORK=FILE")
    return name, path
