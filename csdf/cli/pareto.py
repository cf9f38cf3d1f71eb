"""`csdf pareto`: the storage/throughput front."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from csdf.cli import answers, loading, parsers
from csdf.cli.frame import output
from csdf.cli.frame.long_work import limited, telling
from csdf.cli.options import concurrency, storage
from csdf.model.graph import Graph
from csdf.search.memory_cost import OBJECTIVES, memory_front
from csdf.search.pareto import ParetoFront, ParetoPoint
from csdf.search.trade_off import pareto_front
from csdf.time_limit import Stop
from csdf.words import time_in_words


def main(argv: Sequence[str]) -> int:
    """Print the front; return the exit code: 0 complete, 1 a deadlock, 3 incomplete."""
    parser = command_parser()
    options = parser.parse_args(argv)
    storage.take_objective(parser, options)
    loading.require_drawing(options.plot)
    with limited(options.time_limit) as stop:
        graph = storage.read(options.file, options)
        begin = time.perf_counter()
        front = _front(graph, options, telling(stop, storage.in_words))
    seconds = time.perf_counter() - begin
    if options.json:
        print(answers.json_text(_as_json(graph, front, options.unit, seconds), options))
    else:
        print(_as_csv(front) if options.csv else _as_text(graph, front, options, seconds))
    if options.plot:
        _plot(options, graph, front)
    return _exit_code(front)


def _front(graph: Graph, options: argparse.Namespace, stop: Stop) -> ParetoFront:
    choice, extent = (
        storage.choice_of(options),
        {"max_size": options.max_size, "points": options.points, "gap": options.gap},
    )
    if options.objective in OBJECTIVES:
        cost = OBJECTIVES[options.objective]
        return memory_front(graph, choice, cost, budget=stop, **extent)
    return pareto_front(graph, choice, budget=stop, **extent)


def _exit_code(front: ParetoFront) -> int:
    if front.best_period is None or (front.is_as_asked and not front.points):
        return answers.NO
    return answers.ANSWERED if front.is_complete or front.is_as_asked else answers.UNKNOWN


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of this command."""
    parser = parsers.new_parser(
        "csdf pareto",
        "All pairs of storage size and period that no storage distribution improves "
        "on, with capacities for each. Ctrl-C and the time limit give what is proved by then.",
        "csdf pareto models/graphs/csdf_example.xml",
        "csdf pareto models/graphs/csdf_example.xml --plot front.svg",
        "csdf pareto models/graphs/modem.xml --points 3 --gap 5%",
    )
    parser.add_argument("file", metavar="FILE", help=parsers.GRAPH_HELP)
    _add_extent_options(parser)
    storage.add_objective(parser)
    storage.add_choice_options(parser)
    form = parser.add_mutually_exclusive_group()
    parsers.add_json_option(form)
    form.add_argument("--csv", action="store_true", help="print one line for each point")
    parsers.add_plot_option(parser, "the front")
    return parser


def _add_extent_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that end a long front."""
    parser.add_argument(
        "--max-size", type=answers.size, metavar="SIZE", help="no larger distribution"
    )
    parser.add_argument("--points", type=answers.positive, metavar="N", help="no more points")
    parser.add_argument(
        "--gap",
        type=answers.share,
        metavar="PERCENT",
        default=Fraction(0),
        help="fewer points: no size has a period that is shorter than listed by more than this, "
        "such as 5%%; default: 0%%",
    )


def _plot(options: argparse.Namespace, graph: Graph, front: ParetoFront) -> None:
    draw, suffix = loading.drawing("csdf.draw.charts"), loading.suffix_of(options.plot)
    output.write(
        "csdf pareto", options.plot, draw.front_picture(graph.name, front, options.unit, suffix)
    )


def _as_json(graph: Graph, front: ParetoFront, unit: str, seconds: float) -> dict[str, Any]:
    found = front.to_json()
    return {"graph": graph.name, "unit": unit, **found, "seconds": round(seconds, 6)}


def _as_csv(front: ParetoFront) -> str:
    from csdf.io.csv_text import csv_text  # slow to import, and seldom needed

    names = list(front.points[0].capacities) if front.points else []
    rows: list[list[object]] = [["size", "period", "throughput", *names]]
    for point in front.points:
        capacities = [point.capacities[name] for name in names]
        rows.append([point.size, point.period, point.throughput, *capacities])
    return csv_text(rows).rstrip("\n")


def _as_text(graph: Graph, front: ParetoFront, options: argparse.Namespace, seconds: float) -> str:
    unit, method = options.unit, options.method
    state = "complete" if front.is_complete else "AS ASKED" if front.is_as_asked else "INCOMPLETE"
    lines = [
        f"{graph.name}: {answers.counted(len(front.points), 'point')}, {state}: {front.reason}"
    ]
    hint = concurrency.hint(graph) if front.best_period == 0 else None
    if hint and not front.is_complete:
        lines.append(f"hint: {hint}; --points or --max-size go on, or end sooner")
    if front.points:
        names = list(front.points[0].capacities)
        lines.append(f"{'size (' + unit + ')':>16}  {'period':<28} capacities: {', '.join(names)}")
    if method != "exact":
        lines.append(f"method {method}: {parsers.STORAGE}")
    for point in front.points:
        capacities = " ".join(str(capacity) for capacity in point.capacities.values())
        lines.append(f"{point.size:>16}  {answers.number(point.period or 0):<28} {capacities}")
    if not front.is_complete and front.best_period is not None:
        best = answers.number(front.best_period)
        lines.append(f"points may be missing from size {front.lower_bound} on; best period {best}")
    if front.start is not None:
        lines += _start(front.start, front.lower_bound, unit)
    lines.append(
        f"{answers.counted(front.evaluations, 'distribution')} evaluated, {time_in_words(seconds)}"
    )
    return answers.one_text(lines)


def _start(start: ParetoPoint, lower_bound: int, unit: str) -> list[str]:
    """Return a distribution known to run, where not even the first point of the front was proved."""
    period = "unknown" if start.period is None else answers.number(start.period)
    gap = answers.gap_above(start.size, lower_bound)
    capacities = " ".join(str(capacity) for capacity in start.capacities.values())
    return [
        f"{start.size} {unit} run, {gap}; period {period}",
        f"with capacities {capacities}",
    ]
