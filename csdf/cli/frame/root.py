"""The list of commands that is printed for words that name no command."""

from __future__ import annotations

from csdf import __version__
from csdf.cli.frame.commands import Listing

ROOT = Listing(
    about="Exact analysis of cyclo-static dataflow graphs.",
    order=[
        "analyze",
        "buffers",
        "pareto",
        "schedule",
        "latency",
        "sensitivity",
        "map",
        "scenarios",
        "convert",
        "generate",
        "draw",
        "codegen",
        "fifo",
        "fit",
        "deploy",
        "cnn",
        "plan",
        "report",
        "examples",
        "schema",
        "completion",
    ],
    foot="""`csdf help COMMAND` explains a command, `csdf --version` says which csdf this is,
`csdf examples` copies the files of all examples. For example:
  csdf analyze models/graphs/csdf_example.xml

exit code: 0 answered, 1 answered "no" (inconsistent or deadlocked),
2 wrong usage or unreadable input, 3 unknown before the answer, or ended by
Ctrl-C, also where the best found by then is shown; 70 a fault of csdf""",
    version=f"csdf {__version__}",
)
