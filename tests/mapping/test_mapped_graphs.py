"""Mapped graphs: hand-made cases, execution against cycle ratio, and known answers."""

import json
import random
from fractions import Fraction

import pytest

from csdf.analysis.consistency import repetition_vector
from csdf.analysis.latency import dependency_latency, iteration_times
from csdf.analysis.liveness import deadlock
from csdf.errors import CsdfError, GaveUp
from csdf.generation import GraphShape, random_graph
from csdf.mapping.execution import mapped_execution
from csdf.mapping.model import (
    Buffer,
    Connection,
    Core,
    InvalidMapping,
    Mapping,
    Platform,
    StaticOrder,
)
from csdf.mapping.nsoc import read_nsoc
from csdf.mapping.throughput import mapped_throughput, ordered_graph
from csdf.model.builder import GraphBuilder
from csdf.time_limit import Stop
from tests.research_data import graph_of
from tests.shared_data import SHARED, each

RESEARCH = SHARED / "research"
TWO = Platform(name="two", cores=(Core(name="p"), Core(name="q")))


def known(name):
    path = RESEARCH / name
    return json.loads(path.read_text()) if path.exists() else []


def chain(**connection):
    """a (2) -> b (3) -> c (4), and back with two tokens."""
    return (
        GraphBuilder("chain")
        .actor("a", 2)
        .actor("b", 3)
        .actor("c", 4)
        .channel("a", 1, "b", 1, name="ab", token_size=10)
        .channel("b", 1, "c", 1, name="bc", token_size=10)
        .channel("c", 1, "a", 1, initial_tokens=2, name="ca", token_size=10)
        .graph()
    )


def on_two(p, q, **more):
    """a and c on p, b on q; orders as texts, a prefix before a bar."""
    orders = {}
    for core, text in (("p", p), ("q", q)):
        prefix, _, periodic = text.rpartition("|")
        orders[core] = StaticOrder(prefix=tuple(prefix), periodic=tuple(periodic))
    return Mapping(binding={"a": "p", "b": "q", "c": "p"}, orders=orders, **more)


def test_a_processor_waits_rather_than_skip():
    # p: a 0-2, waits for b 2-5, c 5-9.
    assert mapped_throughput(chain(), TWO, on_two("ac", "b")).period == 9


def test_a_prefix_fills_the_pipeline():
    # p: a, then a c a c: c of one iteration beside b of the next; p works for 6 of 6 time units.
    found = mapped_throughput(chain(), TWO, on_two("a|ac", "b"))
    assert (found.period, found.utilization) == (6, {"p": 1, "q": Fraction(1, 2)})


def test_the_budget_includes_the_prefixes():
    with pytest.raises(GaveUp):
        mapped_throughput(chain(), TWO, on_two("ac" * 1000 + "|ac", "b"), budget=0)
    stop = Stop(steps=3)
    with pytest.raises(GaveUp):
        ordered_graph(chain(), on_two("ac" * 1000 + "|ac", "b").orders, stop)


def test_two_iterations_in_a_list_are_one_and_one():
    assert mapped_throughput(chain(), TWO, on_two("aacc", "b")).period == Fraction(13, 2)


def test_of_two_equally_slow_parts_the_first_is_named():
    pair = GraphBuilder("pair").actor("a", 5).actor("b", 5).graph()
    orders = {core: StaticOrder(periodic=(actor,)) for core, actor in (("p", "a"), ("q", "b"))}
    found = mapped_throughput(pair, TWO, Mapping(binding={"a": "p", "b": "q"}, orders=orders))
    assert (found.period, found.critical_cycle.actors) == (5, ("a",))


def test_an_order_that_asks_for_the_end_first_deadlocks():
    found = mapped_throughput(chain(), TWO, on_two("ca", "b"))
    assert found.period is None
    assert found.deadlock
    stuck = mapped_throughput(chain(), TWO, on_two("aaa|ac", "b"))
    assert "'p' waits for tokens on 'ca' to fire 'a'" in stuck.deadlock


def test_tokens_between_processors_take_their_time():
    platform = Platform(
        name="far",
        cores=TWO.cores,
        connections=(
            Connection(source="p", target="q", latency=5, bandwidth=10),
            Connection(source="q", target="p", latency=1),
        ),
    )
    # a 2, six to get across, b 3, one back, c 4.
    assert mapped_throughput(chain(), platform, on_two("ac", "b")).period == 16


