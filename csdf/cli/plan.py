"""`csdf plan`: memory plans."""

from __future__ import annotations

from collections.abc import Sequence

from csdf.cli import subcommands
from csdf.cli.subcommands import Subcommand

COMMANDS = {
    "arena": Subcommand(
        "planners.arena.command.main", "offsets for buffers with lifetimes, proved"
    ),
    "fusion": Subcommand(
        "planners.fusion.command.main", "groups of layers and tiles under a memory limit"
    ),
    "primitives": Subcommand(
        "planners.primitives.command.main", "how each convolution is computed, for time and memory"
    ),
    "reuse": Subcommand(
        "planners.reuse.command.main", "memory of several networks against throughput"
    ),
    "traffic": Subcommand(
        "planners.traffic.command.main",
        "least DRAM traffic of layers that share a buffer on the chip",
    ),
}


def main(words: Sequence[str]) -> int:
    """Run one planner; return its exit code."""
    about = "Plans for the memory of networks, each with a bound on what is possible."
    example = "csdf plan arena models/alloc/keyword_spotting.csv"
    return subcommands.run("csdf plan", about, COMMANDS, words, example=example)
