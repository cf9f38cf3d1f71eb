"""Configurations whose times were measured on a device, and a platform fitted to them.

A table (CSV) has the columns configuration, in the notation of MAFAT, and milliseconds of a frame;
other columns are ignored.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from io import StringIO
from operator import mul

from cnn2csdf.platforms import NANOSECONDS, Platform
from csdf.errors import InvalidNetwork, InvalidPlan, UnreadableFile
from csdf.io.csv_text import table_rows
from csdf.io.files import read_text
from csdf.model.exact import MalformedText, rational
from csdf.status import Status, Why, because
from planners.fusion.groups import Terms
from planners.fusion.planning import FusionAnswer, FusionPlan, fusion_plan
from planners.memory.order import TopologicalOrder
from planners.memory.stages import StageTable
from planners.memory.times import PlanTimes
from planners.published.mafat import named_configuration

COLUMNS = ("configuration", "milliseconds")
FREE = Fraction(10**30)  # operations and bytes a second that take no time


class MeasuredWhy(Why):
    """The reason for a plan that was measured."""

    FASTEST = (
        "{name} was measured; of what fits nothing is predicted faster by more than the fit of {count} "
        "times is wrong ({error:.1%})"
    )


MeasuredPlan = tuple[str, FusionPlan]
"""A configuration, as MAFAT writes it, and its plan with the measured nanoseconds of a frame."""


def read_measured(
    path: str | os.PathLike[str], chain: TopologicalOrder, terms: Terms
) -> tuple[MeasuredPlan, ...]:
    """Return the plans of the configurations of a table.

    Raises UnreadableFile with the line for a malformed row, a time that is not above 0, and a
    configuration that does not fit the chain.
    """
    measured_plans = []
    for line, cells in table_rows(StringIO(read_text(path)), str(path), COLUMNS):
        name, time = cells["configuration"], cells["milliseconds"]
        try:
            nanoseconds = round(rational(time) * 10**6)
        except MalformedText:
            nanoseconds = 0
        if nanoseconds <= 0:
            raise UnreadableFile(f"{path}, line {line}: {time!r}; expected milliseconds above 0")
        try:
            plan = fusion_plan(chain, named_configuration(chain, name), terms)
        except (InvalidPlan, InvalidNetwork) as error:
            raise UnreadableFile(f"{path}, line {line}: {error}") from None
        measured_plans.append((name, replace(plan, nanoseconds=nanoseconds)))
    return tuple(measured_plans)


def fitted_platform(
    chain: TopologicalOrder, terms: Terms, measured: Sequence[MeasuredPlan]
) -> tuple[Platform, Fraction]:
    """Return a platform fitted to measured times, and the largest share by which it is too fast.

    The predicted time of plan i is launch * starts_i + slope * operations_i, where starts_i are its
    phases; bytes take no time. Both coefficients are in nanoseconds and at least 0. They minimise the
    sum over i of (launch * s_i + slope * o_i - 1)^2, the squared relative error, with s_i = starts_i /
    measured_i and o_i = operations_i / measured_i. Raises InvalidPlan for fewer than two times.
    """
    if len(measured) < 2:
        raise InvalidPlan(f"{len(measured)} measured configurations; a fit needs at least two")
    table = StageTable(chain.network, element_bytes=terms.element_bytes)

    def per_measured_time(speed: Fraction, launch: Fraction) -> list[Fraction]:
        """The seconds of each plan on a platform, divided by its measured nanoseconds."""
        platform = Platform(operations_per_second=speed, bytes_per_second=FREE, launch=launch)
        times = PlanTimes(table, platform, terms.element_bytes)
        return [Fraction(times.of(plan) // NANOSECONDS, ns) for plan, ns in plans_and_times]

    plans_and_times = [(plan.plan, plan.nanoseconds) for _, plan in measured]
    # A phase that takes a second counts phases; an operation that takes a second counts operations.
    starts = per_measured_time(FREE, Fraction(1))
    operations = per_measured_time(Fraction(1), Fraction(0))
    # The normal equations:
    #     launch * (s . s) + slope * (s . o) = sum of s
    #     launch * (s . o) + slope * (o . o) = sum of o
    starts_squared, operations_squared, mixed = (
        sum(map(mul, *vectors))
        for vectors in ((starts, starts), (operations, operations), (starts, operations))
    )
    determinant = starts_squared * operations_squared - mixed * mixed
    launch = Fraction(0)
    if determinant:
        numerator = sum(starts) * operations_squared - sum(operations) * mixed
        launch = max(launch, Fraction(numerator) / determinant)
    slope = Fraction(0)
    if operations_squared:
        slope = Fraction(sum(operations) - launch * mixed) / operations_squared
    if slope <= 0:
        raise InvalidPlan("the measured times do not grow with the work; expected other ones")
    predicted = (launch * s + slope * o for s, o in zip(starts, operations, strict=True))
    platform = Platform(
        operations_per_second=(NANOSECONDS / slope).limit_denominator(1),
        bytes_per_second=FREE,
        launch=(launch / NANOSECONDS).limit_denominator(10**9),
    )
    return platform, max(1 / min(predicted) - 1, Fraction(0))


def or_measured(
    answer: FusionAnswer, measured: Sequence[MeasuredPlan], error: Fraction, limit: int | None
) -> FusionAnswer:
    """Return the answer, or the fastest measured plan that fits.

    The answer remains if its prediction is faster by more than `error`, the error of the fit.
    """
    fitting = [(name, plan) for name, plan in measured if limit is None or plan.memory <= limit]
    if not fitting:
        return answer
    best = min((plan for _, plan in fitting), key=lambda plan: plan.nanoseconds)
    name = next(name for name, plan in fitting if plan is best)
    if answer.plan is not None and answer.plan.nanoseconds * (1 + error) < best.nanoseconds:
        return answer
    reason = because(MeasuredWhy.FASTEST, name=name, count=len(measured), error=float(error))
    return replace(answer, plan=best, status=Status.FEASIBLE, reason=reason)
