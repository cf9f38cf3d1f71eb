"""Graphs made to hurt, each with the answer that follows by hand.

Every actor lasts one time unit unless it says otherwise. The size is a parameter: small ones are
tests, large ones a benchmark.
"""

from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from random import Random
from typing import NamedTuple

from csdf.model.graph import Actor, Channel, Graph


def _actor(name, *durations):
    return Actor(name=name, durations=durations or (1,))


def _channel(producer, consumer, made=(1,), taken=(1,), tokens=0, name=None):
    return Channel(
        name=name or f"{producer} to {consumer}",
        producer=producer,
        consumer=consumer,
        production=made,
        consumption=taken,
        initial_tokens=tokens,
    )


def _loop(actor, phases=1, tokens=1, name=None):
    """A self-loop that lets so many firings go on at once."""
    return _channel(actor, actor, (1,) * phases, (1,) * phases, tokens, name)


def _graph(name, actors, channels, unit=Fraction(1)):
    return Graph(name=name, actors=tuple(actors), channels=tuple(channels), time_unit=unit)


def _names(count):
    return [f"a{number}" for number in range(count)]


def coprime_chain(count):
    """Each actor puts 3, the next takes 2; one firing at a time.

    The last of n actors fires 3^(n - 1) times per iteration, more than any other: that is the period.
    """
    names = _names(count)
    links = [_channel(one, two, (3,), (2,)) for one, two in pairwise(names)]
    return _graph("coprime chain", map(_actor, names), links + [_loop(name) for name in names])


def coprime_ring(count):
    """The same chain, closed with the tokens of n iterations, each of them 6^(n - 1): no slower.

    Let actor i work on iteration k from (i + k) P on, P = 3^(n - 1) being the most firings of one
    actor. It is done after P; so is the last actor with iteration k, at (n + k) P, which is when
    the first one begins iteration n + k.
    """
    chain = coprime_chain(count)
    first, last = chain.actors[0].name, chain.actors[-1].name
    made, taken = 2 ** (count - 1), 3 ** (count - 1)
    back = _channel(last, first, (made,), (taken,), count * made * taken, "back")
    return _graph("coprime ring", chain.actors, (*chain.channels, back))


def chain(count):
    """Actors one behind the other, one firing at a time: period 1."""
    names = _names(count)
    links = [_channel(one, two) for one, two in pairwise(names)]
    return _graph("chain", map(_actor, names), links + [_loop(name) for name in names])


def ring(count):
    """A token goes round n actors: period n."""
    names = _names(count)
    links = [_channel(one, two) for one, two in pairwise(names)]
    return _graph("ring", map(_actor, names), [*links, _channel(names[-1], names[0], tokens=1)])


def stuck_ring(count):
    """No token: every actor waits."""
    full = ring(count)
    names = _names(count)
    return _graph("stuck ring", full.actors, [*full.channels[:-1], _channel(names[-1], names[0])])


def star(count):
    """n leaves exchange one token with the hub: each cycle lasts 2."""
    leaves = _names(count)
    there = [_channel("hub", leaf) for leaf in leaves]
    back = [_channel(leaf, "hub", tokens=1) for leaf in leaves]
    return _graph("star", [_actor("hub"), *map(_actor, leaves)], there + back)


def random_graph(count):
    """A ring with a token on each channel, and as many chords that hold n tokens.

    A cycle of k actors spans at least k tokens: no period is longer than 1, and the ring has it.
    """
    random, names = Random(1), _names(count)
    links = [_channel(one, two, tokens=1) for one, two in pairwise(names)]
    chords = [
        _channel(random.choice(names), random.choice(names), tokens=count, name=f"chord {number}")
        for number in range(count)
    ]
    closing = _channel(names[-1], names[0], tokens=1)
    return _graph("random", map(_actor, names), [*links, closing, *chords])


def parallel(count):
    """n channels there, one with a token back: period 2."""
    there = [_channel("a", "b", name=f"there {number}") for number in range(count)]
    return _graph("parallel", [_actor("a"), _actor("b")], [*there, _channel("b", "a", tokens=1)])


def timeless(count):
    """A ring that takes no time: period 0."""
    full = ring(count)
    return _graph("timeless", [_actor(one.name, 0) for one in full.actors], full.channels)


def timeless_stuck(count):
    """A ring that takes no time and holds no token: a deadlock all the same."""
    full = stuck_ring(count)
    return _graph("timeless stuck", [_actor(one.name, 0) for one in full.actors], full.channels)


