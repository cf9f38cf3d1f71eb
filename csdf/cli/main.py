"""The `csdf` command: finds the subcommand and leaves the rest to it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module, metadata

from csdf.cli.answers import NO, UNUSABLE
from csdf.errors import CsdfError, InconsistentGraph

COMMANDS = {
    "analyze": "throughput, critical cycle, deadlock and repetition vector of graphs",
    "schedule": "start times: self-timed, periodic or K-periodic",
    "convert": "SDF3 XML, JSON and Graphviz, and transformations on the way",
    "generate": "random consistent live graphs from a seed",
}
USAGE = """usage: csdf COMMAND ...

Exact analysis of cyclo-static dataflow graphs.

commands:
{commands}

`csdf COMMAND --help` explains a command. For example:
  csdf analyze graph.xml

exit code: 0 answered, 1 answered "no" (inconsistent or deadlocked),
2 wrong usage or unreadable input, 3 gave up before the answer"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words and words[0] in COMMANDS:
        return _run(words[0], words[1:])
    listed = "\n".join(f"  {name:<10}{purpose}" for name, purpose in COMMANDS.items())
    usage = USAGE.format(commands=listed)
    if words in (["-h"], ["--help"]):
        print(usage)
        return 0
    if words == ["--version"]:
        print(f"csdf {metadata.version('csdf')}")
        return 0
    if words:
        print(
            f"csdf: there is no command {words[0]!r}; one of {', '.join(COMMANDS)}", file=sys.stderr
        )
        return UNUSABLE
    print(usage, file=sys.stderr)
    return UNUSABLE


def _run(command: str, words: list[str]) -> int:
    """Run the command; every refusal of the project becomes one line."""
    try:
        return int(import_module(f"csdf.cli.{command}").main(words))
    except InconsistentGraph as error:
        print(f"csdf {command}: {error}", file=sys.stderr)
        return NO
    except CsdfError as error:
        print(f"csdf {command}: {error}", file=sys.stderr)
        return UNUSABLE
    except KeyboardInterrupt:
        print(f"csdf {command}: interrupted", file=sys.stderr)
        return UNUSABLE
    except BrokenPipeError:  # the reader of the output went away
        sys.stderr.close()
        return 0
