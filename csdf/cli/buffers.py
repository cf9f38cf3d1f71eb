"""`csdf buffers`: the smallest capacities without deadlock, or for a required period."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from fractions import Fraction

from csdf.analysis.bound_channels import with_capacities
from csdf.analysis.liveness import deadlock
from csdf.analysis.schedule_checker import check_periodic_schedule
from csdf.analysis.schedules import periodic_schedule
from csdf.analysis.throughput import throughput
from csdf.cli import answers, option_values, parsers
from csdf.cli.frame.long_work import limited, telling
from csdf.cli.frame.output import remark
from csdf.cli.options import storage
from csdf.errors import UnwritableFile
from csdf.io.files import read_bytes, suffix_of, write_text
from csdf.io.graph_files import require_format, write_graph
from csdf.model.graph import Graph
from csdf.search.latency_storage import LatencyStorage, storage_for_latency
from csdf.search.memory_cost import OBJECTIVES, least_memory
from csdf.search.pareto import SmallestStorage
from csdf.search.searched_graph import GraphWhy
from csdf.search.trade_off import smallest_storage
from csdf.status import Status
from csdf.time_limit import Stop
from csdf.units import time_in_words

PROGRAM = "csdf buffers"
DEPTHS = {"folding": "FINN-style folding JSON", "depths": "JSON by FIFO, hls4ml-style"}
MEMORIES = {"bram": "block RAM", "lut": "LUT"}
CHECKED_CYCLES = 3  # of each actor that the checker looks at
EXIT_CODES = {
    Status.OPTIMAL: answers.ANSWERED,
    Status.FEASIBLE: answers.ANSWERED,
    Status.INFEASIBLE: answers.NO,
    Status.UNKNOWN: answers.UNKNOWN,
}


def work(options: argparse.Namespace) -> int:
    """Print the smallest storage; return the exit code."""
    if options.output and options.format == "table":
        require_format(options.output)
    elif options.output and suffix_of(options.output) != ".json":
        raise UnwritableFile(f"{options.output}: FIFO depths are JSON; expected the suffix .json")
    if options.check and _of_a_search(options):
        options.refuse(f"--check searches nothing; {_of_a_search(options)} belongs to a search")
    storage.take_objective(options)
    period = parsers.period_of(options)
    _require_latency_options(options, period)
    with limited(options.time_limit) as stop:
        graph = storage.read(options.file, options)
        if options.check:
            return _check(graph, period, options, stop)
        return _search(graph, period, options, stop)


def _require_latency_options(options: argparse.Namespace, period: Fraction | None) -> None:
    """Refuse a latency without its ends or its period, or with an option that knows no latency."""
    values = (options.latency, options.source, options.sink)
    if values == (None, None, None):
        return
    if None in (*values, period):
        options.refuse("--latency, --source, --sink and --period (or --throughput) belong together")
    without_latency = {
        "--check": options.check,
        f"--method {options.method}": options.method != "exact",
        "--schedule": options.schedule,
    }
    if conflicts := [name for name, is_given in without_latency.items() if is_given]:
        options.refuse(f"--latency is for self-timed executions, not for {conflicts[0]}")
    if options.objective in OBJECTIVES:
        conflicting = f"--objective {options.objective}"
        options.refuse(f"--latency is for sizes that add up, not for {conflicting}")


def _of_a_search(options: argparse.Namespace) -> str | None:
    """The first option that says how to search, or what becomes of what was found."""
    options_used = {
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
    return next((name for name, value in options_used.items() if value), None)


def _search(graph: Graph, period: Fraction | None, options: argparse.Namespace, stop: Stop) -> int:
    begin = time.perf_counter()
    storage_found = _found(graph, period, options, telling(stop, storage.in_words))
    seconds = time.perf_counter() - begin
    style = options.format
    if storage_found.point is not None:
        capacities = storage_found.point.capacities
        if options.output and style == "table":
            write_graph(options.output, with_capacities(graph, capacities))
            remark(PROGRAM, f"wrote {options.output}: the graph with these capacities")
        elif options.output:
            write_text(options.output, _depths(graph, capacities, style))
            remark(PROGRAM, f"wrote {options.output}: FIFO depths as {DEPTHS[style]}")
        if options.schedule:
            _write_schedule(options, graph, capacities)
    if style == "table" or options.output:
        answer = {"graph": graph.name, "unit": options.unit, "method": options.method}
        answer |= storage_found.to_json() | {"seconds": round(seconds, 6)}
        answers.show(answer, _lines(graph, storage_found, options, seconds), options)
    elif storage_found.point is None:
        remark(PROGRAM, f"{storage_found.status}: {storage_found.reason}")
    else:
        print(_depths(graph, storage_found.point.capacities, style), end="")
    return EXIT_CODES[storage_found.status]


def _found(
    graph: Graph, period: Fraction | None, options: argparse.Namespace, stop: Stop
) -> SmallestStorage | LatencyStorage:
    choice = storage.choice_of(options)
    if options.objective in OBJECTIVES:
        cost = OBJECTIVES[options.objective]
        return least_memory(graph, choice, cost, period=period, budget=stop)
    if options.latency is None or period is None:
        return smallest_storage(graph, choice, period=period, budget=stop)
    ends, latency = (options.source, options.sink), options.latency
    return storage_for_latency(
        graph, *ends, period=period, latency=latency, space=choice, budget=stop
    )


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of this command."""
    parser = parsers.new_parser(
        "csdf buffers",
        "Minimum storage without deadlock, or for a required period, and the capacity of every "
        "channel. Self-loops are unbounded without --count-self-loops.",
        "csdf buffers models/graphs/csdf_example.xml",
        "csdf buffers models/graphs/csdf_example.xml --period 14 -o bounded.xml",
        work=work,
    )
    rate = "minimum number of iterations per time unit"
    parsers.add_period(parser, "maximum period, such as 7, 3/2 or 1.5", rate)
    parser.add_argument(
        "--latency",
        type=option_values.above_zero,
        metavar="TIME",
        help="maximum latency, from the release of an iteration at the source (evenly spaced in "
        "the period) to the end of the sink firings that depend on it",
    )
    parser.add_argument("--source", metavar="ACTOR", help="source of --latency")
    parser.add_argument("--sink", metavar="ACTOR", help="sink of --latency")
    parsers.add_output_option(
        parser,
        "the graph with these capacities: .xml, .json or .dot; with --format folding or depths "
        "these depths: .json",
    )
    parser.add_argument(
        "--schedule",
        type=parsers.output_file(),
        metavar="FILE",
        help="a periodic schedule in these capacities, as JSON; not with --latency",
    )
    form = parser.add_mutually_exclusive_group()
    parsers.add_json_option(form)
    form.add_argument(
        "--format",
        choices=("table", "folding", "depths"),
        default="table",
        help="format to print, or to write with -o; folding: FIFO depths as FINN-style folding "
        "JSON; depths: by FIFO, hls4ml-style",
    )
    parser.add_argument(
        "--check",
        metavar="FILE",
        help="check the depths in this file instead of searching: deadlock, period, and whether "
        "the required period is met",
    )
    storage.add_choice_options(parser)
    return parser


