"""`csdf buffers`: the smallest capacities without deadlock, or fast enough."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from csdf.analysis.bound_channels import with_capacities
from csdf.analysis.schedule_checker import check_periodic_schedule
from csdf.analysis.schedules import periodic_schedule
from csdf.analysis.throughput import throughput
from csdf.cli import answers, parsers
from csdf.cli.frame.long_work import limited, telling
from csdf.cli.options import storage
from csdf.errors import UnwritableFile
from csdf.io.files import read_bytes, suffix_of, write_text
from csdf.io.graph_files import require_format, write_graph
from csdf.model.graph import Graph
from csdf.names import quoted
from csdf.outcome import Status
from csdf.search.latency_storage import LatencyStorage, storage_for_latency
from csdf.search.memory_cost import OBJECTIVES, least_memory
from csdf.search.pareto import SmallestStorage
from csdf.search.trade_off import smallest_storage
from csdf.time_limit import Stop
from csdf.words import time_in_words

DEPTHS = {"folding": "FINN-style folding JSON", "depths": "JSON by FIFO, hls4ml-style"}
MEMORIES = {"bram": "block RAM", "lut": "LUT"}
CHECKED_CYCLES = 3  # of each actor that the checker looks at
EXIT_CODES = {
    Status.OPTIMAL: answers.ANSWERED,
    Status.FEASIBLE: answers.ANSWERED,
    Status.INFEASIBLE: answers.NO,
    Status.UNKNOWN: answers.UNKNOWN,
}


def main(argv: Sequence[str]) -> int:
    """Print the smallest storage; return the exit code."""
    parser = command_parser()
    options = parser.parse_args(argv)
    if options.output:
        _require_format(options)
    if options.check and _of_a_search(options):
        parser.error(f"--check searches nothing; {_of_a_search(options)} belongs to a search")
    storage.take_objective(parser, options)
    period = options.period if options.throughput is None else 1 / options.throughput
    _require_latency(parser, options, period)
    with limited(options.time_limit) as stop:
        graph = storage.read(options.file, options)
        if options.check:
            return _check(graph, period, options, stop)
        return _search(graph, period, options, stop)


def _require_latency(
    parser: argparse.ArgumentParser, options: argparse.Namespace, period: Fraction | None
) -> None:
    """Refuse a latency without what it is measured by, and the other way round."""
    given = [options.latency, options.source, options.sink]
    if any(one is not None for one in given) and (None in given or period is None):
        parser.error("--latency, --source, --sink and --period (or --throughput) belong together")
    if options.latency is not None and (options.method != "exact" or options.check):
        other = "--check" if options.check else f"--method {options.method}"
        parser.error(f"--latency is for self-timed executions, not for {other}")
    if options.latency is not None and options.objective in OBJECTIVES:
        parser.error(f"--latency is for sizes that add up, not for --objective {options.objective}")


def _of_a_search(options: argparse.Namespace) -> str | None:
    """The first option that says how to search, or what becomes of what was found."""
    given = {
        "--output": options.output,
        "--schedule": options.schedule,
        "--format": options.format != "table",
        "--unit": options.unit != "tokens",
        "--fixed": options.fixed,
        "--exclude": options.exclude,
        "--share": options.share,
        "--count-self-loops": options.count_self_loops,
        "--method": options.method != "exact",
    }
    return next((name for name, value in given.items() if value), None)


def _search(graph: Graph, period: Fraction | None, options: argparse.Namespace, stop: Stop) -> int:
    begin = time.perf_counter()
    result = _found(graph, period, options, telling(stop, storage.in_words))
    seconds = time.perf_counter() - begin
    if options.output and result.point is not None:
        _write(options.output, graph, result.point.capacities, options.format)
    if options.schedule and result.point is not None:
        _write_schedule(options, graph, result.point.capacities)
        _remark(f"wrote {options.schedule}: a schedule in these capacities")
    if options.format != "table" and not options.output:
        return _print_depths(graph, result, options.format)
    if options.json:
        print(answers.json_text(_as_json(graph, result, options, seconds), options))
    else:
        print(_as_text(graph, result, options, seconds))
    return EXIT_CODES[result.status]


def _found(
    graph: Graph, period: Fraction | None, options: argparse.Namespace, stop: Stop
) -> SmallestStorage | LatencyStorage:
    choice = storage.choice_of(options)
    if options.objective in OBJECTIVES:
        cost = OBJECTIVES[options.objective]
        return least_memory(graph, choice, cost, period=period, budget=stop)
    if options.latency is None or period is None:
        return smallest_storage(graph, choice, period=period, budget=stop)
    return storage_for_latency(
        graph,
        options.source,
        options.sink,
        period=period,
        latency=options.latency,
        choice=choice,
        budget=stop,
    )


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
        help="at least so many iterations per time unit",
    )
    parser.add_argument(
        "--latency",
        type=answers.above_zero,
        metavar="TIME",
        help="at most so long from the release of an iteration of the source, which is released evenly "
        "in the period, to the end of what needs it at the sink",
    )
    parser.add_argument("--source", metavar="ACTOR", help="of --latency: whose inputs are answered")
    parser.add_argument("--sink", metavar="ACTOR", help="of --latency: who answers")
    parsers.add_output_option(
        parser,
        "the graph with these capacities: .xml, .json or .dot; with --format folding or depths "
        "these depths: .json",
        required=False,
    )
    parser.add_argument(
        "--schedule",
        type=parsers.output_file,
        metavar="FILE",
        help="a periodic schedule in these capacities, as JSON",
    )
    form = parser.add_mutually_exclusive_group()
    parsers.add_json_option(form)
    form.add_argument(
        "--format",
        choices=("table", "folding", "depths"),
        default="table",
        help="what is printed, or written by -o; folding: FIFO depths as FINN-style folding JSON; "
        "depths: by FIFO, hls4ml-style",
    )
    parser.add_argument(
        "--check",
        metavar="FILE",
        help="do not search: what do the depths in this file do, and are they fast enough?",
    )
    storage.add_objective(parser)
    storage.add_choice_options(parser)
    return parser


def _require_format(options: argparse.Namespace) -> None:
    """Refuse a suffix that promises another format than the one that -o is to write."""
    if options.format == "table":
        require_format(options.output)
    elif suffix_of(options.output) != ".json":
        raise UnwritableFile(f"{options.output}: FIFO depths are JSON; expected the suffix .json")


def _write(path: str, graph: Graph, capacities: Mapping[str, int], style: str) -> None:
    """Write what -o asks for: the graph in these capacities, or the depths of its FIFOs."""
    if style == "table":
        write_graph(path, with_capacities(graph, capacities))
        _remark(f"wrote {path}: the graph with these capacities")
    else:
        write_text(path, _depths(graph, capacities, style))
        _remark(f"wrote {path}: FIFO depths as {DEPTHS[style]}")


def _depths(graph: Graph, capacities: Mapping[str, int], style: str) -> str:
    from csdf.io import fifo_depths  # slow to import, and seldom needed

    if style == "folding":
        return fifo_depths.folding_config(graph, capacities)
    return fifo_depths.depth_table(capacities)


def _print_depths(graph: Graph, result: SmallestStorage | LatencyStorage, style: str) -> int:
    if result.point is None:
        _remark(f"{result.status}: {result.reason}")
    else:
        print(_depths(graph, result.point.capacities, style), end="")
    return EXIT_CODES[result.status]


def _write_schedule(
    options: argparse.Namespace, graph: Graph, capacities: Mapping[str, int]
) -> None:
    """Write start times that repeat, after the checker has seen some iterations of them.

    They are of the kind that the storage was searched for.
    """
    bounded = with_capacities(graph, capacities)
    with answers.working(f"scheduling {graph.name}"):
        schedule = periodic_schedule(bounded, copies=parsers.copies_of(options.method))
        if schedule is None:
            raise AssertionError("a distribution that runs has a schedule")
        check_periodic_schedule(bounded, schedule, firings=CHECKED_CYCLES)
    write_text(options.schedule, answers.json_text(schedule.to_json()) + "\n")


def _remark(text: str) -> None:
    print(f"csdf buffers: {quoted(text)}", file=sys.stderr)


def _check(graph: Graph, required: Fraction | None, options: argparse.Namespace, stop: Stop) -> int:
    """Say what given depths do: the period they leave, or the cycle that deadlocks.

    The answer is "no" for a deadlock, and for a period above the required one.
    """
    name = options.check
    from csdf.io.fifo_depths import parse_depths  # slow to import, and seldom needed

    depths = parse_depths(read_bytes(name).decode("utf-8", "replace"), graph, name)
    with answers.working(f"analysing {graph.name} in these depths"):
        result = throughput(with_capacities(graph, depths), budget=stop)
    total = sum(depths.values())
    is_slow = required is not None and result.period is not None and result.period > required
    if options.json:
        found = {"graph": graph.name, "capacities": depths, "size": total, **result.to_json()}
        if required is not None:
            found["required_period"] = str(required)
        print(answers.json_text(found, options))
    else:
        verdict = f"deadlock: {result.deadlock}"
        if result.deadlock is None:
            verdict = f"period {answers.number(result.period or 0)}"
        if is_slow:
            verdict += f", too slow: at most {answers.number(required or 0)} is required"
        sizes = f"{answers.counted(len(depths), 'depth')}, {answers.counted(total, 'token')}"
        print(f"{quoted(graph.name)}: {sizes}: {verdict}")
    return answers.NO if is_slow or result.deadlock is not None else answers.ANSWERED


def _as_json(
    graph: Graph,
    result: SmallestStorage | LatencyStorage,
    options: argparse.Namespace,
    seconds: float,
) -> dict[str, Any]:
    found = {"unit": options.unit, "method": options.method, **result.to_json()}
    return {"graph": graph.name, **found, "seconds": round(seconds, 6)}


def _as_text(
    graph: Graph,
    result: SmallestStorage | LatencyStorage,
    options: argparse.Namespace,
    seconds: float,
) -> str:
    lines = [f"{graph.name}: {result.status}: {result.reason}"]
    if options.method != "exact":
        lines.append(f"  method     {options.method}: {parsers.STORAGE}")
    point, unit = result.point, options.unit
    if point is None and result.status is not Status.INFEASIBLE:  # else no size would do
        lines.append(f"  size       at least {_sized(result.lower_bound, unit)}")
    if point is not None:
        proof = (
            "proved the smallest"
            if result.status is Status.OPTIMAL
            else answers.gap_above(point.size, result.lower_bound)
        )
        lines += [
            f"  size       {_sized(point.size, unit)}, {proof}",
            f"  period     {_period(point.period)}",
            *_latency(result),
            *_capacities(point.capacities),
        ]
    evaluated = answers.counted(result.evaluations, "distribution")
    lines.append(f"  search     {evaluated}, {time_in_words(seconds)}")
    return answers.one_text(lines)


def _sized(size: int, unit: str) -> str:
    if unit in MEMORIES:
        return answers.counted(size, MEMORIES[unit])
    return f"{size} {unit}"


def _latency(result: SmallestStorage | LatencyStorage) -> list[str]:
    if not isinstance(result, LatencyStorage) or result.latency is None:
        return []
    return [f"  latency    {answers.number(result.latency)}"]


def _period(period: Fraction | None) -> str:
    return "unknown; finding it takes too long" if period is None else answers.number(period)


def _capacities(capacities: Any) -> list[str]:
    width = max((len(name) for name in capacities), default=0)
    return [
        f"  {'capacities' if i == 0 else '':<10} {name:<{width}} {capacity}"
        for i, (name, capacity) in enumerate(capacities.items())
    ]
