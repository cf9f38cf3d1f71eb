"""Platforms of processors, and mappings of actors onto them.

A mapping binds actors to processors. Each processor executes its actors in a static order: a prefix
once, then a list repeatedly. The next firing of the list starts when its tokens and space are
available and the previous firing has ended; a processor never skips a firing.

Source: Stuijk, Basten, Geilen, Corporaal, Multiprocessor resource allocation for
throughput-constrained synchronous dataflow graphs, DAC 2007.
"""

from __future__ import annotations

from collections.abc import Mapping as Table
from dataclasses import dataclass, field
from typing import Any

from csdf.arguments import public
from csdf.errors import CsdfError


class InvalidMapping(CsdfError):
    """A platform, or a mapping onto it, that breaks a rule of the model."""


@public
@dataclass(frozen=True, slots=True, kw_only=True)
class Core:
    """A processor of a platform.

    type: selects the durations of actors. wheel, slice, offset: time-division multiplexing, in time
    units of the user: of every `wheel` the application owns `slice`, from `offset` on; None: all of it.
    """

    name: str
    type: str = ""
    wheel: int | None = None
    slice: int | None = None
    offset: int = 0

    def __post_init__(self) -> None:
        if (self.wheel is None) != (self.slice is None):
            raise InvalidMapping(f"processor {self.name!r}: a wheel and a slice belong together")
        if self.wheel is not None and not 1 <= (self.slice or 0) <= self.wheel:
            raise InvalidMapping(
                f"processor {self.name!r}: slice {self.slice} of a wheel of {self.wheel}; "
                "at least 1 and at most the wheel"
            )
        if not 0 <= self.offset <= (self.wheel or 0) - (self.slice or 0):
            raise InvalidMapping(
                f"processor {self.name!r}: offset {self.offset}; the slice has to fit the TDMA wheel"
            )

    def to_json(self) -> dict[str, Any]:
        """Return the processor as a JSON value, without what is as usual."""
        row: dict[str, Any] = {"name": self.name}
        if self.type:
            row["type"] = self.type
        if self.wheel is not None:
            row |= {"wheel": self.wheel, "slice": self.slice, "offset": self.offset}
        return row


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """A connection that transfers tokens from one processor to another.

    A token is in transit for latency + token size / bandwidth, rounded up. latency: time units of the
    user; bandwidth: bytes per time unit, None for no limit. is_pipelined: whether several tokens of a
    channel may be in transit. wait: time until an arrived token is available.
    """

    source: str
    target: str
    latency: int = 0
    bandwidth: int | None = None
    is_pipelined: bool = True
    wait: int = 0

    def __post_init__(self) -> None:
        where = f"connection from {self.source!r} to {self.target!r}"
        for what, time in (("latency", self.latency), ("wait", self.wait)):
            if time < 0:
                raise InvalidMapping(f"{where}: {what} {time} is negative")
        if self.bandwidth is not None and self.bandwidth < 1:
            raise InvalidMapping(f"{where}: bandwidth {self.bandwidth}; at least 1")

    def to_json(self) -> dict[str, Any]:
        """Return the connection as a JSON value, without what is as usual."""
        row: dict[str, Any] = {"source": self.source, "target": self.target}
        row["latency"] = self.latency
        if self.bandwidth is not None:
            row["bandwidth"] = self.bandwidth
        if not self.is_pipelined:
            row["pipelined"] = False
        if self.wait:
            row["wait"] = self.wait
        return row


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """Processors and the connections between them; without connections, transfers take no time."""

    name: str
    cores: tuple[Core, ...]
    connections: tuple[Connection, ...] = ()

    def __post_init__(self) -> None:
        if not self.cores:
            raise InvalidMapping(f"platform {self.name!r} has no processor")
        names = [core.name for core in self.cores]
        for name in names:
            if names.count(name) > 1:
                raise InvalidMapping(f"platform {self.name!r}: two processors are named {name!r}")
        ends = [(connection.source, connection.target) for connection in self.connections]
        for source, target in ends:
            if ends.count((source, target)) > 1:
                raise InvalidMapping(
                    f"platform {self.name!r}: two connections lead from {source!r} to {target!r}"
                )
            for end in (source, target):
                if end not in names:
                    raise InvalidMapping(f"platform {self.name!r}: there is no processor {end!r}")

    def to_json(self) -> dict[str, Any]:
        """Return the document that csdf.mapping.files reads, as a JSON value."""
        return {
            "format": "csdf-platform",
            "version": 1,
            "name": self.name,
            "processors": [core.to_json() for core in self.cores],
            "connections": [connection.to_json() for connection in self.connections],
        }

    def core(self, name: str) -> Core:
        """Return the processor of that name; raise InvalidMapping if there is none."""
        for core in self.cores:
            if core.name == name:
                return core
        raise InvalidMapping(f"platform {self.name!r}: there is no processor {name!r}")

    def connection(self, source: str, target: str) -> Connection | None:
        """Return the connection between two processors; None if the platform has none at all.

        Raises InvalidMapping where it has others, but not that one.
        """
        for connection in self.connections:
            if (connection.source, connection.target) == (source, target):
                return connection
        if not self.connections:
            return None
        raise InvalidMapping(
            f"platform {self.name!r}: no connection leads from {source!r} to {target!r}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticOrder:
    """The order of a processor: the actors of `prefix` once, then of `periodic` repeatedly."""

    periodic: tuple[str, ...]
    prefix: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.periodic:
            raise InvalidMapping("a static order without a periodic list")

    def actor(self, index: int) -> str:
        """Return the actor of the firing at this index of the infinite sequence."""
        if index < len(self.prefix):
            return self.prefix[index]
        return self.periodic[(index - len(self.prefix)) % len(self.periodic)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffer:
    """The capacities of a channel, in tokens.

    memory: of a channel within one processor. source, target: of a channel between two processors, on
    the side of its producer and of its consumer. None for no limit.
    """

    memory: int | None = None
    source: int | None = None
    target: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Mapping:
    """The processor of each actor, and the static order of each processor.

    binding: from actors to processors; an actor without a processor has hardware of its own. orders:
    of each processor with actors. buffers: of channels. delays: transfer times of the tokens of
    channels, pipelined, instead of the transfer times of the platform.
    """

    binding: Table[str, str]
    orders: Table[str, StaticOrder] = field(default_factory=dict)
    buffers: Table[str, Buffer] = field(default_factory=dict)
    delays: Table[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the document that csdf.mapping.files reads, as a JSON value."""
        return {
            "format": "csdf-mapping",
            "version": 1,
            "binding": dict(self.binding),
            "orders": {
                core: {"prefix": list(order.prefix), "periodic": list(order.periodic)}
                for core, order in self.orders.items()
            },
            "buffers": {
                channel: {
                    side: value
                    for side in ("memory", "source", "target")
                    if (value := getattr(buffer, side)) is not None
                }
                for channel, buffer in self.buffers.items()
            },
            "delays": dict(self.delays),
        }
