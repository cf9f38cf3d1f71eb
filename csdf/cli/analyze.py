"""`csdf analyze`: throughput, critical cycle, deadlock and repetition vector of graphs."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple, cast

from csdf.analysis.bound_channels import why_unlimited
from csdf.analysis.consistency import repetition_vector
from csdf.analysis.throughput import METHODS, Method, Throughput, throughput
from csdf.cli import answers, graph_input, parsers
from csdf.cli.frame import terminal
from csdf.cli.frame.batches import graph_files, in_order
from csdf.cli.frame.long_work import limited, telling
from csdf.cli.frame.output import remark
from csdf.cli.options import concurrency
from csdf.errors import CsdfError, Deadlocked, GaveUp, InconsistentGraph, plural
from csdf.model.graph import Actor, Graph
from csdf.time_limit import Stop
from csdf.units import time_in_words

UNKNOWN: dict[str, Any] = {  # keys of a throughput without an answer
    "deadlock": False,
    "blocked": [],
    **dict.fromkeys(("period", "throughput", "critical_cycle", "exact", "method")),
}
COLUMNS = (
    "file", "graph", "type", "actors", "channels", "firings_per_iteration", "answer", "period",
    "throughput", "critical_cycle", "seconds",
)  # fmt: skip
# Errors of a file among several, with its answer and exit code; the first that fits.
ENDINGS: tuple[tuple[type[CsdfError], str, int], ...] = (
    (GaveUp, "unknown", answers.UNKNOWN),
    (Deadlocked, "deadlock", answers.NO),
    (InconsistentGraph, "inconsistent", answers.NO),
    (CsdfError, "unusable", answers.UNUSABLE),
)
FIGURES = 54  # characters of the head behind the name of a file
LEAST_NAME = 12  # characters of the name of a file in a narrow terminal
SHOWN = 12  # most names listed on one line of a table


class Analysis(NamedTuple):
    """The findings about a graph; exactly one of the last three is not None."""

    graph: Graph
    repetitions: dict[str, int]
    seconds: float
    result: Throughput | None
    inconsistency: InconsistentGraph | None
    unknown: GaveUp | None

    @property
    def exit_code(self) -> int:
        """0 for a period, 1 for inconsistent or deadlocked, 3 where neither is known."""
        if self.unknown is not None:
            return answers.UNKNOWN
        is_no = self.result is None or self.result.deadlock is not None
        return answers.NO if is_no else answers.ANSWERED


def work(options: argparse.Namespace) -> int:
    """Analyse the files; return the exit code of the worst answer."""
    options.json = options.json or options.json_lines
    options.file = graph_files(options.file)
    if options.symbolic or any(len(values) > 1 for _, values in options.set):
        from csdf.cli import parameters  # with SymPy, which takes long to import

        return parameters.work(options)
    if options.method not in METHODS and parsers.copies_of(options.method) is None:
        return _judge_all(options)
    if options.plot or options.table:
        options.refuse("--plot and --table are about several values of --set, or --symbolic")
    if len(options.file) == 1 and not (options.csv or options.json_lines):
        answer = _analysed(options.file[0], options)
        answers.show(as_json(answer), _lines(answer), options)
        return answer.exit_code
    return _analyse_all(options)


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of this command."""
    parser = parsers.new_parser(
        "csdf analyze",
        "Exact period and throughput of dataflow graphs, what limits them, or why they "
        "deadlock or are inconsistent.",
        "csdf analyze models/graphs/csdf_example.xml",
        "csdf analyze --json models/graphs/h263decoder.xml",
        "csdf analyze models/parametric/frames.xml --symbolic --set n=1..16",
        work=work,
    )
    parser.add_argument(
        "file",
        nargs="+",
        metavar="FILE",
        help=f"{parsers.GRAPH_HELP}; several, or a folder: one row each",
    )
    parser.add_argument(
        "--method",
        metavar="METHOD",
        default="auto",
        help="periodic: refine periodic schedules; execution: execute until a state recurs; "
        f"{parsers.BOUND}; or a method of another package (entry point csdf.methods), whose "
        "answers are checked; default: auto",
    )
    form = parser.add_mutually_exclusive_group()
    parsers.add_json_option(form)
    form.add_argument("--csv", action="store_true", help="print one line for each file")
    form.add_argument(
        "--json-lines", action="store_true", help="print one JSON object a line for each file"
    )
    concurrency.add_workers(parser)
    parsers.add_time_limit(parser, "stop after this time and print the bounds proved so far", None)
    concurrency.add_concurrency(parser)
    graph_input.add_reading_options(parser)
    parser.add_argument(
        "--symbolic",
        action="store_true",
        help="for a graph with parameters: the repetition vector as expressions, and the "
        "conditions under which the graph is consistent; --set n=1..64, or n=1,2,4, with or "
        "without it: period, least storage and deadlock at all these values, and formulas through "
        "them",
    )
    parsers.add_plot_option(parser, "period and storage over the values of a parameter")
    parsers.add_table_option(parser, "the values, or the repetition vector")
    return parser


