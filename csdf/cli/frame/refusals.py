"""From exceptions to exit codes: one line on standard error for each kind of end of a command."""

from __future__ import annotations

from collections.abc import Callable

from csdf.cli.frame.output import ANSWERED, FAULT, NO, UNKNOWN, UNUSABLE, refusal
from csdf.errors import CsdfError, Deadlocked, GaveUp, InconsistentGraph

REPORT = "please report it, with the lines above, the command and its files"


class CommandEnd:
    """How a command ended."""

    exit_code = ANSWERED
    program = "csdf"


def run_guarded(ended: CommandEnd, work: Callable[[], int]) -> None:
    """Run the work and set the exit code; every refusal becomes one line with the program's name.

    A fault of the program is shown with its traceback, and has an exit code of its own. Raises
    OSError where standard output accepts no more, SystemExit after --help.
    """
    try:
        ended.exit_code = work()
    except GaveUp as error:
        _refuse(ended, UNKNOWN, f"unknown: {error}")
    except MemoryError as error:
        error.__traceback__ = None  # its frames hold what filled the memory
        _refuse(ended, UNKNOWN, "unknown: out of memory")
    except (Deadlocked, InconsistentGraph) as error:
        _refuse(ended, NO, str(error))
    except CsdfError as error:
        _refuse(ended, UNUSABLE, str(error))
    except KeyboardInterrupt:
        _refuse(ended, UNKNOWN, "unknown: interrupted")
    except OSError:  # standard output accepts no more
        raise
    except Exception as error:  # noqa: BLE001 - no fault of ours may look like an answer, least of all "no"
        from traceback import print_exception  # slow to import, and seldom needed

        print_exception(error)
        fault = f"{type(error).__name__}: {error}".removesuffix(": ")
        _refuse(ended, FAULT, f"internal error: {fault}; {REPORT}")


def _refuse(ended: CommandEnd, exit_code: int, text: str) -> None:
    ended.exit_code = exit_code
    refusal(ended.program, text)


def refusal_as_json(remarked: str, exit_code: int) -> dict[str, object]:
    """Return the message on standard error instead of an answer, as a JSON object."""
    command, _, text = remarked.partition(": ")
    is_named = command.startswith("csdf") and text
    return {"error": text if is_named else remarked, "exit_code": exit_code}
