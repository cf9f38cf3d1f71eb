"""The search for mappings against brute force, and against what any mapping needs."""

import random
from dataclasses import replace
from fractions import Fraction
from itertools import permutations, product
from pathlib import Path

import pytest

from csdf.analysis.consistency import repetition_vector
from csdf.errors import CsdfError
from csdf.generation import GraphShape, random_graph
from csdf.io.graph_files import read_graph
from csdf.mapping.model import Connection, Core, InvalidMapping, Mapping, Platform, StaticOrder
from csdf.mapping.modulo import _Wheel, mapping_of, modulo_schedule, shortest_order
from csdf.mapping.problem import mapping_problem
from csdf.mapping.search import best_mapping, equal_processors, largest_below
from csdf.mapping.throughput import mapped_throughput
from csdf.model.builder import GraphBuilder
from csdf.model.graph import Processor
from csdf.status import Status

GRAPHS = Path(__file__).parents[2] / "models" / "graphs"
BUDGET = 20.0  # far more than these need


def platform(count, latency=None):
    names = [f"p{number}" for number in range(count)]
    ends = [] if latency is None else [(a, b) for a in names for b in names if a != b]
    return Platform(
        name="p",
        cores=tuple(Core(name=name) for name in names),
        connections=tuple(Connection(source=a, target=b, latency=latency) for a, b in ends),
    )


def pipeline():
    return (
        GraphBuilder("pipeline")
        .actor("a", 3)
        .actor("b", 4)
        .actor("c", 2)
        .channel("a", 1, "b", 1)
        .channel("b", 1, "c", 1)
        .channel("c", 1, "a", 1, initial_tokens=3)
        .graph()
    )


def test_one_processor_does_everything():
    found = best_mapping(pipeline(), platform(1), budget=BUDGET)
    assert (found.period, found.status) == (9, Status.OPTIMAL)


def test_two_processors_share_the_work():
    # 9 time units of work cannot be split better than 5 and 4.
    found = best_mapping(pipeline(), platform(2), budget=BUDGET)
    assert (found.period, found.status, found.lower_bound) == (5, Status.OPTIMAL, 5)


def test_far_processors_may_be_worse_than_one():
    # Two crossings of 20 for three tokens: a round takes at least 49 / 3; one processor needs 9.
    found = best_mapping(pipeline(), platform(2, latency=20), budget=BUDGET)
    assert (found.period, found.status) == (9, Status.OPTIMAL)
    assert len(found.mapping.orders) == 1


def test_an_actor_runs_where_it_can():
    graph = read_graph(GRAPHS / "h263decoder.xml")
    types = Platform(
        name="mixed", cores=(Core(name="general", type="arm"), Core(name="special", type="motion"))
    )
    with pytest.raises(InvalidMapping, match="cannot run on processor"):
        best_mapping(graph, Platform(name="m", cores=(Core(name="x", type="motion"),)))
    found = best_mapping(graph, types, budget=BUDGET)
    assert found.mapping.binding["iq"] in ("general", "special")
    assert found.period >= found.lower_bound


def test_a_graph_that_deadlocks_cannot_be_mapped():
    with pytest.raises(CsdfError, match="deadlocks, however it is mapped"):
        best_mapping(read_graph(GRAPHS / "deadlocked.xml"), platform(2))


def test_the_budget_ends_the_search_with_a_mapping():
    found = best_mapping(read_graph(GRAPHS / "satellite.xml"), platform(2), budget=0.0)
    assert found.status in (Status.OPTIMAL, Status.FEASIBLE)
    assert found.period >= found.lower_bound


def test_fractions_are_searched_where_no_period_is_a_lower_bound():
    # Each actor takes no time on its own type. Apart from a, b and c take the 6 + 9 units of the
    # transfers for 6 tokens on the circle; on a single processor, an iteration takes at least 5.
    pytest.importorskip("ortools")
    builder = GraphBuilder("circle")
    for name in "abc":
        builder.actor(name, 0)
    builder.channel("a", 1, "b", 1, initial_tokens=3).channel("b", 1, "c", 1, initial_tokens=1)
    graph = builder.channel("c", 1, "a", 1, initial_tokens=2).graph()
    own_types = {"a": ("y", "x"), "b": ("x", "y"), "c": ("x", "y")}
    actors = tuple(
        replace(actor, processors=(
            Processor(name=own_types[actor.name][0], durations=(0,), is_default=True),
            Processor(name=own_types[actor.name][1], durations=(5,)),
        ))
        for actor in graph.actors
    )  # fmt: skip
    there = Connection(source="p", target="q", latency=6)
    back = Connection(source="q", target="p", latency=9)
    cores = (Core(name="p", type="x"), Core(name="q", type="y"))
    target = Platform(name="two", cores=cores, connections=(there, back))
    found = best_mapping(replace(graph, actors=actors), target, budget=BUDGET)
    assert (found.period, found.status) == (Fraction(15, 6), Status.OPTIMAL)


