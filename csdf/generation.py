"""Random graphs, consistent by construction and live by repair: by limits, or by mean and variance.

The numbers of the second kind are those of the generator of SDF3 (Stuijk, Geilen, Basten, SDF3: SDF For
Free, ACSD 2006): actors, degrees, rates, the sum of the repetition vector, execution times and initial
tokens, each with mean, variance and limits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from math import gcd, isqrt
from random import Random
from typing import NamedTuple

from csdf.analysis.bound_channels import (
    SPACE,
    bound_channels,
    limit_concurrency,
    without_auto_concurrency,
)
from csdf.analysis.liveness_repair import added_tokens
from csdf.arguments import public
from csdf.errors import InvalidGraph
from csdf.model.graph import Actor, Channel, Graph


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphShape:
    """The limits within which a random graph is drawn; every graph is connected, consistent and live.

    Each quantity with a `max_` field is drawn from its minimum to this maximum.
    """

    actors: int = 5
    extra_channels: int = 3  # beyond those that connect the actors
    max_phases: int = 1
    max_repetitions: int = 6  # firings of an actor in one iteration
    max_rate: int = 6  # tokens of one firing on one channel; some phases may have 0
    min_duration: int = 1  # time units
    max_duration: int = 10  # time units
    max_extra_initial_tokens: int = 0  # of each channel, before the tokens that make it live
    max_concurrency: int = 1  # tokens of the self-loop of an actor
    is_strongly_connected: bool = True
    is_bounded: bool = False  # a capacity on every channel between two actors
    has_late_release: bool = False  # bounded channels give space back later than they consume
    has_self_loops: bool = True  # which limit how many firings of an actor may overlap
    has_parallel_channels: bool = True  # extra channels may join actors that share one already

    def __post_init__(self) -> None:
        wrong = list(self._violations())
        if wrong:
            raise InvalidGraph("; ".join(wrong))

    def _violations(self) -> Iterator[str]:
        """Yield violations; two limits are compared only if each is valid by itself."""
        wrong: set[str] = set()
        for field in fields(self):
            value = getattr(self, field.name)
            expected = bool if field.name.startswith(("is_", "has_")) else int
            minimum = 1 if field.name in _AT_LEAST_ONE else 0
            if type(value) is not expected:
                wrong.add(field.name)
                yield f"{field.name} is {value!r}; expected {expected.__name__}"
            elif value < minimum:
                wrong.add(field.name)
                yield f"{field.name} is {value}; expected at least {minimum}"
        for larger, smaller in _ORDERED:
            high, low = getattr(self, larger), getattr(self, smaller)
            if wrong.isdisjoint((larger, smaller)) and high < low:
                yield f"{larger} is {high}; expected at least {smaller}, which is {low}"
        if self.has_late_release and not self.is_bounded:
            yield "has_late_release without is_bounded: only capacities have windows"


_AT_LEAST_ONE = ("actors", "max_phases", "max_repetitions", "max_rate", "max_concurrency")
_ORDERED = (  # each of the first is at least the second
    ("max_duration", "min_duration"),
    ("max_repetitions", "max_phases"),
    ("max_rate", "max_repetitions"),
)


DEFAULT_SHAPE = GraphShape()


class _DrawnActor(NamedTuple):
    actor: Actor
    cycles: int  # phase cycles in one iteration


@public
def random_graph(seed: int, shape: GraphShape = DEFAULT_SHAPE) -> Graph:
    """Return a random graph of that shape: connected, consistent and live.

    The same seed and shape give the same graph everywhere. The repetitions are drawn first, and
    rates that balance them next; then tokens and space are added to blocking cycles, one by one,
    until the graph is live.
    """
    random = Random(seed)
    actors = [_drawn_actor(random, shape, number) for number in range(shape.actors)]
    channels = [
        _drawn_channel(random, shape, f"c{number}", actors[producer], actors[consumer])
        for number, (producer, consumer) in enumerate(_drawn_ends(random, shape))
    ]
    graph = Graph(
        name=f"random_{seed}",
        actors=tuple(drawn.actor for drawn in actors),
        channels=tuple(channels),
    )
    if shape.has_self_loops:
        limits = {a.name: _drawn(random, 1, shape.max_concurrency) for a in graph.actors}
        graph = limit_concurrency(graph, limits)
    return made_live(random, graph)


def _drawn(random: Random, minimum: int, maximum: int) -> int:
    """An integer from `minimum` to `maximum`, both included."""
    return random.randrange(minimum, maximum + 1)


def _drawn_actor(random: Random, shape: GraphShape, number: int) -> _DrawnActor:
    phases = _drawn(random, 1, shape.max_phases)
    durations = tuple(_drawn(random, shape.min_duration, shape.max_duration) for _ in range(phases))
    cycles = _drawn(random, 1, shape.max_repetitions // phases)
    return _DrawnActor(Actor(name=f"a{number}", durations=durations), cycles)


def _drawn_ends(random: Random, shape: GraphShape) -> list[tuple[int, int]]:
    """Producer and consumer of each channel: what connects the actors, then the extra ones."""
    order = list(range(shape.actors))
    random.shuffle(order)
    if shape.is_strongly_connected:
        following = order[1:] + order[:1]
        ends = [pair for pair in zip(order, following, strict=True) if pair[0] != pair[1]]
    else:
        ends = []
        for position in range(1, shape.actors):
            pair = (order[_drawn(random, 0, position - 1)], order[position])
            ends.append(pair if random.randrange(2) else pair[::-1])
    joined = set(ends)
    for _ in range(shape.extra_channels if shape.actors > 1 else 0):
        producer = random.randrange(shape.actors)
        consumer = (producer + _drawn(random, 1, shape.actors - 1)) % shape.actors
        is_first = joined.isdisjoint(((producer, consumer), (consumer, producer)))
        if is_first or shape.has_parallel_channels:
            ends.append((producer, consumer))
            joined.add((producer, consumer))
    return ends


def _drawn_channel(
    random: Random, shape: GraphShape, name: str, producer: _DrawnActor, consumer: _DrawnActor
) -> Channel:
    """A channel whose rates balance the cycles of its actors."""
    shared = gcd(producer.cycles, consumer.cycles)
    produced, consumed = consumer.cycles // shared, producer.cycles // shared
    room = min(
        shape.max_rate * producer.actor.phases // produced,
        shape.max_rate * consumer.actor.phases // consumed,
    )
    multiple = _drawn(random, 1, room)
    production = _split(random, multiple * produced, producer.actor.phases, shape.max_rate)
    consumption = _split(random, multiple * consumed, consumer.actor.phases, shape.max_rate)
    channel = Channel(
        name=name,
        producer=producer.actor.name,
        consumer=consumer.actor.name,
        production=production,
        consumption=consumption,
        initial_tokens=_drawn(random, 0, shape.max_extra_initial_tokens),
    )
    if not shape.is_bounded:
        return channel
    # A capacity that holds the tokens of any single firing.
    minimum = max(channel.initial_tokens, *channel.production, *channel.consumption)
    capacity = minimum + _drawn(random, 0, shape.max_extra_initial_tokens)
    release = _late(random, channel.consumption) if shape.has_late_release else None
    return replace(channel, capacity=capacity, release=release)


def _split(random: Random, total: int, phases: int, maximum: int) -> tuple[int, ...]:
    """Rates of that many phases, none above `maximum`, with that sum."""
    rates = []
    for phase in range(phases):
        later = phases - phase - 1
        rates.append(_drawn(random, max(0, total - later * maximum), min(maximum, total)))
        total -= rates[-1]
    random.shuffle(rates)
    return tuple(rates)


def _late(random: Random, consumption: tuple[int, ...]) -> tuple[int, ...]:
    """Release rates that are never ahead of the consumption."""
    release = []
    held = 0
    for consumed in consumption[:-1]:
        held += consumed
        release.append(_drawn(random, 0, held))
        held -= release[-1]
    return (*release, held + consumption[-1])


def made_live(random: Random, graph: Graph) -> Graph:
    """Add to one channel of a blocking cycle what its consumer lacks, until nothing blocks.

    It ends, because a channel with the tokens or the space of a whole iteration never blocks.
    """
    bounded = bound_channels(graph)
    added = added_tokens(bounded, random.randrange)
    channels = []
    for channel in graph.channels:
        tokens, space = added[channel.name], added.get(channel.name + SPACE, 0)
        room = None if channel.capacity is None else channel.capacity + tokens + space
        initial_tokens = channel.initial_tokens + tokens
        channels.append(replace(channel, capacity=room, initial_tokens=initial_tokens))
    return replace(graph, channels=tuple(channels))


GRAIN = 2**20  # steps of a number drawn evenly from 0 to 1
ROUNDING = Fraction(1, 6)  # variance that rounding up or down by chance adds, on average
DEVIATIONS = 3  # standard deviations from the mean to either end of the distribution


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanVariance:
    """A distribution of integers by mean, variance, minimum and maximum.

    If three standard deviations fit between the limits, numbers are sums of three uniform variables.
    Otherwise they are uniform on each side of the mean: on one side up to the limit, on the other as
    far as the variance requires. Stochastic rounding preserves the mean; it adds a variance of 1/6, so
    smaller variances count as zero.
    """

    mean: Fraction
    variance: Fraction = Fraction(0)
    minimum: int = 1
    maximum: int | None = None

    def __post_init__(self) -> None:
        if self.variance < 0:
            raise InvalidGraph(f"variance {self.variance}; expected at least 0")
        if self.mean < self.minimum or (self.maximum is not None and self.mean > self.maximum):
            maximum = "" if self.maximum is None else f" and at most {self.maximum}"
            raise InvalidGraph(f"mean {self.mean}; expected at least {self.minimum}{maximum}")
        if self._own_variance() and not self._fits_a_bell():
            _, _, is_possible = self._sides()
            if not is_possible:
                below = self.mean - self.minimum
                above = 0 if self.maximum is None else self.maximum - self.mean
                raise InvalidGraph(
                    f"variance {self.variance} around the mean {self.mean}; expected at most "
                    f"{below * above / 3 + ROUNDING} between these limits"
                )

    def draw(self, random: Random) -> int:
        """Return the next number; the same generator gives the same numbers everywhere."""
        whole, remainder = divmod(self._exact(random), 1)
        return int(whole) + (_even(random) < remainder)

    def _exact(self, random: Random) -> Fraction:
        variance = self._own_variance()
        if not variance:
            return self.mean
        if self._fits_a_bell():
            root = isqrt(variance.numerator * GRAIN**2 // variance.denominator)  # to six digits
            width = DEVIATIONS * Fraction(root, GRAIN)
            together = _even(random) + _even(random) + _even(random)
            return self.mean + width * (together * Fraction(2, 3) - 1)
        below, above, _ = self._sides()
        if _even(random) * (below + above) < below:  # far sides are drawn less often
            return self.mean + above * _even(random)
        return self.mean - below * _even(random)

    def _own_variance(self) -> Fraction:
        """The variance before rounding."""
        return max(self.variance - ROUNDING, Fraction(0))

    def _fits_a_bell(self) -> bool:
        reach = DEVIATIONS**2 * self._own_variance()
        above = None if self.maximum is None else (self.maximum - self.mean) ** 2
        return reach <= (self.mean - self.minimum) ** 2 and (above is None or reach <= above)

    def _sides(self) -> tuple[Fraction, Fraction, bool]:
        """How far numbers reach below and above the mean, and whether the limits allow it.

        Even numbers over `below` and `above`, each as often as the other is long, have the mean 0 and
        the variance below * above / 3.
        """
        below = self.mean - self.minimum
        above = None if self.maximum is None else self.maximum - self.mean
        product = 3 * self._own_variance()
        if below and (above is None or below <= above):
            wanted = product / below
            return below, wanted, above is None or wanted <= above
        if not above:
            return Fraction(0), Fraction(0), False
        wanted = product / above
        return wanted, above, wanted <= below


def _even(random: Random) -> Fraction:
    return Fraction(random.randrange(GRAIN), GRAIN)


TRIES = 1000  # of repetition vectors with a common factor
LARGEST_SUM = 10**9
THREE = MeanVariance(mean=Fraction(3), variance=Fraction(1))
TWENTY = MeanVariance(mean=Fraction(20), variance=Fraction(25))
NONE = MeanVariance(mean=Fraction(0), minimum=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledShape:
    """Averages that the numbers of a drawn graph should have; each actor has one phase.

    degree: channels at an actor, in and out, without self-loops. rate: the mean of both rates of a
    channel; where the repetition vector asks for larger ones, it is larger. repetition_sum: firings in
    one iteration, exactly. tokens: of each channel, before the tokens that make the graph live;
    an acyclic graph takes none. has_self_loops: one firing of an actor at a time.
    """

    actors: int = 8
    degree: MeanVariance = THREE
    rate: MeanVariance = THREE
    repetition_sum: int | None = None  # by default twice as many as actors
    duration: MeanVariance = TWENTY
    tokens: MeanVariance = NONE
    is_strongly_connected: bool = True
    is_acyclic: bool = False
    has_self_loops: bool = True

    def __post_init__(self) -> None:
        if self.actors < 1:
            raise InvalidGraph(f"actors is {self.actors}; expected at least 1")
        if self.is_strongly_connected and self.is_acyclic:
            raise InvalidGraph("a graph is strongly connected or acyclic, not both")
        minimum = self.actors
        if not minimum <= self.firings <= LARGEST_SUM or (minimum == 1 and self.firings > 1):
            maximum = LARGEST_SUM if minimum > 1 else 1
            raise InvalidGraph(
                f"repetition_sum is {self.firings}; expected {minimum} to {maximum} "
                f"for {minimum} actors"
            )
        for name, lowest in (("degree", 0), ("rate", 1), ("duration", 0), ("tokens", 0)):
            if getattr(self, name).minimum < lowest:
                raise InvalidGraph(
                    f"{name} of at least {getattr(self, name).minimum}; at least {lowest}"
                )

    @property
    def firings(self) -> int:
        """The sum of the repetition vector."""
        if self.repetition_sum is not None:
            return self.repetition_sum
        return 1 if self.actors == 1 else 2 * self.actors


DEFAULT = SampledShape()


@public
def sampled_graph(seed: int, shape: SampledShape = DEFAULT) -> Graph:
    """Return a random graph whose numbers approach the means and variances of the shape.

    The same seed and shape give the same graph everywhere. It is connected, consistent and live.
    """
    random = Random(seed)
    repetitions = _repetitions(random, shape.actors, shape.firings)
    actors = tuple(
        Actor(name=f"a{number}", durations=(shape.duration.draw(random),))
        for number in range(shape.actors)
    )
    channels = tuple(
        _channel(random, shape, number, ends, repetitions)
        for number, ends in enumerate(_ends(random, shape))
    )
    graph = Graph(name=f"sampled_{seed}", actors=actors, channels=channels)
    if shape.has_self_loops:
        graph = without_auto_concurrency(graph)
    return made_live(random, graph)


def _repetitions(random: Random, actors: int, firings: int) -> list[int]:
    """Firings of each actor with that sum and no common factor."""
    for _ in range(TRIES):
        cuts = [0, *sorted(random.sample(range(1, firings), actors - 1)), firings]
        gaps = [cuts[at + 1] - cuts[at] for at in range(actors)]
        if gcd(*gaps) == 1:
            return gaps
    raise InvalidGraph(f"no repetition vector of {actors} actors has the sum {firings}")


def _ends(random: Random, shape: SampledShape) -> list[tuple[int, int]]:
    """Producer and consumer of each channel: what connects the actors, then what the degrees add."""
    order = list(range(shape.actors))
    random.shuffle(order)
    minimum = 2 if shape.is_strongly_connected else 1
    left = [max(shape.degree.draw(random), minimum) for _ in order]
    if shape.is_strongly_connected:
        following = [*order[1:], order[0]]
        ends = list(zip(order, following, strict=True)) if len(order) > 1 else []
    else:
        ends = _tree(random, order, left)
    for pair in ends:
        for actor in pair:
            left[actor] -= 1
    stubs = [actor for actor in order for _ in range(left[actor])]
    random.shuffle(stubs)
    ends += _paired(stubs)
    if not shape.is_acyclic and not shape.is_strongly_connected:
        return [pair if random.randrange(2) else pair[::-1] for pair in ends]
    if not shape.is_acyclic:
        turned = [pair if random.randrange(2) else pair[::-1] for pair in ends[shape.actors :]]
        return ends[: shape.actors] + turned
    position = {actor: at for at, actor in enumerate(order)}
    return [pair if position[pair[0]] < position[pair[1]] else pair[::-1] for pair in ends]


def _tree(random: Random, order: Sequence[int], left: Sequence[int]) -> list[tuple[int, int]]:
    """Connect each actor with an earlier actor, preferably below its degree.

    The degrees of a tree of n actors have the sum 2 n - 2, so that smaller means are not reached.
    """
    free = list(left)
    pairs = []
    for position in range(1, len(order)):
        free_actors = [actor for actor in order[:position] if free[actor] > 0]
        producer = random.choice(free_actors or list(order[:position]))
        pairs.append((producer, order[position]))
        free[producer] -= 1
        free[order[position]] -= 1
    return pairs


def _paired(stubs: list[int]) -> list[tuple[int, int]]:
    """Pair channel ends of different actors; ends without a partner are dropped."""
    pairs = []
    while len(stubs) > 1:
        stub = stubs.pop()
        partner_at = next((at for at in range(len(stubs) - 1, -1, -1) if stubs[at] != stub), None)
        if partner_at is not None:
            pairs.append((stub, stubs.pop(partner_at)))
    return pairs


def _channel(
    random: Random,
    shape: SampledShape,
    number: int,
    ends: tuple[int, int],
    repetitions: Sequence[int],
) -> Channel:
    """A channel whose rates balance the repetition vector and approach the mean."""
    producer, consumer = ends
    shared = gcd(repetitions[producer], repetitions[consumer])
    produced, consumed = repetitions[consumer] // shared, repetitions[producer] // shared
    whole, remainder = divmod(shape.rate.draw(random) * 2, produced + consumed)
    multiple = max(1, whole + (random.randrange(produced + consumed) < remainder))
    return Channel(
        name=f"c{number}",
        producer=f"a{producer}",
        consumer=f"a{consumer}",
        production=(multiple * produced,),
        consumption=(multiple * consumed,),
        initial_tokens=shape.tokens.draw(random),
    )
