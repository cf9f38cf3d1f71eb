"""`csdf report`: an HTML page with the bottleneck, schedule, storage and memory of a graph.

The page states its origin: the command, the version, the files read, and the assumptions. All findings
are computed within one budget. The schedule shows the self-timed iterations that fit on a page.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import takewhile
from operator import gt
from pathlib import PurePath
from types import ModuleType

import csdf.entries as entries
from csdf.analysis.bound_channels import bound_channels, why_unlimited, with_capacities
from csdf.analysis.consistency import repetition_vector
from csdf.analysis.execution import SteadyState, first_starts, recurrence, repeated
from csdf.analysis.throughput import Throughput, throughput
from csdf.cli import answers, graph_input, option_values, parsers
from csdf.cli.frame.long_work import limited_part, shown, stop_after
from csdf.cli.frame.output import remark
from csdf.cli.options import concurrency, storage
from csdf.cli.reporting.origin import origin_of
from csdf.cli.reporting.subject import GraphSubject, Subject
from csdf.draw.report.findings import FasterActor, FirstIterations, GraphFindings
from csdf.draw.report.page import Compared, report_page
from csdf.draw.report.sections import Contribution, PageFrame
from csdf.draw.report.timeline import LARGEST_TIME
from csdf.errors import GaveUp, counted
from csdf.io.files import read_bytes, require_plain, write_text
from csdf.model.graph import Graph
from csdf.model.indexed import IndexedGraph, indexed
from csdf.search.pareto import ParetoFront, SmallestStorage
from csdf.search.trade_off import pareto_front, smallest_storage
from csdf.search.variables import SearchSpace
from csdf.time_limit import Stop
from csdf.units import size

GRAPH_FORMAT = b'"csdf-graph"'  # the format name in every JSON graph
SECONDS = 20.0  # of the clock, for all analyses of a graph
# Shares of the seconds that are left when a part of the page begins.
COMPARED_SHARE = 0.5  # the model of --compare
PERIOD_SHARE = 0.4
FASTER_SHARE = 0.1  # the period with one actor twice as fast
SMALLEST_SHARE = 0.3  # the smallest storage
FRONT_SHARE = 0.55  # the Pareto front of storage
EXECUTION_SHARE = 0.6  # an execution in given capacities; of its own seconds:
RECURRENCE_SHARE = 0.4  # the wait for a state that recurs
STARTS_SHARE = 0.5  # the start times of the firings
SUFFIXES = ("html", "htm")
PLAIN_QUOTES = str.maketrans("“”", "''")  # as in what other commands print, in every encoding
GRAPH = "graph"  # the kind of subject that csdf knows itself
INPUT = "a graph (SDF3 .xml, JSON, layer table .csv)"


def work(options: argparse.Namespace) -> int:
    """Write the page and print its first sentence; return the exit code, 1 for a deadlock or a "no"."""
    stop = stop_after(options.time_limit)
    compared = None
    if options.compare is not None:
        _, findings, frame = _subject_with_findings(
            argparse.Namespace(**{**vars(options), "model": options.compare}),
            stop.part(share=COMPARED_SHARE),
        )
        compared = Compared((options.compare, options.model), findings, frame)
    subject, findings, frame = _subject_with_findings(options, stop)
    origin = origin_of(
        "report", options.words, [options.model, options.compare], subject.files, subject.terms
    )
    write_text(options.output, report_page(findings, frame, origin, compared))
    print(answers.one_text(frame.said).translate(PLAIN_QUOTES))
    remark("csdf report", f"wrote {options.output}")
    if findings.result is None or frame.is_unknown:
        return answers.UNKNOWN
    return answers.NO if findings.blocked or frame.is_no else answers.ANSWERED


def _subject_with_findings(
    options: argparse.Namespace, stop: Stop
) -> tuple[Subject, GraphFindings, PageFrame]:
    """The subject of a page, and all findings on it."""
    kind, subject = _subject(options, stop)
    if options.time_limit is None:
        stop = stop_after(SECONDS)  # for the analyses; the plan of a network counts its steps
    added = list(_added(kind, subject, stop))
    findings = graph_findings(
        subject.graph, stop, unit=subject.unit, time=subject.time, smallest=subject.smallest
    )
    return subject, findings, subject.surroundings(findings, added)


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of this command."""
    readers = _readers()
    parser = parsers.new_parser(
        "csdf report",
        "Write one self-contained HTML page about a graph or a network: its bottleneck and "
        "possible changes, a drawing, the schedule, the occupancy of channels, storage against "
        "throughput, and for networks the answer of csdf fit: RAM, flash and time by layer, and "
        "the arena over time. For a FIFO design: csdf fifo finn MODEL --page design.html.",
        "csdf report models/graphs/h263decoder.xml -o report.html",
        "csdf report person_detection --element-bytes 1 --ram 64kB -o report.html",
        "csdf report --compare models/graphs/h263encoder.xml models/graphs/h263decoder.xml",
        work=work,
        project_result="report.html",
        notes="Compare plans of csdf fit -o with --plan first.json --plan second.json.",
    )
    inputs = " or ".join([INPUT, *(reader.INPUT for reader in readers.values())])
    model = parser.add_argument(
        "model", metavar="MODEL", help=f"{inputs}; default: those of csdf.toml"
    )
    parsers.takes_words(model, (word for reader in readers.values() for word in reader.NAMES))
    parsers.add_output_option(parser, "the page; default: report.html", *SUFFIXES)
    parser.set_defaults(output="report.html")
    action = parser.add_argument(
        "--compare",
        metavar="MODEL",
        help="another graph or network to compare with, such as an earlier version",
    )
    parsers.takes_words(action, (word for reader in readers.values() for word in reader.NAMES))
    parser.add_argument(
        "--time-limit",
        type=option_values.seconds,
        metavar="TIME",
        help="limit for the whole page, such as 30s; unfinished sections are marked. Default: "
        f"{SECONDS:g}s for the analyses of the graph; the plan of a network counts its steps, as "
        "in csdf fit",
    )
    parsers.add_memory_limit(parser)
    for reader in readers.values():
        reader.add_options(parser)
    concurrency.add_concurrency(parser)
    graph_input.add_reading_options(parser)
    return parser


