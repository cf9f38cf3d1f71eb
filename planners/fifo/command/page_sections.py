"""Sections of the page of a FIFO design: depths, words in each FIFO over time, waits of a deadlock."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from csdf.draw.report.diagram import Block, block_diagram
from csdf.draw.report.markup import Cell, Html, Row, element, joined, sortable
from csdf.draw.report.sections import PageVerdict, Section, left_out
from csdf.errors import counted
from csdf.status import Status
from planners.fifo.design import LEAST_DEPTH
from planners.fifo.timing.cluster import Numbers

MOST_CHARTS = 40
CHART_WIDTH, CHART_HEIGHT = 560, 46  # units of the view box; a column of it is a part of the time


class Occupancy(NamedTuple):
    """Words in a FIFO over time: a level from each cycle to the next in the list; levels[0] is 0."""

    cycles: Numbers
    levels: Numbers

    @staticmethod
    def of(written: Numbers, read: Numbers) -> Occupancy:
        """Return the words in a FIFO over time, each from its write to its read."""
        cycles, index = np.unique(np.concatenate([written, read + 1]), return_inverse=True)
        change = np.concatenate([np.ones_like(written), -np.ones_like(read)])
        levels = np.cumsum(np.bincount(np.ravel(index), weights=change)).astype(np.int64)
        return Occupancy(np.insert(cycles, 0, -1), np.insert(levels, 0, 0))

    @property
    def most(self) -> int:
        """The largest number of words."""
        return int(self.levels.max(initial=0))

    def columns(self, end: int, count: int) -> list[int]:
        """Return the largest number of words in each of `count` equal parts of the cycles to `end`."""
        highest = []
        for part in range(count):
            begin = end * part // count
            stop = max(begin + 1, end * (part + 1) // count)
            first = int(np.searchsorted(self.cycles, begin, side="right")) - 1
            last = int(np.searchsorted(self.cycles, stop, side="left"))
            highest.append(int(self.levels[max(0, first) : last].max(initial=0)))
        return highest


class PageFifo(NamedTuple):
    """A FIFO of the page, or an array of `lanes` FIFOs of one depth; held: None if not simulated."""

    name: str
    depth: int
    bits: int  # of a word
    words: int
    initial_depth: int | None  # in the design as it was read
    held: Occupancy | None
    lanes: int = 1

    @property
    def storage(self) -> int:
        """Bits of all lanes."""
        return self.depth * self.bits * self.lanes


def storage_verdict(storage: str | None, status: Status, reason: str) -> PageVerdict:
    """Return the answer of a page: the storage of the depths, or that there are none; and why."""
    if storage is not None:
        return PageVerdict(f"{storage} of FIFO storage", reason, "yes")
    if status is Status.INFEASIBLE:
        return PageVerdict("No depths reach the goal", reason, "no")
    return PageVerdict("No depths found", reason, "unknown")


def summary_section(
    lead: str, cards: Iterable[tuple[str, str, str]], remarks: Iterable[str]
) -> Section:
    """Return the answer in a sentence, and as cards of a title, a value and a remark."""
    shown = [
        element("div", element("dt", title), element("dd", text, element("small", remark)),
                class_="card")
        for title, text, remark in cards
    ]  # fmt: skip
    content = [
        element("p", lead, class_="lead"),
        element("dl", shown, class_="cards"),
        element("ul", [element("li", remark) for remark in remarks]),
    ]
    return Section("summary", "Summary", joined(content))


def deadlock_section(title: str, note: str, waits: Iterable[str], repair: str) -> Section:
    """Return who waits for whom, in the order of the cycle, and the smallest repair if there is one."""
    parts = [element("p", note), element("ol", [element("li", step) for step in waits])]
    if repair:
        parts.append(element("p", element("strong", "Smallest repair"), ": ", repair))
    return Section("deadlock", title, joined(parts))


def occupancy_section(fifos: Sequence[PageFifo], end: int, span: str, reason: str) -> Section:
    """Return a chart for each FIFO deeper than 2, the largest first.

    span: what is simulated. reason: why nothing is simulated, or "".
    """
    if reason:
        return Section("occupancy", "FIFOs over time", left_out(reason))
    deep = [(fifo, fifo.held) for fifo in fifos if fifo.depth > LEAST_DEPTH and fifo.held]
    deep.sort(key=lambda pair: -pair[0].storage)
    shown = deep[:MOST_CHARTS]
    note = [f"Words that each FIFO holds in {span}; the dashed line is the depth."]
    if len(shown) < len(deep):
        note.append(f"Drawn are the {len(shown)} largest of {len(deep)} FIFOs deeper than 2.")
    elif len(shown) < len(fifos):
        omitted = len(fifos) - len(shown)
        note.append(
            f"{counted(omitted, 'FIFO')} of depth 2 {'is' if omitted == 1 else 'are'} not drawn."
        )
    charts = [_chart(fifo, held, end) for fifo, held in shown]
    content = [element("p", " ".join(note)), element("div", charts, class_="fifo-charts")]
    return Section("occupancy", "FIFOs over time", joined(content))


def _chart(fifo: PageFifo, held: Occupancy, end: int) -> Html:
    """The occupancy of a FIFO as a filled line against its depth; a column shows its largest value."""
    top = max(fifo.depth, held.most)
    line = "".join(
        f"V{CHART_HEIGHT - 2 - (CHART_HEIGHT - 8) * height / top:.1f}h2"
        for height in held.columns(end, CHART_WIDTH // 2)
    )
    y = f"{CHART_HEIGHT - 2 - (CHART_HEIGHT - 8) * fifo.depth / top:.1f}"
    svg = element(
        "svg",
        element("path", d=f"M0 {CHART_HEIGHT - 2}{line}V{CHART_HEIGHT - 2}z"),
        element("line", x1=0, x2=CHART_WIDTH, y1=y, y2=y),
        viewBox=f"0 0 {CHART_WIDTH} {CHART_HEIGHT}",
        preserveAspectRatio="none",
        role="img",
        aria_label=f"words in {fifo.name} over time",
    )
    first = int(held.cycles[int(np.argmax(held.levels))])
    lanes = f"{fifo.lanes} lanes: " if fifo.lanes > 1 else ""
    depth = f"{lanes}depth {fifo.depth} of {counted(fifo.bits, 'bit')}"
    fact = f"{depth}; most {held.most}, first in cycle {first}"
    return element(
        "div",
        element("span", fifo.name, class_="spark-name"),
        svg,
        element("span", fact, class_="spark-fact"),
        class_="spark",
    )


def depth_section(fifos: Sequence[PageFifo], unit: str, origin: str) -> Section:
    """Return the depths as a table, those with most bits first.

    unit: what words are counted in, such as a frame. origin: where initial depths are from.
    """
    has_initial = any(fifo.initial_depth is not None for fifo in fifos)
    has_lanes = any(fifo.lanes > 1 for fifo in fifos)
    has_held = any(fifo.held is not None for fifo in fifos)
    titles = ["FIFO", *["lanes"] * has_lanes, "depth (words)", "width (bits)", "storage (bits)"]
    titles += [f"words a {unit}", *["most held (words)"] * has_held]
    titles += [f"depth in the {origin}"] * has_initial
    rows = []
    for fifo in sorted(fifos, key=lambda fifo: -fifo.storage):
        cells = [*[fifo.lanes] * has_lanes, fifo.depth, fifo.bits, fifo.storage, fifo.words]
        cells += [0 if fifo.held is None else fifo.held.most] * has_held
        shown = [Cell(text=fifo.name), *(Cell(text=f"{value:,}", value=value) for value in cells)]
        if has_initial:
            initial = fifo.initial_depth
            shown.append(Cell(text="" if initial is None else str(initial), value=initial))
        rows.append(Row(cells=tuple(shown)))
    return Section("depths", "FIFO depths", sortable("fifos", "FIFO", titles, rows, is_live=False))


def diagram_section(
    title: str, note: str, label: str, blocks: Sequence[Block], edges: Sequence[tuple[int, int]]
) -> Section:
    """Return blocks from sources to sinks. edges: pairs of a writer and a reader among the blocks."""
    order = topological(len(blocks), edges)
    position = {number: place for place, number in enumerate(order)}
    in_order = []
    for number in order:
        sources = dict.fromkeys(position[source] for source, target in edges if target == number)
        in_order.append(replace(blocks[number], sources=tuple(sources)))
    content = [element("p", note), block_diagram(in_order, label)]
    return Section("layers", title, joined(content))


def topological(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """Return the numbers below `count`, sources of edges before their targets."""
    missing = [0] * count
    for _, target in edges:
        missing[target] += 1
    ready = [number for number in range(count) if not missing[number]]
    order: list[int] = []
    while ready:
        order.append(number := ready.pop(0))
        for source, target in edges:
            if source == number:
                missing[target] -= 1
                if not missing[target]:
                    ready.append(target)
    return [*order, *sorted({*range(count)} - {*order})]
