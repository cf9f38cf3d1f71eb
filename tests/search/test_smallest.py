"""The smallest storage for one requirement."""

from dataclasses import replace
from fractions import Fraction
from itertools import permutations
from random import Random

import pytest

from csdf.analysis.bound_channels import with_capacities
from csdf.analysis.liveness import deadlock
from csdf.analysis.throughput import throughput
from csdf.errors import CsdfError, GaveUp
from csdf.generation import GraphShape, random_graph
from csdf.model.builder import GraphBuilder
from csdf.search.named_search import NamedSearch
from csdf.search.trade_off import pareto_front, smallest_storage, sufficient_capacities
from csdf.search.variables import SearchSpace
from csdf.status import Status
from csdf.time_limit import Stop
from tests.search.front_graphs import SHAPES, Limit, front_of
from tests.shared_data import each, oracle, shared_graph

CNN = {name: known["first"][0] for name, known in oracle("cnn.json").items() if known.get("first")}
if oracle("cnn.json"):  # what the file's notes say: "at most", by a greedy search
    CNN["cnn/densenet121_fused_rows_c1.xml"] = 1811048
    CNN["cnn/densenet121_full_rows_c1.xml"] = 3746408
LARGER = GraphShape(actors=6, extra_channels=4, max_phases=3, max_extra_initial_tokens=4)


def drawn_fronts(count=8):
    """Some graphs of every shape with their complete fronts."""
    for shape in SHAPES.values():
        for seed in range(count):
            graph = random_graph(seed, shape)
            front = front_of(graph)
            if front.is_complete:
                yield graph, front


def cycle(tokens):
    builder = GraphBuilder().actor("a", 2).actor("b", 3).channel("a", 1, "b", 1, name="ab")
    return builder.channel("b", 1, "a", 1, name="ba", initial_tokens=tokens).graph()


def test_the_smallest_storage_is_the_first_point_of_the_front():
    for graph, front in drawn_fronts():
        found = smallest_storage(graph)
        assert found.status == "optimal"
        assert found.point.size == front.points[0].size
        assert (found.lower_bound, found.gap) == (found.point.size, 0)
        assert deadlock(with_capacities(graph, found.point.capacities)) is None


@pytest.mark.slow
def test_a_required_period_takes_the_first_point_that_has_it():
    for graph, front in drawn_fronts():
        for point in front.points:
            for required in {point.period, point.period + Fraction(1, 7)} - {0}:
                first = next(one for one in front.points if one.period <= required)
                found = smallest_storage(graph, period=required)
                assert (found.status, found.point.size) == ("optimal", first.size)
                reached = throughput(with_capacities(graph, found.point.capacities)).period
                assert reached == found.point.period <= required


def test_a_required_period_is_in_the_units_of_the_user():
    # 2 + 3 half units around one token.
    graph = replace(cycle(1), time_unit=Fraction(1, 2))
    assert smallest_storage(graph, period=Fraction(5, 2)).status == "optimal"
    assert smallest_storage(graph, period=Fraction(12, 5)).status == "infeasible"


def test_less_than_the_best_period_is_infeasible():
    found = smallest_storage(cycle(1), period=Fraction(4))
    assert (found.status, found.point, found.gap) == ("infeasible", None, None)
    assert str(found.reason) == "even without bounds the graph has period 5"


def test_a_deadlock_of_the_graph_itself_is_infeasible():
    found = smallest_storage(cycle(0))
    assert (found.status, found.point) == ("infeasible", None)
    assert str(found.reason) == "even without bounds the graph deadlocks"


def test_a_fixed_capacity_can_make_it_infeasible():
    graph = GraphBuilder().actor("a", 1).actor("b", 1).channel("a", 3, "b", 2, name="ab").graph()
    # 3 + 2 - 1 = 4 is the least that runs.
    assert smallest_storage(graph, SearchSpace(fixed={"ab": 3})).status == "infeasible"
    assert smallest_storage(graph, SearchSpace(fixed={"ab": 4})).point.size == 4


@pytest.mark.parametrize("period", [0, -1])
def test_periods_that_nothing_bounded_can_have_are_refused(period):
    with pytest.raises(CsdfError, match="expected more than 0"):
        smallest_storage(cycle(1), period=Fraction(period))


