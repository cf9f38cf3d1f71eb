"""`csdf latency`: time from a source to a sink, self-timed, in static orders, or at a given rate."""

from __future__ import annotations

import argparse
from fractions import Fraction
from typing import Any, Literal

from csdf.analysis.latency import dependency_latency, latency
from csdf.cli import answers, graph_input, option_values, parsers
from csdf.cli.frame.long_work import limited, working
from csdf.cli.options import concurrency
from csdf.errors import CsdfError, NoRecurrence, plural
from csdf.mapping.files import holds_mapping, read_mapping, read_platform
from csdf.mapping.latency import ordered_latency, source_latency
from csdf.mapping.model import Mapping, Platform
from csdf.mapping.search import equal_processors
from csdf.model.graph import Graph
from csdf.model.shown import as_json
from csdf.time_limit import Stop

SHOWN = 5  # actors in a message
# Keys of the answer, None unless the options ask for them.
NOT_ASKED = dict.fromkeys(
    ("period", "min_period", "minimal", "max_release_delay", "jitter", "steady_jitter", "reason")
)


def work(options: argparse.Namespace) -> int:
    """Print the latencies; return the exit code: 1 where there is none, 3 where one is unknown."""
    with limited(options.time_limit) as stop:
        graph, platform, mapping = _subject(options)
        with working(f"executing {graph.name}"):
            options.source = options.source or _only(graph, "source")
            options.sink = options.sink or _only(graph, "sink")
            row = _answer(graph, platform, mapping, options, stop)
    answers.show({"graph": graph.name, **row}, _lines(graph, row), options)
    if row["reason"] is not None:
        return answers.UNKNOWN
    return answers.NO if row["latency"] is None else answers.ANSWERED


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of this command."""
    parser = parsers.new_parser(
        "csdf latency",
        "Time from the start of an iteration of one actor to the end of the sink firing that "
        "depends on it: self-timed, in the static orders of a mapping, or with a source of a "
        "given rate, then with the jitter.",
        "csdf latency models/graphs/csdf_example.xml --source a --sink c",
        "csdf latency models/graphs/csdf_example.xml --source a --sink c --period 15",
        work=work,
        notes="Exact over all iterations, by execution until a state recurs.",
    )
    parser.add_argument(
        "--source",
        metavar="ACTOR",
        help="actor at whose first start latency begins; by default the only actor without inputs",
    )
    parser.add_argument(
        "--sink",
        metavar="ACTOR",
        help="actor at whose last end latency ends; by default the only actor without outputs",
    )
    parsers.add_period(
        parser, "a strictly periodic source: all its firings of an iteration in this time"
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--platform", metavar="FILE", help="platform of --mapping")
    where.add_argument(
        "--processors",
        type=option_values.positive,
        metavar="N",
        help="this number of equal processors, instead of --platform",
    )
    parser.add_argument("--mapping", metavar="FILE", help="static orders, as csdf map writes them")
    parsers.add_json_option(parser)
    parsers.add_time_limit(parser, "end after this time", None)
    concurrency.add_graph(parser, f"{parsers.GRAPH_HELP}; or SDF3 XML with a mapping")
    return parser


def _only(graph: Graph, end: Literal["source", "sink"]) -> str:
    """Return the only actor without inputs, or without outputs; self-loops do not count."""
    channels = [channel for channel in graph.channels if not channel.is_self_loop]
    inner = {channel.consumer if end == "source" else channel.producer for channel in channels}
    names = [actor.name for actor in graph.actors if actor.name not in inner]
    if len(names) == 1:
        return names[0]
    listed = answers.listed_up_to(names or [actor.name for actor in graph.actors], SHOWN)
    raise CsdfError(
        f"{graph.name} has {len(names)} actors that may be its {end}; name one with --{end}: {listed}"
    )


def _subject(options: argparse.Namespace) -> tuple[Graph, Platform | None, Mapping | None]:
    has_platform = options.platform is not None or options.processors is not None
    if has_platform != (options.mapping is not None):
        raise CsdfError("--mapping and one of --platform and --processors belong together")
    if options.mapping is None and holds_mapping(options.file, options.file_limit):
        from csdf.mapping.nsoc import read_nsoc  # slow to import, and seldom needed

        mapped = read_nsoc(options.file, options.file_limit)
        graph_input.tell_sizes(options.file, options, 0, buffers=len(mapped.mapping.buffers))
        return concurrency.limited(mapped.graph, options), mapped.platform, mapped.mapping
    graph = concurrency.read(options.file, options)
    if options.mapping is None:
        return graph, None, None
    mapping = read_mapping(options.mapping)
    if options.platform is not None:
        return graph, read_platform(options.platform), mapping
    return graph, equal_processors(options.processors), mapping


def _answer(
    graph: Graph,
    platform: Platform | None,
    mapping: Mapping | None,
    options: argparse.Namespace,
    stop: Stop,
) -> Any:
    source, sink = options.source, options.sink
    period = parsers.period_of(options)
    if period is not None:
        at_period = source_latency(
            graph, source, sink, period, platform=platform, mapping=mapping, budget=stop
        )
        return NOT_ASKED | at_period.to_json()
    if platform is not None and mapping is not None:
        same_iteration, dependent, distance = ordered_latency(
            graph, platform, mapping, source, sink, budget=stop
        )
        row: dict[str, Any] = {"distance": int(distance), "latency": same_iteration}
        row["dependency_latency"] = dependent
    else:
        paired = dependency_latency(graph, source, sink, budget=stop)
        time = paired.self_timed
        row = {"distance": paired.distance, "latency": time, "minimal": paired.minimal}
        row |= {"dependency_latency": time, "reason": paired.reason}
        if paired.distance:
            try:
                row["latency"] = latency(graph, source=source, sink=sink, budget=stop)
            except NoRecurrence as error:
                row |= {"latency": None, "reason": error.reason}
    return NOT_ASKED | {"source": source, "sink": sink} | as_json(row)


def _lines(graph: Graph, row: dict[str, Any]) -> list[str]:
    ends = f"from {row['source']} to {row['sink']}"
    if row["period"] is not None and row["latency"] is None:
        minimum = answers.number(Fraction(row["min_period"]))
        why = f"tokens accumulate without bound after a source of period {row['period']}"
        return answers.table(
            f"{graph.name}: no latency {ends}: {why}", [("next", f"--period {minimum} or more")]
        )
    number, jitter, steady = row["distance"], row["jitter"], row["steady_jitter"]
    dependent = f"to the first dependent iteration, {number} later"
    later = dependent if number else "to the same iteration"
    after = "" if steady == jitter else f"; {steady} after the transient"
    notes = {
        "dependency_latency": ("dependency latency", later),
        "minimal": (
            "minimal latency",
            "if all firings that do not depend on the source end before its start",
        ),
        "max_release_delay": ("max. release delay", "of the source"),
        "jitter": ("jitter", f"of the ends of the sink's firings{after}"),
    }
    source, sink = row["source"], row["sink"]
    never = f"none: the long-run rates of {source!r} and {sink!r} differ"
    then = f"capacities, so that {source!r} and {sink!r} keep pace, or --period: an even source"
    if row["reason"] is not None:
        never = f"unknown: {row['reason']}"
        then = "capacities, so that no actor runs ahead for ever"
    rows = []
    for key, (name, note) in notes.items():
        if row[key] is not None:
            rows.append((name, f"{answers.number(Fraction(row[key])):<14} {note}"))
        elif "latency" in key:
            rows.append((name, never))
    value = None if row["latency"] is None else Fraction(row["latency"])
    words = never if value is None else f"{answers.number(value)} time unit{plural(value)}"
    title = f"{graph.name}: latency {ends}: {words}, to the end of the same iteration"
    if value is not None:
        return answers.table(title, rows)
    return answers.table(title.partition(", to the")[0], [*rows, ("next", then)])
