"""Batches: one command on several graphs, one answer each, with the exit code of the worst.

A graph that cannot be read or analysed does not stop the rest. With several workers the graphs are
analysed by processes in parallel, and the answers are printed in the order of the files.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from typing import Any, NamedTuple, TypeVar

from csdf.cli.frame.output import ANSWERED, UNKNOWN, remark
from csdf.cli.frame.refusals import CommandEnd, refusal_as_json, run_guarded
from csdf.cli.frame.streams import Remarks
from csdf.errors import UnreadableFile
from csdf.io.files import suffix_of

Result = TypeVar("Result")
Work = Callable[[argparse.Namespace], int]


GRAPH_SUFFIXES = (".json", ".xml")


def graph_files(paths: Sequence[str]) -> list[str]:
    """Return the paths, with each folder replaced by the graph files in it, in the order of names.

    Raises UnreadableFile for a folder without a graph file, or that cannot be listed.
    """
    files: list[str] = []
    for path in paths:
        if not os.path.isdir(path):
            files.append(path)
            continue
        try:
            names = sorted(os.listdir(path))
        except OSError as error:
            raise UnreadableFile(f"{path}: cannot be read: {error.strerror}") from None
        listed = [os.path.join(path, name) for name in names if suffix_of(name) in GRAPH_SUFFIXES]
        if not listed:
            expected = " or ".join(GRAPH_SUFFIXES)
            raise UnreadableFile(f"{path}: no graph in this folder; expected files {expected}")
        files.extend(listed)
    return files


class FileAnswer(NamedTuple):
    """The answer of a command about one file: its exit code, and what it printed."""

    exit_code: int
    output: str


def work_on_all(
    work: Work,
    options: argparse.Namespace,
    parser: argparse.ArgumentParser,
    was_interrupted: Callable[[], bool],
) -> int:
    """Do the work on each file; return the exit code of the worst answer."""
    paths = options.file = graph_files(options.file)
    if len(paths) == 1 and not options.json_lines:
        options.file = paths[0]
        return work(options)
    _require_batchable(options, parser)
    form = "json" if getattr(options, "json", False) else getattr(options, "format", "table")
    is_json = options.json_lines or form == "json"
    worst = ANSWERED
    task = partial(_answer, work, options, is_json=is_json)
    for path, answer in zip(paths, in_order(task, paths, options.workers), strict=False):
        worst = max(worst, answer.exit_code)
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


def in_order(task: Callable[[str], Result], paths: Sequence[str], workers: int) -> Iterator[Result]:
    """Yield the result of the task for each file, in order; beyond one worker, of parallel processes.

    The output and the remarks of a process are printed here, before its result is yielded.
    """
    count = min(workers, len(paths))
    if count > 1:
        import multiprocessing  # slow to import, and for parallel work alone

        if "fork" in multiprocessing.get_all_start_methods():
            _Worker.task = staticmethod(task)
            with multiprocessing.get_context("fork").Pool(count) as pool:
                for result, output, remarks in pool.imap(_Worker.result, paths):
                    sys.stderr.write(remarks)
                    print(output, end="", flush=True)
                    yield result
            return
    yield from map(task, paths)


class _Worker:
    """The task of the worker processes; they are forks, and take it from memory."""

    task: Callable[[str], Any]

    @classmethod
    def result(cls, path: str) -> tuple[Any, str, str]:
        """Return the result of the task for a file, its output and its remarks."""
        output, notes = io.StringIO(), io.StringIO()
        remarks = Remarks(notes)
        remarks.is_quiet = isinstance(sys.stderr, Remarks) and sys.stderr.is_quiet
        with redirect_stdout(output), redirect_stderr(remarks):
            result = cls.task(path)
        return result, output.getvalue(), notes.getvalue()


def _answer(work: Work, options: argparse.Namespace, path: str, *, is_json: bool) -> FileAnswer:
    """Return the answer about one file; remarks go to standard error."""
    own_options = argparse.Namespace(**vars(options))
    own_options.file = path
    if is_json and not hasattr(own_options, "json"):
        own_options.format = "json"  # of a command whose --json means the same
    own_options.json = is_json
    ended, output = CommandEnd(), io.StringIO()
    ended.program = options.program
    if not is_json:
        output.write(f"{path}\n")
    with redirect_stdout(output):
        run_guarded(ended, lambda: work(own_options))
    return FileAnswer(ended.exit_code, output.getvalue())


def _json_line(path: str, answer: FileAnswer) -> str:
    """Return an answer as one line of JSON that begins with its file."""
    import json  # slow to import, and for several files alone

    if answer.output.strip():
        content = json.loads(answer.output)
    else:
        notes = getattr(sys.stderr, "last", "")
        content = refusal_as_json((notes.strip().splitlines() or [""])[-1], answer.exit_code)
    return json.dumps({"file": path, **content})