def _readers() -> dict[str, ModuleType]:
    """The modules that read subjects other than graphs, by the kind of subject."""
    subjects = entries.all_entries(entries.REPORT_SUBJECTS)
    return {kind: entries.loaded(entry) for kind, entry in subjects.items()}


def _subject(options: argparse.Namespace, stop: Stop) -> tuple[str, Subject]:
    """Return the subject of the page and its kind: a graph, or what the first reader finds."""
    require_plain(options.model)  # it is read more than once
    readers = _readers()
    # A file that says itself that it is a graph, as only JSON can, is one.
    is_json = PurePath(options.model).suffix.lower() == ".json"
    if not (is_json and GRAPH_FORMAT in read_bytes(options.model)):
        for kind, reader in readers.items():
            if reader.reads(options.model):
                concurrency.refuse(options)
                return kind, reader.subject(options, stop)
    for reader in readers.values():
        reader.refuse(options)
    graph = concurrency.read(options.model, options)
    return GRAPH, GraphSubject(graph=graph, terms=graph_input.sizes_terms(options))


def _added(kind: str, subject: Subject, stop: Stop) -> Iterator[Contribution]:
    """Return the sections of other packages for subjects of this kind, in the order of their names."""
    for name, entry in sorted(entries.all_entries(entries.REPORT_SECTIONS).items()):
        if name.startswith(f"{kind}."):
            contribution = entries.loaded(entry).contribution(subject, stop)
            if contribution is not None:
                yield contribution


MOST_FASTER = 4  # actors that are tried twice as fast
MOST_SEARCHED = 20_000  # channels of a graph whose storage is searched


def graph_findings(
    graph: Graph,
    stop: Stop,
    *,
    unit: str = "tokens",
    time: str = "time units",
    smallest: SmallestStorage | None = None,
) -> GraphFindings:
    """Return the findings on a graph; smallest: the smallest storage where that is known already.

    Raises InconsistentGraph.
    """
    repetitions = repetition_vector(graph)
    left_out: dict[str, str] = {}
    bounds: tuple[Fraction | None, Fraction | None] = (None, None)
    result, ended = None, None
    try:
        with limited_part(stop, PERIOD_SHARE, f"the period of {graph.name}") as part:
            result = throughput(graph, budget=part)
    except GaveUp as end:
        bounds, ended = (end.low, end.high), end.reason
    findings = GraphFindings(
        graph=graph, repetitions=repetitions, result=result, period_bounds=bounds,
        unit=unit, time=time, smallest=smallest, left_out=left_out,
    )  # fmt: skip
    if result is None:
        reason = f"{ended} before the period was found"
        left_out |= {"schedule": reason, "front": reason}
        return findings
    if result.deadlock is not None:
        return findings
    findings = replace(findings, faster=tuple(_faster(graph, result, stop)))
    findings = _with_storage(findings, stop, left_out)
    return replace(findings, runs=tuple(_runs(findings, stop, left_out)))