def test_room_on_the_way_limits_what_is_under_way():
    platform = Platform(
        name="far",
        cores=TWO.cores,
        connections=(
            Connection(source="p", target="q", latency=20),
            Connection(source="q", target="p"),
        ),
    )
    free = mapped_throughput(chain(), platform, on_two("aacc", "b")).period
    # One place at the source: the next a starts when the token before has arrived.
    tight = on_two("aacc", "b", buffers={"ab": Buffer(source=1, target=1)})
    assert mapped_throughput(chain(), platform, tight).period > free


def test_a_slice_makes_work_wait_for_its_turn():
    graph = GraphBuilder("one").actor("a", 5, overlap=False).graph()
    core = Core(name="p", wheel=10, slice=3)
    platform = Platform(name="shared", cores=(core,))
    mapping = Mapping(binding={"a": "p"}, orders={"p": StaticOrder(periodic=("a",))})
    # At any time: 5 + 2 * 7. Together: 3 time units of work in 10.
    assert mapped_throughput(graph, platform, mapping).period == 19
    assert mapped_execution(graph, platform, mapping).period == Fraction(50, 3)
    # The processor executes the firing for 5 of 19 time units; it waits for its slice in the others.
    assert mapped_throughput(graph, platform, mapping).utilization == {"p": Fraction(5, 19)}
    half = Platform(name="half", cores=(Core(name="p", wheel=10, slice=5),))
    assert mapped_throughput(graph, half, mapping).utilization == {"p": Fraction(1, 2)}


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        (on_two("ac", "bb"), None),
        (on_two("aac", "b"), "2 firings of 'a' and 1 firing|1 firing of 'c' and 2 of 'a'"),
        (on_two("ab", "b"), "names 'b', which is not bound to it"),
        (Mapping(binding={"z": "p"}), "names 'z', which is no actor"),
        (Mapping(binding={"a": "z"}), "no processor 'z'"),
        (Mapping(binding={"a": "p"}), "'p' has actors, but no static order"),
        (on_two("ac", "b", delays={"z": 1}), "no channel 'z'"),
    ],
)
def test_a_mapping_that_does_not_fit_is_refused(mapping, message):
    if message is None:
        assert mapped_throughput(chain(), TWO, mapping).period == 9
        return
    with pytest.raises(InvalidMapping, match=message):
        mapped_throughput(chain(), TWO, mapping)


def random_case(seed):
    """A random graph, all actors on random processors, in an order in which it really ran."""
    draw = random.Random(seed)
    graph = random_graph(seed, GraphShape(actors=draw.randint(2, 5), max_phases=1 + seed % 3))
    names = [core.name for core in TWO.cores]
    binding = {actor.name: draw.choice(names) for actor in graph.actors}
    sequence = a_sequence(graph, draw)
    cut = draw.randint(0, len(sequence) - 1) if seed % 2 else 0
    orders = {}
    for core in dict.fromkeys(binding.values()):
        mine = [actor for actor in sequence if binding[actor] == core]
        early = [actor for actor in sequence[:cut] if binding[actor] == core]
        turned = mine[len(early) :] + early
        orders[core] = StaticOrder(prefix=tuple(early), periodic=tuple(turned))
    connections = tuple(
        Connection(source=a, target=b, latency=draw.randint(0, 5), is_pipelined=draw.random() < 0.5)
        for a in names
        for b in names
        if a != b
    )
    platform = Platform(name="two", cores=TWO.cores, connections=connections)
    return graph, platform, Mapping(binding=binding, orders=orders)


def a_sequence(graph, draw):
    """An iteration, its firings one after the other in a random order."""
    left = dict(repetition_vector(graph))
    fired = dict.fromkeys(left, 0)
    tokens = {channel.name: channel.initial_tokens for channel in graph.channels}
    sequence = []
    while any(left.values()):
        ready = [
            actor
            for actor in left
            if left[actor]
            and all(
                tokens[c.name] >= c.consumption[fired[actor] % len(c.consumption)]
                for c in graph.channels
                if c.consumer == actor
            )
        ]
        actor = draw.choice(ready)
        for c in graph.channels:
            if c.consumer == actor:
                tokens[c.name] -= c.consumption[fired[actor] % len(c.consumption)]
        for c in graph.channels:
            if c.producer == actor:
                tokens[c.name] += c.production[fired[actor] % len(c.production)]
        left[actor] -= 1
        fired[actor] += 1
        sequence.append(actor)
    return sequence


