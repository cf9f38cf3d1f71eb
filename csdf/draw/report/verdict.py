"""The banner of a page: the answer, and how much is left until it changes."""

from __future__ import annotations

from fractions import Fraction

from csdf.draw.report.findings import GraphFindings
from csdf.draw.report.markup import Html, element
from csdf.draw.report.sections import Verdict
from csdf.words import exact, percent


def banner(found: Verdict) -> Html:
    """Return the element at the top of the page."""
    parts = [element("strong", found.answer)]
    if found.headroom:
        parts.append(element("span", found.headroom))
    return element("div", *parts, class_=f"banner {found.kind}", id="verdict", role="status")


def verdict(findings: GraphFindings) -> Verdict:
    """Return whether a graph runs, how fast, and what limits it behind its bottleneck."""
    result = findings.result
    if result is None:
        return Verdict("The period is not known", "the budget ended before it was found", "unknown")
    if result.deadlock is not None:
        return Verdict("Deadlock", "some actors wait for one another for ever", "no")
    if not result.period:
        return Verdict("Runs without a limit", "no cycle of the graph takes time", "yes")
    period = f"Runs: period {exact(result.period)} {findings.time}"
    return Verdict(period, _headroom(findings, result.period), "yes")


def _headroom(findings: GraphFindings, period: Fraction) -> str:
    """The busiest actor outside the bottleneck: a faster bottleneck soon meets it."""
    graph, critical = findings.graph, set(findings.critical_actors)
    busy = [
        (
            findings.repetitions[one.name]
            // one.phases
            * sum(one.durations)
            * graph.time_unit
            / period,
            one.name,
        )
        for one in graph.actors
        if one.name not in critical
    ]
    if not busy:
        return "every actor belongs to the bottleneck"
    share, name = max(busy, key=lambda one: one[0])
    return f"headroom: the busiest other actor is “{name}”, {percent(share)} of the period"
