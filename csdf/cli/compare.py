"""`csdf compare`: answers of csdf compared with SDF3, Kiter, or a method of your own."""

from __future__ import annotations

import argparse
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial
from types import ModuleType
from typing import Any, NamedTuple

import csdf.entries as entries
from csdf.cli import answers, graph_input, option_values, parsers
from csdf.cli.frame import output
from csdf.cli.frame.batches import graph_files, in_order
from csdf.cli.frame.long_work import stop_after
from csdf.cli.frame.output import remark
from csdf.cli.options import concurrency
from csdf.comparison.comparison import AGREES, DIFFERS, NO_ANSWER, NOT_ASKED, Verdict, compare
from csdf.comparison.methods import ABOVE, compare_method
from csdf.comparison.tools import QUESTIONS, Program, kiter, sdf3
from csdf.errors import CsdfError, UnreadableFile
from csdf.io.files import suffix_of
from csdf.io.latex import booktabs, escaped
from csdf.model.graph import Graph
from csdf.status import Ended
from csdf.time_limit import ENDS, Stop, reason_of
from csdf.units import time_in_words

SECONDS = 20.0  # for an answer
# Initial phases of a rate or a time, which the reader has executed.
INITIAL = re.compile(r"""\b(?:rate|time)\s*=\s*["'][^"'<]*;""")
QUESTION_WORDS = {
    "repetitions": "vector",
    "throughput": "throughput",
    "mcm": "MCM",
    "front": "front",
}
MARKS = {  # of verdicts, in LaTeX; `_mark` has those of valid answers
    AGREES: "=",
    DIFFERS: r"$\neq$",
    NO_ANSWER: "--",
    NOT_ASKED: "",
}


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of this command."""
    parser = parsers.new_parser(
        "csdf compare",
        "Run SDF3 and Kiter, if installed, on the same graphs, convert their conventions, and "
        "report agreements and differences with csdf: repetition vector, throughput, maximum "
        "cycle mean, storage front. Each reason for a difference is proved by an experiment with "
        "the tool itself.",
        "csdf compare models/graphs/*.xml --sdf3 sdf3/build/release/Linux/bin --kiter kiter",
        work=work,
        notes="Exit code 1: the answers differ. A tool that crashes or exceeds the time limit has "
        "no answer, which is not a difference.",
    )
    parser.add_argument(
        "file",
        nargs="*",
        metavar="FILE",
        help=f"{parsers.GRAPH_HELP}; or a folder; default: the graphs of `csdf examples`",
    )
    parser.add_argument(
        "--sdf3",
        metavar="FOLDER",
        help="folder of sdf3analysis-sdf and sdf3analysis-csdf; default: $SDF3_BIN, or the PATH",
    )
    parser.add_argument(
        "--kiter", metavar="PROGRAM", help="the program kiter; default: $KITER_BIN, or the PATH"
    )
    parser.add_argument(
        "--method",
        action="append",
        metavar="NAME",
        default=[],
        help="a method of another package (entry point csdf.methods): its answers are compared "
        "with those of csdf; SDF3 and Kiter are then run only if their option is given",
    )
    parser.add_argument(
        "--questions",
        type=_questions,
        metavar="A,B,..",
        default=QUESTIONS,
        help=f"any of {', '.join(QUESTIONS)}; default: all",
    )
    parsers.add_time_limit(parser, "time limit of each answer of a tool, and of csdf", SECONDS)
    form = parser.add_mutually_exclusive_group()
    parsers.add_json_option(form)
    form.add_argument(
        "--json-lines", action="store_true", help="print one JSON object a line for each file"
    )
    parsers.add_table_option(parser, "a row for each graph")
    concurrency.add_workers(parser)
    concurrency.add_concurrency(parser)
    graph_input.add_reading_options(parser)
    return parser


def _questions(text: str) -> tuple[str, ...]:
    questions = tuple(text.split(","))
    for question in questions:
        if question not in QUESTIONS:
            raise option_values.unfit(question, f"one of {', '.join(QUESTIONS)}")
    return questions


class ComparedFile(NamedTuple):
    """The verdicts about the graph of a file: all, or those until an error or Ctrl-C."""

    verdicts: list[Verdict]
    exit_code: int
    is_interrupted: bool = False


def work(options: argparse.Namespace) -> int:
    """Compare the graphs one by one; return 1 for a difference."""
    files = graph_files(options.file) or _examples()
    if not any(map(os.path.exists, files)):  # otherwise each missing file has its own line
        raise UnreadableFile(f"{files[0]}: there is no such file")
    programs = _programs(options)
    methods = {name: entries.method(name) for name in options.method}
    verdicts_of: dict[str, list[Verdict]] = {}
    code, is_interrupted = answers.ANSWERED, False
    task = partial(_compared_file, programs=programs, methods=methods, options=options)
    try:
        for path, compared in zip(files, in_order(task, files, options.workers), strict=False):
            verdicts_of[path] = compared.verdicts
            code, is_interrupted = max(code, compared.exit_code), compared.is_interrupted
            if is_interrupted:
                break
    except KeyboardInterrupt:  # between two files, or where processes compare them
        code, is_interrupted = answers.UNKNOWN, True
    if is_interrupted:
        remark(options.program, "interrupted; the comparisons so far are shown")
    pairs = [(path, verdict) for path, rows in verdicts_of.items() for verdict in rows]
    verdicts = [verdict for _, verdict in pairs]
    listed = [{"file": path, **verdict.to_json()} for path, verdict in pairs]
    if not options.json_lines:
        row = {"verdicts": listed, "summary": _counts(verdicts)}
        answers.show(row, _summary(verdicts), options)
    if options.table:
        output.write(options.program, options.table, _table(verdicts_of))
    is_different = any(verdict.verdict == DIFFERS for verdict in verdicts)
    return max(code, answers.NO) if is_different else code


def _compared_file(
    path: str,
    *,
    programs: Sequence[Program],
    methods: Mapping[str, ModuleType],
    options: argparse.Namespace,
) -> ComparedFile:
    """Compare the graph of a file; print each verdict, or after all of them a line of JSON."""
    verdicts: list[Verdict] = []
    width = max(map(len, [*(program.name for program in programs), *methods]))
    try:
        for verdict in _compared(path, programs, methods, options, stop_after(None)):
            verdicts.append(verdict)
            if not (options.json or options.json_lines):
                lines = _lines(path, verdict, width, is_first=len(verdicts) == 1)
                print(answers.one_text(lines), flush=True)
    except (CsdfError, KeyboardInterrupt) as error:
        is_late = isinstance(error, ENDS)
        code = answers.UNKNOWN if is_late else answers.UNUSABLE
        if is_late and reason_of(error).has(Ended.INTERRUPTED):
            if verdicts:
                _print_line(path, verdicts, options)
            return ComparedFile(verdicts, code, is_interrupted=True)
        remark(options.program, f"{path}: {error}" if is_late else str(error))
        if options.json_lines:
            row = {"file": path, "error": str(error), "exit_code": code}
            print(answers.json_text(row, indent=None), flush=True)
        return ComparedFile(verdicts, code)
    _print_line(path, verdicts, options)
    return ComparedFile(verdicts, answers.ANSWERED)


def _print_line(path: str, verdicts: Sequence[Verdict], options: argparse.Namespace) -> None:
    """Print the verdicts about a file as a line of JSON, with --json-lines."""
    if options.json_lines:
        row = {"file": path, "verdicts": [verdict.to_json() for verdict in verdicts]}
        print(answers.json_text(row, indent=None), flush=True)


def _examples() -> list[str]:
    """The graphs of the examples, for a command without a file."""
    from csdf.cli.about.examples import examples_folder  # where no file is named

    return [str(path) for path in sorted(examples_folder().joinpath("graphs").glob("*.xml"))]


def _programs(options: argparse.Namespace) -> list[Program]:
    is_asked = not options.method  # with a method only tools that are named
    places = {
        sdf3: options.sdf3 or (os.environ.get("SDF3_BIN") if is_asked else None),
        kiter: options.kiter or (os.environ.get("KITER_BIN") if is_asked else None),
    }
    wanted = [find(path) for find, path in places.items() if path or is_asked]
    programs = [program for program in wanted if program is not None]
    if not programs and not options.method:
        raise CsdfError(
            "neither SDF3 nor Kiter is installed; name them with --sdf3 FOLDER or --kiter PROGRAM; "
            "docs/comparing.md says what to build, and `csdf analyze` answers without them"
        )
    return programs


def _compared(
    path: str,
    programs: Sequence[Program],
    methods: Mapping[str, ModuleType],
    options: argparse.Namespace,
    stop: Stop,
) -> Iterator[Verdict]:
    read_graph = graph_input.read(path, options)
    graph = concurrency.limited(read_graph, options)
    yield from compare(
        graph, path if _is_same(path, read_graph, graph, options) else None, programs,
        questions=options.questions, seconds=options.time_limit, stop=stop,
    )  # fmt: skip
    for name, method in methods.items():
        yield from compare_method(name, method, graph, seconds=options.time_limit, stop=stop)


def _is_same(path: str, given: Graph, graph: Graph, options: argparse.Namespace) -> bool:
    """Whether the tools may read the file itself: it says all of the graph, and nothing else."""
    is_bounded = any(channel.capacity is not None for channel in graph.channels)
    is_changed = given != graph or bool(options.set) or INITIAL.search(graph.origin or "")
    return suffix_of(path) == ".xml" and not is_bounded and not is_changed


def _lines(path: str, verdict: Verdict, width: int, *, is_first: bool) -> Iterator[str]:
    if is_first:
        yield f"{path}: {verdict.graph}"
    what = f"  {verdict.tool:<{width}}  {_word(verdict.question):<10}  {verdict.verdict}"
    if verdict.verdict == DIFFERS:
        yield f"{what}: csdf {verdict.ours}; {verdict.tool} {verdict.theirs}"
        yield f"  {'':<{width}}  {'':<10}  {verdict.reason or 'open: no reason is known'}"
        return
    text = f"{what}: {verdict.ours}" if verdict.verdict == AGREES and verdict.ours else what
    if verdict.verdict == ABOVE:
        text = f"{what}: {verdict.theirs}, csdf {verdict.ours}"
    yield f"{text}; {verdict.reason}" if verdict.reason else text


def _word(question: str) -> str:
    return QUESTION_WORDS.get(question, question)


def _counts(verdicts: Sequence[Verdict]) -> list[dict[str, Any]]:
    """For each tool and question how many verdicts there are of each kind."""
    counts_of: dict[tuple[str, str], Counter[str]] = {}
    theirs: dict[tuple[str, str], float] = {}
    ours: dict[tuple[str, str], float] = {}
    for verdict in verdicts:
        key = (verdict.tool, verdict.question)
        counts_of.setdefault(key, Counter())[verdict.verdict] += 1
        counts_of[key]["open"] += verdict.is_open
        if verdict.verdict not in (NO_ANSWER, NOT_ASKED):
            theirs[key] = theirs.get(key, 0.0) + verdict.seconds
            ours[key] = ours.get(key, 0.0) + verdict.own_seconds
    return [
        {
            "tool": tool, "question": question, "agrees": counts[AGREES], "differs": counts[DIFFERS],
            "open": counts["open"], "valid": counts[ABOVE], "no_answer": counts[NO_ANSWER],
            "not_asked": counts[NOT_ASKED],
            "seconds": round(theirs.get((tool, question), 0.0), 6),
            "own_seconds": round(ours.get((tool, question), 0.0), 6),
        }
        for (tool, question), counts in counts_of.items()
    ]  # fmt: skip


def _summary(verdicts: Sequence[Verdict]) -> Iterator[str]:
    for count in _counts(verdicts):
        is_open = f" ({count['open']} open)" if count["open"] else ""
        valid = f"{count['valid']} valid, " if count["valid"] else ""
        yield (
            f"{count['tool']}, {_word(count['question'])}: {count['agrees']} agree, "
            f"{valid}{count['differs']} differ{is_open}, {count['no_answer']} without an answer, "
            f"{count['not_asked']} not asked{_times(count)}"
        )


def _times(count: Mapping[str, Any]) -> str:
    """Return the seconds of a tool and of csdf for the answers that were compared."""
    if not count["agrees"] + count["valid"] + count["differs"]:
        return ""
    return f"; {time_in_words(count['seconds'])}, csdf {time_in_words(count['own_seconds'])}"


def _table(verdicts_of: dict[str, list[Verdict]]) -> str:
    verdicts_all = [verdict for verdicts in verdicts_of.values() for verdict in verdicts]
    asked = list(dict.fromkeys((verdict.tool, verdict.question) for verdict in verdicts_all))
    heads = ["graph", *(f"{escaped(tool)} {_word(question)}" for tool, question in asked)]
    rows = []
    for path, verdicts in verdicts_of.items():
        marks = {(verdict.tool, verdict.question): _mark(verdict) for verdict in verdicts}
        name = verdicts[0].graph if verdicts else os.path.basename(path)
        rows.append([escaped(name), *(marks.get(key, "") for key in asked)])
    remarks = [
        f"{verdict.graph}, {verdict.tool}, {verdict.question}: csdf {verdict.ours}; "
        f"{verdict.tool} {verdict.theirs}; {verdict.reason or 'open'}"
        for verdict in verdicts_all
        if verdict.verdict == DIFFERS
    ]
    return booktabs(heads, rows, texts=range(len(heads)), remarks=remarks)


def _mark(verdict: Verdict) -> str:
    """Return the sign of a verdict in LaTeX; of a valid answer, the relation of its value to ours."""
    if verdict.verdict == ABOVE:
        return r"$\leq$" if Fraction(verdict.theirs) < Fraction(verdict.ours) else r"$\geq$"
    return MARKS[verdict.verdict]
