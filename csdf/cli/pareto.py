"""`csdf pareto`: the storage/throughput front."""

from __future__ import annotations

import argparse
import shlex
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction

from csdf.analysis.liveness import deadlock
from csdf.cli import answers, loading, option_values, parsers
from csdf.cli.frame import output, terminal
from csdf.cli.frame.long_work import limited, telling
from csdf.cli.options import concurrency, storage
from csdf.io.latex import booktabs, escaped
from csdf.model.graph import Graph
from csdf.search.memory_cost import OBJECTIVES, memory_front
from csdf.search.pareto import ParetoFront, ParetoPoint
from csdf.search.trade_off import pareto_front
from csdf.time_limit import Stop
from csdf.units import time_in_words

MAX_LINE_CHARACTERS = 100  # of a line of capacities
# With longer names, capacities that are equal in all points move to a line of their own: size, period
# and the capacities of a point then still fit a line of 100 characters.
MAX_NAMES_CHARACTERS = 40
MAX_TABLE_CHANNELS = 8  # a LaTeX table lists capacities of graphs with at most 8 channels
# Options that change nothing in a complete answer.
PRINTING = {"--plot", "--column", "--table", "--explain", "-v", "-vv", "--verbose"}
PRINTING |= {"--time-limit", "--memory-limit"}


def work(options: argparse.Namespace) -> int:
    """Print the front; return the exit code: 0 complete, 1 a deadlock, 3 incomplete."""
    storage.take_objective(options)
    with limited(options.time_limit) as stop:
        graph = storage.read(options.file, options)
        begin = time.perf_counter()
        front = _front(graph, options, telling(stop, storage.in_words))
    seconds = time.perf_counter() - begin
    if options.csv:
        print(_as_csv(front))
    else:
        head = {"graph": graph.name, "unit": options.unit}
        row = head | front.to_json() | {"seconds": round(seconds, 6)}
        answers.show(row, _lines(graph, front, options, seconds), options)
    about = (graph.name, front, options.unit)
    loading.plot(options, "csdf.draw.charts", "front_picture", *about)
    if options.table:
        output.write(options.program, options.table, _table(graph, front, options.unit))
    if front.best_period is None or (front.is_at_limit and not front.points):
        return answers.NO
    return answers.ANSWERED if front.is_complete or front.is_at_limit else answers.UNKNOWN


