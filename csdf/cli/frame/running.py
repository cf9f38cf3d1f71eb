"""The frame of all commands: finds the command that is meant, and makes one line of every refusal."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from importlib import import_module

from csdf.cli.frame import entries
from csdf.cli.frame.commands import Found, below, find, listing_of
from csdf.cli.frame.exit_codes import ANSWERED, FAULT, GAVE_UP, NO, UNUSABLE
from csdf.cli.frame.failures import errors_as_json
from csdf.cli.frame.interrupts import InterruptsBetweenImports
from csdf.cli.frame.output import remark
from csdf.cli.frame.root import ROOT
from csdf.cli.frame.streams import Answers, own_streams
from csdf.errors import CsdfError, Deadlocked, GaveUp, InconsistentGraph

MOST_DIGITS = 100_000  # of a number in an answer; Python's own limit is too low for huge rates
HELP = ("-h", "--help")
REPORT = "please report it, with the lines above, the command and its files"


def run(words: Sequence[str]) -> int:
    """Run one command, with room for long numbers and odd names in what it prints.

    Returns its exit code.
    """
    limit = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(MOST_DIGITS)
    try:
        with own_streams() as (output, remarks), InterruptsBetweenImports() as interrupts:
            with errors_as_json(words, output, remarks) as ended:
                ended.exit_code = _exit_code(words, output, interrupts)
            return ended.exit_code
    finally:
        sys.set_int_max_str_digits(limit)


def _exit_code(words: Sequence[str], output: Answers, interrupts: InterruptsBetweenImports) -> int:
    """Run the command; every refusal of the project becomes one line that begins with its name.

    A fault of the program is shown with its traceback, and has an exit code of its own.
    """
    program = "csdf"
    try:
        try:
            found = find([*words[1:], "--help"] if words[:1] == ["help"] else words)
            program = found.program
            if found.entry is None or found.is_group:
                return _without_command(found)
            module = entries.loaded(found.entry)
            interrupts.let_in()
            return interrupts.exit_code(int(module.main(found.rest)))
        finally:
            output.flush()  # of --help too, which ends by SystemExit
    except GaveUp as error:
        remark(program, f"gave up: {error}")
        return GAVE_UP
    except MemoryError:
        remark(program, "gave up: out of memory")
        return GAVE_UP
    except (Deadlocked, InconsistentGraph) as error:
        remark(program, str(error))
        return NO
    except CsdfError as error:
        remark(program, str(error))
        return UNUSABLE
    except KeyboardInterrupt:
        remark(program, "gave up: interrupted")
        return GAVE_UP
    except OSError as error:  # standard output takes no more
        output.silence()
        if isinstance(error, BrokenPipeError):  # its reader has seen enough
            return ANSWERED
        remark(program, f"the output cannot be written: {error.strerror}")
        return UNUSABLE
    except Exception as error:  # noqa: BLE001 - no fault of ours may look like an answer, least of all "no"
        from traceback import print_exception  # slow to import, and seldom needed

        print_exception(error)
        fault = f"{type(error).__name__}: {error}".removesuffix(": ")
        remark(program, f"a fault of csdf, not of what it was given: {fault}; {REPORT}")
        return FAULT


def _meant(word: str, known: Iterable[str]) -> str:
    """Return the command that a wrong word may have meant, else all that there are."""
    from difflib import get_close_matches  # slow to import, and seldom needed

    near = get_close_matches(word, known, 1)
    return f"did you mean {near[0]}?" if near else f"one of {', '.join(known)}"


def _without_command(found: Found) -> int:
    """Say which commands there are; nothing else can be answered."""
    listing = ROOT if found.entry is None else listing_of(found.entry)
    if listing.version and list(found.rest) in (["--version"], ["-V"]):
        print(f"{listing.version}, {import_module('csdf.kernels.compile').choice()}")
        return ANSWERED
    known = below("" if found.entry is None else found.entry.name, listing.order)
    if found.rest and found.rest[0] not in HELP:
        remark(
            found.program, f"there is no command {found.rest[0]!r}; {_meant(found.rest[0], known)}"
        )
        return UNUSABLE
    listed = "\n".join(f"  {word:<12}{entries.purpose(entry)}" for word, entry in known.items())
    print(
        f"usage: {found.program} COMMAND ...\n\n{listing.about}\n\ncommands:\n{listed}\n\n"
        f"{listing.foot}",
        file=sys.stdout if found.rest else sys.stderr,
    )
    return ANSWERED if found.rest else UNUSABLE
