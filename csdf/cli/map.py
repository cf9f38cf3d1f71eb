"""`csdf map`: actors on processors, in static orders, for the least period."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from fractions import Fraction
from itertools import groupby
from math import ceil
from typing import Any, NamedTuple

from csdf.analysis.consistency import repetition_vector
from csdf.analysis.mapping.execution import MappedExecution, mapped_execution
from csdf.analysis.mapping.throughput import MappedThroughput, mapped_throughput
from csdf.cli import answers, parsers, pictures
from csdf.cli.frame import output
from csdf.cli.frame.long_work import stop_after, working
from csdf.cli.frame.output import remark
from csdf.errors import CsdfError
from csdf.io.mapping.files import read_mapping, read_platform, write_mapping
from csdf.io.mapping.nsoc import holds_mapping, read_nsoc
from csdf.model.graph import Graph
from csdf.model.mapping import Core, Mapping, Platform, StaticOrder
from csdf.outcome import Status
from csdf.search.mapping.search import BestMapping, best_mapping, prover

DRAWN = 4  # iterations in a picture beyond those of the prefixes
RUNS = 16  # most runs of equal actors of an order that are listed


class Answer(NamedTuple):
    """What is to be said. best: what the search says of the mapping, where there was a search."""

    graph: Graph
    platform: Platform
    mapping: Mapping
    found: MappedThroughput
    best: BestMapping | None


def main(argv: Sequence[str]) -> int:
    """Analyse or search a mapping; return the exit code."""
    options = command_parser().parse_args(argv)
    pictures.require_drawing(options.plot)
    answer = _answer(options)
    is_live = answer.found.deadlock is None
    execution = _executed(answer, None) if is_live and options.slices == "aligned" else None
    if options.output:
        write_mapping(options.output, answer.mapping)
        output.remark("csdf map", f"wrote {options.output}: the mapping")
    if options.json:
        print(json.dumps(_as_json(answer, execution), indent=2))
    else:
        print(_as_text(answer, execution))
    if options.plot and is_live:
        _plot(options.plot, answer)
    if answer.found.deadlock is not None:
        return answers.NO
    return answers.ANSWERED


def _plot(path: str, answer: Answer) -> None:
    execution = _executed(answer, _drawn_iterations(answer))
    draw, suffix = pictures.drawing("csdf.draw.gantt"), pictures.suffix_of(path)
    title = f"{answer.graph.name}: period {answer.found.period}"
    output.write("csdf map", path, draw.gantt_picture(title, execution, suffix))


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of this command."""
    parser = parsers.new_parser(
        "csdf map",
        "Bind actors to processors and order their firings, for the smallest period; or the exact "
        "period of a mapping that is given.",
        "csdf map models/graphs/mp3decoder.xml --processors 4",
        "csdf map models/graphs/csdf_example.xml --platform models/platforms/two_with_a_bus.json",
        notes="Each processor repeats a list of firings for ever, after a prefix that fills the "
        "pipeline, and waits where the next one cannot start. Smallest means: of all bindings and all "
        "lists with the firings of one iteration, whatever their prefixes.",
    )
    parser.add_argument(
        "file",
        metavar="FILE",
        help=f"{parsers.GRAPH_HELP}; or SDF3 XML with architectureGraph and mapping",
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--platform", metavar="FILE", help="processors and connections, as JSON (docs/mapping.md)"
    )
    where.add_argument(
        "--processors",
        type=answers.positive,
        metavar="N",
        help="that many equal ones, between which tokens move in no time",
    )
    parser.add_argument(
        "--mapping", metavar="FILE", help="analyse this mapping instead of a search"
    )
    parsers.add_output_option(parser, "write the mapping as JSON", required=False)
    parser.add_argument(
        "--slices",
        choices=("any", "aligned"),
        default="any",
        help="wheels start at any time (an upper bound, the default), or all at 0 (exact)",
    )
    parsers.add_json_option(parser)
    parsers.add_plot_option(parser, "the firings by processor over time")
    parsers.add_budget_option(parser, "end the search with the best mapping by then")
    answers.add_reading_options(parser)
    return parser


def _answer(options: argparse.Namespace) -> Answer:
    if options.platform is None and options.processors is None:
        if not holds_mapping(options.file):
            raise CsdfError(
                f"{options.file}: no platform in it; give --platform FILE or --processors N"
            )
        graph, platform, mapping = read_nsoc(options.file)
    else:
        graph = answers.read(options.file, options)
        platform = _platform(options)
        if options.mapping is None:
            return _searched(graph, platform, options)
        mapping = read_mapping(options.mapping)
    with working(f"analysing the mapping of {graph.name}"):
        found = mapped_throughput(graph, platform, mapping)
    return Answer(graph, platform, mapping, found, None)