def many_tokens(count):
    """n tokens between two actors without limits: period 2 / n."""
    links = [_channel("a", "b"), _channel("b", "a", tokens=count)]
    return _graph("many tokens", [_actor("a"), _actor("b")], links)


def many_phases(count):
    """An actor of n phases feeds one of a single phase, one firing at a time: period n."""
    ones = (1,) * count
    links = [_channel("a", "b", ones, (1,)), _loop("a", count), _loop("b")]
    return _graph("many phases", [_actor("a", *ones), _actor("b")], links)


def self_loops(count):
    """n self-loops with 1 to n tokens: the first decides, period 1."""
    loops = [_loop("a", tokens=number, name=f"loop {number}") for number in range(1, count + 1)]
    return _graph("self-loops", [_actor("a")], loops)


def nested(count):
    """n actors, each in a cycle with the next: cycles within cycles, each of 2 over 1 token."""
    names = _names(count)
    pairs = list(pairwise(names))
    there = [_channel(one, two) for one, two in pairs]
    back = [_channel(two, one, tokens=1) for one, two in pairs]
    return _graph("nested", map(_actor, names), there + back)


def long_durations(count):
    """A ring of n actors of 10^30 time units: period n * 10^30."""
    full = ring(count)
    return _graph("long", [_actor(one.name, 10**30) for one in full.actors], full.channels)


def rationals(count):
    """A ring of n actors of 1 / 10^90 each."""
    full = ring(count)
    return _graph("rationals", full.actors, full.channels, Fraction(1, 10**90))


def components(count):
    """n actors that know nothing of one another, the last one twice as slow: period 2."""
    names = _names(count)
    actors = [_actor(name, 2 if name == names[-1] else 1) for name in names]
    return _graph("components", actors, [_loop(name) for name in names])


class Case(NamedTuple):
    """A graph by its size, and its period by hand; None: it deadlocks.

    storage: the smallest storage without deadlock, None where it is not worked out. small, large: the
    sizes for tests and for the benchmark.
    """

    make: Callable[[int], Graph]
    period: Callable[[int], Fraction | int | None]
    storage: Callable[[int], int | None]
    small: int
    large: int


# Storage: a channel between two single-rate actors needs as much as it holds at the start, at least
# 1; production 3 against consumption 2 needs 3 + 2 - 1 = 4. One token that goes round a ring through
# capacities of 1 finds room everywhere. Self-loops do not count.
CASES = {
    "coprime chain": Case(coprime_chain, lambda n: 3 ** (n - 1), lambda n: 4 * (n - 1), 45, 200),
    "coprime ring": Case(coprime_ring, lambda n: 3 ** (n - 1), lambda n: None, 45, 100),
    "chain": Case(chain, lambda n: 1, lambda n: n - 1, 1000, 100_000),
    "ring": Case(ring, lambda n: n, lambda n: n, 1000, 100_000),
    "stuck ring": Case(stuck_ring, lambda n: None, lambda n: None, 1000, 100_000),
    "star": Case(star, lambda n: 2, lambda n: 2 * n, 1000, 100_000),
    "random": Case(random_graph, lambda n: 1, lambda n: None, 300, 100_000),
    "parallel": Case(parallel, lambda n: 2, lambda n: n + 1, 1000, 100_000),
    "timeless": Case(timeless, lambda n: 0, lambda n: n, 1000, 100_000),
    "timeless stuck": Case(timeless_stuck, lambda n: None, lambda n: None, 1000, 100_000),
    "million tokens": Case(many_tokens, lambda n: Fraction(2, n), lambda n: n + 1, 10**6, 10**6),
    "huge tokens": Case(many_tokens, lambda n: Fraction(2, n), lambda n: n + 1, 10**18, 10**18),
    "many phases": Case(many_phases, lambda n: n, lambda n: 1, 10_000, 10**6),
    "self-loops": Case(self_loops, lambda n: 1, lambda n: 0, 300, 10_000),
    "nested": Case(nested, lambda n: 2, lambda n: 2 * (n - 1), 1000, 100_000),
    "long": Case(long_durations, lambda n: n * 10**30, lambda n: n, 100, 100_000),
    "rationals": Case(rationals, lambda n: Fraction(n, 10**90), lambda n: n, 100, 1000),
    "components": Case(components, lambda n: 2, lambda n: 0, 1000, 10_000),
}