def compare(seed):
    """The period by cycle ratio and by execution; strongly connected, so that a state recurs."""
    graph, platform, mapping = random_case(seed)
    assert deadlock(graph) is None
    period = mapped_throughput(graph, platform, mapping).period
    assert mapped_execution(graph, platform, mapping).period == period, seed


@pytest.mark.parametrize("seed", range(40))
def test_execution_and_cycle_ratio_agree(seed):
    compare(seed)


def test_tokens_of_overlapping_firings_do_not_overtake_one_another():
    # u is bound to no processor. Its first phase ends after its second, whose token comes later
    # all the same: both come at 9, b fires at 9 and 11, and u at 11 and 13.
    graph = (
        GraphBuilder("overlap")
        .actor("u", [9, 1], overlap=True)
        .actor("b", 2)
        .channel("u", [1, 1], "b", 1, name="ub")
        .channel("b", 1, "u", [1, 1], initial_tokens=2, name="bu")
        .graph()
    )
    order = {"p": StaticOrder(periodic=("b", "b"))}
    found = mapped_execution(graph, TWO, Mapping(binding={"b": "p"}, orders=order))
    assert found.period == mapped_throughput(
        graph, TWO, Mapping(binding={"b": "p"}, orders=order)
    ).period  # fmt: skip
    assert [one.start for one in found.firings if one.actor == "b"][:2] == [9, 11]


def separate(fast, slow, tokens=1, order="abc"):
    """Two actors without a channel in common, each alone on its processor."""
    graph = GraphBuilder("separate")
    for actor in order:
        graph.actor(actor, {"a": fast, "b": slow, "c": 0}[actor])
    graph.channel("b", 1, "c", 1, name="bc").channel("c", 1, "b", 1, initial_tokens=tokens)
    orders = {"p": StaticOrder(periodic=("a",)), "q": StaticOrder(periodic=("b",))}
    return graph.graph(), TWO, Mapping(binding={"a": "p", "b": "q"}, orders=orders)


@pytest.mark.parametrize("times", [(3, 5), (5, 3)])
def test_the_slowest_of_separate_parts_decides(times):
    found = mapped_execution(*separate(*times))
    assert found.period == mapped_throughput(*separate(*times)).period == 5
    # The state recurs after 15 time units, in which the fast part completes 5 iterations.
    assert found.steady == 5


@pytest.mark.parametrize("order", ["abc", "bca"])
def test_a_part_that_deadlocks_is_a_deadlock(order):
    stuck = separate(3, 5, tokens=0, order=order)
    assert mapped_throughput(*stuck).period is None
    found = mapped_execution(*stuck)
    assert (found.period, found.iterations) == (None, 0)
    assert found.deadlock is not None


def test_space_of_a_mapped_buffer_is_a_capacity_of_the_critical_cycle():
    graph = GraphBuilder("space").actor("a", 3).actor("b", 3).channel("a", 1, "b", 1, name="c")
    orders = {"p": StaticOrder(periodic=("a",)), "q": StaticOrder(periodic=("b",))}
    buffers = {"c": Buffer(memory=1)}
    mapping = Mapping(binding={"a": "p", "b": "q"}, orders=orders, buffers=buffers)
    assert mapped_throughput(graph.graph(), TWO, mapping).critical_cycle.capacities == ("c",)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_execution_and_cycle_ratio_agree_on_many_mappings(block):
    for seed in range(1000 + 50 * block, 1050 + 50 * block):
        compare(seed)


def oracle_case(case, wheels=None):
    wheels = wheels or {}
    cores = tuple(
        Core(name=name, **wheels.get(name, {})) for name in sorted(set(case["binding"].values()))
    )
    mapping = Mapping(
        binding=case["binding"],
        orders={
            core: StaticOrder(prefix=tuple(one["prefix"]), periodic=tuple(one["periodic"]))
            for core, one in case["orders"].items()
        },
        delays=case["channel_delay"],
    )
    return graph_of(case["graph"]), Platform(name="p", cores=cores), mapping


