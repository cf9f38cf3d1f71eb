"""The least storage for throughput and latency together, against brute force by execution."""

import random
from fractions import Fraction

import pytest

from csdf.analysis.bound_channels import with_capacities
from csdf.analysis.consistency import repetition_vector
from csdf.analysis.expansion import awaited_firings
from csdf.analysis.latency import dependency_distance
from csdf.analysis.self_timed import self_timed_execution
from csdf.analysis.throughput import throughput
from csdf.errors import CsdfError
from csdf.generation import GraphShape, random_graph
from csdf.mapping.latency import source_latency, with_clock
from csdf.model.builder import GraphBuilder
from csdf.search import latency_storage
from csdf.search.latency_storage import storage_for_latency
from csdf.search.trade_off import smallest_storage
from csdf.search.variables import SearchSpace, least_capacity
from csdf.status import Status
from tests.mapping.test_least_buffers import divided

TRIED = 30  # choices of one token less, where there are more


def test_the_dependencies_of_later_channels_are_not_built_beyond_the_limit(monkeypatch):
    built = []

    def counted(*words, **options):
        for pair in awaited_firings(*words, **options):
            built.append(pair)
            yield pair

    monkeypatch.setattr(latency_storage, "awaited_firings", counted)
    monkeypatch.setattr(latency_storage, "MOST_DEPENDENCIES", 2500)
    builder = GraphBuilder("wide").actor("a", 1).actor("b", 1).actor("c", 1)
    graph = builder.channel("a", 1000, "b", 1).channel("b", 1, "c", 1).graph()
    with pytest.raises(CsdfError, match=r"at least 3001 dependencies .* at most 2500"):
        storage_for_latency(graph, "a", "c", period=2000, latency=9000)
    assert len(built) == 1000  # of the first channel alone; 2001 further ones order the firings


def fork():
    """a (1) makes work for two firings of b (1) and c (4) each, one at a time; d (1) ends it."""
    return (
        GraphBuilder("fork")
        .actor("a", 1, overlap=False)
        .actor("b", 1, overlap=False)
        .actor("c", 4, overlap=False)
        .actor("d", 1, overlap=False)
        .channel("a", 2, "b", 1, name="ab")
        .channel("b", 1, "c", 1, name="bc")
        .channel("c", 1, "d", 2, name="cd")
        .graph()
    )


def test_an_early_answer_asks_for_more_room_than_the_period_does():
    graph = fork()
    # With one place on bc the second b waits for the first c: a 0-1, b 1-2, c 2-6, b 6-7, c 7-11, d.
    loose = storage_for_latency(graph, "a", "d", period=20, latency=12)
    assert (loose.status, loose.latency) == (Status.OPTIMAL, 12)
    assert loose.point.size == smallest_storage(graph, period=20).point.size == 2 + 1 + 2
    # With two places it has gone before, and c follows c.
    tight = storage_for_latency(graph, "a", "d", period=20, latency=11)
    assert (tight.status, tight.latency, tight.point.size) == (Status.OPTIMAL, 11, 6)
    assert tight.point.capacities["bc"] == 2
    with_room = with_capacities(graph, tight.point.capacities)
    assert source_latency(with_room, "a", "d", 20).dependency_latency == 11


def test_a_channel_may_be_named_like_searched_space():
    def least(name):
        graph = GraphBuilder().actor("a", 2, overlap=False).actor("b", 3, overlap=False)
        graph.channel("a", 2, "b", 3, name="c").channel("a", 2, "b", 3, name=name, initial_tokens=6)
        found = storage_for_latency(graph.graph(), "a", "b", period=20, latency=40)
        return found.size, found.latency, smallest_storage(graph.graph(), period=20).size

    assert least("c (searched space)") == least("d")


def test_no_storage_answers_before_the_work_is_done():
    found = storage_for_latency(fork(), "a", "d", period=20, latency=10)
    assert (found.status, found.point) == (Status.INFEASIBLE, None)
    assert str(found.reason) == "with any storage the latency is at least 11"


