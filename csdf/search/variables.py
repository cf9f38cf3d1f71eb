"""The capacities that a search over storage distributions may choose, and their costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd

from csdf.errors import CsdfError
from csdf.model.graph import Channel, Graph, require_graph
from csdf.model.indexed import IndexedGraph, indexed
from csdf.model.space import space_channel
from csdf.search.bounds import capacity_step, firings_each, least_capacity

UNITS = ("tokens", "bytes", "bits")
BYTE = 8  # bits


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """A capacity to choose, for one channel or for several that share it.

    least: no smaller one can run; step: distance between useful capacities from there on; weight:
    what one token of capacity adds to the size.
    """

    channels: tuple[Channel, ...]
    least: int
    step: int
    weight: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which capacities are searched, and how storage is counted.

    fixed: channels that keep the given capacity; it counts. excluded: channels that stay as the
    graph has them and do not count. shared: groups of channels with one common capacity. unit: of
    the size, tokens, bytes or bits. with_self_loops: whether self-loops are bounded and count.
    widths: bits of a token, by channel; where a channel has none they are those of its token size.
    copies: None for the smallest storage of all executions. A number K asks for that of periodic
    schedules in which K cycles of each actor repeat; it is found sooner, and never smaller.
    """

    fixed: Mapping[str, int] | None = None
    excluded: Collection[str] = ()
    shared: Sequence[Collection[str]] = ()
    unit: str = "tokens"
    widths: Mapping[str, int] | None = None
    with_self_loops: bool = False
    copies: int | None = None

    def __post_init__(self) -> None:
        if self.copies is not None and self.copies < 1:
            raise CsdfError(f"{self.copies} copies of each cycle; expected at least 1")


def prepared(graph: Graph, choice: Choice) -> tuple[Graph, tuple[Variable, ...], int]:
    """Return the graph with its fixed capacities, what is searched, and the size of the fixed ones.

    Raises InvalidGraph for an unknown channel, CsdfError for a channel without a token size where
    bytes are counted, or one that is named twice.
    """
    require_graph(graph)
    if choice.unit not in UNITS:
        raise CsdfError(f"unit {choice.unit!r}; expected {', '.join(UNITS)}")
    fixed = dict(choice.fixed or {})
    groups = [list(group) for group in choice.shared]
    named = Counter([*fixed, *choice.excluded, *(name for group in groups for name in group)])
    for name, times in named.items():
        graph.channel(name)
        if times > 1:
            raise CsdfError(f"channel {name!r} is named twice among fixed, excluded and shared")
    free = [
        [channel.name]
        for channel in graph.channels
        if channel.name not in named and (choice.with_self_loops or not channel.is_self_loop)
    ]
    variables = tuple(_variable(graph, group, choice) for group in groups + free if group)
    channels = tuple(
        replace(channel, capacity=fixed.get(channel.name, channel.capacity))
        for channel in graph.channels
    )
    size = sum(
        capacity * token_weight(graph.channel(name), choice) for name, capacity in fixed.items()
    )
    return replace(graph, channels=channels, origin=None), variables, size


def _variable(graph: Graph, names: Sequence[str], choice: Choice) -> Variable:
    channels = tuple(graph.channel(name) for name in names)
    steps = [capacity_step(channel) for channel in channels]
    firings = firings_each(len(graph.channels))
    least = [least_capacity(channel, firings) for channel in channels]
    return Variable(
        channels=channels,
        least=max(least),
        step=gcd(*steps, *(one - least[0] for one in least)),
        weight=sum(token_weight(channel, choice) for channel in channels),
    )


def size_of(variables: Sequence[Variable], capacities: Sequence[int]) -> int:
    """Return what these capacities of the variables cost together."""
    return sum(one.weight * many for one, many in zip(variables, capacities, strict=True))


def token_weight(channel: Channel, choice: Choice) -> int:
    """Return what one token of capacity of a channel adds to the size, in the unit of the choice."""
    if choice.unit == "tokens":
        return 1
    if choice.unit == "bits" and channel.name in (choice.widths or {}):
        return (choice.widths or {})[channel.name]
    if channel.token_size is None:
        lacking = "width" if choice.unit == "bits" else "token size"
        raise CsdfError(
            f"channel {channel.name!r} has no {lacking}; sizes in {choice.unit} need one"
        )
    return channel.token_size * (BYTE if choice.unit == "bits" else 1)


def with_searched_spaces(graph: Graph, channels: Sequence[Channel]) -> IndexedGraph:
    """Return the graph as numbers, with a space channel for each of these channels, without room.

    They lie behind all other channels: of two reasons for one start the first channel is named,
    and one that is not space is the better reason.
    """
    spaces = tuple(
        space_channel(channel, channel.initial_tokens, f"{channel.name} (searched space)")
        for channel in channels
    )
    return indexed(replace(graph, channels=graph.channels + spaces))
