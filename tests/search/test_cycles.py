"""Demands of critical cycles hold for every distribution, and are met at the least cost."""

from dataclasses import replace
from fractions import Fraction
from itertools import product
from random import Random

import pytest

from csdf.analysis.periodic import Circuit
from csdf.generation import GraphShape, random_graph
from csdf.model.builder import GraphBuilder
from csdf.model.indexed import indexed
from csdf.search.evaluator import CapacityEvaluator
from csdf.search.learned_bounds import CycleDecomposition, CycleDemands, DependencyCycle
from csdf.search.trade_off import pareto_front
from csdf.search.variables import SearchSpace, prepared
from csdf.time_limit import Stop
from tests import both_kernels
from tests.both_kernels import BOTH
from tests.search.front_graphs import known_points
from tests.shared_data import each, shared_graph

SDF = {
    "plain": GraphShape(actors=4, extra_channels=2, max_phases=1, max_repetitions=6, max_rate=6),
    "early tokens": GraphShape(
        actors=4, extra_channels=3, max_phases=1, max_repetitions=6, max_extra_initial_tokens=6
    ),
    "overlapping": GraphShape(
        actors=4, extra_channels=2, max_phases=1, max_repetitions=6, has_self_loops=False
    ),
    "several firings at once": GraphShape(
        actors=4, extra_channels=2, max_phases=1, max_concurrency=3, is_strongly_connected=False
    ),
    "zero durations": GraphShape(
        actors=4, extra_channels=2, max_phases=1, min_duration=0, max_duration=2
    ),
    "some phases": GraphShape(actors=4, extra_channels=2, max_phases=2, max_repetitions=6),
    "windows": GraphShape(
        actors=3, extra_channels=1, max_phases=2, is_bounded=True, has_late_release=True
    ),
}


@pytest.fixture(params=BOTH)
def _backend(request, monkeypatch):
    """Every test with kernels as they are written, and as machine code."""
    both_kernels.use(monkeypatch, request.param)


def drawn_capacities(random, variables):
    return tuple(one.least + one.step * random.randint(0, 12) for one in variables)


@pytest.mark.parametrize("only_live", [False, True])
@pytest.mark.parametrize("shape", SDF)
def test_no_distribution_is_faster_than_cycles_of_others_allow(shape, only_live):
    demanded = 0
    for seed in range(30):
        random = Random(seed)
        kept, variables, _ = prepared(random_graph(seed, SDF[shape]), SearchSpace())
        evaluator = CapacityEvaluator(kept, variables, only_live=only_live)
        steps, weights = [one.step for one in variables], [one.weight for one in variables]
        for _ in range(6):
            one, other = (drawn_capacities(random, variables) for _ in range(2))
            cycles = CycleDemands(steps, weights)
            for cycle in evaluator.evaluate(one).cycles:
                cycles.add(cycle)
            period = evaluator.evaluate(other).period
            if period is not None:
                cycles.tighten(lambda found, period=period: found is not None and found <= period)
                demanded += len(cycles)
                assert cycles.bound(other) == (0, None), (seed, one, other)
    assert demanded > 5  # fewest where cycles pass actors of several phases, which demand nothing


def test_a_path_of_channels_demands_the_sum_of_their_capacities():
    # d takes 10 tokens of c. From the end of a firing of d over the space of c, b and a to p, and with
    # the tokens back to d, pass r, q, p, q, r and d: 1 + 1 + 1 + 1 + 1 + 7 = 12. An iteration is one
    # firing of d, and these 12 are over after as many of them as the capacities hold tens of tokens.
    # So a period of 12 needs 10 tokens, one of 6 to 11 twice as many, and one of 4 three times.
    graph = GraphBuilder()
    for name, time in (("p", 1), ("q", 1), ("r", 1), ("d", 7)):
        graph.actor(name, time)
    for name, producer, consumer, taken in (
        ("a", "p", "q", 1),
        ("b", "q", "r", 1),
        ("c", "r", "d", 10),
    ):
        graph.channel(producer, 1, consumer, taken, name=name)
    kept, variables, _ = prepared(graph.graph(), SearchSpace())
    path = DependencyCycle(
        12, Fraction(0), tuple((place, Fraction(1, 10)) for place in range(3)), (1, 10)
    )
    evaluator = CapacityEvaluator(kept, variables)
    assert path in evaluator.evaluate((4, 5, 10)).cycles
    for period, tokens in ((12, 10), (11, 20), (6, 20), (4, 30)):
        cycles = CycleDemands([1, 1, 1], [1, 1, 1])
        cycles.add(path)
        cycles.tighten(lambda found, period=period: found <= period)
        assert cycles.bound((0, 0, 0))[0] == tokens
        assert cycles.bound((3, 4, 10))[0] == max(0, tokens - 17)


def test_a_demand_grows_with_a_stricter_test_and_changes_are_counted():
    cycles = CycleDemands([1, 1], [1, 1])
    cycles.add(DependencyCycle(6, Fraction(1), ((0, Fraction(1, 2)), (1, Fraction(1, 2))), (2,)))
    assert cycles.bound((0, 0)) == (0, None)
    bounds = []
    for period in (12, 3, 2):
        cycles.tighten(lambda found, period=period: found <= period)
        bounds.append((cycles.bound((0, 0))[0], cycles.changes))
    # 6 / 12 iterations are less than the one that lies there; 2 and 3 iterations need 2 and 4 tokens.
    assert bounds == [(0, 1), (2, 2), (4, 3)]


