"""`csdf cnn`: a CNN becomes a CSDF graph, and runs by parts."""

from __future__ import annotations

from collections.abc import Sequence

from csdf.cli import subcommands
from csdf.cli.subcommands import Subcommand

COMMANDS = {
    "show": Subcommand("cnn2csdf.commands.cnn.show", "layers, shapes, parameters, work"),
    "convert": Subcommand("cnn2csdf.commands.cnn.convert", "to a CSDF graph, or to ONNX"),
    "memory": Subcommand("cnn2csdf.commands.cnn.memory", "whole layers against work by parts"),
    "measure": Subcommand("cnn2csdf.commands.cnn.measure", "time every phase on this machine"),
    "verify": Subcommand(
        "cnn2csdf.commands.cnn.verify", "run it by parts in its buffers and compare"
    ),
}


def main(words: Sequence[str]) -> int:
    """Run one command on networks; return its exit code."""
    about = "CNNs as cyclo-static dataflow graphs whose layers work by parts."
    return subcommands.run("csdf cnn", about, COMMANDS, words, example="csdf cnn memory resnet18")
