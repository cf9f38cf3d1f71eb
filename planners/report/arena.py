"""The arenas of a network in a report: every buffer in one block of bytes, over a frame."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from cnn2csdf.network import Network
from csdf.cli.reporting.subject import Subject
from csdf.draw.report.markup import element, joined
from csdf.draw.report.sections import Contribution, Section, left_out
from csdf.time_limit import Stop
from planners.memory.command.lifetimes import firings_and_lives
from planners.memory.plain_plans import ROWS_ARENA, WHOLE_ARENA, MemoryComparison
from planners.memory.stateful import BoundedPlan
from planners.report.plans import FitAnswer
from planners.report.subject import NetworkSubject


def contribution(subject: Subject, stop: Stop) -> Contribution | None:  # noqa: ARG001 - the subject has all plans
    """Return the arenas of a network, layer by layer and row by row, and those of csdf fit."""
    if not isinstance(subject, NetworkSubject):
        return None
    return arena_contribution(subject.comparison, subject.answers, subject.reason)


def arena_contribution(
    comparison: MemoryComparison | None, answers: Sequence[FitAnswer] = (), reason: str = ""
) -> Contribution:
    """Return the two arenas of a comparison, and those of the answers of csdf fit.

    reason: why there is no comparison.
    """
    arenas = []
    if comparison is not None:
        plans = {WHOLE_ARENA: comparison.whole, ROWS_ARENA: comparison.rows}
        arenas = [data_of(comparison.network, *plan) for plan in plans.items()]
    highest = max((answer.plan.arena_bytes for answer in answers), default=0)
    for answer in answers[::-1]:  # the page begins with the last arena
        bounded = BoundedPlan(answer.plan, answer.fit.lower_bound, 0)
        drawn = data_of(answer.network, f"{answer.title}: {answer.method.name}", bounded)
        arenas.append(drawn | {"top": highest})  # one scale for plans that are compared
    if not arenas:
        return Contribution(sections=(Section("arena", "Arena over time", left_out(reason)),))
    content = joined(
        [
            element(
                "p",
                "Every buffer at its offset: firings on one processor across, bytes up. "
                "A stage of tiles is one firing. Where boxes overlap, a result is written over rows "
                "that no layer reads any more. Arrow keys go from buffer to buffer.",
            ),
            element("div", class_="tools", id="arena-tools"),
            element("div", class_="chart", id="arena-chart"),
            element("p", class_="detail", id="arena-detail", role="status"),
        ]
    )
    return Contribution(
        sections=(Section("arena", "Arena over time", content),), data={"arenas": arenas}
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
