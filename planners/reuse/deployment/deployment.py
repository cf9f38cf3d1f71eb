"""The final plan of an application: one arena, a place in it for each buffer, and what fires when."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from csdf.errors import InvalidPlan
from csdf.model.shown import Shown
from csdf.outcome import Reason, Status

TEXTS = ("name", "status", "reason")
NUMBERS = ("arena_bytes", "lower_bound", "weights", "element_bytes")


class PlannedFiring(NamedTuple):
    """A part of a layer: output rows [first_row, end_row) of one frame."""

    layer: int  # its place among the layers of the partition
    phase: int
    first_row: int
    end_row: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedPartition:
    """A partition with its schedule: a step is one firing, and all of them are one frame."""

    name: str
    network: str
    layers: tuple[str, ...]
    firings: tuple[PlannedFiring, ...]

    def __post_init__(self) -> None:
        if not self.firings:
            raise InvalidPlan(f"partition {self.name!r} fires nothing")
        for firing in self.firings:
            if firing.layer >= len(self.layers):
                raise InvalidPlan(
                    f"partition {self.name!r} fires layer {firing.layer}; "
                    f"it has {len(self.layers)}, counted from 0"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedStay:
    """Steps of a partition, both included, in which a buffer is in use."""

    partition: str
    first: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedBuffer:
    """Bytes for what one layer writes for another, in the schedule of the partitions it stays in.

    input: which of the consumer's inputs it is, counted from 0. Several buffers of one connection
    are its copies in a pipeline, in their order; each is copied to the next when the last partition
    that it stays in has finished a frame. in_place: its producer writes it over what it reads.
    row_bytes: of one row of all maps; what is no stack of maps is a single row.
    """

    name: str
    network: str
    producer: str
    consumer: str
    input: int
    offset: int
    size: int
    row_bytes: int
    stays: tuple[PlannedStay, ...]
    in_place: bool = False

    def __post_init__(self) -> None:
        if not self.stays:
            raise InvalidPlan(f"buffer {self.name!r} is in use in no partition")
        if not 1 <= self.row_bytes <= self.size:
            raise InvalidPlan(
                f"buffer {self.name!r} has {self.size} bytes and rows of {self.row_bytes}; "
                "expected room for a row"
            )

    @property
    def rows(self) -> int:
        """How many rows it keeps: row r of a frame lies in place r % rows."""
        return self.size // self.row_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment(Shown):
    """All that it takes to run an application in one memory. Sizes and offsets in bytes.

    status, reason, lower_bound: of the arena, as in planners.plan. weights: bytes that are in no
    arena. parallel: sets of partitions that run at the same time.
    """

    name: str
    status: Status
    reason: Reason
    arena_bytes: int
    lower_bound: int
    weights: int
    element_bytes: int
    buffers: tuple[PlannedBuffer, ...]
    partitions: tuple[PlannedPartition, ...]
    parallel: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        if self.element_bytes < 1:
            raise InvalidPlan(f"an element of {self.element_bytes} bytes; expected at least 1")
        _require_unique("partition", [one.name for one in self.partitions])
        _require_unique("buffer", [one.name for one in self.buffers])
        steps = {one.name: len(one.firings) for one in self.partitions}
        for name in (name for group in self.parallel for name in group):
            if name not in steps:
                raise InvalidPlan(f"parallel: there is no partition {name!r}")
        for buffer in self.buffers:
            self._require_inside(buffer)
            _require_steps(buffer, steps)

    def to_json(self) -> dict[str, Any]:
        """Return buffers and schedules as a JSON value."""
        return {
            **{key: str(getattr(self, key)) for key in TEXTS},
            **{key: getattr(self, key) for key in NUMBERS},
            "parallel": [list(group) for group in self.parallel],
            "buffers": [
                asdict(one)
                | {"stays": [[stay.partition, stay.first, stay.last] for stay in one.stays]}
                for one in self.buffers
            ],
            "partitions": [
                {
                    "name": one.name,
                    "network": one.network,
                    "layers": list(one.layers),
                    "firings": [list(firing) for firing in one.firings],
                }
                for one in self.partitions
            ],
        }

    def to_records(self) -> list[dict[str, Any]]:
        """Return a row for each buffer, as for a data frame."""
        names = ("name", "network", "producer", "consumer", "offset", "size", "in_place")
        return [{name: getattr(one, name) for name in names} for one in self.buffers]

    def _require_inside(self, buffer: PlannedBuffer) -> None:
        end = buffer.offset + buffer.size
        if buffer.offset < 0 or end > self.arena_bytes:
            raise InvalidPlan(
                f"buffer {buffer.name!r} has bytes {buffer.offset} to {end} "
                f"of an arena of {self.arena_bytes}"
            )
        if buffer.size % self.element_bytes:
            raise InvalidPlan(
                f"buffer {buffer.name!r} has {buffer.size} bytes; "
                f"expected whole elements of {self.element_bytes}"
            )


def _require_steps(buffer: PlannedBuffer, steps: Mapping[str, int]) -> None:
    for stay in buffer.stays:
        count = steps.get(stay.partition, 0)
        if not 0 <= stay.first <= stay.last < count:
            raise InvalidPlan(
                f"buffer {buffer.name!r} is in use from step {stay.first} to {stay.last} of "
                f"partition {stay.partition!r}, which has {count}"
            )


def _require_unique(what: str, names: Sequence[str]) -> None:
    for name, count in Counter(names).items():
        if count > 1:
            raise InvalidPlan(f"two {what}s are named {name!r}")