def _faster(graph: Graph, result: Throughput, stop: Stop) -> Iterator[FasterActor]:
    """Return what the graph would do with each of the critical actors twice as fast."""
    cycle = result.critical_cycle
    for name in cycle.actors[:MOST_FASTER] if cycle is not None else ():
        try:
            with limited_part(stop, FASTER_SHARE, f"{graph.name} with a faster {name}") as part:
                faster = throughput(_twice_as_fast(graph, name), budget=part)
        except GaveUp:
            return
        limit = faster.critical_cycle.actors if faster.critical_cycle is not None else ()
        yield FasterActor(actor=name, period=faster.period or Fraction(0), actors=limit)


def _twice_as_fast(graph: Graph, name: str) -> Graph:
    """Half the durations of one actor, in a time unit of half the length."""
    actors = tuple(
        actor
        if actor.name == name
        else replace(actor, durations=tuple(2 * time for time in actor.durations), processors=())
        for actor in graph.actors
    )
    return replace(graph, actors=actors, time_unit=graph.time_unit / 2, origin=None)


def _with_storage(findings: GraphFindings, stop: Stop, left_out: dict[str, str]) -> GraphFindings:
    """Add the smallest storage and the front if they are findings."""
    graph, choice = findings.graph, SearchSpace(unit=findings.unit)
    if len(graph.channels) > MOST_SEARCHED:
        channels = counted(len(graph.channels), "channel")
        reason = f"the storage of {channels} is searched by csdf buffers only"
        left_out |= {"smallest": f"smallest buffers: {reason}", "front": reason}
        return findings
    smallest = findings.smallest or _smallest(graph, choice, stop, left_out)
    front = None
    if findings.result is not None and not findings.result.period:
        left_out["front"] = (
            f"nothing limits the unbounded graph, so that the front has no end: {why_unlimited(graph)}"
        )
    else:
        front = _front(graph, choice, stop, left_out)
    return replace(findings, smallest=smallest, front=front)


def _smallest(
    graph: Graph, choice: SearchSpace, stop: Stop, left_out: dict[str, str]
) -> SmallestStorage | None:
    smallest, reason = None, ""
    try:
        with limited_part(stop, SMALLEST_SHARE, storage.in_words) as part:
            smallest = smallest_storage(graph, choice, budget=part)
    except GaveUp as end:
        reason = str(end)
    if smallest is not None and smallest.point is not None:
        return smallest
    left_out["smallest"] = f"smallest buffers: {reason if smallest is None else smallest.reason}"
    return smallest


def _front(
    graph: Graph, choice: SearchSpace, stop: Stop, left_out: dict[str, str]
) -> ParetoFront | None:
    try:
        with limited_part(stop, FRONT_SHARE, storage.in_words) as part:
            return pareto_front(graph, choice, budget=part)
    except GaveUp as end:
        left_out["front"] = str(end)
    return None


def _runs(
    findings: GraphFindings, stop: Stop, left_out: dict[str, str]
) -> Iterator[FirstIterations]:
    """Executions in the capacities of the file, at full speed, and in the smallest buffers."""
    reason = refusal(findings.graph, findings.repetitions)
    if reason is not None:
        left_out["schedule"] = reason
        return
    for title, capacities in _distributions(findings):
        try:
            with limited_part(stop, EXECUTION_SHARE, f"executing {findings.graph.name}") as part:
                run = executed(
                    findings.graph,
                    findings.repetitions,
                    title=title,
                    capacities=capacities,
                    stop=part,
                )
        except GaveUp as end:
            left_out["schedule"] = f"{title}: {end}"
            continue
        yield run


