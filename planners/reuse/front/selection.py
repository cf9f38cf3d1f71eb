"""Which point of a front to take: the rule of the methodology, with the limits of its user.

Source: Minakova and Stefanov, TODAES 28(1), 2022, section 5.4 (chapter 6 of the thesis): a solution
that meets the constraints of the application.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from csdf.errors import InvalidNetwork
from planners.reuse.application.application import Application
from planners.reuse.front.problem import Point


@dataclass(frozen=True, slots=True, kw_only=True)
class Demands:
    """What a plan must reach. memory: bytes at most. throughput: frames a second, by network."""

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


def _meets(names: Sequence[str], point: Point, demands: Demands) -> bool:
    if demands.memory is not None and _memory(point) > demands.memory:
        return False
    periods = dict(zip(names, point.score.objectives[1:], strict=True))
    return all(periods[name] * rate <= 1 for name, rate in demands.throughput.items())


def _memory(point: Point) -> int | Fraction:
    return point.score.objectives[0]


def _time(point: Point) -> int | Fraction:
    return sum(point.score.objectives[1:], start=Fraction(0))