@pytest.mark.slow
@pytest.mark.parametrize("error", [GaveUp, KeyboardInterrupt])
def test_an_ended_search_leaves_a_storage_that_suffices_and_its_gap(error):
    statuses = set()
    for seed in range(12):
        graph = random_graph(seed, LARGER)
        fastest = throughput(graph).period
        counter = Limit(1000)
        smallest = smallest_storage(graph, period=fastest, budget=Stop(report=counter)).point.size
        for calls in {1, (counter.calls + 1) // 2, counter.calls}:
            ended = smallest_storage(graph, period=fastest, budget=Stop(report=Limit(calls, error)))
            size = ended.point.size
            assert ended.lower_bound <= smallest <= size
            assert ended.gap == Fraction(size - ended.lower_bound, ended.lower_bound)
            assert ended.status == ("optimal" if size == ended.lower_bound else "feasible")
            assert sum(ended.point.capacities.values()) == size
            assert throughput(with_capacities(graph, ended.point.capacities)).period == fastest
            assert str(ended.reason) == "enough"
            statuses.add(ended.status)
    assert "feasible" in statuses


def test_no_single_channel_of_an_ended_search_can_give_anything_back():
    for seed in range(6):
        graph = random_graph(seed, LARGER)
        fastest = throughput(graph).period
        ended = smallest_storage(graph, period=fastest, budget=Stop(report=Limit(1)))
        for name, capacity in ended.point.capacities.items():
            if capacity > graph.channel(name).initial_tokens:
                less = with_capacities(graph, {**ended.point.capacities, name: capacity - 1})
                assert throughput(less).period != fastest, (seed, name)


@each("name", CNN)
def test_networks_need_no_more_than_what_others_found(name):
    graph = shared_graph(name)
    found = smallest_storage(graph)
    assert found.status == "optimal"
    assert found.point.size <= CNN[name]
    bounded = with_capacities(graph, found.point.capacities)
    assert throughput(bounded).period == found.point.period
    assert sum(found.point.capacities.values()) == found.point.size


def test_rates_whose_schedule_nothing_holds_have_a_storage_but_no_period():
    # One iteration is three firings of a and 10^25 of b; a cycle through both needs them all.
    builder = GraphBuilder().actor("a", 1).actor("b", 1).channel("a", 10**25, "b", 3)
    found = smallest_storage(builder.graph())
    assert (found.status, found.point.size) == ("optimal", 10**25 + 3 - 1)  # p + c - gcd
    assert (found.point.period, found.to_json()["period"]) == (None, None)
    asked = smallest_storage(builder.graph(), period=10**30)
    assert (asked.status, asked.lower_bound) == ("unknown", 10**25 + 3 - 1)
    assert f"{10**25 + 3} firings" in str(asked.reason)


@pytest.mark.parametrize("period", [10, "10", Fraction(10), "20/2", "10.0"])
def test_a_period_may_be_any_exact_number(period):
    assert smallest_storage(cycle(3), period=period) == smallest_storage(
        cycle(3), period=Fraction(10)
    )


@pytest.mark.parametrize("ask", [smallest_storage, sufficient_capacities])
@pytest.mark.parametrize("period", [0.5, True, "soon", "1/0", 0, "-3"])
def test_a_period_that_is_no_exact_number_above_zero_is_refused(ask, period):
    with pytest.raises(CsdfError, match="period"):
        ask(cycle(3), period=period)


def two_paths():
    """An actor whose firings take 3, and two channels that need 4 = 3 + 2 - 1 tokens each."""
    builder = GraphBuilder().actor("a", 2, overlap=False).actor("b", 3, overlap=False)
    builder.channel("a", 3, "b", 2, name="ab")
    return builder.channel("a", 3, "b", 2, name="more").graph()


@pytest.mark.parametrize(
    ("choice", "period", "reason"),
    [
        (
            SearchSpace(fixed={"ab": 2}),
            None,
            "with 'ab' at 2, and no other bound, the graph deadlocks; 'ab' needs at least 4",
        ),
        (
            SearchSpace(fixed={"ab": 3, "more": 1}),
            9,
            "with 'ab' at 3 and 'more' at 1, and no other bound, the graph deadlocks; "
            "'ab' needs at least 4 and 'more' needs at least 4",
        ),
        # Without bounds three firings of b take 9. With 4: a 0-2, b 2-5, a 5-7 beside the one token
        # left, b 7-10 and 10-13; only then there is space for 3 again.
        (
            SearchSpace(fixed={"ab": 4}),
            9,
            "with 'ab' at 4, and no other bound, the graph has period 13",
        ),
        (SearchSpace(fixed={"ab": 4}), 8, "even without bounds the graph has period 9"),
        (SearchSpace(fixed={"ab": 4}), "1e-9", "even without bounds the graph has period 9"),
    ],
)
def test_a_given_capacity_is_blamed_only_where_it_is_to_blame(choice, period, reason):
    found = smallest_storage(two_paths(), choice, period=period)
    assert (found.status, found.point, str(found.reason)) == ("infeasible", None, reason)


def test_a_capacity_of_the_graph_itself_is_blamed_too():
    graph = with_capacities(two_paths(), {"more": 3})
    found = smallest_storage(graph, SearchSpace(excluded=["more"]))
    assert str(found.reason).startswith("with 'more' at 3, and no other bound, the graph deadlocks")
    assert str(found.reason).endswith("'more' needs at least 4")
    front = pareto_front(graph, SearchSpace(excluded=["more"]))
    assert (front.points, front.is_complete, str(front.reason)) == ((), True, str(found.reason))


def test_a_deadlock_without_bounds_is_not_blamed_on_a_fixed_capacity():
    found = smallest_storage(cycle(0), SearchSpace(fixed={"ab": 1}))
    assert str(found.reason) == "even without bounds the graph deadlocks"


def wide(actors, copies):
    """A ring of actors whose rates need many firings, so that each evaluation looks at the watch."""
    builder = GraphBuilder()
    for number in range(actors):
        builder.actor(f"a{number}", [1] * copies, overlap=False)
    for number in range(actors):
        after = (number + 1) % actors
        builder.channel(
            f"a{number}",
            1,
            f"a{after}",
            1,
            initial_tokens=2 if after == 0 else 0,
            name=f"c{number}",
        )
    return builder.graph()


def test_a_storage_search_that_is_ended_at_once_has_an_answer_all_the_same():
    # 3 actors of 20,000 phases: no schedule of them is made after the end of the search.
    graph = wide(3, 20_000)

    def end(_):
        raise GaveUp("enough")

    found = smallest_storage(graph, budget=Stop(report=end))
    assert (found.status, str(found.reason), found.point.period) == ("feasible", "enough", None)
    assert deadlock(with_capacities(graph, found.point.capacities)) is None
    assert found.lower_bound <= found.point.size


@pytest.mark.parametrize("seed", range(20))
def test_room_for_whole_iterations_runs_and_is_no_less_than_the_smallest(seed):
    graph = random_graph(seed, LARGER)
    search = NamedSearch(graph, SearchSpace(), Stop())
    capacities = search.whole_iterations()
    assert deadlock(with_capacities(graph, capacities)) is None
    assert sum(capacities.values()) >= smallest_storage(graph).point.size


def test_one_token_on_each_arc_makes_the_smallest_storage_a_minimum_feedback_arc_set():
    # the reduction of docs/theory-storage.md; brute force: an order of the vertices, arcs that go back
    for seed in range(20):
        random = Random(seed)
        arcs = random.sample(list(permutations(range(5), 2)), 12)
        builder = GraphBuilder("arcs")
        for vertex in range(5):
            builder = builder.actor(f"v{vertex}", 1)
        for one, other in arcs:
            builder = builder.channel(f"v{one}", 1, f"v{other}", 1, initial_tokens=1)
        found = smallest_storage(builder.graph())
        backwards = min(
            sum(order.index(one) > order.index(other) for one, other in arcs)
            for order in permutations(range(5))
        )
        assert (found.status, found.size) == (Status.OPTIMAL, len(arcs) + backwards), seed