def _distributions(findings: GraphFindings) -> Iterator[tuple[str, Mapping[str, int]]]:
    """Distinct storage distributions for the schedule, each with its title."""
    front, smallest = findings.front, findings.smallest
    is_user_made = any(
        channel.capacity is not None and not channel.is_self_loop
        for channel in findings.graph.channels
    )
    seen: list[tuple[dict[str, int], str]] = []
    has_front = front is not None and bool(front.points)
    has_smallest = smallest is not None and smallest.point is not None
    if is_user_made or not (has_front or has_smallest):
        seen.append(({}, "as given"))
    if front is not None and front.points:
        point = front.points[-1]
        what = "full speed" if front.is_complete else "fastest proved"
        seen.append((dict(point.capacities), f"{what}, {size(point.size, findings.unit)}"))
    if smallest is not None and smallest.point is not None:
        point = smallest.point
        seen.append((dict(point.capacities), f"smallest, {size(point.size, findings.unit)}"))
    for number, (capacities, title) in enumerate(seen):
        if capacities not in [earlier for earlier, _ in seen[:number]]:
            yield title, capacities


MOST_FIRINGS = 30_000  # of a run on the page
MOST_ACTORS = 2000  # rows of a schedule
MOST_ITERATIONS = 300  # iterations to wait for a state that recurs
ITERATIONS = 4  # shown where no state recurs


def refusal(graph: Graph, repetitions: Mapping[str, int]) -> str | None:
    """Return why no schedule of the graph can be drawn; None if one can."""
    firings = sum(repetitions.values())
    if firings > MOST_FIRINGS:
        return f"one iteration has {firings} firings; the page draws at most {MOST_FIRINGS}"
    if len(graph.actors) > MOST_ACTORS:
        return (
            f"the graph has {len(graph.actors)} actors; the page draws at most {MOST_ACTORS} rows"
        )
    return None


def executed(
    graph: Graph,
    repetitions: Mapping[str, int],
    *,
    title: str,
    capacities: Mapping[str, int],
    stop: Stop,
) -> FirstIterations:
    """Return the transient part and two rounds of the steady part, or as much as there is room for.

    Raises GaveUp where times leave what a browser can count, or where the stop ends the run first.
    """
    bounded = with_capacities(graph, capacities)
    numbers, firings = indexed(bound_channels(bounded)), list(repetitions.values())
    steady = _recurrence(numbers, firings, stop)
    iterations = ITERATIONS if steady is None else steady.transient + steady.iterations
    listed = min(iterations, MOST_FIRINGS // sum(firings))
    part = stop.part(share=STARTS_SHARE, report=shown(f"executing {graph.name}"))
    starts = first_starts(numbers, repetitions, listed, budget=part)
    run = FirstIterations(
        title=title,
        graph=bounded,
        repetitions=repetitions,
        starts=starts,
        iterations=listed,
        transient=None if steady is None else steady.transient,
        steady=None if steady is None else steady.iterations,
        cycle=None if steady is None else steady.time,
        end=_last_end(bounded, starts),
    )
    if run.end > LARGEST_TIME:
        raise GaveUp(f"times pass {LARGEST_TIME}, the largest that a browser counts exactly")
    return _continued(run) if steady is not None and listed == iterations and steady.time else run


def _last_end(graph: Graph, starts: Mapping[str, tuple[int, ...]]) -> int:
    return max(
        start + actor.durations[index % actor.phases]
        for actor in graph.actors
        for index, start in enumerate(starts[actor.name])
    )


def _continued(run: FirstIterations) -> FirstIterations:
    """Repeat the steady part of every actor up to one time, so that none ends before the others."""
    settled, cycle = run.settled or 0, run.cycle or 1
    for rounds in (2, 1):
        end = settled + rounds * cycle
        starts = {
            name: tuple(takewhile(partial(gt, end), _endless(run, name))) for name in run.starts
        }
        if sum(map(len, starts.values())) <= MOST_FIRINGS:
            return replace(run, starts=starts, end=end)
    return run


def _endless(run: FirstIterations, name: str) -> Iterator[int]:
    """The start times of an actor, for ever."""
    transient = run.repetitions[name] * (run.transient or 0)
    return repeated(run.starts[name], transient=transient, period=run.cycle or 1)


def _recurrence(graph: IndexedGraph, firings: list[int], stop: Stop) -> SteadyState | None:
    """The steady part, or None where no state was seen again in time."""
    try:
        part = stop.part(share=RECURRENCE_SHARE, report=shown("waiting for a state to recur"))
        return recurrence(graph, firings, limit=MOST_ITERATIONS, budget=part)
    except GaveUp:
        return None
