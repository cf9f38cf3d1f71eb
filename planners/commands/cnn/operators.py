"""`csdf cnn operators`: supported operators."""

from __future__ import annotations

import argparse

from csdf.cli import parsers

READERS = {"tflite": "TensorFlow Lite", "onnx": "ONNX"}


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of this command."""
    parser = parsers.new_parser(
        "csdf cnn operators",
        "Supported operators: element types that the readers accept, element types of the "
        "generated C, and restrictions.",
        "csdf cnn operators --format tflite",
        work="planners.commands.cnn.work.operators",
    )
    parser.add_argument(
        "--format", choices=tuple(READERS), help="of the file; default: all formats"
    )
    return parser