def random_problem(seed):
    shape = GraphShape(
        actors=2 + seed % 2, max_repetitions=2, max_phases=1 + seed % 2, extra_channels=1,
        max_extra_initial_tokens=2,
    )  # fmt: skip
    return random_graph(seed, shape), platform(2, latency=None if seed % 3 else seed % 7)


def every_order(actors, repetitions):
    """All lists with one iteration of the actors, and prefixes of up to one more, by counts."""
    firings = [actor for actor in actors for _ in range(repetitions[actor])]
    counts = product(*(range(repetitions[actor] + 1) for actor in actors))
    prefixes = [
        sequence
        for count in counts
        for sequence in set(
            permutations([a for a, n in zip(actors, count, strict=True) for _ in range(n)])
        )
    ]
    return [
        StaticOrder(prefix=prefix, periodic=periodic)
        for periodic in set(permutations(firings))
        for prefix in prefixes
    ]


def least_period(graph, target, draw, most=60):
    """The least period over bindings and orders; of many orders a random choice."""
    repetitions = repetition_vector(graph)
    names = [core.name for core in target.cores]
    best = None
    for cores in product(names, repeat=len(graph.actors)):
        binding = {a.name: core for a, core in zip(graph.actors, cores, strict=True)}
        used = list(dict.fromkeys(cores))
        choices = [
            every_order([a for a in binding if binding[a] == core], repetitions) for core in used
        ]
        combined = list(product(*choices))
        for orders in draw.sample(combined, min(len(combined), most)):
            mapping = Mapping(binding=binding, orders=dict(zip(used, orders, strict=True)))
            period = mapped_throughput(graph, target, mapping).period
            if period is not None and (best is None or period < best):
                best = period
    return best


def compare(seed):
    graph, target = random_problem(seed)
    found = best_mapping(graph, target, budget=BUDGET)
    tried = least_period(graph, target, random.Random(seed))
    again = mapped_throughput(graph, target, found.mapping)
    assert again.period == found.period >= found.lower_bound, seed
    if found.status == Status.OPTIMAL:
        assert tried is None or found.period <= tried, seed
    assert tried is None or found.lower_bound <= tried, seed
    return found.status == Status.OPTIMAL


@pytest.mark.parametrize("seed", range(3))
def test_no_mapping_is_better_than_the_best(seed):
    assert compare(seed)


@pytest.mark.slow
def test_no_mapping_is_better_than_the_best_of_many():
    proved = [compare(seed) for seed in range(1000, 1025)]
    assert all(proved)


def in_turn(times):
    """Actors on a circle of one token, of which each firing lasts as given."""
    builder = GraphBuilder()
    for name, time in zip("cab", times, strict=True):
        builder.actor(name, time)
    builder.channel("a", 2, "b", 1).channel("b", 1, "c", 2)
    return builder.channel("c", 1, "a", 1, initial_tokens=1).graph()


@pytest.mark.parametrize(("times", "period"), [((0, 0, 0), 0), ((0, 1, 0), 1), ((0, 0, 1), 2)])
def test_firings_that_take_no_time_have_an_order(times, period):
    # c, then a once, then b twice, which is bound to one processor.
    found = best_mapping(in_turn(times), equal_processors(2), budget=5)
    assert found.found.period == period


@pytest.mark.parametrize("time", [4, 2**59, 2**61, 2**70])
def test_what_the_constraint_program_cannot_hold_is_not_proved(time):
    exact = pytest.importorskip("csdf.mapping.exact")
    builder = GraphBuilder()
    for name in "abc":
        builder.actor(name, time, overlap=False)
    builder.channel("a", 1, "b", 1).channel("b", 1, "c", 1).channel(
        "c", 1, "a", 1, initial_tokens=4
    )
    problem = mapping_problem(builder.graph(), equal_processors(2))
    # Two of the three share a processor, so no period is below twice the time.
    found = exact.find_mapping(problem, Fraction(2 * time - 1), 5)
    assert found.starts is None
    assert found.is_proved == (time == 4)


def chain_of(*durations):
    a, b, c = durations
    return (
        GraphBuilder("chain")
        .actor("a", a)
        .actor("b", b)
        .actor("c", c)
        .channel("a", 1, "b", 1)
        .channel("b", 1, "c", 1)
        .graph()
    )


