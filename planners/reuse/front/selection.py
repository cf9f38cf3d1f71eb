"""Which point of a front to take: the rule of the methodology, with the limits of its user.

Source: Minakova and Stefanov, TODAES 28(1), 2022, section 5.4 (chapter 6 of the thesis): a solution
that meets the constraints of the application.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction

from csdf.errors import InvalidNetwork
from planners.reuse.application.application import Application
from planners.reuse.front.problem import Point


@dataclass(frozen=True, slots=True, kw_only=True)
class Demands:
    """The demands on a plan. memory: bytes at most. throughput: frames a second, by network."""

    memory: int | None = None
    throughput: Mapping[str, Fraction] = field(default_factory=dict)

    def check_names(self, application: Application) -> None:
        """Raise InvalidNetwork if a network it speaks of does not exist."""
        names = [member.name for member in application.members]
        for name in self.throughput:
            if name not in names:
                raise InvalidNetwork(
                    f"application {application.name!r} has no network {name!r}; "
                    f"it has {', '.join(names)}"
                )


def selected(application: Application, points: Sequence[Point], demands: Demands) -> Point | None:
    """Return the point to take, None if none meets the demands.

    Without a limit of memory the smallest that is fast enough; with one the fastest that fits, by
    the sum of the periods, since networks take turns. Of equal ones the first.
    """
    names = [member.name for member in application.members]
    fitting = [point for point in points if _meets(names, point, demands)]
    if not fitting:
        return None
    if demands.memory is None:
        return min(fitting, key=lambda point: (_memory(point), _time(point)))
    return min(fitting, key=lambda point: (_time(point), _memory(point)))


class Chosen(Enum):
    """By which step of Algorithm 9 a point was taken."""

    AT_ONCE = "all layers whole, with Algorithm 8's buffers, meet the memory: nothing was searched"
    LEAST_FEASIBLE = "the least memory of all that meet the demands"
    LEAST = "nothing found meets the demands; the least memory of all, as the algorithm says"


def selected_as_published(
    application: Application, whole: Point, points: Sequence[Point], demands: Demands
) -> tuple[Point, Chosen]:
    """Return the point that Algorithm 9 takes, and by which step; there always is one.

    whole: all layers whole, which is taken without a look at throughput where its memory is enough.
    Else the least memory of the points that meet the demands, or of all points if none does. Table
    6.6 of the thesis has rows that were chosen in another way: see `selected`.
    """
    if demands.memory is not None and _memory(whole) <= demands.memory:
        return whole, Chosen.AT_ONCE
    names = [member.name for member in application.members]
    feasible = [point for point in points if _meets(names, point, demands)]
    step = Chosen.LEAST_FEASIBLE if feasible else Chosen.LEAST
    return min(feasible or points, key=lambda point: (_memory(point), _time(point))), step


def _meets(names: Sequence[str], point: Point, demands: Demands) -> bool:
    if demands.memory is not None and _memory(point) > demands.memory:
        return False
    periods = dict(zip(names, point.score.objectives[1:], strict=True))
    return all(periods[name] * rate <= 1 for name, rate in demands.throughput.items())


def _memory(point: Point) -> int | Fraction:
    return point.score.objectives[0]


def _time(point: Point) -> int | Fraction:
    return sum(point.score.objectives[1:], start=Fraction(0))
