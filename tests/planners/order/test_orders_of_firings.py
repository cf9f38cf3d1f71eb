"""Schedules of least live tokens for one processor, against all schedules of small graphs."""

import random
from heapq import heappop, heappush

import pytest

from csdf.analysis.consistency import repetition_vector
from csdf.errors import CsdfError, InvalidGraph
from csdf.io.graph_files import read_graph
from csdf.model.graph import Actor, Channel, Graph
from planners.order.firings import firing_graph
from planners.order.search import plan_order


def least_live_bytes(graph):
    """Return the least peak of live bytes of all schedules of an iteration: all numbers of firings."""
    repetitions = repetition_vector(graph)
    phases = {actor.name: actor.phases for actor in graph.actors}

    def total(rates, firings):
        return sum(rates[firing % len(rates)] for firing in range(firings))

    def tokens(channel, fired):
        return (
            channel.initial_tokens
            + total(channel.production, fired[channel.producer])
            - total(channel.consumption, fired[channel.consumer])
        )

    def held(fired):
        live = 0
        for channel in graph.channels:
            release = channel.release or channel.consumption
            unreleased = total(channel.consumption, fired[channel.consumer]) - total(
                release, fired[channel.consumer]
            )
            live += (tokens(channel, fired) + unreleased) * (channel.token_size or 1)
        return live

    start = tuple((name, 0) for name in phases)
    waiting, seen = [(held(dict(start)), start)], set()
    while waiting:
        peak, state = heappop(waiting)
        fired = dict(state)
        if fired == repetitions:
            return peak
        if state in seen:
            continue
        seen.add(state)
        for actor, phase_count in phases.items():
            phase = fired[actor] % phase_count
            inputs = [channel for channel in graph.channels if channel.consumer == actor]
            outputs = [channel for channel in graph.channels if channel.producer == actor]
            if fired[actor] == repetitions[actor] or any(
                tokens(channel, fired) < channel.consumption[phase] for channel in inputs
            ):
                continue
            claimed = held(fired) + sum(
                channel.production[phase] * (channel.token_size or 1) for channel in outputs
            )
            if any(
                channel.capacity is not None
                and capacity_left(channel, fired, total) < channel.production[phase]
                for channel in outputs
            ):
                continue
            after = fired | {actor: fired[actor] + 1}
            heappush(waiting, (max(peak, claimed), tuple(after.items())))
    return None


def capacity_left(channel, fired, total):
    release = channel.release or channel.consumption
    released = total(release, fired[channel.consumer])
    produced = channel.initial_tokens + total(channel.production, fired[channel.producer])
    return channel.capacity + released - produced


def random_graph(seed):
    """Return a graph of three or four actors, some with two phases, a loop, sizes, and capacities."""
    choose = random.Random(seed)
    names = [f"a{k}" for k in range(choose.choice((3, 4)))]
    repetitions = {name: choose.choice((1, 2, 2, 3)) for name in names}
    phases = {name: choose.choice((1, 1, 2)) for name in names}
    pairs = [(names[k], names[k + 1]) for k in range(len(names) - 1)]
    pairs += [tuple(sorted(choose.sample(names, 2))) for _ in range(2)]
    pairs.append((names[-1], names[0]))
    channels = []
    for number, (producer, consumer) in enumerate(pairs):
        # Tokens of a cycle of each actor, so that both sides have equal numbers of tokens.
        rates = []
        for actor, partner in ((producer, consumer), (consumer, producer)):
            cycle = phases[actor] * repetitions[partner]
            first = choose.randrange(cycle + 1) if phases[actor] == 2 else cycle
            rates.append((first, cycle - first) if phases[actor] == 2 else (cycle,))
        is_back = number == len(pairs) - 1
        most = repetitions[producer] * repetitions[consumer] * 2
        channels.append(
            Channel(
                name=f"c{number}",
                producer=producer,
                consumer=consumer,
                production=rates[0],
                consumption=rates[1],
                initial_tokens=most if is_back else choose.choice((0, 0, 1)),
                token_size=choose.choice((None, 1, 3)),
                capacity=choose.choice((None, None, most, 2 * most + 1)),
            )
        )
    actors = tuple(Actor(name=name, durations=(1,) * phases[name]) for name in names)
    return Graph(name=f"random {seed}", actors=actors, channels=tuple(channels))


def require_least_live_bytes(seeds):
    compared = 0
    for seed in seeds:
        graph = random_graph(seed)
        least = least_live_bytes(graph)
        if least is None:
            with pytest.raises(InvalidGraph, match="cycle"):
                firing_graph(graph)
            continue
        plan = plan_order(firing_graph(graph))
        assert plan.peak == plan.lower_bound == least, seed
        compared += 1
    assert compared > len(seeds) // 2


def test_orders_of_firings_hold_the_least_bytes_of_all_schedules():
    require_least_live_bytes(range(25))


@pytest.mark.slow
def test_more_orders_of_firings_hold_the_least_bytes_of_all_schedules():
    require_least_live_bytes(range(100, 500))


def test_a_window_holds_its_tokens_until_they_are_released():
    actors = (Actor(name="a", durations=(1,)), Actor(name="b", durations=(1, 1)))
    window = Channel(
        name="c",
        producer="a",
        consumer="b",
        production=(2,),
        consumption=(2, 0),
        release=(0, 2),
        token_size=5,
    )
    graph = Graph(name="window", actors=actors, channels=(window,))
    plan = plan_order(firing_graph(graph))
    assert (plan.order, plan.peak) == (("a 1", "b 1", "b 2"), 10)


@pytest.mark.parametrize("name", ["c space", "d"])
def test_channels_whose_names_collide_with_those_of_spaces_keep_their_bytes(name):
    actors = tuple(Actor(name=actor, durations=(1,)) for actor in "ab")
    bounded, wide = (
        Channel(
            name=channel,
            producer="a",
            consumer="b",
            production=(1,),
            consumption=(1,),
            capacity=capacity,
            token_size=size,
        )
        for channel, capacity, size in (("c", 1, 1), (name, None, 50))
    )
    plan = plan_order(firing_graph(Graph(name="pair", actors=actors, channels=(bounded, wide))))
    assert (plan.order, plan.peak) == (("a 1", "b 1"), 51)


def test_the_example_of_the_repository_needs_fewer_bytes_than_a_flat_schedule():
    plan = plan_order(firing_graph(read_graph("models/graphs/csdf_example.xml")))
    assert plan.peak == plan.lower_bound < plan.file_peak


def test_a_deadlock_and_too_many_firings_are_refused():
    with pytest.raises(InvalidGraph, match="cycle"):
        firing_graph(read_graph("models/graphs/deadlocked.xml"))
    with pytest.raises(CsdfError, match="expected at most 2000"):
        firing_graph(read_graph("models/graphs/satellite.xml"))
