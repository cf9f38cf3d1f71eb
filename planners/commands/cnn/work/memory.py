"""The work of `csdf cnn memory`: layer by layer and row by row are compared and told."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
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
from csdf.units import bytes_in_words
from planners.arena.allocation import bytes_so_far
from planners.commands.cnn.memory import PUBLISHED
from planners.memory.command.answer import remark_on_elements
from planners.memory.command.beside import as_json as fit_as_json
from planners.memory.command.beside import fit_beside, in_words
from planners.memory.plain_plans import MemoryComparison, memory_comparison
from planners.memory.several_networks import Together
from planners.plan.carried_out import format_own_plans
from planners.published.samos import PUBLISHED_STEPS, PublishedMemory, published_memory

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
PUBLISHED_COLUMNS = {  # of the text, by those of --csv
    "network": "network",
    "parameters": "parameters",
    "layer_total": "whole",
    "row_total": "row-wise",
    "reduction": "reduction",
    "layer_throughput": "frames/s",
    "row_throughput": "row-wise",
    "loss": "loss",
}
PUBLISHED_KIND = (
    "as Table III of SAMOS 2020 counts, parameters included: a buffer for each edge, as small as can "
    "be; tensors share no bytes, as they do in any runtime"
)


class AnsweredNetwork(NamedTuple):
    """A network, what csdf fit finds, and how long the answer took."""

    comparison: MemoryComparison
    fit: Together | None
    seconds: float
    is_cut_short: bool  # by the clock

    @property
    def name(self) -> str:
        """The network."""
        return self.comparison.network.name

    @property
    def sizes(self) -> tuple[int, ...]:
        """Bytes, in the order of the columns."""
        comparison = self.comparison
        buffers = (method.buffers for method in comparison.methods)
        return (comparison.parameters, *buffers, comparison.least.total)

    @property
    def rates(self) -> tuple[Fraction, ...]:
        """Parts of one and frames a second, in the order of the columns."""
        comparison = self.comparison
        whole, rows = (Fraction(NANOSECONDS, time) for time in comparison.nanoseconds)
        return (
            comparison.reduction,
            whole,
            rows,
            comparison.loss,
            Fraction(NANOSECONDS, comparison.pipelined),
        )


class PublishedPair(NamedTuple):
    """A network layer by layer and row by row, in the accounting of SAMOS 2020."""

    name: str
    whole: PublishedMemory
    rows: PublishedMemory
    seconds: float

    @property
    def has_gap(self) -> bool:
        """Whether the search ended before the buffers were proved the smallest."""
        return any(storage.status is not Status.OPTIMAL for storage in (self.whole, self.rows))

    @property
    def shares(self) -> tuple[Fraction, Fraction]:
        """The parts of the memory and of the throughput that rows save and lose."""
        less = 1 - Fraction(self.rows.total, self.whole.total)
        return less, 1 - Fraction(self.whole.sequential, self.rows.sequential)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Bytes, in the order of the columns."""
        return (self.whole.parameters, self.whole.total, self.rows.total)

    @property
    def rates(self) -> tuple[Fraction, ...]:
        """Parts of one and frames a second, in the order of the columns."""
        less, lost = self.shares
        whole, rows = (
            Fraction(NANOSECONDS, storage.sequential) for storage in (self.whole, self.rows)
        )
        return (less, whole, rows, lost)

    def cells(self) -> tuple[str, ...]:
        """Return its line of the table."""
        less, whole, rows, lost = map(float, self.rates)
        sizes = map(bytes_in_words, self.sizes)
        return (self.name, *sizes, f"{less:.1%}", f"{whole:.4g}", f"{rows:.4g}", f"{lost:.1%}")

    def to_json(self) -> dict[str, Any]:
        """Return it as a JSON value; shares as texts."""
        less, lost = self.shares
        return {
            "network": self.name,
            "parameter_bytes": self.whole.parameters,
            "layer_by_layer": self.whole.to_json(),
            "row_by_row": self.rows.to_json(),
            "reduction": str(less),
            "throughput_loss": str(lost),
            "seconds": round(self.seconds, 6),
        }


