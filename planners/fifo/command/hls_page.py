"""The page of a call of a Vitis HLS design: depths, FIFOs over time, why shallower FIFOs deadlock."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from csdf.draw.report.diagram import Block
from csdf.draw.report.page import Origin, document, origin_section
from csdf.draw.report.sections import Section
from csdf.errors import counted
from planners.fifo.command.hls_answer import CallAnswer
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
from planners.fifo.hls.depths import CallSizing
from planners.fifo.hls.reduction import total_cost

# Words of a call above which no picture is drawn: their times take 160 MB.
MOST_WORDS = 2_000_000


def call_page(answer: CallAnswer, sizing: CallSizing, origin: Origin) -> str:
    """Return the page about an answer. origin: the command and the files that it is made from."""
    model = answer.model
    sections = [_summary(answer, sizing), *_deadlocks(answer)]
    if sizing.depths:
        sections += _fifos(answer, sizing.depths)
    sections += [_processes(answer, sizing.depths), origin_section(origin)]
    processes = answer.counted_processes()
    subtitle = f"call of a Vitis HLS design of {processes}, {model.events} stages with accesses"
    storage = f"{sizing.cost} {answer.unit}" if sizing.depths else None
    verdict = storage_verdict(storage, sizing.status, answer.in_words(sizing))
    return document(model.design.name, subtitle, verdict, sections)


def _summary(answer: CallAnswer, sizing: CallSizing) -> Section:
    call_study = answer.study
    cards = []
    if sizing.depths:
        cards.append(("FIFO storage", f"{sizing.cost} {answer.unit}", answer.in_words(sizing)))
    if call_study.unbounded.cycles is None:
        cards.append(("Fewest cycles", "none", "the design deadlocks in any depths"))
    else:
        fewest = answer.cycles(call_study.unbounded.cycles)
        cards.append(("Fewest cycles", fewest, "no depths are faster"))
    for title, run in (
        ("Depth 2 everywhere", call_study.at_depth_2),
        ("Depths of the source", call_study.as_given),
    ):
        cycles = run.outcome.cycles
        value = "deadlock" if cycles is None else answer.cycles(cycles)
        remark = f"{total_cost(answer.model, run.depths, 'bits')} bits"
        if run.deadlocks_from:
            remark += f"; deadlock from skew {run.deadlocks_from} on"
        cards.append((title, value, remark))
    return summary_section(answer.verdict(), cards, answer.assumptions())


def _deadlocks(answer: CallAnswer) -> Iterator[Section]:
    """For the depths of the source, or else depth 2: who waits for whom."""
    for title, run in (
        ("The depths of the source", answer.study.as_given),
        ("Depth 2", answer.study.at_depth_2),
    ):
        waits = list(answer.waits(run))
        if waits:
            verb = "may deadlock" if run.deadlocks_from else "deadlocks"
            skew = f"From skew {run.deadlocks_from} on: " if run.deadlocks_from else ""
            note = f"{skew}Each of these processes waits for the next, the last one for the first:"
            yield deadlock_section(f"{title}: why the design {verb}", note, waits, "")
            return


def _fifos(answer: CallAnswer, depths: Sequence[int]) -> tuple[Section, Section]:
    """The depths, and what the FIFOs hold over time in one call."""
    model = answer.model
    held: Sequence[Occupancy | None] = (None,) * len(depths)
    cycles, reason = 0, ""
    if sum(model.words) > MOST_WORDS:
        reason = f"{sum(model.words)} words in a call are too many to simulate for a picture"
    elif (times := model.word_times(depths)) is None:
        reason = "the design deadlocks in these depths"
    else:
        held, cycles = [Occupancy.of(*row) for row in times[0]], times[1]
    fifos = []
    for index, (name, depth, occupancy) in enumerate(zip(model.names, depths, held, strict=True)):
        lanes = model.fifos[index]
        fifos.append(
            PageFifo(
                name, depth, max(fifo.bits for fifo in lanes), model.words[index],
                model.source_depths[index], occupancy, len(lanes),
            )
        )  # fmt: skip
    span = f"one call, cycles 0 to {cycles}, in the depths of the answer"
    if any(fifo.lanes > 1 for fifo in fifos):
        span += ", of an array of streams the one that holds most"
    charts = occupancy_section(fifos, cycles + 1, span, reason)
    return depth_section(fifos, "call", "source"), charts


def _processes(answer: CallAnswer, depths: Sequence[int]) -> Section:
    """The processes from the first to the last, with their loops and the FIFOs that they write."""
    model = answer.model
    design, limit = model.design, answer.study.limit
    edges = [(fifo.writer, fifo.reader) for fifo in design.fifos]
    blocks = []
    for number, process in enumerate(design.processes):
        written = [
            f"{depth} x {counted(fifos[0].bits, 'bit')}"
            for depth, fifos in zip(depths, model.fifos, strict=False)  # no depths: no FIFOs
            if fifos[0].writer == number
        ]
        fifos = f"FIFO {', '.join(written)}" if written else ""
        blocks.append(
            Block(
                name=process.name,
                kind=f"line {process.line}",
                facts=(f"{process.stages} stages", fifos),
                hint="\n".join((process.name, f"line {process.line}", *process.loops, fifos)),
                is_marked=limit is not None and number == limit.shares[0][0],
            )
        )
    note = (
        "From the first to the last: each process with its line in the source, its stages, and the "
        "FIFOs that it writes, depth x width."
    )
    if limit is not None:
        note += " The process with most cycles of the longest path is marked."
    return diagram_section("Processes", note, f"processes of {design.name}", blocks, edges)
