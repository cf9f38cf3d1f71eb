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
    """Run one command, with room for long numbers and odd names in what it prints.

    Returns its exit code.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    limit = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(MOST_DIGITS)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        return _exit_code(words)
    finally:
        sys.set_int_max_str_digits(limit)


def _exit_code(words: list[str]) -> int:
    """Run the command; every refusal of the project becomes one line that begins with its name."""
    program = "csdf"
    try:
        try:
            if not words or words[0] not in COMMANDS:
                return _without_command(words)
            program = f"csdf {words[0]}"
            module = import_module(f"csdf.cli.{words[0]}")
            if words[1:] and words[1] in getattr(module, "COMMANDS", ()):
                program += f" {words[1]}"
            return int(module.main(words[1:]))
        finally:
            sys.stdout.flush()  # of --help too, which ends by SystemExit
    except GaveUp as error:
        print(f"{program}: gave up: {error}", file=sys.stderr)
        return GAVE_UP
    except MemoryError:
        print(f"{program}: gave up: out of memory", file=sys.stderr)
        return GAVE_UP
    except InconsistentGraph as error:
        print(f"{program}: {error}", file=sys.stderr)
        return NO
    except CsdfError as error:
        print(f"{program}: {error}", file=sys.stderr)
        return UNUSABLE
    except KeyboardInterrupt:
        print(f"{program}: gave up: interrupted", file=sys.stderr)
        return GAVE_UP
    except OSError as error:  # standard output takes no more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the flush at the end
        if isinstance(error, BrokenPipeError):  # its reader has seen enough
            return ANSWERED
        print(f"{program}: the output cannot be written: {error.strerror}", file=sys.stderr)
        return UNUSABLE


def _without_command(words: list[str]) -> int:
    """Say which commands there are; nothing else can be answered."""
    listed = "\n".join(f"  {name:<12}{purpose}" for name, purpose in COMMANDS.items())
    usage = USAGE.format(commands=listed)
    if words in (["-h"], ["--help"]):
        print(usage)
        return ANSWERED
    if words == ["--version"]:
        kernels = import_module("csdf.kernels.compile")
        print(f"csdf {VERSION}, {kernels.choice()}")
        return ANSWERED
    if words:
        print(
            f"csdf: there is no command {words[0]!r}; one of {', '.join(COMMANDS)}", file=sys.stderr
        )
        return UNUSABLE
    print(usage, file=sys.stderr)
    return UNUSABLE
