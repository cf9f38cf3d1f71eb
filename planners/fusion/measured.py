"""Configurations whose times were measured on a device, and a platform fitted to them.

A table (CSV) has the columns configuration, in the notation of MAFAT, and milliseconds of a frame;
other columns are ignored.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from cnn2csdf.platforms import NANOSECONDS, Platform
from csdf.errors import InvalidPlan, UnreadableFile
from csdf.io.files import read_bytes
from csdf.model.exact import MalformedText, rational
from csdf.status import Status, Why, because
from planners.fusion.planning import FusionAnswer, FusionPlan, fusion_plan
from planners.fusion.search import Terms
from planners.memory.order import TopologicalOrder
from planners.memory.stages import StageTable
from planners.memory.times import PlanTimes
from planners.published.mafat import named_configuration

COLUMNS = ("configuration", "milliseconds")
FREE = Fraction(10**30)  # operations and bytes a second that take no time
ONE = Fraction(1)


class MeasuredWhy(Why):
    """The reason for a plan that was measured."""

    FASTEST = (
        "{name} was measured; of what fits nothing is predicted faster by more than the fit of {count} "
        "times is wrong ({error:.1%})"
    )


Measured = tuple[str, FusionPlan]
"""A configuration, as MAFAT writes it, and its plan with the nanoseconds of a frame on the device."""


def read_measured(
    path: str | os.PathLike[str], chain: TopologicalOrder, terms: Terms
) -> tuple[Measured, ...]:
    """Return the configurations of a table.

    Raises UnreadableFile with the line of what is no time, InvalidPlan for a configuration that does
    not fit the chain.
    """
    try:
        text = read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnreadableFile(f"{path}: byte {error.start} is no UTF-8 text") from None
    rows = csv.DictReader(text.splitlines())
    missing = [column for column in COLUMNS if column not in (rows.fieldnames or ())]
    if missing:
        raise UnreadableFile(f"{path}, line 1: no column {missing[0]!r}; expected {COLUMNS}")
    measured_plans = []
    for row in rows:
        name, time = row["configuration"] or "", row["milliseconds"] or ""
        try:
            nanoseconds = round(rational(time) * 10**6)
        except MalformedText:
            nanoseconds = 0
        if nanoseconds <= 0:
            raise UnreadableFile(
                f"{path}, line {rows.line_num}: {time!r}; expected milliseconds above 0"
            )
        plan = fusion_plan(chain, named_configuration(chain, name), terms)
        measured_plans.append((name, replace(plan, nanoseconds=nanoseconds)))
    return tuple(measured_plans)


def fitted(
    chain: TopologicalOrder, terms: Terms, measured: Sequence[Measured]
) -> tuple[Platform, Fraction]:
    """Return a platform fitted to measured times, and the largest share by which it is too fast.

    The predicted time of plan i is launch * starts_i + slope * operations_i; bytes take no time. With x
    = starts / measured and y = operations / measured, least squares of the relative error minimise the
    sum of (launch * x + slope * y - 1)^2. Raises InvalidPlan for fewer than two times.
    """
    if len(measured) < 2:
        raise InvalidPlan(f"{len(measured)} measured configurations; a fit needs at least two")
    table = StageTable(chain.network, element_bytes=terms.element_bytes)
    starts, works = (
        PlanTimes(
            table,
            Platform(operations_per_second=speed, bytes_per_second=FREE, launch=launch),
            terms.element_bytes,
        )
        for speed, launch in ((FREE, ONE), (ONE, Fraction(0)))
    )
    xs, ys = (
        [Fraction(times.of(plan.plan) // NANOSECONDS, plan.nanoseconds) for _, plan in measured]
        for times in (starts, works)
    )
    xx, yy = sum(x * x for x in xs), sum(y * y for y in ys)
    xy = sum(x * y for x, y in zip(xs, ys, strict=True))
    # The normal equations for nanoseconds of a phase and of an operation; neither is below zero.
    divisor = xx * yy - xy * xy
    launch = Fraction(sum(xs) * yy - sum(ys) * xy) / divisor if divisor else Fraction(0)
    launch = max(launch, Fraction(0))
    slope = (sum(ys) - launch * xy) / yy if yy else Fraction(0)
    if slope <= 0:
        raise InvalidPlan("the measured times do not grow with the work; expected other ones")
    longest = max(1 / (launch * x + slope * y) for x, y in zip(xs, ys, strict=True))
    platform = Platform(
        operations_per_second=(NANOSECONDS / slope).limit_denominator(1),
        bytes_per_second=FREE,
        launch=(launch / NANOSECONDS).limit_denominator(10**9),
    )
    return platform, max(longest - 1, Fraction(0))


def or_measured(
    answer: FusionAnswer, measured: Sequence[Measured], error: Fraction, limit: int | None
) -> FusionAnswer:
    """Return the answer, or the fastest measured plan that fits.

    The answer remains if its prediction is faster by more than `error`, the error of the fit.
    """
    fitting = [(name, plan) for name, plan in measured if limit is None or plan.memory <= limit]
    if not fitting:
        return answer
    name, best = min(fitting, key=lambda named_plan: named_plan[1].nanoseconds)
    if answer.plan is not None and answer.plan.nanoseconds * (1 + error) < best.nanoseconds:
        return answer
    reason = because(MeasuredWhy.FASTEST, name=name, count=len(measured), error=float(error))
    return replace(answer, plan=best, status=Status.FEASIBLE, reason=reason)
