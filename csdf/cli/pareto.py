"""`csdf pareto`: the storage/throughput front, complete or with what is proved of it."""

from __future__ import annotations

import argparse
import csv
import io
import json
import time
from collections.abc import Sequence
from typing import Any

from csdf.cli import answers, pictures, storage_options
from csdf.io.files import write_text
from csdf.model.graph import Graph
from csdf.search.pareto import ParetoFront
from csdf.search.trade_off import pareto_front


def main(argv: Sequence[str]) -> int:
    """Print the front; return the exit code: 0 complete, 1 a deadlock, 3 incomplete."""
    options = _parser().parse_args(argv)
    graph = answers.read(options.file, options)
    begin = time.perf_counter()
    front = pareto_front(
        graph, storage_options.choice_of(options), watch=storage_options.watch(options.budget)
    )
    seconds = time.perf_counter() - begin
    if options.plot:
        _plot(options, graph, front)
    if options.json:
        print(json.dumps(_as_json(graph, front, options.unit, seconds), indent=2))
    else:
        print(_as_csv(front) if options.csv else _as_text(graph, front, options.unit, seconds))
    if front.best_period is None:
        return answers.NO
    return answers.ANSWERED if front.is_complete else answers.GAVE_UP


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="csdf pareto",
        description="All pairs of storage size and period that no storage distribution improves "
        "on, with capacities for each. Ctrl-C and the budget give what is proved by then.",
        epilog="example: csdf pareto graph.xml --plot front.svg",
    )
    parser.add_argument("file", help="SDF3 XML or JSON")
    parser.add_argument("--csv", action="store_true", help="one line for each point")
    parser.add_argument("--plot", metavar="FILE", help=".png, .svg, .pdf or .html (extra: plot)")
    storage_options.add_choice_options(parser)
    return parser


def _plot(options: argparse.Namespace, graph: Graph, front: ParetoFront) -> None:
    draw = pictures.drawing("csdf pareto", "csdf.draw.front")
    if draw is not None:
        suffix = pictures.suffix_of(options.plot)
        write_text(options.plot, draw.front_picture(graph.name, front, options.unit, suffix))


def _as_json(graph: Graph, front: ParetoFront, unit: str, seconds: float) -> dict[str, Any]:
    best = front.best_period
    return {
        "graph": graph.name,
        "unit": unit,
        "points": [storage_options.point_as_json(point) for point in front.points],
        "complete": front.is_complete,
        "reason": front.reason,
        "lower_bound": front.lower_bound,
        "best_period": None if best is None else str(best),
        "evaluations": front.evaluations,
        "seconds": round(seconds, 6),
    }


def _as_csv(front: ParetoFront) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = list(front.points[0].capacities) if front.points else []
    writer.writerow(["size", "period", "throughput", *names])
    for point in front.points:
        capacities = [point.capacities[name] for name in names]
        writer.writerow([point.size, point.period, point.throughput, *capacities])
    return text.getvalue().rstrip("\n")


def _as_text(graph: Graph, front: ParetoFront, unit: str, seconds: float) -> str:
    state = "complete" if front.is_complete else "INCOMPLETE"
    lines = [f"{graph.name}: {len(front.points)} points, {state}: {front.reason}"]
    if front.points:
        names = list(front.points[0].capacities)
        lines.append(f"{'size (' + unit + ')':>16}  {'period':<28} capacities: {' '.join(names)}")
    for point in front.points:
        capacities = " ".join(str(capacity) for capacity in point.capacities.values())
        lines.append(f"{point.size:>16}  {answers.number(point.period):<28} {capacities}")
    if not front.is_complete and front.best_period is not None:
        best = answers.number(front.best_period)
        lines.append(f"points may be missing from size {front.lower_bound} on; best period {best}")
    lines.append(f"{front.evaluations} distributions evaluated, {seconds * 1000:.3g} ms")
    return "\n".join(lines)
