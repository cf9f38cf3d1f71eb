"""Batches: one command on several graphs, one answer each, with the exit code of the worst.

A graph that cannot be read or analysed does not stop the rest. With several workers the graphs are
analysed by processes in parallel, and the answers are printed in the order of the files.
"""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from typing import NamedTuple

from csdf.cli.frame.output import ANSWERED, UNKNOWN, remark
from csdf.cli.frame.refusals import Ended, refusal_as_json, run_guarded

Work = Callable[[argparse.Namespace], int]


class FileAnswer(NamedTuple):
    """The answer of a command about one file: its exit code, and what it printed."""

    exit_code: int
    output: str
    remarks: str


def is_batch(options: argparse.Namespace) -> bool:
    """Return whether the command takes several files by this module."""
    return bool(getattr(options, "takes_batches", False))


def work_on_all(
    work: Work,
    options: argparse.Namespace,
    parser: argparse.ArgumentParser,
    was_interrupted: Callable[[], bool],
) -> int:
    """Do the work on each file; return the exit code of the worst answer."""
    paths = options.file
    if len(paths) == 1 and not options.json_lines:
        options.file = paths[0]
        return work(options)
    _require_batchable(options, parser)
    form = "json" if getattr(options, "json", False) else getattr(options, "format", "table")
    is_json = options.json_lines or form == "json"
    worst = ANSWERED
    for path, answer in zip(paths, _answers(work, options, is_json=is_json), strict=False):
        worst = max(worst, answer.exit_code)
        if answer.remarks:
            sys.stderr.write(answer.remarks)
        if is_json:
            print(_json_line(path, answer), flush=True)
        elif answer.output:
            print(answer.output, end="", flush=True)
        if was_interrupted():
            remark(options.program, "interrupted: the remaining files are not analysed")
            return max(worst, UNKNOWN)
    return worst


def _require_batchable(options: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """Refuse options that write one file, or one table, for several graphs."""
    for action in parser._actions:
        is_written = getattr(action.type, "writes_a_file", False)
        if is_written and getattr(options, action.dest) is not None and len(options.file) > 1:
            options.refuse(
                f"{'/'.join(action.option_strings)} writes one file, and {len(options.file)} "
                "graphs are given; give one graph"
            )
    if getattr(options, "csv", False) or getattr(options, "format", "table") == "csv":
        options.refuse("--csv is for one graph; for several use --json-lines")


def _answers(work: Work, options: argparse.Namespace, *, is_json: bool) -> Iterator[FileAnswer]:
    """Yield the answer of each file in order; beyond one worker, of processes in parallel."""
    count = min(options.workers, len(options.file))
    if count > 1:
        import multiprocessing  # slow to import, and for parallel work alone

        if "fork" in multiprocessing.get_all_start_methods():
            _Worker.work, _Worker.options, _Worker.is_json = staticmethod(work), options, is_json
            with multiprocessing.get_context("fork").Pool(count) as pool:
                yield from pool.imap(_Worker.answer, options.file)
            return
    for path in options.file:
        yield _answer(work, options, path, is_json=is_json)


class _Worker:
    """The task of the worker processes; they are forks, and take it from memory."""

    work: Work
    options: argparse.Namespace
    is_json = False

    @classmethod
    def answer(cls, path: str) -> FileAnswer:
        """Return the answer about a file, with its remarks."""
        remarks = io.StringIO()
        with redirect_stderr(remarks):
            answer = _answer(cls.work, cls.options, path, is_json=cls.is_json)
        return answer._replace(remarks=remarks.getvalue())


def _answer(work: Work, options: argparse.Namespace, path: str, *, is_json: bool) -> FileAnswer:
    """Return the answer about one file; remarks go to standard error."""
    own_options = argparse.Namespace(**vars(options))
    own_options.file = path
    if is_json and not hasattr(own_options, "json"):
        own_options.format = "json"  # of a command whose --json means the same
    own_options.json = is_json
    ended, output = Ended(), io.StringIO()
    ended.program = options.program
    if not is_json:
        output.write(f"{path}\n")
    with redirect_stdout(output):
        run_guarded(ended, lambda: work(own_options))
    return FileAnswer(ended.exit_code, output.getvalue(), "")


def _json_line(path: str, answer: FileAnswer) -> str:
    """Return an answer as one line of JSON that begins with its file."""
    import json  # slow to import, and for several files alone

    if answer.output.strip():
        content = json.loads(answer.output)
    else:
        said = answer.remarks or getattr(sys.stderr, "last", "")
        content = refusal_as_json((said.strip().splitlines() or [""])[-1], answer.exit_code)
    return json.dumps({"file": path, **content})