def _platform(options: argparse.Namespace) -> Platform:
    if options.platform is not None:
        return read_platform(options.platform)
    names = [f"p{number}" for number in range(options.processors)]
    return Platform(name="equal processors", cores=tuple(Core(name=name) for name in names))


def _searched(graph: Graph, platform: Platform, options: argparse.Namespace) -> Answer:
    stop = stop_after(options.budget, lambda one: f"mapping {graph.name}: {one.at}")
    best = best_mapping(graph, platform, budget=stop)
    if best.status != Status.OPTIMAL and prover() is None:
        remark("csdf map", "OR-Tools proves more of small graphs: pip install 'csdf[cp]'")
    return Answer(graph, platform, best.mapping, best.found, best)


def _executed(answer: Answer, iterations: int | None) -> MappedExecution:
    with working(f"executing {answer.graph.name}"):
        return mapped_execution(
            answer.graph, answer.platform, answer.mapping, iterations=iterations
        )


def _drawn_iterations(answer: Answer) -> int:
    """Return how many iterations a picture shows: the prefixes and some more."""
    repetitions = repetition_vector(answer.graph)
    begun = [
        Fraction(order.prefix.count(actor), repetitions[actor])
        for order in answer.mapping.orders.values()
        for actor in order.prefix
    ]
    return ceil(max(begun, default=Fraction(0))) + DRAWN


def _as_json(answer: Answer, execution: MappedExecution | None) -> dict[str, Any]:
    found: dict[str, Any] = {
        "graph": answer.graph.name,
        "processors": [core.name for core in answer.platform.cores],
        **answer.found.to_json(),
        "mapping": answer.mapping.to_json(),
    }
    if answer.best is not None:
        found |= {
            "lower_bound": str(answer.best.lower_bound),
            "gap": None if answer.best.gap is None else str(answer.best.gap),
            "status": answer.best.status,
        }
    if execution is not None:
        found["period_aligned"] = str(execution.period)
    return found


def _as_text(answer: Answer, execution: MappedExecution | None) -> str:
    count = answers.counted(len(answer.platform.cores), "processor")
    lines = [f"{answer.graph.name} on {count}"]
    lines += [f"  {title:<13}{text}" for title, text in _rows(answer, execution)]
    width = max(len(core.name) for core in answer.platform.cores)
    for core in answer.platform.cores:
        order = answer.mapping.orders.get(core.name)
        use = answer.found.utilization.get(core.name, 0)
        shown = "nothing" if order is None else _order(order)
        lines.append(f"  {core.name:<{width}} {float(use):>7.1%}  {shown}")
    return answers.one_text(lines)


def _rows(answer: Answer, execution: MappedExecution | None) -> list[tuple[str, str]]:
    found = answer.found
    if found.period is None:
        return [("deadlock", str(found.deadlock)), ("throughput", "0")]
    rows = [("period", answers.number(found.period))]
    if answer.best is not None:
        rows[0] = ("period", f"{answers.number(found.period)}, {_verdict(answer.best)}")
    if any(core.wheel for core in answer.platform.cores):
        rows.append(("", "for wheels that start at any time: an upper bound"))
        if execution is not None and execution.period is not None:
            rows.append(
                ("aligned", f"{answers.number(execution.period)}, all wheels from time 0 on")
            )
    cycle = found.critical_cycle
    if cycle is not None:
        rows.append(("limited by", ", ".join(cycle.actors[:12])))
        rows.append(("", f"over {', '.join(cycle.channels[:6])}"))
    return rows


def _verdict(best: BestMapping) -> str:
    if best.status == Status.OPTIMAL:
        return "optimal"
    return f"at most {float(best.gap or 0):.1%} above the bound {answers.number(best.lower_bound)}"


def _order(order: StaticOrder) -> str:
    first = f"{_runs(order.prefix)}; then " if order.prefix else ""
    return f"{first}for ever {_runs(order.periodic)}"


def _runs(actors: Sequence[str]) -> str:
    """Return a list of actors, those that follow themselves with their number."""
    runs = [(actor, len(list(same))) for actor, same in groupby(actors)]
    shown = [actor if count == 1 else f"{count} {actor}" for actor, count in runs[:RUNS]]
    return ", ".join(shown) + (f" and {len(runs) - RUNS} more" if len(runs) > RUNS else "")
