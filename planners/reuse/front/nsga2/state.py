"""A search between two generations: all it needs to go on, and what it is a search of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from random import Random

from planners.reuse.front.nsga2.variation import Settings
from planners.reuse.front.problem import (
    Chromosome,
    InvalidSearch,
    Number,
    Point,
    Problem,
    fingerprint_of,
)

RandomState = tuple[int, tuple[int, ...], float | None]  # as `Random.getstate` returns it


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Fingerprints of all that decides how a search goes, however long it is."""

    problem: str
    settings: str
    seeds: str
    random: str

    def require_same(self, other: Origin) -> None:
        """Raise InvalidSearch if `other` is of another search than this."""
        for field in fields(self):
            if getattr(self, field.name) != getattr(other, field.name):
                what = {"random": "random seed", "seeds": "chromosomes to start from"}
                raise InvalidSearch(
                    f"the state of a search with another {what.get(field.name, field.name)}; "
                    f"resume it with the one it was begun with, or begin anew"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchState:
    """The state of a search after a generation.

    population: best first. archive: in the order the points were met. seen: a digest of every
    chromosome evaluated, so that none is evaluated twice.
    """

    origin: Origin
    generation: int
    random: RandomState
    population: tuple[Point, ...]
    archive: tuple[Point, ...]
    least_violation: Number | None
    seen: tuple[int, ...]


def origin_of(
    problem: Problem, *, random: Random, settings: Settings, seeds: Sequence[Chromosome]
) -> Origin:
    """Return the fingerprints of a search that is about to begin."""
    return Origin(
        problem=problem.fingerprint,
        settings=fingerprint_of(settings),
        seeds=fingerprint_of([tuple(seed) for seed in seeds]),
        random=fingerprint_of(random.getstate()),
    )
