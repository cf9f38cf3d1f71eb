"""How much time goes into a profile, and how far it has come."""

from __future__ import annotations

from dataclasses import dataclass

from csdf.errors import InvalidPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """The measurements that the times of a profile rest on.

    repetitions: of each way to run a layer, after one that is not counted. least: of one so long
    that `nanoseconds` are over before. hopeless: a way that takes so many times as long as the
    fastest of its layer, by the one not counted, is timed once. evicted_bytes: written between two
    runs, so that the next finds its weights as in a network, where all other layers ran since.
    """

    repetitions: int = 9
    least: int = 3
    nanoseconds: int = 200_000_000
    hopeless: int = 8
    evicted_bytes: int = 1 << 22
    seed: int = 0

    def __post_init__(self) -> None:
        for what in ("repetitions", "least", "hopeless"):
            if getattr(self, what) < 1:
                raise InvalidPlan(f"{what} is {getattr(self, what)}; expected at least 1")