def _analyse_all(options: argparse.Namespace) -> int:
    """Print a row, or a JSON object, for each file; go on after a bad one."""
    widest = max(len(path) for path in options.file)
    width = int(min(widest, max(LEAST_NAME, terminal.room() - FIGURES)))
    if options.csv:
        _print_record(dict(zip(COLUMNS, COLUMNS, strict=True)))
    elif not options.json:
        print(
            f"{'file':<{width}} {'actors':>7} {'channels':>8} {'firings':>12}  period; critical cycle"
        )
    task = partial(_print_row, width=width, options=options)
    if options.workers == 1:
        return max(map(task, options.file))
    return max(in_order(task, options.file, options.workers))


def _print_row(path: str, *, width: int, options: argparse.Namespace) -> int:
    """Print the row or the JSON object of a file; return the exit code of its answer."""
    try:
        answer = _analysed(path, options)
    except CsdfError as error:
        kind, code = next(
            (kind, code) for error_type, kind, code in ENDINGS if isinstance(error, error_type)
        )
        remark("csdf analyze", str(error))
        if options.json:
            row = {"file": path, "error": str(error), "exit_code": code}
            print(answers.json_text(row, indent=None), flush=True)
        if options.csv:
            _print_record({"file": path, "answer": kind})
        return code
    if options.json:
        row = {"file": path, **as_json(answer)}
        print(answers.json_text(row, options, indent=None), flush=True)
    elif options.csv:
        _print_record({"file": path, **_as_record(answer)})
    else:
        # Files of a folder differ in the ends of their paths.
        name = path if len(path) <= width else f"…{path[1 - width :]}"
        print(answers.one_text([f"{name:<{width}} {_row(answer)}"]), flush=True)
    return answer.exit_code


def _print_record(cells: Mapping[str, object]) -> None:
    """Print the cells of a file as a line of CSV."""
    from csdf.io.csv_text import csv_text  # slow to import, and for several files alone

    print(csv_text([[cells.get(column, "") for column in COLUMNS]]), end="")


def _judge_all(options: argparse.Namespace) -> int:
    """Print what a method of another package answers, and what of it is proved."""
    from csdf import entries  # for methods of other packages alone
    from csdf.comparison import methods

    try:
        method = entries.method(options.method)
    except CsdfError as error:
        options.refuse(f"--method: {error}; of csdf: {', '.join(METHODS)}, or periodic-K")
    if options.csv:
        options.refuse("--csv is for the methods of csdf")
    code, listed = answers.ANSWERED, []
    for path in options.file:
        with limited(options.time_limit) as stop:
            graph = concurrency.read(path, options)
            rows = []
            for question in methods.offered(method):
                try:
                    judgement = methods.judged(method, question, graph, stop)
                except (methods.Refused, methods.Failed) as error:
                    is_refused = isinstance(error, methods.Refused)
                    code = max(code, answers.NO if is_refused else answers.UNKNOWN)
                    rows.append((question, f"{'refused' if is_refused else 'no answer'}: {error}"))
                    key = "refused" if is_refused else "no_answer"
                    listed.append({"file": path, "question": question, key: str(error)})
                    continue
                value = "deadlock" if judgement.value is None else answers.number(judgement.value)
                rows.append((question, f"{value}; {judgement.words}"))
                rows.append(("", f"by {options.method}, {time_in_words(judgement.seconds)}"))
                listed.append({"file": path, **judgement.to_json()})
        if not options.json:
            print(answers.one_text(answers.table(f"{graph.name}: {options.method}", rows)))
    if options.json:
        print(answers.json_text({"method": options.method, "answers": listed}))
    return code


