"""Orders of graphs with scratch, positions and alternatives, against all orders and selections."""

import random
from dataclasses import replace
from itertools import combinations, pairwise, product

import pytest

from csdf.errors import GaveUp, InvalidGraph
from csdf.status import Ended, Status, because
from csdf.time_limit import Stop
from planners.arena.allocation import plan_arena
from planners.arena.checker import check_plan
from planners.order import reuse, search
from planners.order.heuristics import file_order
from planners.order.lifetimes import tensor_lifetimes
from planners.order.order_plan import OrderWhy
from planners.order.problem import OrderProblem, ReusePrice, Step, StepAlternative, peak_of
from planners.order.reuse import ReuseWhy, plan_reuse
from planners.order.search import plan_order
from planners.order.selections import SelectionSearch
from tests.planners.order.graphs import (
    least_arena_and_price,
    least_peak,
    least_peak_and_price,
    random_problem,
    selections,
    with_alternatives,
    with_positions,
    with_repeats,
    with_reuse_prices,
    with_scratch,
)

MOST_STEPS = 8


def require_least_peak(problem, seed):
    plan = plan_order(problem)
    assert plan.peak == plan.lower_bound == least_peak(problem), seed
    assert peak_of(problem, plan.order) == plan.peak, seed
    for position, name in enumerate(plan.order):
        (step,) = (step for step in problem.steps if step.name == name)
        assert step.earliest <= position, seed
        assert step.latest is None or position <= step.latest, seed


def require_least_peak_and_price(problem, price_limit, seed):
    plan = plan_order(problem, price_limit=price_limit)
    assert (plan.peak, plan.price) == least_peak_and_price(problem, price_limit), seed
    assert plan.lower_bound == plan.peak == peak_of(plan.problem, plan.order), seed


FORMS = {
    "scratch": lambda seed: with_scratch(random_problem(seed, MOST_STEPS), seed),
    "positions": lambda seed: with_positions(random_problem(seed, MOST_STEPS), seed),
    "both": lambda seed: with_positions(with_scratch(random_problem(seed, MOST_STEPS), seed), seed),
}


@pytest.mark.parametrize("form", FORMS)
def test_small_graphs_of_each_form_get_the_least_peak_of_all_orders(form):
    for seed in range(40):
        require_least_peak(FORMS[form](seed), seed)


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_more_graphs_of_each_form_get_the_least_peak_of_all_orders(form):
    for seed in range(100, 900):
        require_least_peak(FORMS[form](seed), seed)


def test_alternatives_of_small_graphs_get_the_least_peak_and_then_the_least_price():
    for seed in range(20):
        problem = with_alternatives(random_problem(seed, 6), seed)
        require_least_peak_and_price(problem, 100, seed)


@pytest.mark.slow
def test_more_alternatives_within_a_price_get_the_least_peak_of_all_selections():
    for seed in range(100, 400):
        problem = with_alternatives(with_scratch(random_problem(seed, MOST_STEPS), seed), seed)
        least = sum(
            min(option.price for option in step.alternatives)
            for step in problem.steps
            if step.alternatives
        )
        require_least_peak_and_price(problem, least + seed % 3, seed)


@pytest.mark.slow
def test_alternatives_of_steps_at_positions_get_the_least_peak_of_all_selections():
    for seed in range(100, 250):
        problem = with_alternatives(with_positions(random_problem(seed, MOST_STEPS), seed), seed)
        require_least_peak_and_price(problem, 100, seed)


def kept_or_recomputed():
    """A map of 100 bytes that the last step reads again, or computes again from 10 bytes."""
    kept = StepAlternative(reads=("end", "map"), sizes={"result": 5})
    again = StepAlternative(reads=("end", "image"), sizes={"result": 5}, scratch=100, price=7)
    return OrderProblem(
        name="kept",
        sizes={"image": 10, "map": 100, "wide": 300, "wider": 300, "end": 5, "result": 5},
        steps=(
            Step(name="first", reads=("image",), writes=("map",)),
            Step(name="widen", reads=("map",), writes=("wide",)),
            Step(name="transform", reads=("wide",), writes=("wider",)),
            Step(name="shrink", reads=("wider",), writes=("end",)),
            Step(
                name="last",
                reads=("end", "map", "image"),
                writes=("result",),
                alternatives=(kept, again),
            ),
        ),
        outputs=("result",),
    )


def test_a_map_is_computed_again_where_the_price_allows():
    # The two wide maps are live together, with the map, or with the image that it is computed from.
    plan = plan_order(kept_or_recomputed())
    assert (plan.peak, plan.alternatives, plan.price) == (610, {"last": 1}, 7)
    plan = plan_order(kept_or_recomputed(), price_limit=6)
    assert (plan.peak, plan.alternatives, plan.price) == (700, {"last": 0}, 0)


