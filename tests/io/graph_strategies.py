"""Random graphs that SDF3 can hold without loss."""

import math
from fractions import Fraction

from hypothesis import strategies as st

from csdf.model.graph import Actor, Channel, Graph, Processor

names = st.text(
    st.characters(codec="utf-8", categories=("L", "N", "P", "S", "Zs")), min_size=1, max_size=6
)
naturals = st.integers(0, 10**6)


@st.composite
def actors(draw, name):
    phases = draw(st.integers(1, 4))
    times = st.lists(st.integers(0, 50), min_size=phases, max_size=phases).map(tuple)
    processor_names = draw(st.lists(names, max_size=3, unique=True))
    if len(processor_names) < 2:
        return Actor(name=name, durations=draw(times))
    chosen = draw(st.integers(0, len(processor_names) - 1))
    processors = tuple(
        Processor(name=each, durations=draw(times), is_default=number == chosen)
        for number, each in enumerate(processor_names)
    )
    return Actor(name=name, durations=processors[chosen].durations, processors=processors)


def rates(actor):
    entries = st.lists(st.integers(0, 9), min_size=actor.phases, max_size=actor.phases)
    return entries.filter(any).map(tuple)


@st.composite
def channels(draw, name, known_actors):
    producer, consumer = draw(st.sampled_from(known_actors)), draw(st.sampled_from(known_actors))
    tokens = draw(naturals)
    return Channel(
        name=name,
        producer=producer.name,
        consumer=consumer.name,
        production=draw(rates(producer)),
        consumption=draw(rates(consumer)),
        initial_tokens=tokens,
        capacity=draw(st.none() | st.integers(tokens, tokens + 10)),
        token_size=draw(st.none() | naturals),
    )


@st.composite
def graphs(draw):
    known = [
        draw(actors(name)) for name in draw(st.lists(names, min_size=1, max_size=4, unique=True))
    ]
    return Graph(
        name=draw(names),
        actors=tuple(known),
        channels=tuple(
            draw(channels(name, known)) for name in draw(st.lists(names, max_size=5, unique=True))
        ),
        time_unit=draw(least_units(known)),
        throughput_constraint=draw(
            st.none() | st.fractions(min_value=0, max_value=10, max_denominator=10**6)
        ),
    )


def least_units(known_actors):
    """The units that no larger one could replace: 1/n, with n having no factor of all times."""
    times = [
        time
        for actor in known_actors
        for durations in (actor.durations, *(p.durations for p in actor.processors))
        for time in durations
    ]
    common = math.gcd(*times)
    return (
        st.integers(1, 6).filter(lambda n: math.gcd(common, n) == 1).map(lambda n: Fraction(1, n))
    )