def _depths(graph: Graph, capacities: Mapping[str, int], style: str) -> str:
    from csdf.io import fifo_depths  # slow to import, and seldom needed

    if style == "folding":
        return fifo_depths.folding_config(graph, capacities)
    return fifo_depths.depth_table(capacities)


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
    remark(PROGRAM, f"wrote {options.schedule}: a schedule in these capacities")


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
    answer = {"graph": graph.name, "capacities": depths, "size": total, **result.to_json()}
    if required is not None:
        answer["required_period"] = str(required)
    verdict, rows = answers.DEADLOCK, []
    if result.deadlock is None:
        verdict = f"period {answers.number(result.period or 0)}"
    else:
        rows = answers.blocked_rows(result.deadlock)
    if is_slow:
        verdict += f", too slow: at most {answers.number(required or 0)} is required"
    sizes = f"{answers.counted(len(depths), 'depth')}, {answers.counted(total, 'token')}"
    answers.show(answer, answers.table(f"{graph.name}: {sizes}: {verdict}", rows), options)
    return answers.NO if is_slow or result.deadlock is not None else answers.ANSWERED


def _lines(
    graph: Graph,
    found: SmallestStorage | LatencyStorage,
    options: argparse.Namespace,
    seconds: float,
) -> list[str]:
    point, unit, status = found.point, options.unit, found.status
    rows = []
    if point is None:
        verdict = f"{status}: {found.reason}"
        if found.reason.has(GraphWhy.DEADLOCKS) and (stuck := deadlock(graph)) is not None:
            verdict, rows = answers.NEVER_LIVE, answers.blocked_rows(stuck)
        if status is not Status.INFEASIBLE:  # else no size would do
            rows.append(("lower bound", _sized(found.lower_bound, unit)))
    else:
        is_proved = status is Status.OPTIMAL
        gap = answers.gap_above(point.size, found.lower_bound)
        proof = "minimum (proved)" if is_proved else gap
        if point.period is None:
            speed = "period unknown (finding it takes too long)"
        else:
            speed = f"period {answers.number(point.period)}"
        if isinstance(found, LatencyStorage) and found.latency is not None:
            speed += f", latency {answers.number(found.latency)}"
        verdict = f"storage {_sized(point.size, unit)}, {proof}; {speed}"
        width = max(map(len, point.capacities), default=0)
        sizes = [f"{name:<{width}} {capacity}" for name, capacity in point.capacities.items()]
        rows += zip(["capacities", *[""] * len(sizes)], sizes, strict=False)
        rows += [] if is_proved else [("stopped", str(found.reason))]
    if options.method != "exact":
        rows.append(("method", f"{options.method}: {parsers.STORAGE_IS_A_BOUND}"))
    evaluated = answers.counted(found.evaluations, "distribution")
    details = [("evaluated", f"{evaluated}, {time_in_words(seconds)}")]
    return answers.table(f"{graph.name}: {verdict}", rows, details)


def _sized(size: int, unit: str) -> str:
    return answers.counted(size, MEMORIES[unit]) if unit in MEMORIES else f"{size} {unit}"
