"""Small networks with graphs and schedules written by hand."""

from dataclasses import replace
from fractions import Fraction

from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.execution.compare import random_frames
from cnn2csdf.operators import Convolution, Elementwise, FullyConnected, GlobalPooling, Window
from cnn2csdf.weights import Model, random_weights
from csdf.model.graph import Actor, Channel, Graph
from csdf.model.schedule import Firing

HEIGHT, WIDTH = 5, 4


def blurred():
    """A 3x3 convolution with padding 1 over two maps of 5x4: 8 elements a row in, 12 out."""
    builder = NetworkBuilder()
    source = builder.input((2, HEIGHT, WIDTH), name="in")
    window = Window(kernel=(3, 3), padding=(1, 1, 1, 1))
    builder.output(builder.add(Convolution(filters=3, window=window), source, name="conv"), "out")
    return with_weights(builder)


def with_weights(builder):
    network = builder.network()
    return Model(network=network, weights=random_weights(network, 3))


def actor(name, phases, duration=1):
    return Actor(name=name, durations=(duration,) * phases)


def channel(producer, consumer, capacity, production, consumption, release=None):
    return Channel(
        name=f"{producer}-{consumer}",
        producer=producer,
        consumer=consumer,
        production=production,
        consumption=consumption,
        release=release,
        capacity=capacity,
    )


def rows(elements, *counts):
    return tuple(elements * count for count in counts)


# Output row k of the convolution needs input rows k - 1 to k + 1: row 0 two of them, row 4 none
# that row 3 has not had. It is done with row k - 1 after row k, with all after row 4.
CONSUMED = rows(8, 2, 1, 1, 1, 0)
RELEASED = rows(8, 0, 1, 1, 1, 2)
ONE_BY_ONE = (1,) * HEIGHT


def blurring_graph(*, capacity=4 * 8, consumed=CONSUMED, released=RELEASED):
    return Graph(
        name="blurring",
        actors=(actor("in", 5), actor("conv", 5), actor("out", 5)),
        channels=(
            channel("in", "conv", capacity, rows(8, *ONE_BY_ONE), consumed, released),
            channel("conv", "out", 2 * 12, rows(12, *ONE_BY_ONE), rows(12, *ONE_BY_ONE)),
        ),
    )


def firings(actor, starts, *, phases, duration=1):
    return [
        Firing(
            start=Fraction(start),
            end=Fraction(start + duration),
            actor=actor,
            index=index,
            phase=index % phases,
        )
        for index, start in enumerate(starts)
    ]


# The input comes a row a time unit. Row k of the convolution can start once row k + 1 is there, at
# k + 2, and the one behind with the last.
FLOWING = [
    *firings("in", range(10), phases=5),
    *firings("conv", [2, 3, 4, 5, 6, 7, 8, 9, 10, 11], phases=5),
    *firings("out", [3, 4, 5, 6, 7, 8, 9, 10, 11, 12], phases=5),
]


# Of one frame: row 0 takes from 0 to 3, row 1 from 1 to 2; so both are there at 3.
OVERTAKING = [
    *firings("in", [0], phases=5, duration=3),
    *firings("in", range(5), phases=5)[1:],
    *firings("conv", [3, 4, 5, 6, 7], phases=5),
    *firings("out", [4, 5, 6, 7, 8], phases=5),
]


def frames(model, count):
    return random_frames(model.network, count, seed=0)


def squared_and_classified():
    """x * x of one tensor read twice, then one number a map, then two classes."""
    builder = NetworkBuilder()
    source = builder.input((2, 3, 4), name="in")
    squares = builder.add(Elementwise(function="multiply"), source, source, name="square")
    pooled = builder.add(GlobalPooling(function="average"), squares, name="pool")
    builder.output(builder.add(FullyConnected(units=2), pooled, name="classes"), "out")
    return with_weights(builder)


def classifying_graph():
    one, all_rows = rows(8, 1, 1, 1), (24,)
    twice = channel("in", "square", 8, one, one)
    return Graph(
        name="classifying",
        actors=(
            actor("in", 3), actor("square", 3), actor("pool", 1), actor("classes", 1),
            actor("out", 1),
        ),
        channels=(
            twice,
            replace(twice, name="again"),
            channel("square", "pool", 24, one, all_rows),
            channel("pool", "classes", 2, (2,), (2,)),
            channel("classes", "out", 2, (2,), (2,)),
        ),
    )  # fmt: skip


CLASSIFYING = [
    *firings("in", [0, 2, 4, 6, 8, 10], phases=3),
    *firings("square", [1, 3, 5, 7, 9, 11], phases=3),
    *firings("pool", [6, 12], phases=1),
    *firings("classes", [7, 13], phases=1),
    *firings("out", [8, 14], phases=1),
]
