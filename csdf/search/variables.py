"""The capacities that a storage search may choose: minimum, useful steps, and costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle
from math import gcd

from csdf.arguments import Positive, public
from csdf.errors import CsdfError
from csdf.model.graph import Channel, Graph, space_channel
from csdf.model.indexed import IndexedGraph, indexed
from csdf.names import free_name

Distribution = tuple[int, ...]  # the capacity of each variable
UNITS = ("tokens", "bytes", "bits")
BYTE = 8  # bits


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """A capacity to choose, for one channel or for several channels with equal capacities.

    The useful capacities are least, least + step, ...: a smaller capacity deadlocks, and a capacity
    between two of them behaves like the lower. weight: size of one token of capacity.
    """

    channels: tuple[Channel, ...]
    least: int
    step: int
    weight: int


@public
@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSpace:
    """The capacities that are searched, and the unit of the size.

    fixed: capacities of channels that are not searched, but count. excluded: channels that keep their
    capacity in the graph and do not count. shared: groups of channels with equal capacities. unit: of
    the size, tokens, bytes or bits. with_self_loops: whether self-loops are bounded and count. widths:
    bits of a token, by channel; the token size of the graph by default. copies: None for self-timed
    execution; K for periodic schedules in which K cycles of each actor repeat, whose periods are
    computed faster and are never smaller. Raises InvalidArgument for a field of another kind, CsdfError
    for an unknown unit or a channel that is named twice; the search refuses unknown channels.
    """

    fixed: Mapping[str, int] | None = None
    excluded: Collection[str] = ()
    shared: Sequence[Collection[str]] = ()
    unit: str = "tokens"
    widths: Mapping[str, int] | None = None
    with_self_loops: bool = False
    copies: Positive | None = None

    def __post_init__(self) -> None:
        if self.unit not in UNITS:
            raise CsdfError(f"unit {self.unit!r}; expected {', '.join(UNITS)}")
        for name, times in Counter(self.named).items():
            if times > 1:
                raise CsdfError(f"channel {name!r} is named twice among fixed, excluded and shared")

    @property
    def named(self) -> tuple[str, ...]:
        """The channels in fixed, excluded and shared."""
        shared = (name for group in self.shared for name in group)
        return (*(self.fixed or {}), *self.excluded, *shared)


def prepared(graph: Graph, space: SearchSpace) -> tuple[Graph, tuple[Variable, ...], int]:
    """Return the graph with its fixed capacities, the variables, and the size of the fixed capacities.

    Raises InvalidGraph for an unknown channel, CsdfError for a missing token size.
    """
    fixed = dict(space.fixed or {})
    groups = [list(group) for group in space.shared]
    named = frozenset(space.named)
    for name in space.named:
        graph.channel(name)
    free = [
        [channel.name]
        for channel in graph.channels
        if channel.name not in named and (space.with_self_loops or not channel.is_self_loop)
    ]
    variables = tuple(_variable(graph, group, space) for group in groups + free if group)
    channels = tuple(
        replace(channel, capacity=fixed.get(channel.name, channel.capacity))
        for channel in graph.channels
    )
    size = sum(
        capacity * token_weight(graph.channel(name), space) for name, capacity in fixed.items()
    )
    return replace(graph, channels=channels, origin=None), variables, size


def _variable(graph: Graph, names: Sequence[str], space: SearchSpace) -> Variable:
    channels = tuple(graph.channel(name) for name in names)
    steps = [capacity_step(channel) for channel in channels]
    firings = firings_each(len(graph.channels))
    minimum = [least_capacity(channel, firings) for channel in channels]
    return Variable(
        channels=channels,
        least=max(minimum),
        step=gcd(*steps, *(capacity - minimum[0] for capacity in minimum)),
        weight=sum(token_weight(channel, space) for channel in channels),
    )


def size_of(variables: Sequence[Variable], capacities: Sequence[int]) -> int:
    """Return the size of a distribution: the sum of capacities times weights."""
    return sum(variable.weight * many for variable, many in zip(variables, capacities, strict=True))


def token_weight(channel: Channel, space: SearchSpace) -> int:
    """Return the size of one token of capacity, in the unit of the search space."""
    if space.unit == "tokens":
        return 1
    if space.unit == "bits" and channel.name in (space.widths or {}):
        return (space.widths or {})[channel.name]
    if channel.token_size is None:
        lacking = "width" if space.unit == "bits" else "token size"
        raise CsdfError(
            f"channel {channel.name!r} has no {lacking}; sizes in {space.unit} need one"
        )
    return channel.token_size * (BYTE if space.unit == "bits" else 1)


def with_searched_spaces(graph: Graph, channels: Sequence[Channel]) -> IndexedGraph:
    """Return the graph as numbers, with an empty space channel for each of these channels.

    Space channels follow all other channels: if two channels delay a start equally, the first is
    reported, preferably not a space channel.
    """
    names = space_names(graph, channels)
    spaces = tuple(
        space_channel(channel, channel.initial_tokens, names[channel.name]) for channel in channels
    )
    return indexed(replace(graph, channels=graph.channels + spaces))


def space_names(graph: Graph, channels: Iterable[Channel]) -> dict[str, str]:
    """Return a free name for the space channel of each of these channels."""
    used_names = {channel.name for channel in graph.channels}
    return {
        channel.name: free_name(f"{channel.name} (searched space)", used_names)
        for channel in channels
    }


# Firings simulated for minimum capacities: of one channel, and of all channels (a few seconds).
# Beyond, a weaker bound is used.
FIRINGS = 1_000_000
ALL_FIRINGS = 3_000_000


def capacity_step(channel: Channel) -> int:
    """Return the distance between useful capacities: a capacity between two behaves like the lower.

    All tokens and all space of a channel move in multiples of it, so useful capacities differ from the
    initial tokens by multiples of it.
    """
    return gcd(*channel.production, *channel.consumption, *channel.release_rates)


def firings_each(channels: int) -> int:
    """Return the limit of simulated firings for each channel, in a graph with this many channels."""
    return min(FIRINGS, ALL_FIRINGS // max(1, channels))


def least_capacity(channel: Channel, firings: int = FIRINGS) -> int:
    """Return the minimum capacity with which the two actors of the channel alone fire forever.

    Every live storage distribution has at least this capacity. The consumer fires as soon as possible,
    the producer as late as possible: no other order uses less space. If that takes more firings than
    `firings`, a weaker bound is returned: the space of the largest single firing. In SDF the minimum is
    p + c - gcd(p, c) + d mod gcd(p, c), or d if that is larger, for d initial tokens.
    """
    used = peak = channel.initial_tokens
    if channel.is_self_loop:  # tokens and the space of a firing's output overlap
        for made, released in zip(channel.production, channel.release_rates, strict=True):
            peak = max(peak, used + made)
            used += made - released
        return peak
    made, taken = sum(channel.production), sum(channel.consumption)
    shared = gcd(made, taken)
    if len(channel.production) == len(channel.consumption) == 1 and channel.release is None:
        return max(made + taken - shared + used % shared, used)
    consumer_firings = made // shared * len(channel.consumption)
    if taken // shared * len(channel.production) + consumer_firings > firings:
        fullest = max(*channel.production, *channel.consumption, used)
        return fullest + (used - fullest) % capacity_step(channel)
    tokens, productions = used, cycle(channel.production)
    for firing in range(consumer_firings):
        phase = firing % len(channel.consumption)
        while tokens < channel.consumption[phase]:
            made = next(productions)
            tokens += made
            used += made
            peak = max(peak, used)
        tokens -= channel.consumption[phase]
        used -= channel.release_rates[phase]
    return peak
