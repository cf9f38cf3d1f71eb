"""The arenas of a network in a report: every buffer in one block of bytes, over a frame."""

from __future__ import annotations

from fractions import Fraction
from itertools import groupby
from typing import Any

from cnn2csdf.network import Network
from csdf.cli.reporting.subject import Subject
from csdf.draw.report.markup import element, joined
from csdf.draw.report.sections import Contribution, Section, left_out
from csdf.time_limit import Stop
from csdf.units import bytes_in_words, percent
from planners.memory.command.beside import in_words as fit_in_words
from planners.memory.command.lifetimes import firings_and_lives
from planners.memory.plain_plans import ROWS_ARENA, WHOLE_ARENA, MemoryComparison
from planners.memory.several import Together
from planners.memory.stateful import BoundedPlan
from planners.report.findings import FIT
from planners.report.subject import NetworkSubject


def contribution(subject: Subject, stop: Stop) -> Contribution | None:  # noqa: ARG001 - found already
    """Return the arenas of a network, layer by layer and row by row, and what csdf fit finds."""
    if not isinstance(subject, NetworkSubject):
        return None
    facts = () if subject.fit is None else (f"csdf fit: {fit_in_words(subject.fit)}.",)
    if subject.comparison is None:
        content = left_out(subject.reason)
        return Contribution(sections=(Section("arena", "Arena over time", content),), facts=facts)
    return arena_contribution(subject.comparison, subject.fit, facts)


def arena_contribution(
    found: MemoryComparison, fit: Together | None = None, facts: tuple[str, ...] = ()
) -> Contribution:
    """Return what the two arenas of a comparison add to a page, and the one that csdf fit finds.

    facts: further sentences.
    """
    content = joined(
        [
            element(
                "p",
                "Every buffer at its offset: firings on one processor across, bytes up. "
                "Arrow keys go from buffer to buffer.",
            ),
            element("div", class_="tools", id="arena-tools"),
            element("div", class_="chart", id="arena-chart"),
            element("p", class_="detail", id="arena-detail", role="status"),
        ]
    )
    plans = {WHOLE_ARENA: found.whole, ROWS_ARENA: found.rows}
    said = tuple(f"{title.capitalize()}: {in_words(one)}" for title, one in plans.items())
    if fit is not None:  # shown first, for it is the one to deploy
        (answer,) = fit.fits
        way = answer.best or answer.least
        plans[FIT] = BoundedPlan(way.plan, answer.lower_bound, 0)
    return Contribution(
        sections=(Section("arena", "Arena over time", content),),
        facts=(*said, *facts),
        data={"arenas": [data_of(found.network, *one) for one in plans.items()]},
    )


def in_words(found: BoundedPlan) -> str:
    """Return the size of an arena with what is proved of it."""
    bound, size = (
        found.lower_bound,
        f"{bytes_in_words(found.arena_bytes)} ({found.arena_bytes} bytes)",
    )
    if found.arena_bytes == bound:
        return f"{size}; no arena for these buffers is smaller."
    gap = percent(Fraction(found.arena_bytes - bound, max(bound, 1)))
    return (
        f"{size}; none for these buffers is below {bytes_in_words(bound)} ({bound} bytes), a gap of "
        f"{gap}."
    )


def data_of(network: Network, title: str, arena: BoundedPlan) -> dict[str, Any]:
    """Return an arena for the scripts: boxes, and which layer fires in each step."""
    order, lives = firings_and_lives(network, arena.plan)
    number = {name: index for index, name in enumerate(dict.fromkeys(order))}
    runs = [(number[name], len(list(same))) for name, same in groupby(order)]
    return {
        "title": title,
        "peak": arena.arena_bytes,
        "bound": arena.lower_bound,
        "steps": len(order),
        "layers": list(number),
        "order": [count for run in runs for count in run],
        "boxes": [list(life) for life in lives],
    }