def _analysed(path: str, options: argparse.Namespace) -> Analysis:
    with limited(options.time_limit) as stop:
        return _analyse(concurrency.read(path, options), options.method, stop)


def _analyse(graph: Graph, method: str, stop: Stop) -> Analysis:
    begin = time.perf_counter()
    repetitions: dict[str, int] = {}
    result = inconsistency = unknown = None
    try:
        repetitions = repetition_vector(graph)
        reporting_stop, copies = telling(stop, f"analysing {graph.name}"), parsers.copies_of(method)
        if copies is None:
            result = throughput(graph, method=cast(Method, method), budget=reporting_stop)
        else:
            from csdf.analysis.schedules import periodic_throughput  # slow to import, seldom needed

            result = periodic_throughput(graph, copies, budget=reporting_stop)
    except InconsistentGraph as error:
        inconsistency = error
    except GaveUp as error:
        unknown = error
    elapsed = time.perf_counter() - begin
    return Analysis(graph, repetitions, elapsed, result, inconsistency, unknown)


def as_json(answer: Analysis) -> dict[str, Any]:
    """Return the answer under keys that stay; fractions as "p/q"."""
    graph, result = answer.graph, answer.result
    answer_row: dict[str, Any] = {
        "graph": graph.name,
        "type": graph.kind,
        "actors": len(graph.actors),
        "channels": len(graph.channels),
        "consistent": answer.inconsistency is None,
        "repetition_vector": answer.repetitions,
        "firings_per_iteration": sum(answer.repetitions.values()),
        **(UNKNOWN if result is None else result.to_json()),
        "seconds": round(answer.seconds, 6),
    }
    if is_unlimited(result):
        answer_row["reason"] = why_unlimited(graph)
        answer_row["hint"] = concurrency.hint(graph)
    elif result is not None and concurrency.overlap_rows(graph, answer.repetitions, result.period):
        answer_row["hint"] = concurrency.HINT
    if answer.inconsistency is not None:
        names = ("channel", "producer", "consumer", "produced", "consumed")
        answer_row["inconsistency"] = {name: getattr(answer.inconsistency, name) for name in names}
    if answer.unknown is not None:
        answer_row["unknown"] = str(answer.unknown)
        answer_row["period_bounds"] = [_text(answer.unknown.low), _text(answer.unknown.high)]
    return answer_row


def _as_record(answer: Analysis) -> dict[str, Any]:
    """Return the cells of COLUMNS: exact numbers, names with `;` between them."""
    result = answer.result
    kind = "inconsistent" if answer.inconsistency is not None else "unknown"
    if result is not None:
        kind = "period" if result.deadlock is None else "deadlock"
    cycle = None if result is None else result.critical_cycle
    actors = None if cycle is None else ";".join(cycle.actors)
    return as_json(answer) | {"answer": kind, "critical_cycle": actors}


def _text(value: Fraction | None) -> str | None:
    return None if value is None else str(value)


def _row(answer: Analysis) -> str:
    graph = answer.graph
    firings = sum(answer.repetitions.values())
    head = f"{len(graph.actors):>7} {len(graph.channels):>8} {firings:>12}  "
    if answer.inconsistency is not None:
        return f"{head}inconsistent: channel {answer.inconsistency.channel}"
    if answer.result is None:
        return f"{head}unknown: {_bounds(answer)}"
    if answer.result.deadlock is not None:
        waiting = " -> ".join(firing.actor for firing in answer.result.deadlock.cycle[:SHOWN])
        return f"{head}deadlock: {waiting}"
    cycle = answer.result.critical_cycle
    limit = answers.listed_up_to(cycle.actors, SHOWN) if cycle is not None else "nothing limits it"
    hint = concurrency.hint(graph) if is_unlimited(answer.result) else None
    limit += f", {hint}" if hint else ""
    return f"{head}{answers.number(answer.result.period or 0)}; {limit}"