def test_the_lowest_price_within_a_peak_limit_is_chosen():
    for limit, price in ((609, 7), (610, 7), (699, 7), (700, 0)):
        plan = plan_order(kept_or_recomputed(), peak_limit=limit)
        assert (plan.price, plan.status) == (price, Status.OPTIMAL)
        assert plan.lower_bound == (610 if limit == 609 else 600)
    for seed in range(10):
        problem = with_alternatives(random_problem(seed, 5), seed)
        least = plan_order(problem)
        for limit in (least.peak, least.peak + 5):
            plan = plan_order(problem, peak_limit=limit)
            prices = (price for price, chosen in selections(problem) if least_peak(chosen) <= limit)
            assert (plan.price, plan.status) == (min(prices), Status.OPTIMAL), seed
            assert plan.lower_bound <= least.peak <= plan.peak <= limit, seed


def test_a_price_limit_below_the_least_price_is_refused():
    step = Step(
        name="a",
        reads=("x",),
        writes=("y",),
        alternatives=(StepAlternative(reads=("x",), sizes={"y": 1}, price=4),),
    )
    problem = OrderProblem(name="dear", sizes={"x": 1, "y": 1}, steps=(step,), outputs=("y",))
    with pytest.raises(InvalidGraph, match="expected at least 4"):
        plan_order(problem, price_limit=3)


def test_a_search_without_any_order_of_a_selection_has_a_lower_bound():
    option = StepAlternative(reads=("x",), sizes={"y": 1}, price=0)
    steps = (
        Step(name="a", reads=("x",), writes=("y",), alternatives=(option, option), earliest=1),
        Step(name="b", reads=("y",), writes=("z",)),
    )
    problem = OrderProblem(name="late", sizes={"x": 1, "y": 1, "z": 1}, steps=steps, outputs=())
    search = SelectionSearch(problem, plan_order)
    search.run(Stop())
    assert (search.best, search.lower_bound) == (None, 0)


def test_positions_that_no_order_keeps_are_refused():
    steps = (
        Step(name="a", reads=("x",), writes=("y",), earliest=1),
        Step(name="b", reads=("y",), writes=("z",)),
    )
    problem = OrderProblem(name="late", sizes={"x": 1, "y": 1, "z": 1}, steps=steps, outputs=())
    with pytest.raises(InvalidGraph, match="no order has each step within its positions"):
        plan_order(problem)


def test_an_arena_holds_scratch_as_long_as_its_step_runs():
    problem = with_scratch(random_problem(5, MOST_STEPS), 5)
    plan = plan_order(problem)
    buffers = tensor_lifetimes(problem, plan.order)
    scratch = {step.name: step.scratch for step in problem.steps if step.scratch}
    times = {buffer.name: (buffer.size, buffer.end - buffer.start) for buffer in buffers.buffers}
    assert scratch
    for name, size in scratch.items():
        assert times[f"{name} scratch"] == (size, 1)
    assert plan_arena(buffers).peak >= plan.peak


def small_graph_without_pairs(seed):
    """A graph of up to seven tensors, none in place, with prices of reuse."""
    problem = random_problem(seed, 4)
    steps = tuple(replace(step, overwrites=()) for step in problem.steps)
    return with_reuse_prices(replace(problem, steps=steps), seed)


def require_least_arena_and_price(problem, limit, seed):
    plan = plan_reuse(problem, price_limit=limit)
    assert plan.status == Status.OPTIMAL, seed
    assert (plan.arena.peak, plan.price) == least_arena_and_price(problem, limit), seed
    check_plan(plan.arena)
    offsets, sizes = plan.arena.offsets, problem.sizes
    shared = [
        pair
        for pair in problem.reuse_prices
        if offsets[pair.first] < offsets[pair.second] + sizes[pair.second]
        and offsets[pair.second] < offsets[pair.first] + sizes[pair.first]
        and all(buffer.takes_bytes for buffer in plan.problem.buffers if buffer.name in pair)
    ]
    assert plan.price == sum(pair.price for pair in shared) <= limit, seed


def test_pairs_that_share_bytes_at_a_price_get_the_least_arena_of_all_orders():
    for seed in range(8):
        require_least_arena_and_price(small_graph_without_pairs(seed), seed % 4, seed)


@pytest.mark.slow
def test_more_prices_of_reuse_get_the_least_arena_of_all_orders():
    for seed in range(100, 112):
        require_least_arena_and_price(small_graph_without_pairs(seed), seed % 7, seed)


def test_a_result_in_place_has_the_price_of_its_pair():
    steps = (Step(name="relu", reads=("x",), writes=("y",), overwrites=("x",)),)
    prices = (ReusePrice("x", "y", 3),)
    problem = OrderProblem(
        name="relu", sizes={"x": 8, "y": 8}, steps=steps, outputs=("y",), reuse_prices=prices
    )
    paid, apart = plan_reuse(problem), plan_reuse(problem, price_limit=2)
    assert (paid.arena.peak, paid.price, paid.paid) == (8, 3, prices)
    assert (apart.arena.peak, apart.price, apart.paid) == (16, 0, ())


