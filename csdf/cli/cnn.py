"""`csdf cnn`: a CNN becomes a CSDF graph, and runs by parts."""

from __future__ import annotations

from collections.abc import Sequence

from csdf.cli import subcommands
from csdf.cli.subcommands import Subcommand

COMMANDS = {
    "show": Subcommand("csdf.cli.networks.show", "layers, shapes, parameters, work"),
    "convert": Subcommand("csdf.cli.networks.convert", "to a CSDF graph, or to ONNX"),
    "memory": Subcommand("csdf.cli.networks.memory", "whole layers against work by parts"),
    "measure": Subcommand("csdf.cli.networks.measure", "time every phase on this machine"),
    "verify": Subcommand("csdf.cli.networks.verify", "run it by parts in its buffers and compare"),
}


def main(words: Sequence[str]) -> int:
    """Run one command on networks; return its exit code."""
    about = "CNNs as cyclo-static dataflow graphs whose layers work by parts."
    return subcommands.run("csdf cnn", about, COMMANDS, words, example="csdf cnn memory resnet18")
