"""The arenas of a network in a report: every buffer in one block of bytes, over time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from cnn2csdf.commands.cnn import chosen
from cnn2csdf.commands.cnn import options as shared
from cnn2csdf.fixed_point.flash import flash_bytes
from cnn2csdf.network import Network
from cnn2csdf.parameters import parameter_bytes
from csdf.cli.frame.long_work import limited_part
from csdf.cli.reporting.subject import Subject
from csdf.draw.report.markup import Html, element, joined
from csdf.draw.report.sections import Contribution, Need, Section, left_out
from csdf.errors import CsdfError
from csdf.time_limit import Progress, Stop
from csdf.words import bytes_in_words, percent
from planners.arena.problem import MemoryPlan
from planners.memory.answer import Limits
from planners.memory.command.beside import fit_beside
from planners.memory.command.beside import in_words as fit_in_words
from planners.memory.several import Together
from planners.memory_ways import FIT_ARENA, PARTS_ARENA, WHOLE_ARENA
from planners.network_arena import NetworkArena, parts_arena, whole_arena


class TitledArena(NamedTuple):
    """An arena under the title of its way."""

    title: str
    found: NetworkArena

    @property
    def plan(self) -> MemoryPlan:
        """The offsets, and what is proved of them."""
        return self.found.plan


def contribution(subject: Subject, stop: Stop) -> Contribution | None:
    """Return the arenas of a network: as a whole, by parts, and as csdf fit plans it."""
    if not isinstance(subject.value, Network):
        return None
    arenas: list[TitledArena] = []
    reason = ""
    try:
        for arena in _arenas(subject.value, subject, stop):
            arenas.append(arena)  # those before a refusal are kept
    except CsdfError as refusal:
        reason = str(refusal)
    return arena_contribution(arenas, reason, _fit(subject.value, subject, stop))


def _fit(network: Network, subject: Subject, stop: Stop) -> Together | None:
    """Return what csdf fit finds, within the RAM that the options leave for buffers."""
    options = subject.options
    limits = Limits(ram=options.ram, flash=options.flash, memory=options.memory)
    size = options.element_bytes
    room = limits.room(parameter_bytes(network, size), flash_bytes(network, size))
    if room is not None and room < 0:
        return None  # the parameters alone are too large
    return fit_beside(
        [network],
        stop.part(share=0.4),
        ram=room,
        element_bytes=size,
        is_streamed=True,
        platform=shared.platform_of(options),
    )


def arena_contribution(
    arenas: list[TitledArena], reason: str = "", fit: Together | None = None
) -> Contribution:
    """Return what arenas add to a page; reason: why some of them are left out."""
    fits = () if fit is None else (fit,)
    bounds = [one.lower_bound for one in (*(arena.plan for arena in arenas), *fits)]
    return Contribution(
        sections=(Section("arena", "Arena over time", _section(arenas, reason)),),
        needs=(
            *(Need(one.title, one.plan.peak, one.plan.lower_bound) for one in arenas),
            *(Need(FIT_ARENA, one.ram_bytes, one.lower_bound) for one in fits),
        ),
        lower_bound=min(bounds) if len(arenas) == 2 else None,
        facts=(
            *(f"{arena.title.capitalize()}: {in_words(arena.plan)}" for arena in arenas),
            *(f"csdf fit: {fit_in_words(one)}." for one in fits),
        ),
        data={"arenas": [data_of(arena) for arena in arenas]},
    )


def _arenas(network: Network, subject: Subject, stop: Stop) -> Iterator[TitledArena]:
    """Return an arena for the network as a whole, and one by parts."""
    size = subject.options.element_bytes
    with limited_part(stop, 0.2, _progress_of(WHOLE_ARENA)) as part:
        whole = whole_arena(network, element_bytes=size, budget=part)
    yield TitledArena(WHOLE_ARENA, whole)
    with limited_part(stop, 0.2, _progress_of(PARTS_ARENA)) as part:
        granularity = chosen.granularity_of(subject.options)
        parts = parts_arena(network, granularity, element_bytes=size, budget=part)
    yield TitledArena(PARTS_ARENA, parts)


def _progress_of(title: str) -> Callable[[Progress], str]:
    return lambda one: f"{title}: {one.best} bytes, at least {one.lower_bound}"


def in_words(plan: MemoryPlan) -> str:
    """Return the size of an arena with what is proved of it."""
    size = f"{bytes_in_words(plan.peak)} ({plan.peak} bytes)"
    if plan.peak == plan.lower_bound:
        return f"{size}; no arena for these buffers is smaller."
    return (
        f"{size}; none for these buffers is below {bytes_in_words(plan.lower_bound)} "
        f"({plan.lower_bound} bytes), a gap of {percent(plan.gap)}."
    )


def _section(arenas: list[TitledArena], reason: str) -> Html:
    if not arenas:
        return left_out(reason)
    said = [
        element("li", f"{arena.title.capitalize()}: {in_words(arena.plan)}") for arena in arenas
    ]
    return joined(
        [
            element(
                "p",
                "Every buffer in its place: steps of the schedule on one processor across, bytes up. "
                "Arrow keys go from buffer to buffer.",
            ),
            element("ul", *said),
            *([left_out(reason)] if reason else []),
            element("div", class_="tools", id="arena-tools"),
            element("div", class_="chart", id="arena-chart"),
            element("p", class_="detail", id="arena-detail", role="status"),
        ]
    )


def data_of(arena: TitledArena) -> dict[str, Any]:
    """Return an arena for the scripts: boxes, and which layer fires in each step."""
    plan, order = arena.plan, arena.found.order
    prefix = f"{plan.problem.name}: "
    names = list(dict.fromkeys(order))
    number = {name: index for index, name in enumerate(names)}
    return {
        "title": arena.title,
        "peak": plan.peak,
        "bound": plan.lower_bound,
        "steps": len(order),
        "layers": names,
        "order": _runs([number[name] for name in order]),
        "boxes": [
            [
                one.name.removeprefix(prefix), one.start, one.end,
                plan.offsets[one.name], one.size,
            ]
            for one in plan.problem.buffers
            if one.takes_room
        ],
    }  # fmt: skip


def _runs(values: list[int]) -> list[int]:
    """Equal neighbours as a value and how many there are."""
    found: list[int] = []
    for value in values:
        if found and found[-2] == value:
            found[-1] += 1
        else:
            found += [value, 1]
    return found
