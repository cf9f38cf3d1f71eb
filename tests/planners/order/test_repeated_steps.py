"""Orders in which steps run again, against Dijkstra's algorithm over all live sets of tensors."""

from dataclasses import replace

import pytest

from csdf.errors import InvalidGraph
from csdf.status import Status
from csdf.time_limit import Stop
from planners.order.problem import StepAlternative, peak_of
from planners.order.search import plan_order
from planners.order.training import training_graph
from tests.planners.order.graphs import (
    least_price_of_repeats,
    random_problem,
    with_positions,
    with_repeats,
    with_scratch,
)
from tests.planners.order.test_training_graphs import chain


def require_least(problem, plan, *, price_limit, peak_limit, seed):
    """No schedule has fewer bytes above the peak limit, or as few at a lower price."""
    bytes_ = max(plan.peak, peak_limit)
    assert plan.status == Status.OPTIMAL, seed
    assert peak_of(plan.problem, plan.order) == plan.peak, seed
    assert least_price_of_repeats(problem, bytes_) == plan.price, seed
    if bytes_ > peak_limit:
        price = least_price_of_repeats(problem, bytes_ - 1)
        assert price is None or (price_limit is not None and price > price_limit), seed


def require_least_of_seeds(seeds):
    """Return how many of the graphs repeat a step."""
    repeated = 0
    for seed in seeds:
        problem = with_repeats(with_scratch(random_problem(seed, 5), seed), seed)
        plan = plan_order(problem)
        require_least(problem, plan, price_limit=None, peak_limit=0, seed=seed)
        if plan.repeated:
            repeated += 1
            for price_limit, peak_limit in ((0, 0), (1, 0), (None, plan.peak + seed % 3)):
                plan = plan_order(problem, price_limit=price_limit, peak_limit=peak_limit)
                limits = {"price_limit": price_limit, "peak_limit": peak_limit}
                require_least(problem, plan, **limits, seed=seed)
    return repeated


def test_small_graphs_get_the_least_peak_and_price_of_all_schedules():
    assert require_least_of_seeds(range(120)) > 2


@pytest.mark.slow
def test_more_graphs_get_the_least_peak_and_price_of_all_schedules():
    assert require_least_of_seeds(range(200, 1200)) > 20


def test_a_result_that_a_later_run_writes_again_is_overwritten():
    # s1 overwrites the output t0 that s0 computes again at no price: 71 bytes instead of 72.
    problem = with_repeats(with_scratch(random_problem(813, 5), 813), 813)
    plan = plan_order(problem)
    assert (plan.peak, plan.repeated, plan.price) == (70, ("s0",), 0)


def test_a_search_without_effort_has_the_order_without_repetition():
    training = training_graph(chain(6))
    full, plan = plan_order(training), plan_order(training, budget=Stop(steps=0))
    assert plan.lower_bound <= full.peak < plan.peak == peak_of(plan.problem, plan.order)
    assert plan.status == Status.FEASIBLE


def test_the_same_effort_gives_the_same_schedule():
    plans = [
        plan_order(training_graph(chain(12)), peak_limit=50, budget=Stop(effort=0.2))
        for _ in range(2)
    ]
    assert plans[0].order == plans[1].order
    assert plans[0].price >= 8
    assert plans[0].peak <= 50


def test_runs_of_steps_with_alternatives_or_positions_are_refused():
    problem = random_problem(7, 5)
    first = problem.steps[0]
    option = StepAlternative(reads=first.reads, sizes={t: problem.sizes[t] for t in first.writes})
    steps = (replace(first, alternatives=(option,), repeat_price=1), *problem.steps[1:])
    with pytest.raises(InvalidGraph, match="steps that may run again, and alternatives"):
        replace(problem, steps=steps)
    with pytest.raises(InvalidGraph, match="steps that may run again, and alternatives"):
        with_repeats(with_positions(problem, 3), 3)
