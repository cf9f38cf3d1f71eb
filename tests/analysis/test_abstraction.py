"""Fewer phases and merged actors: on which side of the graph's period theirs lies, and its storage."""

from dataclasses import replace
from fractions import Fraction
from random import Random

import pytest

from csdf.analysis.abstraction import faster_graph, merge_actors, slower_graph
from csdf.analysis.bound_channels import with_capacities
from csdf.analysis.consistency import cycle_vector, repetition_vector
from csdf.analysis.liveness import deadlock
from csdf.analysis.throughput import throughput
from csdf.errors import CsdfError, InvalidArgument, InvalidGraph
from csdf.generation import GraphShape, random_graph
from csdf.mapping.model import Core, Mapping, Platform, StaticOrder
from csdf.mapping.throughput import mapped_throughput
from csdf.model.builder import GraphBuilder
from csdf.model.graph import Actor, Channel
from csdf.search.trade_off import smallest_storage
from tests.analysis.changed_graphs import period_of
from tests.analysis.graph_shapes import SHAPES, with_silent_phases
from tests.reference import slow_simulation
from tests.shared_data import each, shared_graph

PHASED = [shape for shape in SHAPES.values() if shape.max_phases > 1]
GRAPHS = 250
FEW = 60
SMALL = GraphShape(actors=3, extra_channels=1, max_phases=3, max_repetitions=3, max_rate=3)


def drawn(seed):
    """A graph with phases, and how many each of its actors may keep."""
    graph = random_graph(seed, PHASED[seed % len(PHASED)])
    random = Random(seed)
    return graph, {actor.name: random.randint(1, actor.phases) for actor in graph.actors}


def seeds():
    """A few for every run of the tests, the others for those marked slow."""
    return [
        pytest.param(range(FEW), id="few"),
        pytest.param(range(FEW, GRAPHS), id="500", marks=pytest.mark.slow),
    ]


each_range = pytest.mark.parametrize("some", seeds())


@each_range
def test_the_period_lies_between_that_of_the_faster_and_that_of_the_slower_graph(some):
    moved = 0
    for seed in some:
        graph, phases = drawn(seed)
        exact = period_of(graph)  # by simulation
        slower = throughput(slower_graph(graph, phases)).period
        faster = throughput(faster_graph(graph, phases).graph).period
        assert faster is not None, seed  # the graph is live
        assert faster <= exact, seed
        assert slower is None or slower >= exact, seed
        moved += faster < exact or (slower is not None and slower > exact)
    assert moved > len(some) / 10


