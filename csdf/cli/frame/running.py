"""The frame of all commands: finds the one that is meant, and makes one line of every refusal."""

from __future__ import annotations

import sys
from importlib import import_module

from csdf.cli.frame.exit_codes import ANSWERED, GAVE_UP, NO, UNUSABLE
from csdf.cli.frame.interrupts import InterruptsBetweenImports
from csdf.cli.frame.streams import Answers, own_streams
from csdf.cli.main import COMMANDS, VERSION
from csdf.errors import CsdfError, GaveUp, InconsistentGraph
from csdf.names import quoted

MOST_DIGITS = 100_000  # of a number in an answer; Python's own limit is too low for huge rates

USAGE = """usage: csdf COMMAND ...

Exact analysis of cyclo-static dataflow graphs.

commands:
{commands}

`csdf COMMAND --help` explains a command, `csdf --version` says which csdf this is.
For example:
  csdf analyze models/graphs/csdf_example.xml

exit code: 0 answered, 1 answered "no" (inconsistent or deadlocked),
2 wrong usage or unreadable input, 3 gave up before the answer, or ended by
Ctrl-C, also where the best found by then is shown"""


def run(words: list[str]) -> int:
    """Run one command, with room for long numbers and odd names in what it prints.

    Returns its exit code.
    """
    limit = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(MOST_DIGITS)
    try:
        with own_streams() as output, InterruptsBetweenImports() as interrupts:
            return _exit_code(words, output, interrupts)
    finally:
        sys.set_int_max_str_digits(limit)


def _exit_code(words: list[str], output: Answers, interrupts: InterruptsBetweenImports) -> int:
    """Run the command; every refusal of the project becomes one line that begins with its name."""
    program = "csdf"
    try:
        try:
            if not words or words[0] not in COMMANDS:
                return _without_command(words)
            program = f"csdf {words[0]}"
            module = import_module(f"csdf.cli.{words[0]}")
            interrupts.let_in()
            if words[1:] and words[1] in getattr(module, "COMMANDS", ()):
                program += f" {words[1]}"
            return interrupts.exit_code(int(module.main(words[1:])))
        finally:
            output.flush()  # of --help too, which ends by SystemExit
    except GaveUp as error:
        print(f"{program}: gave up: {quoted(str(error))}", file=sys.stderr)
        return GAVE_UP
    except MemoryError:
        print(f"{program}: gave up: out of memory", file=sys.stderr)
        return GAVE_UP
    except InconsistentGraph as error:
        print(f"{program}: {quoted(str(error))}", file=sys.stderr)
        return NO
    except CsdfError as error:
        print(f"{program}: {quoted(str(error))}", file=sys.stderr)
        return UNUSABLE
    except KeyboardInterrupt:
        print(f"{program}: gave up: interrupted", file=sys.stderr)
        return GAVE_UP
    except OSError as error:  # standard output takes no more
        output.silence()
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
        print(f"csdf {VERSION}")
        return ANSWERED
    if words:
        print(
            f"csdf: there is no command {words[0]!r}; one of {', '.join(COMMANDS)}", file=sys.stderr
        )
        return UNUSABLE
    print(usage, file=sys.stderr)
    return UNUSABLE
