"""The work of `csdf cnn memory`: whole layers and parts are compared and told."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from cnn2csdf.commands.cnn import chosen
from cnn2csdf.commands.cnn import options as shared
from cnn2csdf.fixed_point.flash import and_in_flash
from cnn2csdf.granularity import WHOLE
from csdf.cli import answers, loading
from csdf.cli.frame import output, terminal
from csdf.cli.frame.long_work import stop_after
from csdf.cli.options import storage
from csdf.io.csv_text import csv_text
from csdf.names import quoted
from csdf.outcome import Status
from csdf.time_limit import Progress
from csdf.words import bytes_in_words
from planners.memory.command.answer import remark_on_elements
from planners.memory.command.beside import as_json as fit_as_json
from planners.memory.command.beside import fit_beside, in_words
from planners.memory.several import Together
from planners.memory_ways import LINES, RINGS
from planners.parts_memory import MemoryComparison, memory_comparison
from planners.plan.text import format_plans

NANOSECONDS = 10**9
HEADER = (
    "network",
    "parameters",
    "whole: apart",
    "one arena",
    "by parts: apart",
    "one arena",
    "least total",
    "reduction",
    "frames/s",
    "by parts",
    "decrease",
    "pipelined",
)
CSV_COLUMNS = (
    "network",
    "parameters",
    "whole_buffers",
    "whole_arena",
    "parts_buffers",
    "parts_arena",
    "least_total",
    "reduction",
    "whole_throughput",
    "parts_throughput",
    "decrease",
    "pipelined_throughput",
)
KIND = (
    "least of all layers whole and all by parts; csdf plan reuse mixes the two, csdf plan fusion "
    "cuts tiles, csdf fit lays lines and strips into one arena"
)
BY_PARTS = f"by parts: {RINGS}; by rows in csdf fit {LINES}, so its bytes differ"


class AnsweredNetwork(NamedTuple):
    """A network, what csdf fit finds, and how long the answer took."""

    name: str
    comparison: MemoryComparison
    fit: Together | None
    seconds: float


def work(options: argparse.Namespace) -> int:
    """Print the comparison; return the exit code."""
    rows = [_row(model, options) for model in [options.model, *options.more]]
    shared.remark_on_platform("csdf cnn memory", options)
    if options.json:
        found = {"kind": f"{KIND}; {BY_PARTS}", "networks": [_as_json(row) for row in rows]}
        print(json.dumps(found, indent=2))
    else:
        print(_as_csv(rows) if options.csv else _as_text(rows))
    if options.output:
        plans = [row.comparison.plan() for row in rows]
        output.write("csdf cnn memory", options.output, format_plans(plans))
        networks = [row.comparison.network for row in rows]
        works = list(zip(networks, plans, strict=True))
        remark_on_elements("csdf cnn memory", options.output, works)
    if options.plot:
        _plot(options.plot, rows)
    return answers.ANSWERED


def _row(model: str, options: argparse.Namespace) -> AnsweredNetwork:
    begin = time.perf_counter()
    options.model = model
    network = chosen.read(options).network
    durations = chosen.durations_of(network, options)
    if options.whole_durations:
        whole = chosen.durations_table(options.whole_durations)
        parts, durations = durations, lambda cut: whole if cut == WHOLE else parts(cut)
    stop = stop_after(options.time_limit, _in_words)
    comparison = memory_comparison(
        network,
        chosen.granularity_of(options),
        durations,
        element_bytes=options.element_bytes,
        budget=stop,
    )
    if comparison.by_parts.status is not Status.OPTIMAL:
        gap = float(comparison.by_parts.gap or 0)
        print(
            f"csdf cnn memory: {quoted(network.name)}: buffers at most {gap:.2%} above the smallest",
            file=sys.stderr,
        )
    for way, plan in (("whole", comparison.whole_arena), ("by parts", comparison.parts_arena)):
        if plan.status != Status.OPTIMAL:
            print(
                f"csdf cnn memory: {quoted(network.name)}: {way}: the arena is at most "
                f"{float(plan.gap):.2%} above the smallest",
                file=sys.stderr,
            )
    beside = fit_beside(
        [network],
        stop,
        element_bytes=options.element_bytes,
        is_streamed=True,
        platform=shared.platform_of(options),
    )
    return AnsweredNetwork(network.name, comparison, beside, time.perf_counter() - begin)


def _in_words(progress: Progress) -> str:
    if progress.best is None:
        return storage.in_words(progress)
    return f"arena: {progress.best} bytes, at least {progress.lower_bound}"


def _figures(row: AnsweredNetwork) -> tuple[tuple[int, ...], tuple[Fraction, ...]]:
    """Bytes, and then frames per second and parts of one."""
    found = row.comparison
    whole, parts = found.whole, found.by_parts
    return (
        (
            whole.parameters,
            *(whole.buffers, found.whole_arena.peak),
            *(parts.buffers, found.parts_arena.peak),
            found.least.total,
        ),
        (
            found.reduction,
            Fraction(NANOSECONDS, whole.sequential),
            Fraction(NANOSECONDS, parts.sequential),
            found.slowdown,
            NANOSECONDS / parts.pipelined,
        ),
    )


def _as_text(rows: Sequence[AnsweredNetwork]) -> str:
    table: list[tuple[str, ...]] = [HEADER]
    for row in rows:
        sizes, (reduction, whole, parts, slowdown, pipelined) = _figures(row)
        table.append(
            (
                row.name,
                *(bytes_in_words(size) for size in sizes),
                f"{float(reduction):.1%}" if reduction else "none",
                *(f"{float(rate):.4g}" for rate in (whole, parts)),
                f"{float(slowdown):.1%}",
                f"{float(pipelined):.4g}",
            )
        )
    beside = [f"{row.name}: csdf fit: {in_words(row.fit)}" for row in rows if row.fit is not None]
    return answers.one_text([*terminal.aligned(table), *beside, *_in_flash(rows), KIND, BY_PARTS])


def _in_flash(rows: Sequence[AnsweredNetwork]) -> Iterator[str]:
    """Say of which networks C stores another number of bytes than the parameters have."""
    for row in rows:
        trained, stored = row.comparison.parameters, row.comparison.flash_bytes
        if stored != trained:
            yield (
                f"{row.name}: {bytes_in_words(trained)} of trained parameters"
                f"{and_in_flash(trained, stored)}"
            )


def _as_csv(rows: Sequence[AnsweredNetwork]) -> str:
    table: list[Sequence[object]] = [CSV_COLUMNS]
    for row in rows:
        sizes, rates = _figures(row)
        table.append((row.name, *sizes, *(f"{float(rate):.6g}" for rate in rates)))
    return csv_text(table).rstrip("\n")


def _as_json(row: AnsweredNetwork) -> dict[str, Any]:
    return {
        "network": row.name,
        **row.comparison.to_json(),
        "fit": fit_as_json(row.fit),
        "seconds": round(row.seconds, 6),
    }


def _plot(path: str, rows: Sequence[AnsweredNetwork]) -> None:
    draw = loading.drawing("planners.commands.cnn.picture")
    bars = [
        draw.MemoryBar(row.name, way.title, way.parameters, way.buffers)
        for row in rows
        for way in row.comparison.ways
    ]
    output.write("csdf cnn memory", path, draw.memory_picture(bars, loading.suffix_of(path)))
