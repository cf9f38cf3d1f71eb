"""Live capacities, and their bound by moments, close to each other and exact."""

from random import Random
from threading import Event

import pytest

from csdf.analysis.bound_channels import with_capacities
from csdf.analysis.liveness import deadlock
from csdf.errors import GaveUp
from csdf.generation import GraphShape, random_graph
from csdf.model.builder import GraphBuilder
from csdf.search import named_search
from csdf.search.evaluator import CapacityEvaluator
from csdf.search.liveness_bounds import branching, linear_programs, live_bound
from csdf.search.liveness_bounds.branching import Branching
from csdf.search.liveness_bounds.demands import MomentShortfall
from csdf.search.liveness_bounds.linear_programs import LinearProgram, bound_by_prices
from csdf.search.liveness_bounds.live_bound import exchanges, live_bounds
from csdf.search.liveness_bounds.windows import ANY, CapacityBox, IterationFirings, Moment
from csdf.search.sequential import SequentialRun, raised
from csdf.search.trade_off import pareto_front, smallest_storage
from csdf.search.variables import SearchSpace, prepared, size_of
from csdf.time_limit import Stop
from tests import both_kernels
from tests.both_kernels import BOTH
from tests.search.front_graphs import SHAPES, brute_points, drawn
from tests.shared_data import shared_graph

LARGER = GraphShape(actors=6, extra_channels=4, max_repetitions=6)
LONG = 40  # seconds that no linear program here comes near


@pytest.fixture(params=BOTH)
def _backend(request, monkeypatch):
    """Every test with kernels as they are written, and as machine code."""
    both_kernels.use(monkeypatch, request.param)


def run_of(graph, choice=SearchSpace()):  # noqa: B008
    kept, variables, fixed = prepared(graph, choice)
    evaluator = CapacityEvaluator(kept, variables)
    cycles = list(evaluator.cycles.values())
    run = SequentialRun(evaluator.bare, variables, cycles, Stop())
    return run, variables, cycles, fixed


def latest_bound(graph, choice=SearchSpace()):  # noqa: B008
    """The last bound, the size of the last capacities, and these by name."""
    run, variables, cycles, fixed = run_of(graph, choice)
    grown = run.grown([variable.least for variable in variables])
    *_, found = live_bounds(run, variables, cycles, grown, Stop())
    pairs = list(zip(variables, found.capacities, strict=True))
    named = {one.name: capacity for variable, capacity in pairs for one in variable.channels}
    size = sum(variable.weight * capacity for variable, capacity in pairs)
    return found.lower_bound + fixed, size + fixed, named


@pytest.mark.usefixtures("_backend")
@pytest.mark.parametrize("shape", SHAPES)
def test_no_live_distribution_of_brute_force_is_below_the_bound(shape):
    for seed, graph, front in drawn(shape, 6):
        size, _ = brute_points(graph, front)[0][:2]
        bound, found, named = latest_bound(graph)
        assert bound <= size <= found, seed
        assert deadlock(with_capacities(graph, named)) is None, seed


@pytest.mark.parametrize("seed", range(40))
def test_the_bound_is_at_most_the_proved_smallest(seed):
    graph = random_graph(seed, LARGER)
    bound, found, named = latest_bound(graph)
    assert bound <= smallest_storage(graph).point.size <= found
    assert deadlock(with_capacities(graph, named)) is None


def firings_of(run, cycles):
    return IterationFirings(run.graph, owners=run.owners, occupied=run.occupied, cycles=cycles)


