"""The page of a design of FINN or hls4ml: depths, FIFOs over time, why shallower FIFOs deadlock.

The occupancy is the number of words in a FIFO during the self-timed execution with the depths of the
answer: a frame arrives each period, and an event happens as soon as words and space allow. In a cycle
a FIFO holds the words that were written up to it and not read before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np

from csdf.draw.report.diagram import Block
from csdf.draw.report.page import Origin, document, origin_section
from csdf.draw.report.sections import Section
from csdf.errors import GaveUp, counted
from csdf.status import Status
from csdf.time_limit import Stop
from csdf.units import percent, rate_in_words
from planners.fifo.command.answer import HERTZ, in_proof, verdict
from planners.fifo.command.page_sections import (
    Occupancy,
    PageFifo,
    deadlock_section,
    depth_section,
    diagram_section,
    occupancy_section,
    storage_verdict,
    summary_section,
)
from planners.fifo.design import Design
from planners.fifo.event_graph import EventCycle, EventGraph
from planners.fifo.study import Study, TimedDepths, period_of

FRAMES = 3  # drawn frames
# Events of these frames above which no picture is drawn, for time and memory.
MOST_EVENTS = 3_000_000


def occupancies(
    design: Design, depths: Sequence[int], period: Fraction, frames: int = FRAMES
) -> tuple[tuple[Occupancy, ...], int]:
    """Return what each FIFO holds in the first frames, and the cycle in which the last word is read.

    Raises GaveUp where the design deadlocks in these depths.
    """
    whole = EventGraph(design).restricted(range(len(design.layers)), depths)
    occupancies, end = [], 0
    for writes, reads in whole.word_times(period, frames):
        occupancies.append(Occupancy.of(writes.astype(np.int64), reads.astype(np.int64)))
        end = max(end, int(reads.max(initial=0)) + 1)
    return tuple(occupancies), end


def fifo_page(found: Study, megahertz: Fraction, objective: str, origin: Origin) -> str:
    """Return the page about an answer. origin: the command and the files that it is made from."""
    design, sizing = found.design, found.sizing
    sections = [_summary(found, megahertz, objective), *_deadlocks(found)]
    if sizing.depths:
        sections += _fifos(found)
    sections += [_layers(found), origin_section(origin)]
    layers, fifos = counted(len(design.layers), "layer"), counted(len(design.fifos), "FIFO")
    subtitle = f"streaming design of {layers} and {fifos}, {design.events} events a frame"
    storage, reason = None, str(sizing.reason)
    if sizing.depths:
        storage, reason = f"{design.bits(sizing.depths)} bits", in_proof(sizing, objective)
    page_verdict = storage_verdict(storage, sizing.status, reason)
    return document(design.name, subtitle, page_verdict, sections)


def _summary(found: Study, megahertz: Fraction, objective: str) -> Section:
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
    cards.append(
        ("Depth 2 everywhere", _in_words(found.at_depth_2), f"{found.at_depth_2.bits} bits")
    )
    if found.as_given is not None:
        cards.append(
            ("Depths of the file", _in_words(found.as_given), f"{found.as_given.bits} bits")
        )
    return summary_section(verdict(found, megahertz, objective), cards, design.remarks)


def _in_words(depths: TimedDepths) -> str:
    """The period in these depths, or the deadlock."""
    cycle = depths.cycle
    if cycle is None:
        return "not computed in time"
    if cycle.period is None:
        return "may deadlock" if cycle.is_bound else "deadlock"
    return f"{'at most ' if cycle.is_bound else ''}{cycle.period} cycles a frame"


def _deadlocks(found: Study) -> Iterator[Section]:
    """For the depths of the file, or else depth 2: who waits for whom, and the smallest repair."""
    for title, depths in (
        ("The depths of the file", found.as_given),
        ("Depth 2", found.at_depth_2),
    ):
        if depths is None or depths.cycle is None or depths.cycle.period is not None:
            continue
        verb = "may deadlock" if depths.cycle.is_bound else "deadlocks"
        note = "Each of these layers waits for the next, the last one for the first:"
        repair = ""
        if found.fix is not None and found.fix.depths:
            repair = _repair(found, found.as_given or found.at_depth_2)
        title = f"{title}: why the design {verb}"
        yield deadlock_section(title, note, waits(found.design, depths), repair)
        return


def waits(design: Design, depths: TimedDepths) -> Iterator[str]:
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


def _repair(found: Study, start: TimedDepths) -> str:
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


def _fifos(found: Study) -> tuple[Section, Section]:
    """The depths, and what the FIFOs hold over time in the first frames."""
    design, depths = found.design, found.sizing.depths
    held: Sequence[Occupancy | None] = (None,) * len(depths)
    end, reason = 0, ""
    if design.events * FRAMES > MOST_EVENTS:
        reason = f"{design.events} events a frame are too many to simulate for a picture"
    else:
        try:
            period = (
                found.sizing.period or period_of(EventGraph(design), depths, Stop().charge).period
            )
            held, end = occupancies(design, depths, period or found.least_period)
        except GaveUp as error:
            reason = str(error)
    fifos = [
        PageFifo(fifo.name, depth, fifo.bits, fifo.words, fifo.given, over_time)
        for fifo, depth, over_time in zip(design.fifos, depths, held, strict=True)
    ]
    span = (
        f"the first {FRAMES} frames, cycles 0 to {end - 1}, in the depths of the answer, where frames "
        "arrive at the distance of the period"
    )
    return depth_section(fifos, "frame", "file"), occupancy_section(fifos, end, span, reason)


def _layers(found: Study) -> Section:
    """The layers from the source to the sink, with their periods and the FIFOs that they write."""
    design, depths = found.design, found.sizing.depths
    edges = [(fifo.producer, fifo.consumer) for fifo in design.fifos]
    blocks = []
    for number, (layer, period) in enumerate(zip(design.layers, found.periods, strict=True)):
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
                is_marked=number == found.bottleneck,
            )
        )
    note = (
        "From the source to the sink: each layer with its folding, its cycles a frame by itself, and "
        "the FIFOs that it writes, depth x width. The slowest layer is marked."
    )
    return diagram_section("Layers", note, f"layers of {design.name}", blocks, edges)
