"""The capacities that a storage search may choose: least ones, useful steps, and costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle
from math import gcd

from csdf.arguments import Positive, public
from csdf.errors import CsdfError
from csdf.model.graph import Channel, Graph, space_channel
from csdf.model.indexed import IndexedGraph, indexed

Distribution = tuple[int, ...]  # the capacity of each variable
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


@public
@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSpace:
    """Which capacities are searched, and how storage is counted.

    fixed: channels that keep the given capacity; it counts. excluded: channels that stay as the
    graph has them and do not count. shared: groups of channels with one common capacity. unit: of
    the size, tokens, bytes or bits. with_self_loops: whether self-loops are bounded and count.
    widths: bits of a token, by channel; where a channel has none they are those of its token size.
    copies: None for the smallest storage of all executions. A number K asks for the period of periodic
    schedules in which K cycles of each actor repeat; it is found sooner, and never smaller. Raises
    InvalidArgument for a field of another kind, CsdfError for an unknown unit or a channel that is
    named twice; channels that a graph lacks are refused by the search.
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
        """The channels that are named among fixed, excluded and shared."""
        shared = (name for group in self.shared for name in group)
        return (*(self.fixed or {}), *self.excluded, *shared)


def prepared(graph: Graph, space: SearchSpace) -> tuple[Graph, tuple[Variable, ...], int]:
    """Return the graph with its fixed capacities, what is searched, and the size of the fixed ones.

    Raises InvalidGraph for an unknown channel, CsdfError for a channel without a token size where
    bytes are counted.
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
    """Return what these capacities of the variables cost together."""
    return sum(variable.weight * many for variable, many in zip(variables, capacities, strict=True))


def token_weight(channel: Channel, space: SearchSpace) -> int:
    """Return what one token of capacity of a channel adds to the size, in the unit of the space."""
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
    """Return the graph as numbers, with a space channel for each of these channels, without room.

    They lie behind all other channels: of two reasons for one start the first channel is named,
    and one that is not space is the better reason.
    """
    spaces = tuple(
        space_channel(channel, channel.initial_tokens, f"{channel.name} (searched space)")
        for channel in channels
    )
    return indexed(replace(graph, channels=graph.channels + spaces))


FIRINGS = 1_000_000  # of the two actors of a channel; beyond, a weaker bound is used
ALL_FIRINGS = (
    3_000_000  # of the actors of all channels, a few seconds; beyond, a weaker bound is used
)


def capacity_step(channel: Channel) -> int:
    """Return the distance between useful capacities: one between them behaves like the lower one.

    All tokens and all space of a channel move in multiples of it, so that capacities count from the
    initial tokens on in such steps.
    """
    return gcd(*channel.production, *channel.consumption, *channel.release_rates)


def firings_each(channels: int) -> int:
    """Return how many firings may be looked at for each of this many channels."""
    return min(FIRINGS, ALL_FIRINGS // max(1, channels))


def least_capacity(channel: Channel, firings: int = FIRINGS) -> int:
    """Return the least capacity with which the two actors of the channel alone could run for ever.

    No storage distribution that runs has less on this channel. The consumer fires as soon as it can,
    the producer only when it must: then the space in use is never more than in any other order.
    Beyond this many firings a weaker bound is returned: what the fullest single firing needs.
    For SDF it equals p + c - gcd(p, c) + d mod gcd(p, c), or d if that is more.
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