@pytest.mark.usefixtures("_backend")
@pytest.mark.parametrize("seed", range(40))
def test_the_bound_is_at_most_the_least_cost_of_meeting_all_demands(seed):
    random = Random(seed)
    steps = [random.choice((1, 2, 3)) for _ in range(3)]
    weights = [random.randint(0, 4) for _ in range(3)]
    cycles = CycleDemands(steps, weights)
    cycles.tighten(lambda found: found <= 1)
    demands = []
    for _ in range(random.randint(1, 4)):
        places = sorted(random.sample(range(3), random.randint(1, 3)))
        shares = tuple((place, Fraction(random.randint(1, 3), 6)) for place in places)
        cycle = DependencyCycle(
            random.randint(1, 3), Fraction(random.randint(0, 4), 6), shares, (2,)
        )
        cycles.add(cycle)
        demands.append(cycle)
    now = tuple(step * random.randint(0, 3) for step in steps)

    def meets(capacities):
        # `time` iterations have to fit, in whole halves: time is whole, so there is no rounding.
        return all(
            one.tokens + sum(share * capacities[place] for place, share in one.shares) >= one.time
            for one in demands
        )

    grown = product(*(range(one, one + 24, step) for one, step in zip(now, steps, strict=True)))
    costs = [
        sum((a - b) * c for a, b, c in zip(larger, now, weights, strict=True))
        for larger in grown
        if meets(larger)
    ]
    bound, cut = cycles.bound(now)
    assert bound <= min(costs)
    assert (cut is None) == meets(now)
    if cut is not None:
        assert cut.holds(now)
        assert not meets([cut.limits.get(place, 1000) for place in range(3)])


@pytest.mark.usefixtures("_backend")
def test_numbers_that_64_bits_do_not_hold_are_added_up_all_the_same():
    time, weight = 1 << 50, 1 << 40
    cycles = CycleDemands([1, 1], [weight, 1])
    cycles.tighten(lambda found: found <= 1)
    cycles.add(DependencyCycle(time, Fraction(0), ((0, Fraction(1)),), (1,)))
    assert cycles.bound((0, 0))[0] == time * weight
    assert cycles.bound((time, 0)) == (0, None)


@pytest.mark.usefixtures("_backend")
def test_small_numbers_give_way_to_large_ones():
    cycles = CycleDemands([1, 1], [1, 1])
    cycles.tighten(lambda found: found <= 1)
    cycles.add(DependencyCycle(3, Fraction(0), ((0, Fraction(1)),), (1,)))
    assert cycles.bound((0, 0))[0] == 3
    assert cycles.bound((1 << 65, 0)) == (0, None)
    cycles.add(DependencyCycle(1 << 50, Fraction(0), ((1, Fraction(1, 1 << 40)),), (1,)))
    assert cycles.bound((0, 0))[0] == 3 + (1 << 90)


def test_more_demands_than_there_was_room_for_are_all_looked_at():
    cycles = CycleDemands([1] * 50, [1] * 50)
    cycles.tighten(lambda found: found <= 1)
    for place in range(50):
        cycles.add(DependencyCycle(place + 1, Fraction(0), ((place, Fraction(1)),), (1,)))
        assert cycles.bound([0] * 50)[0] == (place + 1) * (place + 2) // 2


@pytest.mark.parametrize("name", ["plain", "overlapping", "zero durations"])
def test_fronts_are_the_same_without_cycles(monkeypatch, name):
    for seed in range(6):
        graph = random_graph(seed, replace(SDF[name], actors=3, extra_channels=1))
        front = pareto_front(graph, points=6)
        with monkeypatch.context() as patch:
            patch.setattr(CycleDecomposition, "of", lambda self, circuit, stop: ())
            plain = pareto_front(graph, points=6)
        assert known_points(front)[:6] == known_points(plain)[:6], seed


@pytest.mark.slow
@each("name", ["sdf3/mp3decoder_block_parallelism.xml"])
def test_the_mp3_decoder_by_blocks_has_a_front_of_203_points(name):
    front = pareto_front(shared_graph(name))
    assert front.is_complete
    # As the search without cycles and symmetries found it, in 302,796 evaluations.
    assert len(front.points) == 203
    assert (front.points[0].size, front.points[-1].size) == (594, 1844)
    assert front.points[-1].period == front.best_period == 278650
    assert {p.size: p.period for p in front.points}[1006] == Fraction(2104012, 3)


def test_a_round_that_a_critical_cycle_repeats_is_worked_out_once(monkeypatch):
    builder = GraphBuilder().actor("a", 2).actor("b", 3)
    graph = builder.channel("a", 1, "b", 1).channel("b", 1, "a", 1).graph()
    asked = []
    work_out = CycleDecomposition._cycle
    monkeypatch.setattr(
        CycleDecomposition, "_cycle", lambda self, hops: asked.append(hops) or work_out(self, hops)
    )
    circuit = Circuit(actors=(0, 1) * 500, channels=(0, 1) * 500, time=2500, height=Fraction(1))
    decomposition = CycleDecomposition(indexed(graph), [500, 500], {1: (0, 7)}, is_timed=True)
    # The way back is space: 7 tokens lie in its channel, and of 500 of an iteration each is a share.
    whole = DependencyCycle(2500, Fraction(-7), ((0, Fraction(1)),), (500,))
    one = DependencyCycle(5, Fraction(-7, 500), ((0, Fraction(1, 500)),), (500,))
    assert decomposition.of(circuit, Stop()) == (whole, one)
    assert len(asked) == 2
