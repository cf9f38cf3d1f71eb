"""`csdf schedule`: start times: self-timed, periodic or strictly periodic."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from fractions import Fraction
from itertools import chain
from typing import Any, NamedTuple

from csdf.analysis.bound_channels import why_unlimited
from csdf.analysis.consistency import repetition_vector
from csdf.analysis.latency import iteration_times
from csdf.analysis.liveness import Deadlock, deadlock
from csdf.analysis.schedules import (
    listed_firings,
    periodic_schedule,
    strictly_periodic_schedule,
)
from csdf.analysis.self_timed import SelfTimedExecution, self_timed_execution
from csdf.cli import answers, loading, parsers
from csdf.cli.frame import output
from csdf.cli.frame.long_work import limited, telling
from csdf.cli.options import concurrency
from csdf.io.csv_text import csv_text
from csdf.io.trace import schedule_to_trace
from csdf.model.graph import Graph
from csdf.model.schedule import Firing, PeriodicSchedule
from csdf.names import quoted
from csdf.time_limit import Stop

ROWS = 40  # most firings in the table; the other formats list all
COLUMNS = ("actor", "index", "phase", "start", "end")


class ListedFirings(NamedTuple):
    """The firings to show, and what is to be said about them in one line each."""

    firings: Sequence[Firing]
    facts: dict[str, Any]


def main(argv: Sequence[str]) -> int:
    """Print the schedule; return the exit code."""
    options = command_parser().parse_args(argv)
    loading.require_drawing(options.plot)
    with limited(options.time_limit) as stop:
        return _scheduled(options, stop)


def _scheduled(options: argparse.Namespace, stop: Stop) -> int:
    graph = concurrency.read(options.file, options)
    for name in filter(None, (options.source, options.sink)):
        graph.actor(name)
    blocked = deadlock(graph, budget=telling(stop, f"looking for a deadlock of {graph.name}"))
    if blocked is not None:
        return _report_deadlock(graph, blocked, options)
    with answers.working(f"scheduling {graph.name}"):
        answer = (
            _self_timed(graph, options, stop)
            if options.kind == "self-timed"
            else _periodic(graph, options)
        )
    if answer is None:
        print(
            f"csdf schedule: {quoted(graph.name)} has no strictly periodic schedule; "
            "try --kind periodic",
            file=sys.stderr,
        )
        return answers.NO
    if options.trace:
        output.write("csdf schedule", options.trace, schedule_to_trace(graph.name, answer.firings))
    _print(graph, answer, options)
    if options.plot:
        draw, suffix = loading.drawing("csdf.draw.charts"), loading.suffix_of(options.plot)
        title, names = f"{graph.name}: {options.kind}", [one.name for one in graph.actors]
        picture = draw.schedule_picture(title, answer.firings, names, suffix)
        output.write("csdf schedule", options.plot, picture)
    if answer.facts["period"] == "0":
        _remark_on_period_zero(graph)
    return answers.ANSWERED


def _remark_on_period_zero(graph: Graph) -> None:
    hint = concurrency.hint(graph)
    said = f"period 0: {why_unlimited(graph)}{f'; {hint}' if hint else ''}"
    print(f"csdf schedule: {quoted(said)}", file=sys.stderr)


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of this command."""
    parser = parsers.new_parser(
        "csdf schedule",
        "Start times of firings: self-timed (every actor as soon as it can), periodic "
        "(at the period of the graph) or strict (every cycle of an actor at equal distance).",
        "csdf schedule models/graphs/csdf_example.xml --iterations 1",
        "csdf schedule models/graphs/csdf_example.xml --kind periodic --trace trace.json",
        notes="A trace can be opened at chrome://tracing or in Perfetto.",
    )
    parser.add_argument("file", metavar="FILE", help=parsers.GRAPH_HELP)
    parser.add_argument(
        "--kind",
        choices=("self-timed", "periodic", "strict"),
        default="self-timed",
        help="default: self-timed",
    )
    parser.add_argument(
        "--iterations",
        type=answers.positive,
        metavar="N",
        help="to list; default: transient and steady part",
    )
    parser.add_argument("--source", metavar="ACTOR", help="measure latency from its first start")
    parser.add_argument("--sink", metavar="ACTOR", help="to its last end in the same iteration")
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--format", choices=("table", "csv", "json"), default="table", help="default: table"
    )
    for name, what in (("json", "as --format json"), ("csv", "as --format csv")):
        form.add_argument(f"--{name}", dest="format", action="store_const", const=name, help=what)
    parsers.add_plot_option(parser, "the firings over time, a row for each actor,")
    parser.add_argument(
        "--trace",
        type=parsers.output_file,
        metavar="FILE",
        help="write a trace for Chrome or Perfetto",
    )
    parsers.add_time_limit(parser, "end after this time", None)
    concurrency.add_concurrency(parser)
    answers.add_reading_options(parser)
    return parser


