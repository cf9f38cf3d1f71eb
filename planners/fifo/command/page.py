"""The page of a FIFO design: depths, what each FIFO holds over time, and why shallower FIFOs deadlock.

The occupancy is that of the self-timed execution in the depths of the answer: frames arrive at the
distance of the period, every event happens as soon as words and space allow. In a cycle a FIFO holds
the words that were written up to it and not read before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from csdf.draw.report.diagram import Block, block_diagram
from csdf.draw.report.markup import Cell, Html, Row, element, joined, sortable
from csdf.draw.report.page import Origin, document, origin_section
from csdf.draw.report.sections import PageVerdict, Section, left_out
from csdf.errors import GaveUp, counted
from csdf.status import Status
from csdf.time_limit import Stop
from csdf.units import percent, rate_in_words
from planners.fifo.command.answer import HERTZ, in_proof, verdict
from planners.fifo.design import LEAST_DEPTH, Design, Fifo
from planners.fifo.event_graph import EventCycle, EventGraph
from planners.fifo.study import Depths, Study, period_of
from planners.fifo.timing.cluster import Numbers

FRAMES = 3  # that are drawn
MOST_EVENTS = 3_000_000  # of these frames; more are not simulated for a picture
MOST_CHARTS = 40
CHART_WIDTH, CHART_HEIGHT = 560, 46  # units of the view box; a column of it is a part of the time


class Occupancy(NamedTuple):
    """Words in a FIFO over time: a level from each cycle to the next in the list; levels[0] is 0."""

    cycles: Numbers
    levels: Numbers

    @property
    def most(self) -> int:
        """The largest number of words."""
        return int(self.levels.max(initial=0))

    def columns(self, end: int, count: int) -> list[int]:
        """Return the largest number of words in each of `count` equal parts of the cycles to `end`."""
        highest = []
        for part in range(count):
            begin, stop = (
                end * part // count,
                max(end * part // count + 1, end * (part + 1) // count),
            )
            first = int(np.searchsorted(self.cycles, begin, side="right")) - 1
            last = int(np.searchsorted(self.cycles, stop, side="left"))
            highest.append(int(self.levels[max(0, first) : last].max(initial=0)))
        return highest


def occupancies(
    design: Design, depths: Sequence[int], period: Fraction, frames: int = FRAMES
) -> tuple[tuple[Occupancy, ...], int]:
    """Return what each FIFO holds in the first frames, and the cycle in which the last word is read.

    Raises GaveUp where the design deadlocks in these depths.
    """
    graph = EventGraph(design)
    times = graph.restricted(range(len(design.layers)), depths).times(period, frames)
    occupancies, end = [], 0
    for fifo in design.fifos:
        written, read = design.ports(fifo)
        put, taken = (
            np.ravel(rows if port.events is None else rows[:, port.events]).astype(np.int64)
            for port, rows in (
                (written, times[graph.sequence(fifo.producer, written)]),
                (read, times[graph.sequence(fifo.consumer, read)]),
            )
        )
        cycles, place = np.unique(np.concatenate([put, taken + 1]), return_inverse=True)
        change = np.concatenate([np.ones_like(put), -np.ones_like(taken)])
        levels = np.cumsum(np.bincount(np.ravel(place), weights=change)).astype(np.int64)
        occupancies.append(Occupancy(np.insert(cycles, 0, -1), np.insert(levels, 0, 0)))
        end = max(end, int(taken.max(initial=0)) + 1)
    return tuple(occupancies), end


def fifo_page(found: Study, megahertz: Fraction, objective: str, origin: Origin) -> str:
    """Return the page about an answer. origin: the command and the files that it is made from."""
    design, sizing = found.design, found.sizing
    sections = [
        Section("summary", "Summary", _summary(found, megahertz, objective)),
        *_deadlocks(found),
    ]
    held: tuple[Occupancy, ...] | None = None
    if sizing.depths:
        over_time, held = _over_time(found)
        sections += [_fifos(found, held), over_time]
    sections += [_layers(found), origin_section(origin)]
    layers, fifos = counted(len(design.layers), "layer"), counted(len(design.fifos), "FIFO")
    subtitle = f"streaming design of {layers} and {fifos}, {design.events} events a frame"
    return document(design.name, subtitle, _banner(found, objective), sections)


def _banner(found: Study, objective: str) -> PageVerdict:
    sizing = found.sizing
    if sizing.depths:
        bits = found.design.bits(sizing.depths)
        return PageVerdict(f"{bits} bits of FIFO storage", in_proof(sizing, objective), "yes")
    if sizing.status is Status.INFEASIBLE:
        return PageVerdict("No depths reach the goal", str(sizing.reason), "no")
    return PageVerdict("No depths found", str(sizing.reason), "unknown")


def _summary(found: Study, megahertz: Fraction, objective: str) -> Html:
    design, sizing = found.design, found.sizing
    bottleneck = design.layers[found.bottleneck].name
    cards = [
        (
            "Maximum rate",
            f"{rate_in_words(megahertz * HERTZ / found.least_period)} frames/s",
            f"{found.least_period} cycles a frame at {megahertz} MHz",
        ),
        ("Slowest layer", bottleneck, "it sets the maximum rate; no depths are faster"),
    ]
    if sizing.depths:
        at = "without deadlock" if sizing.period is None else f"for {sizing.period} cycles a frame"
        size = f"{design.bits(sizing.depths)} bits"
        cards.insert(0, ("FIFO storage", size, f"{at}; {in_proof(sizing, objective)}"))
    cards.append(("Depth 2 everywhere", _in_words(found.shallow), f"{found.shallow.bits} bits"))
    if found.given is not None:
        cards.append(("Depths of the file", _in_words(found.given), f"{found.given.bits} bits"))
    shown = [
        element("div", element("dt", title), element("dd", text, element("small", remark)),
                class_="card")
        for title, text, remark in cards
    ]  # fmt: skip
    return joined(
        [
            element("p", verdict(found, megahertz, objective), class_="lead"),
            element("dl", shown, class_="cards"),
            element("ul", [element("li", remark) for remark in design.remarks]),
        ]
    )


def _in_words(depths: Depths) -> str:
    """The period in these depths, or the deadlock."""
    cycle = depths.cycle
    if cycle is None:
        return "not computed in time"
    if cycle.period is None:
        return "may deadlock" if cycle.is_bound else "deadlock"
    return f"{'at most ' if cycle.is_bound else ''}{cycle.period} cycles a frame"


def _deadlocks(found: Study) -> Iterator[Section]:
    """For the depths of the file, or else depth 2: who waits for whom, and the smallest repair."""
    for title, depths in (("The depths of the file", found.given), ("Depth 2", found.shallow)):
        if depths is None or depths.cycle is None or depths.cycle.period is not None:
            continue
        verb = "may deadlock" if depths.cycle.is_bound else "deadlocks"
        said = "Each of these layers waits for the next, the last one for the first:"
        steps = [element("li", step) for step in waits(found.design, depths)]
        parts = [element("p", said), element("ol", steps)]
        if found.fix is not None and found.fix.depths:
            start = found.given or found.shallow
            parts += [
                element("p", element("strong", "Smallest repair"), ": ", _repair(found, start))
            ]
        yield Section("deadlock", f"{title}: why the design {verb}", joined(parts))
        return


def waits(design: Design, depths: Depths) -> Iterator[str]:
    """Yield a sentence for each layer of a cycle of waits: for which FIFO and layer it waits."""
    cycle: EventCycle | None = depths.cycle
    if cycle is None:
        return
    layers = [number for number in cycle.layers if number < len(design.layers)]
    for layer, awaited in zip(layers, [*layers[1:], *layers[:1]], strict=True):
        name, awaited_name = design.layers[layer].name, design.layers[awaited].name
        full, empty = (
            [
                (number, fifo)
                for number, fifo in enumerate(design.fifos)
                if (fifo.producer, fifo.consumer) == ends
            ]
            for ends in ((layer, awaited), (awaited, layer))
        )
        blocked = [(number, fifo) for number, fifo in full if number in cycle.fifos]
        if blocked:
            names = " and ".join(
                f"“{fifo.name}” ({counted(depths.depths[number], 'word')})"
                for number, fifo in blocked
            )
            verb = "is" if len(blocked) == 1 else "are"
            yield f"“{name}” cannot write: {names} {verb} full until “{awaited_name}” reads."
        elif empty:
            names = " or ".join(f"“{fifo.name}”" for _, fifo in empty)
            yield f"“{name}” cannot read: “{awaited_name}” has not written the next word of {names}."
        else:
            yield f"“{name}” waits for “{awaited_name}”."


def _repair(found: Study, start: Depths) -> str:
    design, fix = found.design, found.fix
    if fix is None:
        return ""
    more = [
        f"“{fifo.name}” from {old} to {new} words"
        for fifo, old, new in zip(design.fifos, start.depths, fix.depths, strict=True)
        if new > old
    ]
    proof = "" if fix.status is Status.OPTIMAL else "; fewer bits may be enough"
    return f"{', '.join(more)}: {design.bits(fix.depths) - start.bits} bits more{proof}."


def _over_time(found: Study) -> tuple[Section, tuple[Occupancy, ...] | None]:
    """The section with a chart for each FIFO deeper than 2, and what the FIFOs hold."""
    design, depths = found.design, found.sizing.depths
    title = "FIFOs over time"
    if design.events * FRAMES > MOST_EVENTS:
        reason = f"{design.events} events a frame are too many to simulate for a picture"
        return Section("occupancy", title, left_out(reason)), None
    try:
        period = found.sizing.period or period_of(EventGraph(design), depths, Stop().charge).period
        held, end = occupancies(design, depths, period or found.least_period)
    except GaveUp as error:
        return Section("occupancy", title, left_out(str(error))), None
    numbers = [number for number, depth in enumerate(depths) if depth > LEAST_DEPTH]
    numbers.sort(key=lambda number: (-depths[number] * design.fifos[number].bits, number))
    shown = numbers[:MOST_CHARTS]
    frames = f"the first {FRAMES} frames, cycles 0 to {end - 1}"
    said = [
        f"Words that each FIFO holds in {frames}, in the depths of the answer; the dashed line is the "
        "depth. Frames arrive at the distance of the period."
    ]
    if len(shown) < len(numbers):
        said.append(f"Drawn are the {len(shown)} largest of {len(numbers)} FIFOs deeper than 2.")
    elif len(shown) < len(depths):
        omitted = counted(len(depths) - len(shown), "FIFO")
        said.append(
            f"{omitted} of depth 2 {'is' if omitted.startswith('1 ') else 'are'} not drawn."
        )
    charts = [_chart(design.fifos[number], depths[number], held[number], end) for number in shown]
    content = [element("p", " ".join(said)), element("div", charts, class_="fifo-charts")]
    return Section("occupancy", title, joined(content)), held


def _chart(fifo: Fifo, depth: int, held: Occupancy, end: int) -> Html:
    """The occupancy of a FIFO as a filled line against its depth; a column shows its largest value."""
    top = max(depth, held.most)
    heights = held.columns(end, CHART_WIDTH // 2)
    line = "".join(
        f"V{CHART_HEIGHT - 2 - (CHART_HEIGHT - 8) * height / top:.1f}h2" for height in heights
    )
    y = f"{CHART_HEIGHT - 2 - (CHART_HEIGHT - 8) * depth / top:.1f}"
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
    fact = f"depth {depth} of {counted(fifo.bits, 'bit')}; most {held.most}, first in cycle {first}"
    return element(
        "div",
        element("span", fifo.name, class_="spark-name"),
        svg,
        element("span", fact, class_="spark-fact"),
        class_="spark",
    )


def _fifos(found: Study, held: Sequence[Occupancy] | None) -> Section:
    """The depths as a table, those with most bits first."""
    design = found.design
    has_given = any(fifo.given is not None for fifo in design.fifos)
    titles = ["FIFO", "depth (words)", "width (bits)", "storage (bits)", "words a frame"]
    titles += ["most held (words)"] if held is not None else []
    titles += ["depth in the file"] if has_given else []
    rows = []
    for number, (fifo, depth) in enumerate(zip(design.fifos, found.sizing.depths, strict=True)):
        cells = [depth, fifo.bits, depth * fifo.bits, fifo.words]
        cells += [held[number].most] if held is not None else []
        shown = [Cell(text=fifo.name), *(Cell(text=f"{value:,}", value=value) for value in cells)]
        if has_given:
            shown.append(Cell(text="" if fifo.given is None else str(fifo.given), value=fifo.given))
        rows.append((depth * fifo.bits, Row(cells=tuple(shown))))
    rows.sort(key=lambda row: -row[0])
    table = sortable("fifos", "FIFO", titles, [row for _, row in rows], is_live=False)
    return Section("depths", "FIFO depths", table)


def _layers(found: Study) -> Section:
    """The layers from the source to the sink, with their periods and the FIFOs that they write."""
    design, depths = found.design, found.sizing.depths
    order = _topological(design)
    place = {layer: number for number, layer in enumerate(order)}
    blocks = []
    for number in order:
        layer, period = design.layers[number], found.periods[number]
        slack = percent(1 - period / found.least_period)
        written = [
            f"{depths[index]} x {counted(fifo.bits, 'bit')}"
            for index, fifo in enumerate(design.fifos)
            if depths and fifo.producer == number
        ]
        fifos = f"FIFO {', '.join(written)}" if written else ""
        hint = "\n".join(
            text
            for text in (
                layer.name, layer.kind, layer.folding, f"{period} cycles a frame, slack {slack}",
                fifos, *(f"assumed: {text}" for text in layer.cluster.assumed),
            )
            if text
        )  # fmt: skip
        blocks.append(
            Block(
                name=layer.name,
                kind=layer.folding or layer.kind,
                facts=(f"{period} cycles", fifos),
                hint=hint,
                sources=tuple(
                    dict.fromkeys(
                        place[fifo.producer] for fifo in design.fifos if fifo.consumer == number
                    )
                ),
                is_marked=number == found.bottleneck,
            )
        )
    said = (
        "From the source to the sink: each layer with its folding, its cycles a frame by itself, and "
        "the FIFOs that it writes, depth x width. The slowest layer is marked."
    )
    drawn = block_diagram(blocks, f"layers of {design.name}")
    return Section("layers", "Layers", joined([element("p", said), drawn]))


def _topological(design: Design) -> list[int]:
    """The layers in an order in which each one follows those that it reads, as far as there is one."""
    missing = [0] * len(design.layers)
    for fifo in design.fifos:
        missing[fifo.consumer] += 1
    ready = [number for number, count in enumerate(missing) if not count]
    order: list[int] = []
    while ready:
        order.append(number := ready.pop(0))
        for fifo in design.fifos:
            if fifo.producer == number:
                missing[fifo.consumer] -= 1
                if not missing[fifo.consumer]:
                    ready.append(fifo.consumer)
    return [*order, *sorted({*range(len(design.layers))} - {*order})]
