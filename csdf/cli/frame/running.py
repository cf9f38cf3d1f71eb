"""The frame of all commands: finds the command that is meant, and makes one line of every refusal.

It prints the last remark as JSON where a command with --json has no answer.

It ends a command at Ctrl-C with one exit code, except during an import.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib import import_module
from types import FrameType, ModuleType, TracebackType
from typing import Any, cast

import csdf.entries as entries
from csdf.cli.frame.commands import ROOT, Found, below, find, intended_commands, listing_of
from csdf.cli.frame.output import ANSWERED, UNKNOWN, UNUSABLE, refusal
from csdf.cli.frame.refusals import CommandEnd, refusal_as_json, run_guarded
from csdf.cli.frame.streams import Answers, Remarks, own_streams
from csdf.cli.frame.terminal import wrapped
from csdf.cli.parsers import Parser
from csdf.draw.column import in_column
from csdf.io.files import is_same_file, remove_empty
from csdf.memory_limit import memory_limited

MOST_DIGITS = 100_000  # of a number in an answer; Python's own limit is too low for huge rates
HELP = ("-h", "--help")


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
    """Run the command and write its output; return its exit code.

    A reader of the output that has left, as `head` does, changes no exit code. Output that is lost
    for another reason, such as a full disk, is an error.
    """
    ended = CommandEnd()
    try:
        try:
            _run_command(words, interrupts, ended)
        finally:
            output.flush()  # of --help too, which ends by SystemExit
    except OSError as error:
        output.silence()
        refusal(ended.program, f"the output cannot be written: {error.strerror}")
        return UNUSABLE
    return ended.exit_code


def _run_command(
    words: Sequence[str], interrupts: InterruptsBetweenImports, ended: CommandEnd
) -> None:
    """Find and run the command; see `run_guarded` for how it ends."""

    def work() -> int:
        command = find([*words[1:], "--help"] if words[:1] == ["help"] else words)
        ended.program = command.program
        if command.entry is None or command.is_group:
            return _without_command(command)
        module = entries.loaded(command.entry)
        interrupts.let_in()
        return interrupts.exit_code(_done(module, command.rest, interrupts))

    run_guarded(ended, work)


def _done(module: ModuleType, words: Sequence[str], interrupts: InterruptsBetweenImports) -> int:
    """Run the command of a module; return the exit code. No new folder of a project stays empty."""
    parser = module.command_parser()
    try:
        return _done_by(parser, words, interrupts)
    finally:
        remove_empty(parser.made_folders)


def _done_by(parser: Parser, words: Sequence[str], interrupts: InterruptsBetweenImports) -> int:
    """Parse the words, and do the work that the parser names; return the exit code."""
    options = _parsed(parser, words)
    work: Any = parser.work
    _refuse_inputs_as_outputs(parser, options)
    if parser.check is not None:
        parser.check(options)
    if isinstance(work, str):
        work = entries.loaded(entries.Entry(parser.prog, work, entries.PROJECT)).work
    limit, workers = (getattr(options, name, None) for name in ("memory_limit", "workers"))
    column = getattr(options, "column", None)
    log = _log(options.verbose) if options.verbose else nullcontext()
    with log, in_column(column), memory_limited(limit, processes=workers or 1):
        if getattr(options, "takes_batches", False):
            batches = import_module("csdf.cli.frame.batches")
            return int(batches.work_on_all(work, options, parser, interrupts.were_any))
        return int(work(options))


@contextmanager
def _log(verbosity: int) -> Iterator[None]:
    """Within the block, write what loggers `csdf.*` say on standard error."""
    import logging  # slow to import, and for --verbose alone

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
    logger = logging.getLogger("csdf")
    level, propagates = logger.level, logger.propagate
    logger.setLevel(logging.INFO if verbosity == 1 else logging.DEBUG)
    logger.propagate = False
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagates
        logger.setLevel(level)


def _parsed(parser: Parser, words: Sequence[str]) -> Namespace:
    """Return the options of the words; `words`: these, with those of a project file."""
    if parser.project_result:
        return cast(Namespace, import_module("csdf.cli.project").parsed(parser, words))
    options = parser.parse_args(words)
    options.words = words
    return options


def _refuse_inputs_as_outputs(parser: Parser, options: Namespace) -> None:
    """Refuse, before the work, to write over a file that the command reads, or to write one twice.

    Other files that exist are replaced. `csdf convert` asks for --overwrite itself.
    """
    if hasattr(options, "overwrite"):
        return
    written: list[str] = []
    read: list[str] = []
    for action in parser._actions:
        value = getattr(options, action.dest, None)
        texts = [text for text in _flat(value) if isinstance(text, str)]
        (written if getattr(action.type, "writes_a_file", False) else read).extend(texts)
    for number, path in enumerate(written):
        if any(is_same_file(path, read_path) for read_path in read):
            options.refuse(f"{path} is read by this command; name another file to write")
        if path in written[:number]:
            options.refuse(f"{path} would be written twice; name two files")


def _flat(value: object) -> Iterator[object]:
    if isinstance(value, list | tuple):
        for part in value:
            yield from _flat(part)
    else:
        yield value


def _without_command(found: Found) -> int:
    """Say which commands there are; nothing else can be answered."""
    listing = ROOT if found.entry is None else listing_of(found.entry)
    if listing.version and list(found.rest) in (["--version"], ["-V"]):
        print(f"{listing.version}, {import_module('csdf.kernels.compile').choice()}")
        return ANSWERED
    names_known = below("" if found.entry is None else found.entry.name, listing.order)
    if found.rest and found.rest[0] not in HELP:
        near = intended_commands(found.rest[0], found.program, listing, names_known)
        alternatives = " or ".join(", ".join(near).rsplit(", ", min(1, len(near) - 1)))
        suggestion = (
            f"did you mean {alternatives}?" if near else f"expected one of {', '.join(names_known)}"
        )
        if found.rest[0].startswith("-"):
            suggestion = f"options follow it: {found.program} COMMAND {found.rest[0]}"
        refusal(found.program, f"there is no command {found.rest[0]!r}; {suggestion}")
        return UNUSABLE
    rows = (f"  {word:<12}{entries.purpose(entry)}" for word, entry in names_known.items())
    listed = "\n".join(wrapped(rows))
    print(
        f"usage: {found.program} COMMAND ...\n\n{listing.about}\n\ncommands:\n{listed}\n\n"
        f"{listing.foot}",
        file=sys.stdout if found.rest else sys.stderr,
    )
    return ANSWERED if found.rest else UNUSABLE


@contextmanager
def errors_as_json(words: Sequence[str], output: Answers, remarks: Remarks) -> Iterator[CommandEnd]:
    """Print what was said on standard error as JSON, if the block fails and prints nothing.

    This is only done for words with --json. The block says its exit code, or raises SystemExit with it.
    """
    ended = CommandEnd()
    try:
        yield ended
    except SystemExit as end:
        ended.exit_code = int(end.code or ANSWERED)
        raise
    finally:
        options = words[: words.index("--")] if "--" in words else words
        if ended.exit_code != ANSWERED and not output.last and "--json" in options:
            import json  # slow to import, and seldom needed

            text = json.dumps(refusal_as_json(remarks.last, ended.exit_code))
            try:
                print(text, file=output, flush=True)
            except OSError:  # nothing can be printed; the remark says the same
                output.silence()


IMPORTING = "<frozen importlib"
SOON = 0.02  # seconds until a deferred interrupt is tried again


class InterruptsBetweenImports(AbstractContextManager["InterruptsBetweenImports"]):
    """Defers Ctrl-C in its block until a running import is complete; KeyboardInterrupt follows.

    Libraries in C turn an interrupt during their import into other errors, or remain half imported.
    Only imports within the block count. Other threads, and processes with a SIGINT handler of their
    own, are not affected. Interrupts are counted, for the exit code of a command that answers with
    its intermediate result.
    """

    def __init__(self) -> None:
        self._outside: frozenset[FrameType] = frozenset()
        self._later: threading.Timer | None = None
        self._count = 0
        self._is_ours = (
            threading.current_thread() is threading.main_thread()
            and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        )

    def __enter__(self) -> InterruptsBetweenImports:
        if self._is_ours:
            self._outside = frozenset(_frames(sys._getframe()))
            signal.signal(signal.SIGINT, self._interrupt)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._is_ours:
            self._forget()  # the work is done
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def let_in(self) -> None:
        """Raise KeyboardInterrupt if there was one during the import that is done now."""
        if self._later is not None:
            self._forget()
            raise KeyboardInterrupt

    def exit_code(self, code: int) -> int:
        """Return the exit code of a command that would end with this one: 3 after Ctrl-C.

        A "no", and a refusal, stay what they are.
        """
        return UNKNOWN if self._count and code == ANSWERED else code

    def were_any(self) -> bool:
        """Return whether Ctrl-C was pressed."""
        return self._count > 0

    def _interrupt(self, _number: int, frame: FrameType | None) -> None:
        self._forget()
        self._count += 1
        inside = (caller for caller in _frames(frame) if caller not in self._outside)
        if not any(IMPORTING in caller.f_code.co_filename for caller in inside):
            raise KeyboardInterrupt
        self._later = threading.Timer(SOON, os.kill, (os.getpid(), signal.SIGINT))
        self._later.daemon = True
        self._later.start()

    def _forget(self) -> None:
        if self._later is not None:
            self._later.cancel()
            self._later = None


def _frames(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back
