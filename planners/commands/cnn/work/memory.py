"""The work of `csdf cnn memory`: compares networks layer by layer and row by row, and prints them."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple

from cnn2csdf.commands.cnn import chosen
from cnn2csdf.commands.cnn import options as shared
from cnn2csdf.fixed_point.flash import and_in_flash
from cnn2csdf.granularity import WHOLE, Granularity
from cnn2csdf.lowering import Durations
from cnn2csdf.network import Network
from cnn2csdf.rewrite_names import REWRITE_NAMES
from csdf.cli import answers, loading
from csdf.cli.frame import output, terminal
from csdf.cli.frame.long_work import stop_after
from csdf.cli.parsers import SEARCH_SECONDS
from csdf.io.csv_text import csv_text
from csdf.status import Status
from csdf.units import needed_bytes_in_words
from planners.arena.allocation import bytes_so_far
from planners.commands.cnn.memory import PUBLISHED
from planners.memory.command.answer import remark_on_elements
from planners.memory.command.beside import as_json as fit_as_json
from planners.memory.command.beside import fit_beside, in_words
from planners.memory.plain_plans import MemoryComparison, memory_comparison
from planners.memory.several_networks import Together
from planners.plan.carried_out import format_own_plans
from planners.published.samos import PUBLISHED_STEPS, PublishedMemory, published_memory

PROGRAM = "csdf cnn memory"
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
    "row_throughput": "row-wise frames/s",
    "loss": "loss",
    "pipelined_throughput": "pipelined",
}
MIN_TOTAL = (
    "min total: parameters + smallest buffers; csdf plan reuse (mixed), csdf plan fusion (tiles) and "
    "csdf fit (line buffers, strips) may need less"
)
ROW_WISE = (
    "row-wise: a line buffer per tensor, input streamed, output external, as csdf fit --input rows "
    "--output-memory external; pipelined: a processor per layer, no layer waits for space"
)
PUBLISHED_COLUMNS = {  # of the text, by those of --csv
    "network": "network",
    "parameters": "parameters",
    "layer_total": "whole",
    "row_total": "row-wise",
    "reduction": "reduction",
    "layer_throughput": "frames/s",
    "row_throughput": "row-wise frames/s",
    "loss": "loss",
}
PUBLISHED_KIND = (
    "as Table III of SAMOS 2020 counts, parameters included: a buffer for each edge, as small as can "
    "be; tensors share no bytes, as they do in any runtime"
)


Bar = tuple[str, str, int, int]  # network, title, parameters, buffers


class AnsweredNetwork(NamedTuple):
    """A network, the answer of csdf fit, and the seconds that both took."""

    comparison: MemoryComparison
    fit: Together | None
    seconds: float
    is_cut_short: bool  # by the clock

    @property
    def name(self) -> str:
        """The name of the network."""
        return self.comparison.network.name

    @property
    def sizes(self) -> tuple[int, ...]:
        """Bytes of the columns from `parameters` to `min_total`."""
        comparison = self.comparison
        buffers = (method.buffers for method in comparison.methods)
        return (comparison.parameters, *buffers, comparison.least.total)

    @property
    def rates(self) -> tuple[Fraction, ...]:
        """Values of the columns from `reduction` on: frames a second, reduction and loss of 1."""
        comparison = self.comparison
        layer_rate, row_rate, pipelined_rate = (
            Fraction(NANOSECONDS, time) for time in (*comparison.nanoseconds, comparison.pipelined)
        )
        return (comparison.reduction, layer_rate, row_rate, comparison.loss, pipelined_rate)

    @property
    def bars(self) -> list[Bar]:
        """A bar for each method."""
        return [
            (self.name, method.title, method.parameters, method.buffers)
            for method in self.comparison.methods
        ]

    def to_json(self) -> dict[str, Any]:
        """Return the comparison and the answer of csdf fit as a JSON value."""
        return {
            "network": self.name,
            **self.comparison.to_json(),
            "fit": fit_as_json(self.fit),
            "seconds": round(self.seconds, 6),
        }


class PublishedPair(NamedTuple):
    """A network layer by layer and row by row, in the accounting of SAMOS 2020."""

    name: str
    whole: PublishedMemory
    rows: PublishedMemory
    seconds: float

    @property
    def sizes(self) -> tuple[int, ...]:
        """Bytes, in the order of the columns."""
        return (self.whole.parameters, self.whole.total, self.rows.total)

    @property
    def rates(self) -> tuple[Fraction, ...]:
        """Fractions of 1 and frames a second, in the order of the columns."""
        reduction = 1 - Fraction(self.rows.total, self.whole.total)
        loss = 1 - Fraction(self.whole.sequential, self.rows.sequential)
        whole, rows = (
            Fraction(NANOSECONDS, memory.sequential) for memory in (self.whole, self.rows)
        )
        return (reduction, whole, rows, loss)

    @property
    def bars(self) -> list[Bar]:
        """A bar for each of the two executions."""
        return [
            (self.name, title, memory.parameters, memory.total - memory.parameters)
            for title, memory in (("layer by layer", self.whole), ("row by row", self.rows))
        ]

    def to_json(self) -> dict[str, Any]:
        """Return both executions as a JSON value; fractions as strings."""
        reduction, *_, loss = self.rates
        return {
            "network": self.name,
            "parameter_bytes": self.whole.parameters,
            "layer_by_layer": self.whole.to_json(),
            "row_by_row": self.rows.to_json(),
            "reduction": str(reduction),
            "throughput_loss": str(loss),
            "seconds": round(self.seconds, 6),
        }


def work(options: argparse.Namespace) -> int:
    """Print the comparison; return the exit code."""
    models = [options.model, *options.more]
    if options.accounting == PUBLISHED:
        options.simplify = PUBLISHED_STEPS if options.simplify is None else options.simplify
        pairs = [_published_pair(model, options) for model in models]
        _print(pairs, _published_lines(pairs), PUBLISHED_COLUMNS, PUBLISHED_KIND, options)
        return answers.ANSWERED
    options.simplify = REWRITE_NAMES if options.simplify is None else options.simplify
    rows = [_answered(model, options) for model in models]
    _print(rows, _lines(rows), COLUMNS, f"{MIN_TOTAL}; {ROW_WISE}", options)
    if options.output:
        works = [(row.comparison.network, row.comparison.plan()) for row in rows]
        output.write(PROGRAM, options.output, format_own_plans(works))
        remark_on_elements(PROGRAM, options.output, works)
    is_cut_short = any(row.is_cut_short for row in rows) and not options.best_effort
    return answers.UNKNOWN if is_cut_short else answers.ANSWERED


def _print(
    rows: Sequence[AnsweredNetwork | PublishedPair],
    lines: Sequence[str],
    columns: Mapping[str, str],
    kind: str,
    options: argparse.Namespace,
) -> None:
    """Print rows as JSON, as CSV, or as these lines, and draw them."""
    shared.remark_on_platform(PROGRAM, options)
    if options.json:
        networks = [row.to_json() for row in rows]
        print(json.dumps({"kind": kind, "networks": networks}, indent=2))
    elif options.csv:
        table: list[Sequence[object]] = [tuple(columns)]
        for row in rows:
            table.append((row.name, *row.sizes, *(f"{float(rate):.6g}" for rate in row.rates)))
        print(csv_text(table).rstrip("\n"))
    else:
        print(answers.in_words(lines, options))
    if options.plot:
        draw = loading.drawing("planners.commands.cnn.picture")
        bars = [draw.MemoryBar(*bar) for row in rows for bar in row.bars]
        output.write(
            PROGRAM, options.plot, draw.memory_picture(bars, loading.suffix_of(options.plot))
        )


def _answered(model: str, options: argparse.Namespace) -> AnsweredNetwork:
    begin = time.perf_counter()
    network, durations = _timed(model, options)
    platform = shared.platform_of(options)
    text = partial(bytes_so_far, "arena")
    stop = stop_after(options.time_limit, text, effort=options.effort)
    comparison = memory_comparison(
        network,
        chosen.granularity_of(options),
        durations,
        element_bytes=options.element_bytes,
        core=platform.core_name,
        budget=stop,
    )
    fit = fit_beside(
        [network],
        stop,
        element_bytes=options.element_bytes,
        is_streamed=not network.keeps_state,
        platform=platform,
    )
    seconds = time.perf_counter() - begin
    return AnsweredNetwork(comparison, fit, seconds, is_cut_short=stop.is_cut_short)


def _timed(
    model: str, options: argparse.Namespace
) -> tuple[Network, Callable[[Granularity], Durations]]:
    """The network of a model, and the durations of its phases by granularity."""
    options.model = model
    network = chosen.read(options, knows_state=True).network
    durations = chosen.durations_of(network, options)
    if not options.whole_durations:
        return network, durations
    whole = chosen.durations_table(options.whole_durations)
    return network, lambda cut: whole if cut == WHOLE else durations(cut)


def _lines(rows: Sequence[AnsweredNetwork]) -> list[str]:
    table: list[tuple[str, ...]] = [tuple(COLUMNS.values())]
    verdicts, notes = [], []
    for row in rows:
        _, _, whole_arena, _, row_arena, _ = map(needed_bytes_in_words, row.sizes)
        best = "" if row.fit is None else f"; csdf fit: {in_words(row.fit)}"
        line = f"{row.name}: {row_arena} of arena row by row, {whole_arena} layer by layer{best}"
        verdicts.append(answers.cut_short(line) if row.is_cut_short else line)
        reduction, whole, by_rows, loss, pipelined = map(float, row.rates)
        table.append(
            (
                row.name,
                *map(needed_bytes_in_words, row.sizes),
                f"{reduction:.1%}" if reduction else "none",
                *(f"{rate:.4g}" for rate in (whole, by_rows)),
                f"{loss:.1%}",
                f"{pipelined:.4g}",
            )
        )
        comparison = row.comparison
        if state_bytes := comparison.plan().kept_bytes:
            words = needed_bytes_in_words(state_bytes)
            notes.append(
                f"{row.name}: {words} of the buffers are retained between frames; input in whole frames"
            )
        in_flash = and_in_flash(comparison.parameters, comparison.flash_bytes)
        if in_flash:
            parameters = needed_bytes_in_words(comparison.parameters)
            notes.append(f"{row.name}: {parameters} of parameters{in_flash}")
    details = map(answers.Detail, (MIN_TOTAL, ROW_WISE))
    return [*verdicts, *terminal.aligned(table), *notes, *details]


def _published_lines(pairs: Sequence[PublishedPair]) -> list[str]:
    table: list[tuple[str, ...]] = [tuple(PUBLISHED_COLUMNS.values())]
    for pair in pairs:
        reduction, whole, rows, loss = map(float, pair.rates)
        rates = (f"{reduction:.1%}", f"{whole:.4g}", f"{rows:.4g}", f"{loss:.1%}")
        table.append((pair.name, *map(needed_bytes_in_words, pair.sizes), *rates))
    gaps = [
        f"{pair.name}: buffers not proved the smallest"
        for pair in pairs
        if any(memory.status is not Status.OPTIMAL for memory in (pair.whole, pair.rows))
    ]
    return [*terminal.aligned(table), *gaps, PUBLISHED_KIND]


def _published_pair(model: str, options: argparse.Namespace) -> PublishedPair:
    begin = time.perf_counter()
    network, durations = _timed(model, options)
    stop = stop_after(options.time_limit or SEARCH_SECONDS)  # a search that counts no steps
    whole, rows = (
        published_memory(
            network, cut, durations(cut), element_bytes=options.element_bytes, budget=stop
        )
        for cut in (WHOLE, chosen.granularity_of(options))
    )
    return PublishedPair(network.name, whole, rows, time.perf_counter() - begin)