@pytest.mark.parametrize("seed", range(20))
def test_no_moment_of_an_iteration_demands_too_much(seed):
    graph = random_graph(seed, LARGER)
    run, variables, cycles, _ = run_of(graph)
    capacities = smallest_storage(graph).point.capacities
    best = [capacities[variable.channels[0].name] for variable in variables]
    firings = firings_of(run, cycles)
    random = Random(seed)
    moments = [
        Moment(actor, firing)
        for actor, most in enumerate(firings.per_iteration)
        for firing in range(most)
    ]
    for moment in moments[:: max(1, len(moments) // 25)]:
        room = [many + random.choice((0, 0, 1, 5)) for many in best]
        near = [random.randint(1, many) for many in best]
        shortfall = MomentShortfall.of(firings, variables, moment, room)
        demand = shortfall.demand(near, LONG, lambda: None)
        assert demand is None or held_by(best, demand) >= demand.least > held_by(near, demand)


def held_by(capacities, demand):
    return sum(factor * capacities[place] for place, factor in demand.terms)


@pytest.mark.parametrize("shape", SHAPES)
def test_counted_firings_are_live_where_a_run_is(shape):
    for seed, graph, _ in drawn(shape, 6):
        run, variables, cycles, _ = run_of(graph)
        random, firings = Random(seed), firings_of(run, cycles)
        for most in (0, 1, 2, 3, 5) * 4:
            tried = [one.least + one.step * random.randint(0, most) for one in variables]
            assert firings.is_live(tried) == run.is_live(tried), (seed, tried)


@pytest.mark.parametrize("rounds", [1, 3])
@pytest.mark.parametrize("shape", SHAPES)
def test_boxes_are_split_until_the_smallest_of_brute_force_is_proved(monkeypatch, shape, rounds):
    # Runs give moments and no capacities, but for one distribution that is much too large.
    monkeypatch.setattr(branching, "FIRST_ROUNDS", rounds)
    monkeypatch.setattr(branching, "ROUNDS", rounds)
    monkeypatch.setattr(branching, "MOST_PARTS", 10_000)
    for seed, graph, front in drawn(shape, 3):
        run, variables, cycles, fixed = run_of(graph)
        size, _ = brute_points(graph, front)[0][:2]

        def near(relaxed, run=run, variables=variables):
            whole = zip(relaxed, variables, strict=True)
            small = [
                one.least + int(max(0, x - one.least)) // one.step * one.step for x, one in whole
            ]
            grown = run.grown(small)
            return grown, [Moment(*one) for one in run.moments]

        large = run.grown([one.least + 3 * one.step for one in variables])
        search = Branching(
            firings_of(run, cycles), variables, large, grow=near, seconds=lambda: LONG, look=int
        )
        box = CapacityBox(tuple(one.least for one in variables), (ANY,) * len(variables))
        bounds = list(search.bounds(box))
        assert all(one.lower_bound + fixed <= size for one in bounds), seed
        assert bounds[-1].lower_bound + fixed == size == size_of(variables, search.best) + fixed
        assert run.is_live(search.best)


def two_ways(delay):
    """A source to a sink on a straight way of three channels, and on one that delays.

    The delay takes `delay` tokens before it gives the first. By then as many lie on the straight way,
    where they may be in any of the channels, and there has to be room for them.
    """
    graph = GraphBuilder("two ways")
    for name in ("source", "first", "second", "sink"):
        graph.actor(name, 1)
    graph.actor("delay", [1] * (delay + 1))
    ways = {"a": ("source", "first"), "b": ("first", "second"), "c": ("second", "sink")}
    for name, (producer, consumer) in ways.items():
        graph.channel(producer, 1, consumer, 1, name=name)
    graph.channel("source", 1, "delay", [1] * (delay + 1), name="into")
    graph.channel("delay", [0] * delay + [delay + 1], "sink", 1, name="out")
    return graph.graph()


def test_capacities_that_trade_off_along_a_path_are_bounded_at_once():
    # The sink first fires when the delay has fired 21 times: 21 tokens lie in a, b and c. `into` needs
    # room for 1 and `out` for 21.
    assert latest_bound(two_ways(20))[:2] == (43, 43)


def test_a_search_that_gets_there_ends_with_the_proof(monkeypatch):
    monkeypatch.setattr(named_search, "MUCH_WORK", 0)
    found = smallest_storage(two_ways(20))
    assert (found.status, found.point.size, found.lower_bound) == ("optimal", 43, 43)
    assert found.evaluations < 10


@pytest.mark.usefixtures("_backend")
@pytest.mark.parametrize("shape", SHAPES)
def test_searches_with_moments_find_what_they_find_without(monkeypatch, shape):
    for seed, graph, front in drawn(shape, 4):
        usual = smallest_storage(graph)
        with monkeypatch.context() as patched:
            patched.setattr(named_search, "MUCH_WORK", 0)
            patched.setattr(named_search, "WIDE", 0)
            found = smallest_storage(graph)
            again = pareto_front(graph, budget=Stop(steps=2000), max_size=front.points[0].size)
        assert (found.status, found.point.size) == (usual.status, usual.point.size), seed
        assert again.points[0].size == front.points[0].size, seed


def test_fixed_shared_and_weighted_capacities_are_bounded_alike(monkeypatch):
    graph = two_ways(6)
    monkeypatch.setattr(named_search, "MUCH_WORK", 0)
    for choice in (
        SearchSpace(fixed={"b": 3}),
        SearchSpace(shared=[["a", "b"]]),
        SearchSpace(excluded=["a"]),
    ):
        bound, size, _ = latest_bound(graph, choice)
        assert bound <= smallest_storage(graph, choice).point.size <= size


def test_prices_of_any_kind_give_a_bound_that_holds():
    # Least of 2 x + 3 y with x + y >= 3, x at most 2, y from 1: x = 2, y = 1, so 7.
    program = LinearProgram()
    program.add_column(2, 0, 2)
    program.add_column(3, 1, None)
    program.add_row([(0, -1), (1, -1)], -3)
    bounds = {price: bound_by_prices(program, [price], 10) for price in range(40)}
    assert max(bound for bound in bounds.values() if bound is not None) == bounds[30] == 7
    assert bounds[31] is None  # more than y costs: without a limit of y nothing follows


@pytest.mark.parametrize("seed", range(12))
def test_exchanges_keep_capacities_live_and_never_make_them_larger(seed):
    graph = random_graph(seed, LARGER)
    run, variables, _, _ = run_of(graph)
    known = whole = run.grown([variable.least + 5 * variable.step for variable in variables])
    sizes = [sum(known)]
    for known in exchanges(variables, whole, run.grown, Random(seed), 20):
        assert run.is_live(known)
        sizes.append(sum(known))
    assert sizes == sorted(sizes, reverse=True)
    assert smallest_storage(graph).point.size <= sizes[-1] < sizes[0]


def test_exchanges_find_the_smallest_of_a_trade_off_along_a_path():
    # The sink first fires when the delay has fired 4 times: 4 tokens lie in a, b and c, which have 6.
    graph = two_ways(3)
    run, variables, _, _ = run_of(graph)
    names = [variable.channels[0].name for variable in variables]
    spread = dict.fromkeys(names, 1) | {"out": 4, "a": 2, "b": 2, "c": 2}
    start = tuple(spread[name] for name in names)
    assert run.is_live(start)
    *_, last = exchanges(variables, start, run.grown, Random(1), 40)
    assert sum(last) == 4 + 1 + 4 < sum(start)  # `into` has 1, `out` 4


@pytest.mark.slow
def test_multrate_is_bounded_within_a_twentieth(monkeypatch):
    # All rounds prove 515, in longer than a test may take.
    monkeypatch.setattr(branching, "FIRST_ROUNDS", 2)
    monkeypatch.setattr(branching, "NEW_MOMENTS", 2)
    monkeypatch.setattr(branching, "MOST_PARTS", 0)
    monkeypatch.setattr(live_bound, "TRIES", 12)
    monkeypatch.setattr(live_bound, "MORE_TRIES", 0)
    graph = shared_graph("small/multrate.xml")
    run, variables, cycles, _ = run_of(graph)
    grown = run.grown([variable.least for variable in variables])
    *_, found = live_bounds(run, raised(variables, run.cuts), cycles, grown, Stop())
    assert run.is_live(found.capacities)
    assert found.lower_bound <= 515 <= sum(found.capacities)
    assert 19 * sum(found.capacities) <= 20 * found.lower_bound


@pytest.mark.parametrize("end", [KeyboardInterrupt, GaveUp])
def test_an_end_is_answered_while_a_linear_program_runs(monkeypatch, end):
    is_over, done = Event(), []

    def endless(*_, **__):
        is_over.wait(30)
        done.append(True)

    def look():
        looks.append(True)
        if len(looks) == 3:
            raise end("enough")

    looks = []
    monkeypatch.setattr(linear_programs, "linprog", endless)
    program = LinearProgram()
    program.add_column(1, 0, None)
    with pytest.raises(end):
        linear_programs.solved(program, LONG, look)
    assert not done
    is_over.set()


def test_an_error_of_the_solver_reaches_the_caller(monkeypatch):
    def broken(*_, **__):
        raise ValueError("no such method")

    monkeypatch.setattr(linear_programs, "linprog", broken)
    with pytest.raises(ValueError, match="no such method"):
        linear_programs.solved(LinearProgram(), LONG, lambda: None)


def test_an_interrupt_in_a_linear_program_leaves_the_best_so_far(monkeypatch):
    monkeypatch.setattr(named_search, "MUCH_WORK", 0)
    monkeypatch.setattr(named_search, "WIDE", 0)

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(linear_programs, "linprog", interrupted)
    graph = random_graph(23, LARGER)
    found = smallest_storage(graph)
    assert found.status in ("feasible", "optimal")
    assert deadlock(with_capacities(graph, found.point.capacities)) is None
    assert found.lower_bound <= 55 <= found.point.size  # 55 is the smallest, by cuts alone