@pytest.mark.parametrize("latency", [2, 10**9, 10**30])
def test_a_latency_of_any_size_shifts_the_order_after_it(latency):
    # No channel leads back, so that only the load counts: a alone, b and c on the other processor.
    found = best_mapping(chain_of(5, 3, 2), platform(2, latency), budget=BUDGET)
    assert (found.period, found.status) == (5, Status.OPTIMAL)
    assert max(len(order.prefix) for order in found.mapping.orders.values()) <= 3


@pytest.mark.parametrize("value", [Fraction(5), Fraction(7, 3), Fraction(13, 4), Fraction(10, 7)])
def test_the_next_smaller_period_of_a_proof_is_the_largest_fraction_below(value):
    for most in range(1, 12):
        listed = [Fraction(n, q) for q in range(1, most + 1) for n in range(q * 6)]
        assert largest_below(value, most) == max(one for one in listed if one < value)


def test_an_order_has_its_shortest_prefix():
    order = shortest_order("aabab", "ab")
    assert order == StaticOrder(prefix=("a",), periodic=("a", "b"))
    endless = [*"aabab", *"ab" * 5]
    assert [order.actor(place) for place in range(len(endless))] == endless
    assert shortest_order("bab", "ab") == StaticOrder(periodic=("b", "a"))


def test_a_prefix_too_long_to_list_makes_no_mapping():
    # a and c share a processor, b answers from afar: c comes 2 * 10^9 / 5 iterations after a.
    problem = mapping_problem(chain_of(3, 4, 2), platform(2, 10**9))
    starts = [0, 10**9 + 3, 2 * 10**9 + 8]
    assert mapping_of(problem, (0, 1, 0), starts, 5) is None
    assert mapping_of(problem, (0, 1, 1), [0, 10**9 + 3, 10**9 + 7], 6) is not None


@pytest.mark.parametrize("tokens", [0, 1])
def test_a_firing_of_no_time_is_ordered_before_what_it_feeds(tokens, monkeypatch):
    builder = GraphBuilder("instant").actor("after", 2).actor("before", 0)
    builder.channel("before", 1, "after", 1, initial_tokens=tokens)
    graph = builder.channel("after", 1, "before", 1, initial_tokens=1 - tokens).graph()
    problem = mapping_problem(graph, platform(1))
    monkeypatch.setattr("csdf.mapping.modulo.EJECTIONS", 0)  # each firing is placed once
    starts = modulo_schedule(problem, (0, 0), Fraction(2))
    mapping = mapping_of(problem, (0, 0), starts, 2)
    assert mapped_throughput(graph, platform(1), mapping).period == 2


def free_start(busy, earliest, duration):
    """The first start within a period at which all ticks are free, one tick after the other."""
    period = len(busy)
    for start in range(earliest, earliest + period):
        if not any(busy[tick % period] for tick in range(start, start + duration)):
            return start
    return None


@pytest.mark.parametrize("seed", range(8))
def test_a_wheel_of_busy_blocks_is_free_where_each_single_tick_is(seed):
    dice = random.Random(seed)
    period = dice.randint(5, 30)
    wheel, busy, firings = _Wheel(period), [None] * period, {}
    for firing in range(300):
        duration, earliest = dice.randint(1, min(period, 6)), dice.randrange(3 * period)
        start = wheel.free_from(earliest, duration)
        assert start == free_start([tick is not None for tick in busy], earliest, duration)
        if start is None:
            start = earliest
            occupants = wheel.occupants(start, duration)
            ticks = {busy[tick % period] for tick in range(start, start + duration)}
            assert set(occupants) == ticks - {None}
            for occupant in occupants:
                wheel.leave(occupant, *firings[occupant])
                busy = [None if tick == occupant else tick for tick in busy]
        wheel.occupy(firing, start, duration)
        firings[firing] = start, duration
        for tick in range(start, start + duration):
            busy[tick % period] = firing


def test_a_chain_listed_backwards_is_scheduled_in_as_many_steps_as_it_has_firings():
    count = 60
    builder = GraphBuilder("backwards")
    for number in reversed(range(count)):
        builder.actor(f"a{number}", 1)
    for number in range(1, count):
        builder.channel(f"a{number - 1}", 1, f"a{number}", 1)
    problem = mapping_problem(builder.graph(), equal_processors(1))
    looks = []
    modulo_schedule(problem, [0] * count, Fraction(count), lambda: looks.append(None))
    # Longest paths settle in one round, and a second one sees no change; then one look a firing.
    assert len(looks) <= 2 + count + 1
