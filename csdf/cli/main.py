"""The `csdf` command: finds the subcommand and leaves the rest to it."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from csdf.cli.answers import ANSWERED, GAVE_UP, NO, UNUSABLE
from csdf.errors import CsdfError, GaveUp, InconsistentGraph

VERSION = "0.1.0"  # the packaging reads it from here
MOST_DIGITS = 100_000  # of a number in an answer; Python's own limit is too low for huge rates

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
USAGE = """usage: csdf COMMAND ...

Exact analysis of cyclo-static dataflow graphs.

commands:
{commands}

`csdf COMMAND --help` explains a command, `csdf --version` says which csdf this is.
For example:
  csdf analyze models/graphs/csdf_example.xml

exit code: 0 answered, 1 answered "no" (inconsistent or deadlocked),
2 wrong usage or unreadable input, 3 gave up before the answer"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words and words[0] in COMMANDS:
        return _run(words[0], words[1:])
    listed = "\n".join(f"  {name:<12}{purpose}" for name, purpose in COMMANDS.items())
    usage = USAGE.format(commands=listed)
    if words in (["-h"], ["--help"]):
        print(usage)
        return 0
    if words == ["--version"]:
        print(f"csdf {VERSION}")
        return 0
    if words:
        print(
            f"csdf: there is no command {words[0]!r}; one of {', '.join(COMMANDS)}", file=sys.stderr
        )
        return UNUSABLE
    print(usage, file=sys.stderr)
    return UNUSABLE


def _run(command: str, words: list[str]) -> int:
    """Run the command with room for long numbers and odd names in what it prints."""
    limit = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(MOST_DIGITS)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        return _exit_code(command, words)
    finally:
        sys.set_int_max_str_digits(limit)


def _exit_code(command: str, words: list[str]) -> int:
    """Run the command; every refusal of the project becomes one line that begins with its name."""
    module = import_module(f"csdf.cli.{command}")
    if words and words[0] in getattr(module, "COMMANDS", ()):
        command = f"{command} {words[0]}"
    try:
        code = int(module.main(words))
        sys.stdout.flush()
    except GaveUp as error:
        print(f"csdf {command}: gave up: {error}", file=sys.stderr)
        return GAVE_UP
    except MemoryError:
        print(f"csdf {command}: gave up: out of memory", file=sys.stderr)
        return GAVE_UP
    except InconsistentGraph as error:
        print(f"csdf {command}: {error}", file=sys.stderr)
        return NO
    except CsdfError as error:
        print(f"csdf {command}: {error}", file=sys.stderr)
        return UNUSABLE
    except KeyboardInterrupt:
        print(f"csdf {command}: interrupted", file=sys.stderr)
        return UNUSABLE
    except OSError as error:  # standard output takes no more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the flush at the end
        if isinstance(error, BrokenPipeError):  # its reader has seen enough
            return ANSWERED
        print(f"csdf {command}: the output cannot be written: {error.strerror}", file=sys.stderr)
        return UNUSABLE
    return code