def _report_deadlock(graph: Graph, blocked: Deadlock, options: argparse.Namespace) -> int:
    if options.format == "json":
        found = {"deadlock": True, "blocked": blocked.to_json(), "firings": []}
        print(answers.json_text({"graph": graph.name, **found}, options))
    print(f"csdf schedule: {quoted(f'{graph.name} deadlocks: {blocked}')}", file=sys.stderr)
    return answers.NO


def _self_timed(graph: Graph, options: argparse.Namespace, stop: Stop) -> ListedFirings | None:
    execution = self_timed_execution(graph, iterations=options.iterations, budget=stop)
    times: list[Fraction] = []
    if execution.period is not None:
        times = iteration_times(graph, execution.firings, source=options.source, sink=options.sink)
    return ListedFirings(execution.firings, _execution_facts(execution, times))


def _execution_facts(execution: SelfTimedExecution, times: list[Fraction]) -> dict[str, Any]:
    found = execution.to_json()
    names = ("iterations", "transient_iterations", "steady_iterations", "period")
    return {
        "kind": "self-timed",
        **{name: found[name] for name in names},
        "latency": str(max(times)) if times else None,
        "peaks": found["peaks"],
    }


def _periodic(graph: Graph, options: argparse.Namespace) -> ListedFirings | None:
    make = periodic_schedule if options.kind == "periodic" else strictly_periodic_schedule
    schedule = make(graph)
    if schedule is None:
        return None
    firings = listed_firings(graph, schedule, iterations=options.iterations or 1)
    return ListedFirings(firings, _schedule_facts(schedule, options))


def _schedule_facts(schedule: PeriodicSchedule, options: argparse.Namespace) -> dict[str, Any]:
    return {
        "kind": options.kind,
        "iterations": options.iterations or 1,
        **schedule.to_json(),
    }


def _print(graph: Graph, answer: ListedFirings, options: argparse.Namespace) -> None:
    form = options.format
    if form == "json":
        firings = [one.to_json() for one in answer.firings]
        found = {"graph": graph.name, "deadlock": False, **answer.facts, "firings": firings}
        print(answers.json_text(found, options))
    elif form == "csv":
        rows = ([getattr(one, name) for name in COLUMNS] for one in answer.firings)
        print(csv_text(chain([COLUMNS], rows)), end="")
    else:
        _print_table(graph, answer)


def _print_table(graph: Graph, answer: ListedFirings) -> None:
    repetitions = repetition_vector(graph)
    width = max(len("actor"), *(len(quoted(name)) for name in repetitions))
    print(f"{'start':>14} {'end':>14}  {'actor':<{width}} phase iteration")
    for one in answer.firings[:ROWS]:
        iteration = one.index // repetitions[one.actor]
        times = f"{one.start!s:>14} {one.end!s:>14}"
        print(f"{times}  {quoted(one.actor):<{width}} {one.phase:>5} {iteration:>9}")
    if len(answer.firings) > ROWS:
        print(f"{'...':>14} {len(answer.firings) - ROWS} more firings; --format csv lists all")
    for title, value in answer.facts.items():
        if title in ("starts", "recurrence"):
            continue
        if isinstance(value, dict):
            value = ", ".join(f"{name} {one}" for name, one in list(value.items())[:12])
        shown = "none found" if value is None else value
        print(answers.one_text([f"{title.replace('_', ' ')}: {shown}"]))
