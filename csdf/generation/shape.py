"""The shape of random graphs: limits of their actors, channels and rates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

from csdf.errors import InvalidGraph


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphShape:
    """The limits within which a random graph is drawn; every graph is connected, consistent and live.

    Each number that says `most` is drawn from 1, or from what is given as least, up to that number.
    """

    actors: int = 5
    extra_channels: int = 3  # beyond those that connect the actors
    most_phases: int = 1
    most_repetitions: int = 6  # firings of an actor in one iteration
    most_rate: int = 6  # tokens of one firing on one channel; some phases may have 0
    least_duration: int = 1  # time units
    most_duration: int = 10  # time units
    most_early_tokens: int = 0  # drawn for each channel before as many are added as it takes
    most_concurrency: int = 1  # tokens of the self-loop of an actor
    is_strongly_connected: bool = True
    is_bounded: bool = False  # a capacity on every channel between two actors
    has_windows: bool = False  # bounded channels give space back later than they consume
    has_self_loops: bool = True  # which limit how many firings of an actor may overlap
    has_parallel_channels: bool = True  # extra channels may join actors that share one already

    def __post_init__(self) -> None:
        wrong = list(self._violations())
        if wrong:
            raise InvalidGraph("; ".join(wrong))

    def _violations(self) -> Iterator[str]:
        """Yield what is wrong; limits are compared with one another where each is right by itself."""
        wrong: set[str] = set()
        for field in fields(self):
            value = getattr(self, field.name)
            expected = bool if field.name.startswith(("is_", "has_")) else int
            least = 1 if field.name in _AT_LEAST_ONE else 0
            if type(value) is not expected:
                wrong.add(field.name)
                yield f"{field.name} is {value!r}; expected {expected.__name__}"
            elif value < least:
                wrong.add(field.name)
                yield f"{field.name} is {value}; expected at least {least}"
        for larger, smaller in _ORDERED:
            high, low = getattr(self, larger), getattr(self, smaller)
            if wrong.isdisjoint((larger, smaller)) and high < low:
                yield f"{larger} is {high}; expected at least {smaller}, which is {low}"
        if self.has_windows and not self.is_bounded:
            yield "has_windows without is_bounded: only capacities have windows"


_AT_LEAST_ONE = (
    "actors",
    "most_phases",
    "most_repetitions",
    "most_rate",
    "most_concurrency",
)
_ORDERED = (  # each of the first is at least the second
    ("most_duration", "least_duration"),
    ("most_repetitions", "most_phases"),
    ("most_rate", "most_repetitions"),
)