def _lines(answer: Analysis) -> list[str]:
    graph, result = answer.graph, answer.result
    firings = answers.counted(sum(answer.repetitions.values()), "firing")
    size = (
        f"{graph.kind}, {answers.counted(len(graph.actors), 'actor')}, "
        f"{answers.counted(len(graph.channels), 'channel')}, {firings} per iteration"
    )
    details = [("graph", size)]
    if result is not None:
        details.append(("method", f"{result.method}, {time_in_words(answer.seconds)}"))
        if len(answer.repetitions) > SHOWN:
            details.append(("all repetitions", ", ".join(_firings_by_actor(answer))))
        verdict, rows = _verdict(answer, result)
    elif (error := answer.inconsistency) is not None:
        verdict = f"inconsistent: no repetition vector balances channel {error.channel}"
        channel = graph.channel(error.channel)
        made, taken = sum(channel.production), sum(channel.consumption)
        produced = _closing(graph.actor(error.producer), error.produced, made)
        consumed = _closing(graph.actor(error.consumer), error.consumed, taken)
        then = f"change rates of {error.channel}, or of another channel between these actors"
        note = "firings that balance the other channels"
        rows = [("produced", produced), ("consumed", consumed), ("", note), ("next", then)]
        details = [("graph", size.rpartition(",")[0])]
    else:
        verdict, rows = f"period unknown: {_bounds(answer)}", [("reason", str(answer.unknown))]
    return answers.table(f"{graph.name}: {verdict}", rows, details)


def _firings_by_actor(answer: Analysis) -> list[str]:
    return [f"{actor} {count}" for actor, count in answer.repetitions.items()]


def _closing(actor: Actor, tokens: int, by_cycle: int) -> str:
    """Return the tokens that an actor moves in the firings that the other channels ask for."""
    firings = tokens // by_cycle * actor.phases
    return f"{answers.counted(tokens, 'token')} by {answers.counted(firings, 'firing')} of {actor.name}"


def _bounds(answer: Analysis) -> str:
    end = answer.unknown
    if end is None or end.low is None:
        return "unknown"
    above = "" if end.high is None else f", upper bound {answers.number(end.high)}"
    return f"lower bound {answers.number(end.low)}{above}"


def _verdict(answer: Analysis, result: Throughput) -> tuple[str, list[tuple[str, str]]]:
    """The answer in one line, and the rows that support it."""
    repetitions = ("repetitions", answers.listed_up_to(_firings_by_actor(answer), SHOWN))
    if result.deadlock is not None:
        return answers.DEADLOCK, answers.blocked_rows(result.deadlock)
    cycle = result.critical_cycle
    if cycle is None or not result.period:
        hint = concurrency.hint(answer.graph)
        rows = [("reason", why_unlimited(answer.graph)), repetitions]
        rows += [("next", hint)] if hint else []
        return "period 0, throughput unbounded: no cycle of the graph takes time", rows
    speed = 1 / result.period
    bound = "" if result.is_exact else f" (upper bound: {parsers.PERIOD_IS_A_BOUND})"
    channels = answers.listed_up_to(cycle.channels, SHOWN)
    over = f"over {channels}: {answers.counted(cycle.time, 'time unit')}"
    rows = [
        ("critical cycle", answers.listed_up_to(cycle.actors, SHOWN)),
        ("", f"{over} in {answers.counted(cycle.tokens, 'iteration')}"),
        repetitions,
        *concurrency.overlap_rows(answer.graph, answer.repetitions, result.period),
    ]
    period = f"period {answers.number(result.period)} time unit{plural(result.period)}{bound}"
    rate = f"throughput {answers.number(speed)} iteration{plural(speed)} per time unit"
    return f"{period}, {rate}", rows


def is_unlimited(result: Throughput | None) -> bool:
    """Whether the graph runs, and nothing says how fast."""
    return result is not None and result.deadlock is None and not result.period