@each_range
def test_deadlocks_go_from_the_faster_to_the_graph_to_the_slower(some):
    found = {"both": 0, "slower only": 0}
    for seed in some:
        graph, phases = drawn(seed)
        if seed % 2:  # take tokens away, so that some deadlock
            channels = tuple(
                replace(c, initial_tokens=c.initial_tokens // 2) for c in graph.channels
            )
            graph = replace(graph, channels=channels)
        is_dead = deadlock(graph) is not None
        is_slower_dead = deadlock(slower_graph(graph, phases)) is not None
        if deadlock(faster_graph(graph, phases).graph) is not None:
            assert is_dead, seed
        if is_dead:
            assert is_slower_dead, seed
        found["both"] += is_dead
        found["slower only"] += is_slower_dead and not is_dead
    assert min(found.values()) > len(some) / 20


@each_range
def test_capacities_of_the_slower_graph_are_enough_and_those_of_the_faster_needed(some):
    compared = 0
    for seed in some:
        graph, phases = drawn(seed)
        random = Random(seed)
        faster = faster_graph(graph, phases)
        between = [channel for channel in graph.channels if not channel.is_self_loop]
        capacities = {
            one.name: one.initial_tokens
            + max(*one.production, *one.consumption)
            + random.randint(0, max(sum(one.production), sum(one.consumption)))
            for one in between
        }
        more = {name: most + faster.extra[name] for name, most in capacities.items()}
        exact = throughput(with_capacities(graph, capacities)).period
        slower = throughput(with_capacities(slower_graph(graph, phases), capacities)).period
        quick = throughput(with_capacities(faster.graph, more)).period
        if exact is None:
            assert slower is None, seed
        else:
            assert quick is not None and quick <= exact, seed  # noqa: PT018
            assert slower is None or slower >= exact, seed
            compared += slower is not None
    assert compared > len(some) / 10


@each_range
def test_the_smallest_storage_lies_between_theirs(some):
    compared = 0
    for seed in some:
        graph = random_graph(seed, SMALL)
        slower, faster = slower_graph(graph), faster_graph(graph)
        reached = throughput(slower).period
        if reached is None:
            continue
        period = reached * (1 + Fraction(seed % 3, 2))
        size = smallest_storage(graph, period=period).point.size
        assert smallest_storage(slower, period=period).point.size >= size, seed
        least = smallest_storage(faster.graph, period=period).point.size
        assert least - sum(faster.extra.values()) <= size, seed
        compared += 1
    assert compared > len(some) / 4


@each_range
def test_actors_that_alternate_on_one_processor_are_merged(some):
    slower = 0
    for seed in some:
        shape = [one for one in SHAPES.values() if one.actors > 1][seed % (len(SHAPES) - 1)]
        graph = random_graph(seed, shape)
        chosen = Random(seed).sample([actor.name for actor in graph.actors], 2)
        merged = throughput(merge_actors(graph, chosen, name="m")).period
        assert merged is not None, seed  # merging makes no deadlock
        assert merged >= period_of(graph), seed
        assert merged == in_turn_on_one_processor(graph, chosen), seed
        slower += merged > throughput(graph).period
    assert slower > len(some) / 4


def in_turn_on_one_processor(graph, chosen):
    """The period of a mapping with the order that the merged actor has; observers tell it."""
    firings, cycles = repetition_vector(graph), cycle_vector(graph)
    watched = graph
    for name in chosen:  # each firing gives a token to an actor that does nothing else
        ones = (1,) * graph.actor(name).phases
        channel = Channel(
            name=f"seen {name}", producer=name, consumer=f"observer of {name}",
            production=ones, consumption=(1,),
        )  # fmt: skip
        watched = replace(
            watched,
            actors=(*watched.actors, Actor(name=f"observer of {name}", durations=(0,))),
            channels=(*watched.channels, channel),
        )
    merged = merge_actors(watched, chosen, name="m")
    marks = {name: merged.channel(f"seen {name}").production for name in chosen}
    length = len(merged.actor("m").durations)
    order = [next(name for name in chosen if marks[name][at]) for at in range(length)]
    assert {name: order.count(name) * firings[chosen[0]] for name in chosen} == {
        name: order.count(chosen[0]) * firings[name] for name in chosen
    }
    assert all(order.count(name) % (firings[name] // cycles[name]) == 0 for name in chosen)
    platform = Platform(name="one", cores=(Core(name="p"),))
    mapping = Mapping(
        binding=dict.fromkeys(chosen, "p"),
        orders={"p": StaticOrder(prefix=(), periodic=tuple(order))},
    )
    return mapped_throughput(graph, platform, mapping).period


def two_phases():
    """A gives its token in the second of two phases of 1 and 2; b sends one back, after 3."""
    return (
        GraphBuilder("two")
        .actor("a", [1, 2])
        .actor("b", 3)
        .channel("a", [0, 1], "b", 1, name="ab")
        .channel("b", 1, "a", [0, 1], name="ba", initial_tokens=1)
        .channel("a", 1, "a", 1, name="one", initial_tokens=1)
        .graph()
    )


def test_one_phase_lasts_as_long_as_its_phases_one_after_the_other():
    # The second phase of a and b take turns: 2 + 3. As one phase of 3, a and b need 3 + 3.
    graph = two_phases()
    assert throughput(graph).period == 5
    assert slower_graph(graph).actor("a").durations == (3,)
    assert throughput(slower_graph(graph)).period == 6
    # The token that only the second phase takes is no demand of the first: one more is there, so that
    # a and b run beside one another.
    assert throughput(faster_graph(graph).graph).period == 3


def test_phases_that_may_overlap_last_as_long_as_the_longest():
    graph = replace(two_phases(), channels=two_phases().channels[:2])
    assert slower_graph(graph).actor("a").durations == (2,)
    assert throughput(slower_graph(graph)).period == throughput(graph).period == 5


def test_a_phase_that_gives_no_token_may_go_on_when_the_cycle_does():
    # The token of the first phase, there after 1, and b, which takes 7, make a cycle of 8; the phase of
    # 5 without tokens overlaps. As one phase of 5 the cycle took 12.
    graph = (
        GraphBuilder("overlap")
        .actor("a", [1, 5])
        .actor("b", 7)
        .channel("a", [2, 0], "b", 2, name="ab")
        .channel("b", 2, "a", [2, 0], name="ba", initial_tokens=2)
        .graph()
    )
    assert throughput(graph).period == 8
    assert throughput(faster_graph(graph).graph).period <= 8
    assert throughput(slower_graph(graph)).period == 12


@pytest.mark.parametrize(
    "some", [range(100), pytest.param(range(100, 2000), marks=pytest.mark.slow)]
)
def test_phases_without_tokens_or_time_put_no_graph_on_the_wrong_side(some):
    overlaps = 0
    for seed in some:
        graph = with_silent_phases(seed)
        random = Random(seed)
        phases = {actor.name: random.randint(1, actor.phases) for actor in graph.actors}
        exact = slow_simulation.period_of(graph)
        slower = throughput(slower_graph(graph, phases)).period
        faster = throughput(faster_graph(graph, phases).graph).period
        if exact is None:
            assert slower is None, seed
        else:
            assert faster is not None and faster <= exact, seed  # noqa: PT018
            assert slower is None or slower >= exact, seed
            overlaps += faster < exact
    assert overlaps > len(some) / 10


def test_a_deadlock_of_the_abstraction_alone_is_found():
    # b needs the first token of a before a can go on.
    graph = (
        GraphBuilder("to and fro")
        .actor("a", [1, 1])
        .actor("b", 1)
        .channel("a", [1, 0], "b", 1, name="ab")
        .channel("b", 1, "a", [0, 1], name="ba")
        .graph()
    )
    assert deadlock(graph) is None
    assert deadlock(slower_graph(graph)) is not None
    assert deadlock(faster_graph(graph).graph) is None


def test_several_firings_at_once_stay_where_whole_blocks_find_their_tokens():
    def limited(tokens):
        loop = Channel(
            name="l", producer="a", consumer="a", production=(1, 1), consumption=(1, 1),
            initial_tokens=tokens,
        )  # fmt: skip
        graph = GraphBuilder("limited").actor("a", [4, 6]).graph()
        return replace(graph, channels=(loop,))

    # Two tokens let both phases of one block go on together, for 6; one firing at a time takes 10.
    assert throughput(slower_graph(limited(2))).period == 6
    assert throughput(slower_graph(limited(1))).period == throughput(limited(1)).period == 10


@each("name", ["csdf-ib5/H264.xml", "csdf-ib5/Echo.xml", "cnn/squeezenet_fused_rows_c1.xml"])
def test_published_graphs_lie_between_their_abstractions(name):
    graph = shared_graph(name)
    exact = throughput(graph).period
    for phases in (1, 3):
        slower = throughput(slower_graph(graph, phases)).period
        assert throughput(faster_graph(graph, phases).graph).period <= exact
        assert slower is None or slower >= exact


def test_merging_all_actors_takes_the_time_of_all_firings():
    graph = random_graph(3, SMALL)
    firings = repetition_vector(graph)
    total = sum(
        firings[actor.name] // actor.phases * sum(actor.durations) for actor in graph.actors
    )
    merged = merge_actors(graph, [actor.name for actor in graph.actors])
    assert throughput(merged).period * cycles_of(merged, graph) == total


def cycles_of(merged, graph):
    """Iterations of the merged graph in one of the given one: its one actor may repeat itself."""
    total = sum(repetition_vector(graph).values())
    return Fraction(total, sum(repetition_vector(merged).values()))


def test_what_cannot_be_merged_is_refused():
    graph = two_phases()
    apart = replace(graph, actors=(*graph.actors, Actor(name="c", durations=(1,))))
    dead = replace(graph, channels=tuple(replace(one, initial_tokens=0) for one in graph.channels))
    for names, complaint in (
        (["a"], "1 actor to merge"),
        (["a", "a"], "named twice"),
        (["a", "z"], "no actor 'z'"),
        (["a", "c"], "no channels connect them"),
    ):
        with pytest.raises(InvalidGraph, match=complaint):
            merge_actors(apart, names)
    with pytest.raises(CsdfError, match="the graph deadlocks"):
        merge_actors(dead, ["a", "b"])
    with pytest.raises(InvalidArgument, match="phases is 0; expected an integer of at least 1"):
        slower_graph(graph, 0)
    with pytest.raises(InvalidGraph, match="no actor 'z'"):
        faster_graph(graph, {"z": 1})