def work(options: argparse.Namespace) -> int:
    """Print the comparison; return the exit code."""
    if options.accounting == PUBLISHED:
        return _as_published(options)
    options.simplify = REWRITE_NAMES if options.simplify is None else options.simplify
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
        print(answers.in_words(_lines(rows), options))
    if options.output:
        works = [(row.comparison.network, row.comparison.plan()) for row in rows]
        output.write("csdf cnn memory", options.output, format_own_plans(works))
        remark_on_elements("csdf cnn memory", options.output, works)
    if options.plot:
        bars = [
            (row.name, method.title, method.parameters, method.buffers)
            for row in rows
            for method in row.comparison.methods
        ]
        _draw(bars, options.plot)
    is_cut_short = any(row.is_cut_short for row in rows) and not options.best_effort
    return answers.UNKNOWN if is_cut_short else answers.ANSWERED


def _draw(bars: Sequence[tuple[str, str, int, int]], path: str) -> None:
    """Write a picture; of each bar its network, title, parameters and buffers."""
    draw = loading.drawing("planners.commands.cnn.picture")
    picture = draw.memory_picture([draw.MemoryBar(*bar) for bar in bars], loading.suffix_of(path))
    output.write("csdf cnn memory", path, picture)


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
        _, _, whole_arena, _, row_arena, _ = map(bytes_in_words, row.sizes)
        best = "" if row.fit is None else f"; csdf fit: {in_words(row.fit)}"
        line = f"{row.name}: {row_arena} of RAM row by row, {whole_arena} layer by layer{best}"
        verdicts.append(answers.cut_short(line) if row.is_cut_short else line)
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
        comparison = row.comparison
        if state_bytes := comparison.plan().kept_bytes:
            words = bytes_in_words(state_bytes)
            notes.append(
                f"{row.name}: {words} of the buffers stay between frames, which come as a whole"
            )
        in_flash = and_in_flash(comparison.parameters, comparison.flash_bytes)
        if in_flash:
            parameters = bytes_in_words(comparison.parameters)
            notes.append(f"{row.name}: {parameters} of parameters{in_flash}")
    details = map(answers.Detail, (MIN_TOTAL, ROW_WISE))
    return [*verdicts, *terminal.aligned(table), *notes, *details]


def _as_json(row: AnsweredNetwork) -> dict[str, Any]:
    return {
        "network": row.name,
        **row.comparison.to_json(),
        "fit": fit_as_json(row.fit),
        "seconds": round(row.seconds, 6),
    }


def _as_published(options: argparse.Namespace) -> int:
    """Print what networks need in the accounting of SAMOS 2020; return the exit code."""
    if options.simplify is None:
        options.simplify = PUBLISHED_STEPS
    pairs = [_published_pair(model, options) for model in (options.model, *options.more)]
    shared.remark_on_platform("csdf cnn memory", options)
    if options.json:
        networks = [pair.to_json() for pair in pairs]
        print(json.dumps({"kind": PUBLISHED_KIND, "networks": networks}, indent=2))
    elif options.csv:
        rates = [(f"{float(rate):.6g}" for rate in pair.rates) for pair in pairs]
        lines = ((pair.name, *pair.sizes, *rate) for pair, rate in zip(pairs, rates, strict=True))
        print(csv_text([tuple(PUBLISHED_COLUMNS), *lines]).rstrip("\n"))
    else:
        table = [tuple(PUBLISHED_COLUMNS.values()), *(pair.cells() for pair in pairs)]
        gaps = [f"{pair.name}: buffers not proved the smallest" for pair in pairs if pair.has_gap]
        print(answers.in_words([*terminal.aligned(table), *gaps, PUBLISHED_KIND], options))
    if options.plot:
        bars = [
            (pair.name, title, storage.parameters, storage.total - storage.parameters)
            for pair in pairs
            for title, storage in (("layer by layer", pair.whole), ("row by row", pair.rows))
        ]
        _draw(bars, options.plot)
    return answers.ANSWERED


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
