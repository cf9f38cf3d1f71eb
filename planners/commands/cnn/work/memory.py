"""The work of `csdf cnn memory`: layer by layer and row by row are compared and told."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple

from cnn2csdf.commands.cnn import chosen
from cnn2csdf.commands.cnn import options as shared
from cnn2csdf.fixed_point.flash import and_in_flash, flash_bytes
from cnn2csdf.granularity import WHOLE
from csdf.cli import answers, loading
from csdf.cli.frame import output, terminal
from csdf.cli.frame.long_work import stop_after
from csdf.io.csv_text import csv_text
from csdf.units import bytes_in_words
from planners.arena.allocation import bytes_so_far
from planners.memory.command.answer import remark_on_elements
from planners.memory.command.beside import as_json as fit_as_json
from planners.memory.command.beside import fit_beside, in_words
from planners.memory.plain_plans import MemoryComparison, memory_comparison
from planners.memory.several import Together
from planners.plan.text import format_plans

NANOSECONDS = 10**9
COLUMNS = {  # of the text, by those of --csv
    "network": "network",
    "parameters": "parameters",
    "layer_separate": "whole: separate",
    "layer_arena": "arena",
    "row_separate": "row-wise: separate",
    "row_arena": "arena",
    "min_total": "min total",
    "reduction": "reduction",
    "layer_throughput": "frames/s",
    "row_throughput": "row-wise",
    "loss": "loss",
    "pipelined_throughput": "pipelined",
}
MIN_TOTAL = (
    "min total: parameters + smallest buffers; csdf plan reuse (mixed), csdf plan fusion (tiles) and "
    "csdf fit (line buffers, strips) may need less"
)
ROW_WISE = (
    "row-wise: a line buffer per tensor, input streamed, output external, as csdf fit --input rows "
    "--output-memory external; pipelined: a processor per layer, buffers that never make it wait"
)


class AnsweredNetwork(NamedTuple):
    """A network, what csdf fit finds, and how long the answer took."""

    comparison: MemoryComparison
    fit: Together | None
    seconds: float

    @property
    def name(self) -> str:
        """The network."""
        return self.comparison.network.name

    @property
    def sizes(self) -> tuple[int, ...]:
        """Bytes, in the order of the columns."""
        found = self.comparison
        buffers = (one.buffers for one in found.methods)
        return (found.parameters, *buffers, found.least.total)

    @property
    def rates(self) -> tuple[Fraction, ...]:
        """Parts of one and frames a second, in the order of the columns."""
        found = self.comparison
        whole, rows = (Fraction(NANOSECONDS, time) for time in found.nanoseconds)
        return (found.reduction, whole, rows, found.loss, Fraction(NANOSECONDS, found.pipelined))


def work(options: argparse.Namespace) -> int:
    """Print the comparison; return the exit code."""
    rows = [_answered(model, options) for model in [options.model, *options.more]]
    shared.remark_on_platform("csdf cnn memory", options)
    if options.json:
        networks = [_as_json(row) for row in rows]
        print(json.dumps({"kind": f"{MIN_TOTAL}; {ROW_WISE}", "networks": networks}, indent=2))
    elif options.csv:
        table: list[Sequence[object]] = [tuple(COLUMNS)]
        for row in rows:
            table.append((row.name, *row.sizes, *(f"{float(rate):.6g}" for rate in row.rates)))
        print(csv_text(table).rstrip("\n"))
    else:
        print(_as_text(rows))
    if options.output:
        plans = [row.comparison.plan() for row in rows]
        output.write("csdf cnn memory", options.output, format_plans(plans))
        works = [(row.comparison.network, plan) for row, plan in zip(rows, plans, strict=True)]
        remark_on_elements("csdf cnn memory", options.output, works)
    if options.plot:
        draw = loading.drawing("planners.commands.cnn.picture")
        bars = [
            draw.MemoryBar(row.name, one.title, one.parameters, one.buffers)
            for row in rows
            for one in row.comparison.methods
        ]
        picture = draw.memory_picture(bars, loading.suffix_of(options.plot))
        output.write("csdf cnn memory", options.plot, picture)
    return answers.ANSWERED


def _answered(model: str, options: argparse.Namespace) -> AnsweredNetwork:
    begin = time.perf_counter()
    options.model = model
    network = chosen.read(options, knows_state=True).network
    durations = chosen.durations_of(network, options)
    if options.whole_durations:
        whole = chosen.durations_table(options.whole_durations)
        rows, durations = durations, lambda cut: whole if cut == WHOLE else rows(cut)
    stop = stop_after(options.time_limit, partial(bytes_so_far, "arena"))
    comparison = memory_comparison(
        network,
        chosen.granularity_of(options),
        durations,
        element_bytes=options.element_bytes,
        budget=stop,
    )
    beside = fit_beside(
        [network],
        stop,
        element_bytes=options.element_bytes,
        is_streamed=not network.keeps_state,
        platform=shared.platform_of(options),
    )
    return AnsweredNetwork(comparison, beside, time.perf_counter() - begin)


def _as_text(rows: Sequence[AnsweredNetwork]) -> str:
    table: list[tuple[str, ...]] = [tuple(COLUMNS.values())]
    notes = [f"{row.name}: csdf fit: {in_words(row.fit)}" for row in rows if row.fit is not None]
    for row in rows:
        reduction, whole, by_rows, loss, pipelined = map(float, row.rates)
        table.append(
            (
                row.name,
                *map(bytes_in_words, row.sizes),
                f"{reduction:.1%}" if reduction else "none",
                *(f"{rate:.4g}" for rate in (whole, by_rows)),
                f"{loss:.1%}",
                f"{pipelined:.4g}",
            )
        )
        found = row.comparison
        if kept := found.plan().kept_bytes:
            words = bytes_in_words(kept)
            notes.append(
                f"{row.name}: {words} of the buffers stay between frames, which come as a whole"
            )
        stored = flash_bytes(found.network, found.element_bytes)
        if stored != found.parameters:
            parameters = bytes_in_words(found.parameters)
            in_flash = and_in_flash(found.parameters, stored)
            notes.append(f"{row.name}: {parameters} of parameters{in_flash}")
    return answers.one_text([*terminal.aligned(table), *notes, MIN_TOTAL, ROW_WISE])


def _as_json(row: AnsweredNetwork) -> dict[str, Any]:
    return {
        "network": row.name,
        **row.comparison.to_json(),
        "fit": fit_as_json(row.fit),
        "seconds": round(row.seconds, 6),
    }
