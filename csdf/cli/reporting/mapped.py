"""The answer of `csdf map` about a mapping, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import groupby
from typing import Any, NamedTuple

from csdf.analysis.mapping.execution import MappedExecution
from csdf.analysis.mapping.throughput import MappedThroughput
from csdf.cli import answers
from csdf.model.graph import Graph
from csdf.model.mapping import Buffer, Mapping, Platform, StaticOrder
from csdf.outcome import Status
from csdf.search.mapping.buffers import LeastBuffers
from csdf.search.mapping.fewest import FewestProcessors
from csdf.search.mapping.search import BestMapping

RUNS = 16  # most runs of equal actors of an order that are listed

Least = FewestProcessors | LeastBuffers


class Answer(NamedTuple):
    """The answer of `csdf map` and what it rests on.

    mapping, found: None where no mapping is known that is fast enough. best: what a search for the
    least period says; least: what one for the fewest processors or the least buffers says, in
    which `required` is the period asked for.
    """

    graph: Graph
    platform: Platform
    mapping: Mapping | None
    found: MappedThroughput | None
    best: BestMapping | None = None
    least: Least | None = None
    required: Fraction | None = None

    @property
    def is_slow(self) -> bool:
        """Whether the period is longer than the required one."""
        period = None if self.found is None else self.found.period
        return self.required is not None and period is not None and period > self.required

    @property
    def exit_code(self) -> int:
        """0 for a mapping that is as asked, 1 for none, 3 for a search that gave up."""
        if self.least is not None and self.least.status == Status.GAVE_UP:
            return answers.GAVE_UP
        if self.found is None or self.found.deadlock is not None or self.is_slow:
            return answers.NO
        return answers.ANSWERED


def as_json(answer: Answer, execution: MappedExecution | None) -> dict[str, Any]:
    """Return the answer as a JSON value; fractions as texts."""
    nothing: dict[str, Any] = {"period": None, "bottleneck": None, "deadlock": None}
    found: dict[str, Any] = {
        "graph": answer.graph.name,
        "processors": [core.name for core in answer.platform.cores],
        "utilization": {},
        **(nothing if answer.found is None else answer.found.to_json()),
        "mapping": None if answer.mapping is None else answer.mapping.to_json(),
    }
    if answer.best is not None:
        found |= {
            "lower_bound": str(answer.best.lower_bound),
            "gap": None if answer.best.gap is None else str(answer.best.gap),
            "status": answer.best.status,
        }
    if answer.required is not None:
        found["required_period"] = str(answer.required)
    if answer.least is not None:
        found["least"] = answer.least.to_json()
    if execution is not None:
        found["period_aligned"] = str(execution.period)
    return found


def as_text(answer: Answer, execution: MappedExecution | None) -> str:
    """Return the answer as lines to read."""
    count = answers.counted(len(answer.platform.cores), "processor")
    lines = [f"{answer.graph.name} on {count}"]
    lines += [f"  {title:<13}{text}".rstrip() for title, text in _rows(answer, execution)]
    if answer.mapping is not None and answer.found is not None:
        lines += _core_lines(answer.platform, answer.mapping, answer.found)
    return answers.one_text(lines)


def _core_lines(platform: Platform, mapping: Mapping, found: MappedThroughput) -> Iterator[str]:
    width = max(len(core.name) for core in platform.cores)
    for core in platform.cores:
        order = mapping.orders.get(core.name)
        use = found.utilization.get(core.name, 0)
        shown = "nothing" if order is None else _order(order)
        yield f"  {core.name:<{width}} {float(use):>7.1%}  {shown}"


def _rows(answer: Answer, execution: MappedExecution | None) -> Iterator[tuple[str, str]]:
    if answer.least is not None:
        yield from _least_rows(answer.least)
    if answer.found is not None:
        yield from _period_rows(answer, answer.found, execution)
    if isinstance(answer.least, LeastBuffers) and answer.least.mapping is not None:
        yield from _buffer_rows(answer.least.mapping.buffers)


def _least_rows(least: Least) -> Iterator[tuple[str, str]]:
    is_count = isinstance(least, FewestProcessors)
    size = least.count if isinstance(least, FewestProcessors) else least.size
    title = "processors" if is_count else "buffers"
    unit = "" if isinstance(least, FewestProcessors) else f" {least.unit}"
    if size is None:
        yield title, f"{least.status}: {least.reason}"
    elif least.status == Status.OPTIMAL:
        proved = "the fewest, proved" if is_count else "the least of this mapping, proved"
        yield title, f"{size}{unit}, {proved}"
    else:
        yield title, f"{size}{unit}, and at least {least.lower_bound}: {least.reason}"


def _period_rows(
    answer: Answer, found: MappedThroughput, execution: MappedExecution | None
) -> Iterator[tuple[str, str]]:
    if found.period is None:
        yield "deadlock", str(found.deadlock)
        yield "throughput", "0"
        return
    verdict = f", {_verdict(answer.best)}" if answer.best is not None and not answer.least else ""
    if answer.required is not None:
        kept = "more than" if answer.is_slow else "at most"
        verdict += f"; {kept} the required {answers.number(answer.required)}"
    yield "period", f"{answers.number(found.period)}{verdict}"
    if any(core.wheel for core in answer.platform.cores):
        yield "", "for wheels that start at any time: an upper bound"
        if execution is not None and execution.period is not None:
            yield "aligned", f"{answers.number(execution.period)}, all wheels from time 0 on"
    cycle = found.critical_cycle
    if cycle is not None:
        yield "limited by", ", ".join(cycle.actors[:12])
        yield "", f"over {', '.join(cycle.channels[:6])}"


def _buffer_rows(buffers: Any) -> Iterator[tuple[str, str]]:
    width = max((len(name) for name in buffers), default=0)
    for place, (name, buffer) in enumerate(buffers.items()):
        yield "rooms" if not place else "", f"{name:<{width}} {_room(buffer)}"


def _room(buffer: Buffer) -> str:
    if buffer.memory is not None:
        return str(buffer.memory)
    return f"{buffer.source} at its source, {buffer.target} at its target"


def _verdict(best: BestMapping) -> str:
    if best.status == Status.OPTIMAL:
        return "optimal"
    return f"at most {float(best.gap or 0):.1%} above the bound {answers.number(best.lower_bound)}"


def _order(order: StaticOrder) -> str:
    first = f"{_runs(order.prefix)}; then " if order.prefix else ""
    return f"{first}for ever {_runs(order.periodic)}"


def _runs(actors: Sequence[str]) -> str:
    """Return a list of actors, those that follow themselves with their number."""
    runs = [(actor, len(list(same))) for actor, same in groupby(actors)]
    shown = [actor if count == 1 else f"{count} {actor}" for actor, count in runs[:RUNS]]
    return ", ".join(shown) + (f" and {len(runs) - RUNS} more" if len(runs) > RUNS else "")
