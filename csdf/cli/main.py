"""The `csdf` command: what there is; all else is loaded by `frame`, under its care.

Nothing that takes time is imported here, so that Ctrl-C at the start finds somebody to answer it.
"""

from __future__ import annotations

import sys
from importlib import import_module

from csdf.cli.frame.exit_codes import GAVE_UP

TYPE_CHECKING = False  # as `typing` has it, without loading that

if TYPE_CHECKING:
    from collections.abc import Sequence

VERSION = "0.1.0"  # the packaging reads it from here

COMMANDS = {
    "analyze": "throughput, critical cycle, deadlock and repetition vector of graphs",
    "buffers": "the smallest capacities without deadlock, or fast enough",
    "pareto": "the storage/throughput front",
    "schedule": "start times: self-timed, periodic or K-periodic",
    "convert": "SDF3 XML, JSON and Graphviz, and transformations on the way",
    "generate": "random consistent live graphs from a seed",
    "cnn": "networks: show, convert to graphs, memory by parts, verify by running",
    "plan": "memory plans: arena, fusion, primitives, reuse, traffic",
    "report": "one page to look at: bottleneck, schedule, storage, memory",
    "completion": "completion for bash, zsh and fish",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        return int(import_module("csdf.cli.frame.running").run(words))
    except KeyboardInterrupt:  # while that was loaded, or once more while it ended
        print("csdf: gave up: interrupted", file=sys.stderr)
        return GAVE_UP
