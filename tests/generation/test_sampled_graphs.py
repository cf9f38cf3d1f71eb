"""Random graphs by means and variances: what was asked for is what comes out on average."""

from fractions import Fraction
from math import sqrt
from random import Random
from statistics import mean, pvariance

import networkx
import pytest

from csdf.analysis.consistency import repetition_vector
from csdf.analysis.liveness import deadlock
from csdf.errors import InvalidGraph
from csdf.generation import MeanVariance, SampledShape, sampled_graph
from tests.generation.test_random_graphs import as_networkx, between_actors

SEEDS = range(60)


def spread(average, variance=0, least=1, most=None):
    return MeanVariance(
        mean=Fraction(average), variance=Fraction(variance), minimum=least, maximum=most
    )


ACYCLIC = SampledShape(
    actors=30,
    degree=spread(4, 2),
    rate=spread(9, 4),
    repetition_sum=60,
    duration=spread(50, 100),
    tokens=spread(2, 2, 0),
    is_strongly_connected=False,
    is_acyclic=True,
)
STRONG = SampledShape(actors=20, degree=spread(3, 1), rate=spread(12, 9), repetition_sum=30)


def graphs(shape):
    return [sampled_graph(seed, shape) for seed in SEEDS]


def is_near(values, expected):
    """Whether the mean of independent values is within four standard errors of what is expected."""
    error = sqrt(float(pvariance(values)) / len(values))
    return abs(float(mean(values)) - expected) <= 4 * error + 1e-9


@pytest.mark.parametrize(
    ("average", "variance", "least", "most"),
    [
        (3, 1, 1, None),
        (3, 8, 1, None),  # skewed: 1 is near
        (20, 25, 1, None),
        (5, 4, 0, 10),
        (9, 2, 1, 10),
        (2, 2, 1, 9),
        (Fraction(5, 2), Fraction(1, 4), 1, None),  # 2 or 3
        (7, 0, 7, 7),
    ],
)
def test_drawn_numbers_have_the_mean_the_variance_and_the_limits(average, variance, least, most):
    random = Random(3)
    numbers = [spread(average, variance, least, most).draw(random) for _ in range(5_000)]
    assert is_near(numbers, average)
    assert float(pvariance(numbers)) == pytest.approx(float(variance), rel=0.15)
    assert min(numbers) >= least
    assert most is None or max(numbers) <= most


@pytest.mark.parametrize("shape", [ACYCLIC, STRONG], ids=["acyclic", "strong"])
def test_every_graph_is_connected_consistent_and_live(shape):
    for graph in graphs(shape):
        assert sum(repetition_vector(graph).values()) == shape.repetition_sum
        assert deadlock(graph) is None
        drawn = as_networkx(graph)
        assert networkx.is_weakly_connected(drawn)
        assert networkx.is_strongly_connected(drawn) == shape.is_strongly_connected
        if shape.is_acyclic:
            drawn.remove_edges_from(list(networkx.selfloop_edges(drawn, keys=True)))
            assert networkx.is_directed_acyclic_graph(drawn)


@pytest.mark.parametrize("shape", [ACYCLIC, STRONG], ids=["acyclic", "strong"])
def test_random_graphs_have_the_requested_means(shape):
    made = graphs(shape)
    channels = [channel for graph in made for channel in between_actors(graph)]
    degrees = [Fraction(2 * len(between_actors(graph)), shape.actors) for graph in made]
    # A strongly connected graph has at least two channels at each actor: the share of the degrees
    # below that raises the mean, and ends that find no other actor lower it; both are small.
    assert float(mean(degrees)) == pytest.approx(float(shape.degree.mean), rel=0.06)
    rates = [Fraction(c.production[0] + c.consumption[0], 2) for c in channels]
    assert float(mean(rates)) == pytest.approx(float(shape.rate.mean), rel=0.04)
    times = [actor.durations[0] for graph in made for actor in graph.actors]
    assert is_near(times, float(shape.duration.mean))
    assert float(pvariance(times)) == pytest.approx(float(shape.duration.variance), rel=0.1)


def test_an_acyclic_graph_has_the_tokens_that_were_asked_for():
    tokens = [c.initial_tokens for graph in graphs(ACYCLIC) for c in between_actors(graph)]
    assert is_near(tokens, 2)
    assert float(pvariance(tokens)) == pytest.approx(2, rel=0.1)


def test_a_strongly_connected_graph_has_at_least_these_tokens():
    tokens = [c.initial_tokens for graph in graphs(STRONG) for c in between_actors(graph)]
    assert min(tokens) == 0
    assert mean(tokens) > 0


def test_the_same_seed_gives_the_same_graph_and_others_give_others():
    assert sampled_graph(5, STRONG) == sampled_graph(5, STRONG)
    assert len({repr(graph.channels) for graph in graphs(STRONG)}) == len(SEEDS)


def test_a_single_actor_has_no_channel_but_its_self_loop():
    graph = sampled_graph(0, SampledShape(actors=1))
    assert [channel.is_self_loop for channel in graph.channels] == [True]


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: spread(0), "mean 0; expected at least 1"),
        (lambda: spread(5, most=4), "mean 5; expected at least 1 and at most 4"),
        (lambda: spread(5, -1), "variance -1; expected at least 0"),
        # Even numbers from 1 to 3 have the variance 1/3, rounding adds 1/6.
        (lambda: spread(2, 3, 1, 3), "variance 3 around the mean 2; expected at most 1/2"),
        (lambda: SampledShape(actors=0), "actors is 0"),
        (lambda: SampledShape(is_acyclic=True), "strongly connected or acyclic, not both"),
        (lambda: SampledShape(actors=5, repetition_sum=4), "expected 5 to 1000000000 for 5 actors"),
        (lambda: SampledShape(actors=1, repetition_sum=4), "expected 1 to 1 for 1 actors"),
        (lambda: SampledShape(rate=spread(0, 0, 0)), "rate of at least 0; at least 1"),
    ],
)
def test_what_cannot_be_is_refused(make, complaint):
    with pytest.raises(InvalidGraph, match=complaint):
        make()
