"""`csdf buffers`: the smallest capacities without deadlock, or fast enough."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from csdf.analysis.bounded import with_capacities
from csdf.analysis.judge import check_periodic_schedule
from csdf.analysis.schedules import periodic_schedule
from csdf.analysis.throughput import throughput
from csdf.cli import answers, parsers, storage_options
from csdf.cli.deadline import deadline
from csdf.io.fifo_depths import depth_table, folding_config, parse_depths
from csdf.io.files import read_bytes, write_text
from csdf.io.graph_files import write_graph
from csdf.model.graph import Graph
from csdf.search.pareto import SmallestStorage
from csdf.search.trade_off import smallest_storage

JUDGED_CYCLES = 3  # of each actor that the judge looks at
EXIT_CODES = {
    "optimal": answers.ANSWERED,
    "feasible": answers.ANSWERED,
    "infeasible": answers.NO,
    "gave up": answers.GAVE_UP,
}


def main(argv: Sequence[str]) -> int:
    """Print the smallest storage; return the exit code."""
    options = command_parser().parse_args(argv)
    with deadline(options.budget):
        graph = answers.read(options.file, options)
        if options.check:
            return _check(graph, options)
        return _search(graph, options)


def _search(graph: Graph, options: argparse.Namespace) -> int:
    period = options.period if options.throughput is None else 1 / options.throughput
    begin = time.perf_counter()
    result = smallest_storage(
        graph,
        storage_options.choice_of(options),
        period=period,
        watch=storage_options.watch(options.budget),
    )
    seconds = time.perf_counter() - begin
    if options.output and result.point is not None:
        write_graph(options.output, with_capacities(graph, result.point.capacities))
    if options.schedule and result.point is not None:
        _write_schedule(options.schedule, graph, result.point.capacities)
    if options.format != "table":
        return _print_depths(graph, result, options.format)
    if options.json:
        print(json.dumps(_as_json(graph, result, options.unit, seconds), indent=2))
    else:
        print(_as_text(graph, result, options.unit, seconds))
    return EXIT_CODES[result.status]


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of this command."""
    parser = parsers.new_parser(
        "csdf buffers",
        "The smallest storage with which a graph runs for ever, or reaches a period, "
        "and a capacity for every channel. Self-loops stay unbounded unless asked for.",
        "csdf buffers models/graphs/csdf_example.xml",
        "csdf buffers models/graphs/csdf_example.xml --period 14 -o bounded.xml",
    )
    parser.add_argument("file", metavar="FILE", help=parsers.GRAPH_HELP)
    need = parser.add_mutually_exclusive_group()
    need.add_argument(
        "--period", type=answers.above_zero, metavar="TIME", help="at most so long; 7, 3/2 or 1.5"
    )
    need.add_argument(
        "--throughput",
        type=answers.above_zero,
        metavar="RATE",
        help="at least so many iterations a time unit",
    )
    parsers.add_output_option(
        parser, "the graph with these capacities: .xml, .json or .dot", required=False
    )
    parser.add_argument(
        "--schedule", metavar="FILE", help="a periodic schedule in these capacities, as JSON"
    )
    form = parser.add_mutually_exclusive_group()
    parsers.add_json_option(form)
    form.add_argument(
        "--format",
        choices=("table", "folding", "depths"),
        default="table",
        help="folding: FIFO depths as FINN-style folding JSON; depths: by FIFO, hls4ml-style",
    )
    parser.add_argument(
        "--check", metavar="FILE", help="do not search: what do the depths in this file do?"
    )
    storage_options.add_choice_options(parser)
    return parser


def _print_depths(graph: Graph, result: SmallestStorage, style: str) -> int:
    if result.point is None:
        print(f"csdf buffers: {result.status}: {result.reason}", file=sys.stderr)
    else:
        depths = result.point.capacities
        print(folding_config(graph, depths) if style == "folding" else depth_table(depths), end="")
    return EXIT_CODES[result.status]


def _write_schedule(path: str, graph: Graph, capacities: Mapping[str, int]) -> None:
    """Write start times that repeat, after the judge has seen some iterations of them."""
    bounded = with_capacities(graph, capacities)
    with answers.working(f"scheduling {graph.name}"):
        schedule = periodic_schedule(bounded)
        if schedule is None:
            raise AssertionError("a distribution that runs has a schedule")
        check_periodic_schedule(bounded, schedule, firings=JUDGED_CYCLES)
    write_text(path, json.dumps(schedule.to_json(), indent=2) + "\n")


def _check(graph: Graph, options: argparse.Namespace) -> int:
    """Say what given depths do: the period they leave, or the cycle that deadlocks."""
    name = options.check
    depths = parse_depths(read_bytes(name).decode("utf-8", "replace"), graph, name)
    with answers.working(f"analysing {graph.name} in these depths"):
        result = throughput(with_capacities(graph, depths))
    total = sum(depths.values())
    if options.json:
        found = {"graph": graph.name, "capacities": depths, "size": total, **result.to_json()}
        print(json.dumps(found, indent=2))
        return answers.ANSWERED if result.deadlock is None else answers.NO
    if result.deadlock is not None:
        print(f"{graph.name}: {len(depths)} depths, {total} tokens: deadlock: {result.deadlock}")
        return answers.NO
    print(
        f"{graph.name}: {len(depths)} depths, {total} tokens: "
        f"period {answers.number(result.period or 0)}"
    )
    return answers.ANSWERED


def _as_json(graph: Graph, result: SmallestStorage, unit: str, seconds: float) -> dict[str, Any]:
    found = result.to_json()
    return {"graph": graph.name, "unit": unit, **found, "seconds": round(seconds, 6)}


def _as_text(graph: Graph, result: SmallestStorage, unit: str, seconds: float) -> str:
    lines = [f"{graph.name}: {result.status}: {result.reason}"]
    point = result.point
    if point is None:
        lines.append(f"  size       at least {result.lower_bound} {unit}")
    else:
        proof = "proved the smallest" if result.status == "optimal" else _gap(result)
        lines += [
            f"  size       {point.size} {unit}, {proof}",
            f"  period     {answers.number(point.period)}",
            *_capacities(point.capacities),
        ]
    lines.append(f"  search     {result.evaluations} distributions, {seconds * 1000:.3g} ms")
    return "\n".join(lines)


def _gap(result: SmallestStorage) -> str:
    gap = float(result.gap or 0)
    return f"at most {gap:.2%} above the smallest (at least {result.lower_bound})"


def _capacities(capacities: Any) -> list[str]:
    width = max((len(name) for name in capacities), default=0)
    return [
        f"  {'capacities' if i == 0 else '':<10} {name:<{width}} {capacity}"
        for i, (name, capacity) in enumerate(capacities.items())
    ]
