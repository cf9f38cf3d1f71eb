"""Random graphs by means and variances, as benchmarks are described: consistent and live.

The numbers asked for are those of the generator of SDF3 (Stuijk, Geilen, Basten, SDF3: SDF For
Free, ACSD 2006): actors, degrees, rates, the sum of the repetition vector, execution times and initial
tokens, each with mean, variance and limits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import gcd
from random import Random

from csdf.analysis.concurrency import without_auto_concurrency
from csdf.errors import InvalidGraph
from csdf.generation.random_graphs import made_live
from csdf.generation.spread import Spread
from csdf.model.graph import Actor, Channel, Graph

TRIES = 1000  # of repetition vectors with a common factor
LARGEST_SUM = 10**9
THREE = Spread(mean=Fraction(3), variance=Fraction(1))
TWENTY = Spread(mean=Fraction(20), variance=Fraction(25))
NONE = Spread(mean=Fraction(0), least=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledShape:
    """Averages that the numbers of a drawn graph should have; each actor has one phase.

    degree: channels at an actor, in and out, without self-loops. rate: the mean of both rates of a
    channel; where the repetition vector asks for larger ones, it is larger. repetition_sum: firings in
    one iteration, exactly. tokens: of each channel, before those that the graph takes to be live;
    an acyclic graph takes none. has_self_loops: one firing of an actor at a time.
    """

    actors: int = 8
    degree: Spread = THREE
    rate: Spread = THREE
    repetition_sum: int | None = None  # by default twice as many as actors
    duration: Spread = TWENTY
    tokens: Spread = NONE
    is_strongly_connected: bool = True
    is_acyclic: bool = False
    has_self_loops: bool = True

    def __post_init__(self) -> None:
        if self.actors < 1:
            raise InvalidGraph(f"actors is {self.actors}; expected at least 1")
        if self.is_strongly_connected and self.is_acyclic:
            raise InvalidGraph("a graph is strongly connected or acyclic, not both")
        least = self.actors
        if not least <= self.firings <= LARGEST_SUM or (least == 1 and self.firings > 1):
            most = LARGEST_SUM if least > 1 else 1
            raise InvalidGraph(
                f"repetition_sum is {self.firings}; expected {least} to {most} for {least} actors"
            )
        for name, lowest in (("degree", 0), ("rate", 1), ("duration", 0), ("tokens", 0)):
            if getattr(self, name).least < lowest:
                raise InvalidGraph(
                    f"{name} of at least {getattr(self, name).least}; at least {lowest}"
                )

    @property
    def firings(self) -> int:
        """The sum of the repetition vector."""
        if self.repetition_sum is not None:
            return self.repetition_sum
        return 1 if self.actors == 1 else 2 * self.actors


DEFAULT = SampledShape()


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
        found = [cuts[at + 1] - cuts[at] for at in range(actors)]
        if gcd(*found) == 1:
            return found
    raise InvalidGraph(f"no repetition vector of {actors} actors has the sum {firings}")


def _ends(random: Random, shape: SampledShape) -> list[tuple[int, int]]:
    """Producer and consumer of each channel: what connects the actors, then what the degrees add."""
    order = list(range(shape.actors))
    random.shuffle(order)
    least = 2 if shape.is_strongly_connected else 1
    left = [max(shape.degree.draw(random), least) for _ in order]
    ends = _ring(order) if shape.is_strongly_connected else _tree(random, order, left)
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
    place = {actor: at for at, actor in enumerate(order)}
    return [pair if place[pair[0]] < place[pair[1]] else pair[::-1] for pair in ends]


def _ring(order: Sequence[int]) -> list[tuple[int, int]]:
    if len(order) < 2:
        return []
    return list(zip(order, [*order[1:], order[0]], strict=True))


def _tree(random: Random, order: Sequence[int], left: Sequence[int]) -> list[tuple[int, int]]:
    """Connect each actor with one before it, that still may have a channel if there is one.

    The degrees of a tree of n actors have the sum 2 n - 2, so that smaller means are not reached.
    """
    free = list(left)
    pairs = []
    for place in range(1, len(order)):
        open_ones = [actor for actor in order[:place] if free[actor] > 0]
        other = random.choice(open_ones or list(order[:place]))
        pairs.append((other, order[place]))
        free[other] -= 1
        free[order[place]] -= 1
    return pairs


def _paired(stubs: list[int]) -> list[tuple[int, int]]:
    """Join ends of channels two by two; an end that meets only ends of its own actor stays loose."""
    pairs = []
    while len(stubs) > 1:
        one = stubs.pop()
        other = next((at for at in range(len(stubs) - 1, -1, -1) if stubs[at] != one), None)
        if other is not None:
            pairs.append((one, stubs.pop(other)))
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
    made, taken = repetitions[consumer] // shared, repetitions[producer] // shared
    whole, rest = divmod(shape.rate.draw(random) * 2, made + taken)
    multiple = max(1, whole + (random.randrange(made + taken) < rest))
    return Channel(
        name=f"c{number}",
        producer=f"a{producer}",
        consumer=f"a{consumer}",
        production=(multiple * made,),
        consumption=(multiple * taken,),
        initial_tokens=shape.tokens.draw(random),
    )