def test_ctrl_c_in_the_arena_without_reuse_ends_the_whole_work(monkeypatch):
    def interrupted(problem, *, budget):
        return replace(plan_arena(problem, budget=budget), reason=because(Ended.INTERRUPTED))

    monkeypatch.setattr(reuse, "plan_arena", interrupted)
    stop, problem = Stop(), chain_at_prices(0)
    plan_reuse(problem, budget=stop.part(steps=0))  # the search ends before its first arena
    assert stop.is_over()


def test_a_search_without_effort_answers_for_each_form():
    for form in FORMS.values():
        plan = plan_order(with_alternatives(form(3), 3), budget=Stop(steps=0))
        assert plan.status in (Status.FEASIBLE, Status.OPTIMAL)
        assert plan.lower_bound <= plan.peak == peak_of(plan.problem, plan.order)


def test_a_step_overwrites_the_tensor_that_costs_nothing():
    steps = (
        Step(name="A", reads=("i",), writes=("a",)),
        Step(name="B", reads=("i",), writes=("b",)),
        Step(name="C", reads=("a", "b"), writes=("c",), overwrites=("a", "b")),
    )
    problem = OrderProblem(
        name="sum",
        sizes={"i": 1, "a": 10, "b": 10, "c": 10},
        steps=steps,
        outputs=("c",),
        reuse_prices=(ReusePrice("a", "c", 5),),
    )
    for limit in (None, 0):
        plan = plan_reuse(problem, price_limit=limit)
        assert (plan.arena.peak, plan.price, plan.status) == (21, 0, Status.OPTIMAL)
        assert plan.arena.offsets["b"] == plan.arena.offsets["c"]


def sums_in_place():
    """Sums that may overwrite either of two tensors, as rows of result, bytes and tensors read."""
    rows = [
        ("t0", 5, "i"), ("t1", 8, "t0 i"), ("t2", 5, "t0 t1"), ("t3", 3, "i"), ("t4", 3, "t0 t3"),
        ("t5", 2, "t2 i"), ("t6", 5, "t2 t4"),
    ]  # fmt: skip
    steps = tuple(
        Step(
            name=f"to {result}",
            reads=tuple(reads.split()),
            writes=(result,),
            overwrites=tuple(reads.split()) if result in ("t2", "t4") else (),
        )
        for result, _, reads in rows
    )
    sizes = {"i": 1} | {result: size for result, size, _ in rows}
    return OrderProblem(name="sums", sizes=sizes, steps=steps, outputs=("t6",))


def arenas_of_single_tensors(buffers):
    """The arena for each choice of one tensor that each result overwrites, the first ones first."""
    pairs = {}
    for result, tensor in buffers.in_place:
        pairs.setdefault(result, []).append((result, tensor))
    return [plan_arena(replace(buffers, in_place=row)).peak for row in product(*pairs.values())]


def test_a_sum_overwrites_the_tensor_that_leaves_the_smallest_arena():
    graph = sums_in_place()
    buffers = tensor_lifetimes(graph, [step.name for step in graph.steps])
    plan = plan_arena(buffers)
    check_plan(plan)
    # t4 over t0, the first tensor that dies at it, leaves a gap of one byte.
    assert arenas_of_single_tensors(buffers) == [15, 14]
    assert (plan.peak, plan.status) == (14, Status.OPTIMAL)
    assert plan.offsets["t4"] == plan.offsets["t3"]


def test_no_choice_of_the_tensors_to_overwrite_has_a_smaller_arena():
    several = 0
    for seed in range(60):
        graph = random_problem(seed, MOST_STEPS)
        buffers = tensor_lifetimes(graph, graph.named(file_order(graph.numbered)))
        arenas = arenas_of_single_tensors(buffers)
        several += len(arenas) > 1
        assert plan_arena(buffers).peak == min(arenas), seed
    assert several > 3


def test_an_order_chosen_for_its_arena_has_its_own_peak():
    rows = [("i", "a", 0), ("i", "b", 0), ("a", "c", 0), ("c", "d", 0), ("a", "e", 3)]
    prices = (ReusePrice("i", "b", 1), ReusePrice("i", "d", 3), ReusePrice("a", "d", 1))
    problem = OrderProblem(
        name="arena first",
        sizes={"i": 4, "a": 8, "b": 4, "c": 2, "d": 8, "e": 3},
        steps=tuple(
            Step(name=f"to {result}", reads=(read,), writes=(result,), scratch=scratch)
            for read, result, scratch in rows
        ),
        outputs=("e",),
        reuse_prices=prices,
    )
    plan = plan_reuse(problem, price_limit=0)
    assert plan.status == Status.OPTIMAL
    assert plan.order.peak == peak_of(problem, plan.order.order) > plan.order.lower_bound
    assert plan.order.status == Status.FEASIBLE
    assert plan.order.reason.has(ReuseWhy.OTHER)


