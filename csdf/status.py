"""How a search ended: its status, and the reason for it. Both are values; texts are made of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Status(StrEnum):
    """The certainty of the answer of a search: what is proved of it."""

    OPTIMAL = "optimal"  # nothing better exists among what the search looks at
    FEASIBLE = "feasible"  # an answer; a better one is not excluded
    INFEASIBLE = "infeasible"  # proved: there is no answer
    UNKNOWN = "unknown"  # neither an answer nor a proof that there is none


class Why(StrEnum):
    """A kind of reason: the sentence that is shown for it, with the names of its values in braces.

    A search that has reasons of its own derives its kinds from this class.
    """


class Ended(Why):
    """The reasons that end any search before its own end, and reasons in words from elsewhere."""

    TIME_LIMIT = "the time limit of {seconds:g} s is reached"
    MEMORY_LIMIT = "the memory limit of {limit} is reached"
    STEPS = "{steps} steps are done, as many as were allowed"
    EFFORT = "the effort of {seconds:g} s is spent; a larger --effort searches longer"
    INTERRUPTED = "interrupted"
    TOLD = "{text}"


@dataclass(frozen=True, slots=True, eq=False)
class Reason:
    """Why a search ended as it did: a kind, and values for the gaps in its sentence.

    A value may be a reason itself: of a search that was part of the work. Two reasons are equal that
    say the same, as one that was read from a file, which has only its words; code asks `has`.
    """

    kind: Why
    values: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.kind.value.format(**self.values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reason) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def has(self, kind: Why) -> bool:
        """Whether this reason is of the kind, or rests on a reason of the kind."""
        parts = (part for part in self.values.values() if isinstance(part, Reason))
        return self.kind is kind or any(part.has(kind) for part in parts)


def because(kind: Why, **values: Any) -> Reason:
    """Return the reason of that kind with these values."""
    return Reason(kind, values)


def told(text: str) -> Reason:
    """Return a reason with known words only: read from a file, or given by a caller."""
    return because(Ended.TOLD, text=text)