def _front(graph: Graph, options: argparse.Namespace, stop: Stop) -> ParetoFront:
    choice = storage.choice_of(options)
    extent = {"max_size": options.max_size, "points": options.points, "gap": options.gap}
    if options.objective in OBJECTIVES:
        cost = OBJECTIVES[options.objective]
        return memory_front(graph, choice, cost, budget=stop, **extent)
    return pareto_front(graph, choice, budget=stop, **extent)


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of this command."""
    parser = parsers.new_parser(
        "csdf pareto",
        "Pareto front of storage size and period over all storage distributions, with capacities "
        "for each point. Ctrl-C and the time limit print the points proved so far.",
        "csdf pareto models/graphs/csdf_example.xml",
        "csdf pareto models/graphs/csdf_example.xml --plot front.svg",
        "csdf pareto models/graphs/modem.xml --points 3 --gap 5%",
        work=work,
    )
    parser.add_argument(
        "--max-size", type=option_values.size, metavar="SIZE", help="maximum size of a distribution"
    )
    parser.add_argument(
        "--points", type=option_values.positive, metavar="N", help="maximum number of points"
    )
    parser.add_argument(
        "--gap",
        type=option_values.share,
        metavar="PERCENT",
        default=Fraction(0),
        help="leave out points that are at most this much faster than the previous listed point, "
        "such as 5%%; default: 0%%",
    )
    storage.add_choice_options(parser)
    form = parser.add_mutually_exclusive_group()
    parsers.add_json_option(form)
    form.add_argument("--csv", action="store_true", help="print one line for each point")
    parsers.add_plot_option(parser, "the front")
    parsers.add_table_option(parser, "the front")
    return parser


def _as_csv(front: ParetoFront) -> str:
    from csdf.io.csv_text import csv_text  # slow to import, and seldom needed

    names = list(front.points[0].capacities) if front.points else []
    rows: list[list[object]] = [["size", "period", "throughput", *names]]
    for point in front.points:
        capacities = [point.capacities[name] for name in names]
        rows.append([point.size, point.period, point.throughput, *capacities])
    return csv_text(rows).rstrip("\n")


def _table(graph: Graph, front: ParetoFront, unit: str) -> str:
    names = list(front.points[0].capacities) if front.points else []
    names = names if len(names) <= MAX_TABLE_CHANNELS else []
    heads = [f"size ({escaped(unit)})", "period", *map(escaped, names)]
    rows = [
        [str(point.size), f"${point.period}$", *(str(point.capacities[name]) for name in names)]
        for point in front.points
    ]
    open_from = f"points may be missing from {front.lower_bound} on"
    state = "complete" if front.is_complete else open_from
    return booktabs(heads, rows, texts=(), remarks=[f"{graph.name}: {state}"])


def _lines(
    graph: Graph, front: ParetoFront, options: argparse.Namespace, seconds: float
) -> Iterator[str]:
    """Yield the printed answer: verdict, points, points that are not proved, and effort."""
    unit, points = options.unit, front.points
    blocked = deadlock(graph) if front.is_complete and not points else None
    rows = answers.blocked_rows(blocked) if blocked else []
    yield from answers.table(f"{graph.name}: {_verdict(front, unit)}", rows)
    equal = _equal_capacities(points)
    names = [name for point in points[:1] for name in point.capacities if name not in equal]
    if points:
        listed = ", ".join(names) or "the same in all points"
        yield f"{'size (' + unit + ')':>16}  {'period':<28} capacities: {listed}"
    if options.method != "exact":
        yield f"method {options.method}: {parsers.STORAGE_IS_A_BOUND}"
    for point in points:
        yield f"{point.size:>16}  {answers.number(point.period or 0):<28} {_capacities(point, names)}"
    if equal:
        yield from terminal.wrapped([_named(f"{'in all points':>16}", equal)], MAX_LINE_CHARACTERS)
    yield from _unproved_lines(front, unit)
    hint = concurrency.hint(graph) if front.best_period == 0 else None
    if hint and not front.is_complete:
        yield f"next: {hint}; --points or --max-size go on, or end sooner"
    # Neither a graph from standard input (-) nor --quiet has a next step.
    stated = {word.partition("=")[0] for word in options.words if word.startswith("-")}
    if front.is_complete and points and stated <= PRINTING:
        yield f"next: csdf report {shlex.quote(options.file)} -o page.html"
    evaluated = answers.counted(front.evaluations, "distribution")
    yield answers.Detail(f"{evaluated} evaluated, {time_in_words(seconds)}")


def _verdict(front: ParetoFront, unit: str) -> str:
    """Return the number of points, whether the front is complete, and its two ends."""
    points = front.points
    if front.is_complete and not points:
        return answers.NEVER_LIVE
    state = f"{'stopped at the limit' if front.is_at_limit else 'INCOMPLETE'}: {front.reason}"
    if front.is_complete:
        state = _completeness(front)
    verdict = f"{answers.counted(len(points), 'Pareto point')}, {state}"
    if not points:
        return verdict
    ends = [
        f"{point.size} {unit} at period {point.period or 0}" for point in (points[0], points[-1])
    ]
    return f"{verdict}; {' to '.join(dict.fromkeys(ends))}"


def _unproved_lines(front: ParetoFront, unit: str) -> Iterator[str]:
    """Yield where points may be missing, and distributions that are not proved to be points."""
    if not front.is_complete and front.best_period is not None:
        best = answers.number(front.best_period)
        yield f"points may be missing from size {front.lower_bound} on; min. period {best}"
    # Without a proved point, the capacities of the first distribution are the answer.
    listed = front.unproved[:1] if not front.points else ()
    for number, point in enumerate(front.unproved):
        period = "unknown" if point.period is None else answers.number(point.period)
        gap = answers.gap_above(point.size, front.lower_bound)
        yield f"not proved: {point.size} {unit} at period {period}; {gap}"
        if number < len(listed):
            yield _named("with capacities", point.capacities)
    if len(front.unproved) > len(listed):
        yield "capacities of points that are not proved: --json"


def _completeness(front: ParetoFront) -> str:
    """Return how far a proved front is the whole one."""
    if not front.gap:
        return "complete (all proved)"
    percent = answers.number(100 * front.gap)
    return f"all proved; points are left out that are at most {percent}% faster"


def _equal_capacities(points: Sequence[ParetoPoint]) -> dict[str, int]:
    """Return the capacities that are equal in all points; none where a line holds all channels."""
    if len(points) < 2 or len(", ".join(points[0].capacities)) <= MAX_NAMES_CHARACTERS:
        return {}
    return {
        name: capacity
        for name, capacity in points[0].capacities.items()
        if all(point.capacities[name] == capacity for point in points)
    }


def _capacities(point: ParetoPoint, names: Iterable[str]) -> str:
    return " ".join(str(point.capacities[name]) for name in names)


def _named(title: str, capacities: Mapping[str, int]) -> str:
    """Return a line of channels with their capacities."""
    return f"{title}  {', '.join(f'{name} {size}' for name, size in capacities.items())}"