@pytest.mark.parametrize("plan", [plan_order, plan_reuse])
@pytest.mark.parametrize(
    "graph", [small_graph_without_pairs(1), with_repeats(random_problem(1), 1)]
)
def test_a_price_limit_below_nothing_is_refused(plan, graph):
    with pytest.raises(InvalidGraph, match="a price limit of -1; expected at least 0"):
        plan(graph, price_limit=-1)


def chain_at_prices(seed):
    """Eight steps in a row, the last with a result of 60 bytes, and prices of many pairs."""
    choose = random.Random(seed)
    names = ["i", *(f"a{k}" for k in range(7)), "big"]
    sizes = {name: choose.randrange(5, 15) for name in names} | {"i": 1, "big": 60}
    pairs = [pair for pair in combinations(names[1:-1], 2) if choose.random() < 0.7]
    return OrderProblem(
        name="chain",
        sizes=sizes,
        steps=tuple(Step(name=f"to {b}", reads=(a,), writes=(b,)) for a, b in pairwise(names)),
        outputs=("big",),
        reuse_prices=tuple(ReusePrice(*pair, choose.randrange(1, 9)) for pair in pairs),
    )


def test_a_price_that_is_not_proved_least_is_not_called_optimal():
    unproved = 0
    for seed in range(3):
        problem = chain_at_prices(seed)
        full = plan_reuse(problem)
        plan = plan_reuse(problem, budget=Stop(steps=2))
        assert full.status == Status.OPTIMAL
        assert plan.arena.peak == full.arena.peak == plan.lower_bound
        assert plan.status != Status.OPTIMAL or plan.price == full.price
        unproved += plan.reason.has(ReuseWhy.PRICE) and plan.price > full.price
    assert unproved


def test_alternatives_that_were_not_all_tried_have_no_least_price():
    problem = with_alternatives(random_problem(52, 4), 52)
    full, plan = plan_order(problem), plan_order(problem, budget=Stop(steps=1))
    assert (plan.peak, full.status) == (full.peak, Status.OPTIMAL)
    assert plan.price > full.price
    assert plan.status == Status.FEASIBLE
    assert plan.reason.has(OrderWhy.PRICE)


def test_ctrl_c_while_alternatives_are_split_claims_no_more_than_was_searched(monkeypatch):
    problem = recomputed_chain()
    full, enter = plan_order(problem), SelectionSearch._enter
    ended = 0
    for count in range(20):
        parts = iter(range(count))

        def interrupted(search, *arguments, parts=parts):
            if next(parts, None) is None:
                raise KeyboardInterrupt
            enter(search, *arguments)

        monkeypatch.setattr(SelectionSearch, "_enter", interrupted)
        try:
            plan = plan_order(problem)
        except GaveUp:
            continue
        ended += plan.status == Status.FEASIBLE
        assert plan.lower_bound <= full.peak <= plan.peak
        if plan.status == Status.OPTIMAL:
            assert (plan.peak, plan.price) == (full.peak, full.price)
    assert ended


def recomputed_chain():
    """Four steps in a row with three alternatives each."""
    choose = random.Random(3)
    names = [f"t{k}" for k in range(5)]
    steps = tuple(
        Step(
            name=f"to {result}",
            reads=(read,),
            writes=(result,),
            alternatives=tuple(
                StepAlternative(
                    reads=(read,),
                    sizes={result: choose.randrange(5, 60)},
                    scratch=choose.randrange(60),
                    price=choose.randrange(9),
                )
                for _ in range(3)
            ),
        )
        for read, result in pairwise(names)
    )
    return OrderProblem(
        name="chain", sizes=dict.fromkeys(names, 5), steps=steps, outputs=(names[-1],)
    )


@pytest.mark.parametrize(("form", "number"), [(with_alternatives, 2), (with_repeats, 1)])
def test_ctrl_c_in_the_order_of_a_part_ends_the_search(form, number, monkeypatch):
    calls = []

    def interrupted(arrays, costs, stop):
        stop.look()
        calls.append(costs)
        if len(calls) == number:
            raise KeyboardInterrupt
        return bound(arrays, costs, stop)

    bound = search.cut_bound
    monkeypatch.setattr(search, "cut_bound", interrupted)
    lengths = set()
    for seed in range(20):
        calls.clear()
        plan = plan_order(form(random_problem(seed, MOST_STEPS), seed))
        lengths.add(len(calls))
        assert plan.lower_bound <= plan.peak
    assert max(lengths) == number