def as_text(period):
    return None if period is None else str(period)


@each("case", known("mapping/mapping_oracles.json"))
def test_known_mappings_have_their_known_period(case):
    found = mapped_throughput(*oracle_case(case)).period
    assert as_text(found) == case["period"]
    assert as_text(mapped_execution(*oracle_case(case)).period) == case["period"]
    if case.get("tdma"):
        shared = oracle_case(case, case["tdma"]["wheels"])
        assert str(mapped_throughput(*shared).period) == case["tdma"]["period_bound"]
        assert str(mapped_execution(*shared).period) == case["tdma"]["period_exact_aligned"]


@each("case", known("mapping/sdf3_nsoc/answers.json"))
def test_mapped_files_of_sdf3_have_their_known_period(case):
    mapped = read_nsoc(RESEARCH / "mapping" / "sdf3_nsoc" / case["file"])
    period = mapped_throughput(*mapped).period
    if case["kind"] == "plain":
        assert str(period) == case["own_period"]
    else:
        assert str(period) == case["own_period_bound"]
        assert str(mapped_execution(*mapped).period) == case["own_period_exact"]


MAPPED = {case["graph"]["name"]: case for case in known("mapping/mapping_oracles.json")}


@each("case", known("latency/latency_oracles.json"))
def test_known_latencies(case):
    graph, platform, mapping = oracle_case(MAPPED[case["mapping"]])
    execution = mapped_execution(graph, platform, mapping)
    for query in case["queries"]:
        ends = {key: query[key] for key in ("source", "sink")}
        times = iteration_times(graph, execution.firings, **ends)
        assert max(times) == query["mapped"]
    wanted = case.get("dependency_based")
    if wanted:
        found = dependency_latency(graph, wanted["source"], wanted["sink"])
        assert found.distance == wanted["distance"]
        assert found.minimal == wanted["minimal"]
        assert found.self_timed == wanted["self_timed"]


def test_latency_by_dependency_pairs_an_input_with_the_output_that_needs_it():
    """Two tokens on the way back let b run no further ahead; one on ab is an output without a."""
    graph = (
        GraphBuilder("g")
        .actor("a", 2, overlap=False)
        .actor("b", 3, overlap=False)
        .channel("a", 1, "b", 1, initial_tokens=1, name="ab")
        .graph()
    )
    found = dependency_latency(graph, "a", "b")
    assert (found.distance, found.minimal) == (1, 5)


def test_latency_by_dependency_needs_a_dependency():
    graph = GraphBuilder("g").actor("a", 2, overlap=False).actor("b", 3, overlap=False).graph()
    with pytest.raises(CsdfError, match="'b' never needs a firing of 'a'"):
        dependency_latency(graph, "a", "b")


def test_a_mapping_in_which_nothing_takes_time_has_no_bottleneck():
    graph = GraphBuilder("instant").actor("a", 0).graph()
    platform = Platform(name="one", cores=(Core(name="p"),))
    mapping = Mapping(binding={"a": "p"}, orders={"p": StaticOrder(periodic=("a",))})
    found = mapped_throughput(graph, platform, mapping)
    assert (found.period, found.to_json()["critical_cycle"]) == (0, None)


def test_a_buffer_at_the_source_is_freed_token_by_token():
    # a makes two tokens in 5, which cross in 3 each, one at a time. With three places a starts again
    # when the first of them has left, 5 + 3 after its start; two at once would leave after 5 + 6.
    graph = (
        GraphBuilder("pairs").actor("a", 5).actor("b", 1).channel("a", 2, "b", 2, name="c").graph()
    )
    platform = Platform(
        name="two",
        cores=(Core(name="p"), Core(name="q")),
        connections=(Connection(source="p", target="q", latency=3, is_pipelined=False),),
    )
    mapping = Mapping(
        binding={"a": "p", "b": "q"},
        orders={name: StaticOrder(periodic=(one,)) for name, one in (("p", "a"), ("q", "b"))},
        buffers={"c": Buffer(source=3)},
    )
    assert mapped_throughput(graph, platform, mapping).period == 8
