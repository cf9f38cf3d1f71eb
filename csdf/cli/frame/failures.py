"""The output of a command with --json that has no answer: the last remark, as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from csdf.cli.frame.exit_codes import ANSWERED
from csdf.cli.frame.streams import Answers, Remarks


class Ended:
    """How a command ended."""

    exit_code = ANSWERED


@contextmanager
def errors_as_json(words: Sequence[str], output: Answers, remarks: Remarks) -> Iterator[Ended]:
    """Print what was said on standard error as JSON, if the block fails and prints nothing.

    This is only done for words with --json. The block says its exit code, or raises SystemExit with
    it, as argparse does.
    """
    ended = Ended()
    try:
        yield ended
    except SystemExit as end:
        ended.exit_code = int(end.code or ANSWERED)
        raise
    finally:
        if ended.exit_code != ANSWERED and not output.last and _asks_for_json(words):
            _print(_message(remarks.last), ended.exit_code, output)


def _asks_for_json(words: Sequence[str]) -> bool:
    options = words[: words.index("--")] if "--" in words else words
    return "--json" in options


def _message(remark: str) -> str:
    """The remark without the command that it begins with, and the `error` of argparse."""
    command, _, text = remark.partition(": ")
    return text.removeprefix("error: ") if command.startswith("csdf") and text else remark


def _print(message: str, exit_code: int, output: Answers) -> None:
    import json  # slow to import, and seldom needed

    try:
        print(json.dumps({"error": message, "exit_code": exit_code}), file=output, flush=True)
    except OSError:  # nothing can be printed; the remark says the same
        output.silence()