def test_no_storage_makes_the_graph_faster_than_it_is():
    found = storage_for_latency(fork(), "a", "d", period=7, latency=100)
    assert found.status == Status.INFEASIBLE
    assert str(found.reason) == "the graph sustains no shorter period than 8, with any storage"


def test_capacities_that_are_given_count():
    choice = SearchSpace(fixed={"ab": 6})
    found = storage_for_latency(fork(), "a", "d", period=20, latency=20, space=choice)
    assert found.point.capacities["ab"] == 6
    assert found.point.size == 6 + 1 + 2


def test_the_budget_leaves_a_bound():
    found = storage_for_latency(fork(), "a", "d", period=20, latency=20, budget=0)
    assert found.status in (Status.UNKNOWN, Status.FEASIBLE, Status.OPTIMAL)
    assert found.lower_bound >= 5


def test_periodic_schedules_have_no_such_latency():
    with pytest.raises(CsdfError, match="self-timed"):
        storage_for_latency(fork(), "a", "d", period=9, latency=9, space=SearchSpace(copies=1))


def latency_of(graph, source, sink, period, distance):
    """By execution with a clock; None where the graph does not keep up."""
    least = throughput(graph).period
    if least is None or least > period:
        return None
    clocked = with_clock(graph, source, period)
    first = self_timed_execution(clocked)
    count = first.transient + first.steady
    execution = self_timed_execution(clocked, iterations=count + distance)
    made = repetition_vector(graph)[sink]
    ends = {}
    for one in execution.firings:
        if one.actor == sink:
            ends[one.index // made] = max(ends.get(one.index // made, 0), one.end)
    return max(ends[n + distance] - n * period for n in range(count))


def compare(seed):
    """The storage found suffices; none of one token less does (all, or a sample of them)."""
    draw = random.Random(seed)
    shape = GraphShape(
        actors=draw.randint(2, 3), max_phases=1 + seed % 2, max_repetitions=4, extra_channels=1
    )
    graph = random_graph(seed, shape)
    names = [actor.name for actor in graph.actors]
    source, sink = draw.choice(names), draw.choice(names)
    period = throughput(graph).period * draw.choice([1, 2, 3]) + draw.choice([0, Fraction(1, 2)])
    distance = dependency_distance(graph, source, sink)
    best = latency_of(graph, source, sink, period, distance)
    required = best * draw.choice([1, 1, Fraction(3, 2)])
    found = storage_for_latency(graph, source, sink, period=period, latency=required)
    assert found.status == Status.OPTIMAL, seed
    channels = [channel for channel in graph.channels if not channel.is_self_loop]
    bounded = with_capacities(graph, found.point.capacities)
    assert latency_of(bounded, source, sink, period, distance) == found.latency <= required, seed
    floor = [least_capacity(channel) for channel in channels]
    spare = found.point.size - 1 - sum(floor)
    for more in divided(spare, len(floor), draw, TRIED) if spare >= 0 else ():
        sizes = {c.name: a + b for c, a, b in zip(channels, floor, more, strict=True)}
        tried = latency_of(with_capacities(graph, sizes), source, sink, period, distance)
        assert tried is None or tried > required, (seed, sizes)
    below = storage_for_latency(graph, source, sink, period=period, latency=best - Fraction(1, 9))
    assert below.status == Status.INFEASIBLE
    throughput_alone = smallest_storage(graph, period=period)
    assert found.point.size >= throughput_alone.point.size
    return found.point.size > throughput_alone.point.size


@pytest.mark.parametrize("seed", range(60))
def test_no_smaller_storage_answers_in_time(seed):
    compare(seed)


def test_latency_asks_for_more_storage_than_the_period_in_some_graphs():
    assert sum(compare(seed) for seed in range(100, 140)) > 0


@pytest.mark.slow
@pytest.mark.parametrize("block", range(5))
def test_no_smaller_storage_answers_in_time_in_many_graphs(block):
    for seed in range(1000 + 50 * block, 1050 + 50 * block):
        compare(seed)
