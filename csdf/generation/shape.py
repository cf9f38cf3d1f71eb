"""The shape of random graphs: limits of their actors, channels and rates."""

from __future__ import annotations

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
        for field in fields(self):
            value = getattr(self, field.name)
            expected = bool if field.name.startswith(("is_", "has_")) else int
            if type(value) is not expected:
                raise InvalidGraph(f"{field.name} is {value!r}; expected {expected.__name__}")
            least = 1 if field.name in _AT_LEAST_ONE else 0
            if value < least:
                raise InvalidGraph(f"{field.name} is {value}; expected at least {least}")
        self._require_order("most_duration", "least_duration")
        self._require_order("most_repetitions", "most_phases")
        self._require_order("most_rate", "most_repetitions")
        if self.has_windows and not self.is_bounded:
            raise InvalidGraph("has_windows without is_bounded: only capacities have windows")

    def _require_order(self, larger: str, smaller: str) -> None:
        high, low = getattr(self, larger), getattr(self, smaller)
        if high < low:
            raise InvalidGraph(f"{larger} is {high}; expected at least {smaller}, which is {low}")


_AT_LEAST_ONE = (
    "actors",
    "most_phases",
    "most_repetitions",
    "most_rate",
    "most_concurrency",
)
