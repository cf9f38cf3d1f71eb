"""`csdf schedule`: start times: self-timed, periodic or strictly periodic."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import suppress
from fractions import Fraction
from itertools import chain
from typing import Any, NamedTuple

from csdf.analysis.bound_channels import why_unlimited
from csdf.analysis.consistency import repetition_vector
from csdf.analysis.latency import iteration_times
from csdf.analysis.liveness import deadlock
from csdf.analysis.schedules import listed_firings, periodic_schedule, strictly_periodic_schedule
from csdf.analysis.self_timed import self_timed_execution
from csdf.analysis.throughput import throughput
from csdf.cli import answers, loading, option_values, parsers
from csdf.cli.frame import output
from csdf.cli.frame.long_work import limited, telling
from csdf.cli.options import concurrency
from csdf.errors import GaveUp
from csdf.io.csv_text import csv_text
from csdf.io.trace import schedule_to_trace
from csdf.model.graph import Graph
from csdf.model.schedule import Firing
from csdf.names import quoted
from csdf.time_limit import Stop

PROGRAM = "csdf schedule"
NAMES = 12  # most channels on one line
ROWS = 40  # most firings in the table; the other formats list all
COLUMNS = ("actor", "index", "phase", "start", "end")


class ListedFirings(NamedTuple):
    """The firings to show, and what is to be said about them in one line each."""

    firings: Sequence[Firing]
    facts: dict[str, Any]


def work(options: argparse.Namespace) -> int:
    """Print the schedule; return the exit code."""
    if options.kind != "self-timed" and (options.source or options.sink):
        options.refuse(f"--source and --sink are for --kind self-timed, not {options.kind}")
    with limited(options.time_limit) as stop:
        graph = concurrency.read(options.file, options)
        for name in filter(None, (options.source, options.sink)):
            graph.actor(name)
        blocked = deadlock(graph, budget=telling(stop, f"looking for a deadlock of {graph.name}"))
        if blocked is not None:
            if options.format == "json":
                row = {"deadlock": True, "blocked": blocked.to_json(), "firings": []}
                print(answers.json_text({"graph": graph.name, **row}, options))
            output.remark(PROGRAM, f"{graph.name} deadlocks: {blocked}")
            return answers.NO
        make = _self_timed if options.kind == "self-timed" else _periodic
        with answers.working(f"scheduling {graph.name}"):
            answer = make(graph, options, stop)
    if answer is None:
        message = f"{graph.name} has no strictly periodic schedule; try --kind periodic"
        output.remark(PROGRAM, message)
        return answers.NO
    if options.trace:
        output.write(PROGRAM, options.trace, schedule_to_trace(graph.name, answer.firings))
    if options.format == "json":
        firings = [firing.to_json() for firing in answer.firings]
        row = {"graph": graph.name, "deadlock": False, **answer.facts, "firings": firings}
        print(answers.json_text(row, options))
    elif options.format == "csv":
        rows = ([getattr(firing, name) for name in COLUMNS] for firing in answer.firings)
        print(csv_text(chain([COLUMNS], rows)), end="")
    else:
        print(answers.in_words(_lines(graph, answer), options))
    title, names = f"{graph.name}: {options.kind}", [actor.name for actor in graph.actors]
    about = (title, answer.firings, names)
    loading.plot(options, "csdf.draw.charts", "schedule_picture", *about)
    if answer.facts["period"] == "0":
        hint = concurrency.hint(graph)
        output.remark(PROGRAM, f"period 0: {why_unlimited(graph)}{f'; {hint}' if hint else ''}")
    return answers.ANSWERED


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of this command."""
    parser = parsers.new_parser(
        "csdf schedule",
        "Start times of firings: self-timed (every actor as soon as it can), periodic (at the "
        "period of the graph) or strict (the firings of an actor at equal distances).",
        "csdf schedule models/graphs/csdf_example.xml --iterations 1",
        "csdf schedule models/graphs/csdf_example.xml --kind periodic --trace trace.json",
        work=work,
        notes="A trace can be opened at chrome://tracing or in Perfetto.",
    )
    parser.add_argument(
        "--kind",
        type=lambda kind: "strict" if kind == "strictly-periodic" else kind,
        choices=("self-timed", "periodic", "strict"),
        default="self-timed",
        help="default: self-timed",
    )
    parser.add_argument(
        "--iterations",
        type=option_values.positive,
        metavar="N",
        help="number of iterations to list; default: transient and steady part of a self-timed "
        "schedule, 1 of the other kinds",
    )
    parser.add_argument("--source", metavar="ACTOR", help="measure latency from its first start")
    parser.add_argument("--sink", metavar="ACTOR", help="to its last end in the same iteration")
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--format", choices=("table", "csv", "json"), default="table", help="default: table"
    )
    for name, what in (("json", "as --format json"), ("csv", "as --format csv")):
        form.add_argument(f"--{name}", dest="format", action="store_const", const=name, help=what)
    parsers.add_explain_option(form)
    parsers.add_plot_option(parser, "the firings over time, a row for each actor,")
    parser.add_argument(
        "--trace",
        type=parsers.output_file(),
        metavar="FILE",
        help="write a trace for Chrome or Perfetto",
    )
    parsers.add_time_limit(parser, "end after this time", None)
    concurrency.add_graph(parser)
    return parser


def _self_timed(graph: Graph, options: argparse.Namespace, stop: Stop) -> ListedFirings:
    execution = self_timed_execution(graph, iterations=options.iterations, budget=stop)
    times: list[Fraction] = []
    period = execution.period
    if period is None:  # too few iterations are listed to show a recurrence
        with suppress(GaveUp):
            period = throughput(graph, budget=stop).period
    if execution.period is not None:
        times = iteration_times(graph, execution.firings, source=options.source, sink=options.sink)
    elif options.source or options.sink:
        output.remark(PROGRAM, "latency unknown: no state of the whole graph recurs")
    facts = {
        "kind": "self-timed",
        "iterations": execution.iterations,
        "transient_iterations": execution.transient,
        "steady_iterations": execution.steady,
        "period": None if period is None else str(period),
        "latency": str(max(times)) if times else None,
        "max_occupancy": execution.max_occupancy,
    }
    return ListedFirings(execution.firings, facts)


def _periodic(graph: Graph, options: argparse.Namespace, _stop: Stop) -> ListedFirings | None:
    make = periodic_schedule if options.kind == "periodic" else strictly_periodic_schedule
    schedule, iterations = make(graph), options.iterations or 1
    if schedule is None:
        return None
    firings = listed_firings(graph, schedule, iterations=iterations)
    facts = {"kind": options.kind, "iterations": iterations, **schedule.to_json()}
    return ListedFirings(firings, facts)


def _lines(graph: Graph, answer: ListedFirings) -> Iterator[str]:
    facts, repetitions = answer.facts, repetition_vector(graph)
    ends = [f"{key} {facts[key]}" for key in ("period", "latency") if facts.get(key) is not None]
    kind = "strictly periodic" if facts["kind"] == "strict" else facts["kind"]
    yield f"{graph.name}: {kind} schedule, {', '.join(ends) or 'no period found'}"
    width = max(len("actor"), *(len(quoted(name)) for name in repetitions))
    yield f"{'start':>14} {'end':>14}  {'actor':<{width}} phase iteration"
    for firing in answer.firings[:ROWS]:
        iteration = firing.index // repetitions[firing.actor]
        times = f"{firing.start!s:>14} {firing.end!s:>14}"
        yield f"{times}  {quoted(firing.actor):<{width}} {firing.phase:>5} {iteration:>9}"
    if len(answer.firings) > ROWS:
        yield f"{'...':>14} {len(answer.firings) - ROWS} more firings; --format csv lists all"
    for title, value in facts.items():
        if isinstance(value, dict) and title not in ("starts", "recurrence"):
            shown = answers.listed_up_to(
                [f"{name} {value_}" for name, value_ in value.items()], NAMES
            )
            yield f"{title.replace('_', ' ').replace('max ', 'max. ')}: {shown}"
        elif "iterations" in title:
            yield answers.Detail(f"{title.replace('_', ' ')}: {value}")
