"""Training graphs, whose peaks are counted by hand or by all orders and alternatives."""

from dataclasses import replace

import pytest

from csdf.errors import InvalidGraph
from csdf.status import Status
from csdf.time_limit import Stop
from planners.order.problem import OrderProblem, Step, peak_of
from planners.order.reuse import plan_reuse
from planners.order.search import plan_order
from planners.order.training import training_graph
from tests.planners.order.graphs import least_price_of_repeats, random_problem


def chain(count, sizes=None):
    """Steps in a row, each from one map to the next."""
    names = [f"x{k}" for k in range(count + 1)]
    steps = tuple(
        Step(name=f"f{k}", reads=(names[k],), writes=(names[k + 1],)) for k in range(count)
    )
    sizes = dict(zip(names, sizes or [10] * (count + 1), strict=True))
    return OrderProblem(name="chain", sizes=sizes, steps=steps, outputs=(names[-1],))


def test_a_chain_retains_all_maps_unless_steps_are_repeated():
    # Retained: x0 to x4, and the gradient of x4 lies over it.
    assert plan_order(training_graph(chain(4)), price_limit=0).peak == 50
    # x0, x2, x3 and x4, and later x1 in the place of another map: one step repeated saves one map.
    plan = plan_order(training_graph(chain(4)), peak_limit=40)
    assert (plan.peak, plan.repeated, plan.price, plan.status) == (40, ("f0",), 1, Status.OPTIMAL)
    assert peak_of(plan.problem, plan.order) == 40
    plan = plan_order(training_graph(chain(8)), price_limit=3)
    assert (plan.peak, plan.price) == (60, 3)


@pytest.mark.parametrize(("maps", "price"), [(9, 0), (8, 1), (7, 2), (6, 3), (5, 4), (4, 7)])
def test_a_budget_of_a_chain_has_the_least_repeated_steps(maps, price):
    training = training_graph(chain(8))
    plan = plan_order(training, peak_limit=10 * maps)
    assert (plan.price, plan.status) == (price, Status.OPTIMAL)
    assert plan.peak <= 10 * maps


@pytest.mark.parametrize("maps", [6, 5, 4, 3])
def test_a_budget_of_a_short_chain_has_the_least_price_of_all_schedules(maps):
    training = training_graph(chain(5))
    plan = plan_order(training, peak_limit=10 * maps)
    price = least_price_of_repeats(training, 10 * maps)
    assert price == (plan.price if plan.peak <= 10 * maps else None)


def test_small_chains_get_the_least_peak_of_all_schedules():
    for sizes in ((3, 9, 2, 7), (5, 1, 8, 8), (10, 4, 6, 1)):
        training = training_graph(chain(3, sizes))
        for limit in (0, 1, None):
            plan = plan_order(training, price_limit=limit)
            assert plan.status == Status.OPTIMAL
            assert least_price_of_repeats(training, plan.peak) == plan.price
            price = least_price_of_repeats(training, plan.peak - 1)
            assert price is None or (limit is not None and price > limit)


@pytest.mark.parametrize("limit", [3, None])
def test_an_arena_of_repeated_steps_is_optimal_only_where_it_is_proved(limit):
    training = training_graph(chain(6))
    order, unproved = plan_order(training, price_limit=limit), 0
    assert (order.peak, order.price, order.status) == (40, 3, Status.OPTIMAL)
    for hundredths in (1, 2):
        plan = plan_reuse(training, price_limit=limit, budget=Stop(effort=hundredths / 100))
        is_least = (plan.arena.peak, plan.price) == (40, 3)
        assert is_least or plan.status == Status.FEASIBLE, hundredths
        unproved += not is_least
    assert unproved


def test_a_price_of_a_forward_step_counts_each_further_run():
    prices = {"f0": 7, "f1": 2, "f2": 3}
    plan = plan_order(training_graph(chain(4), prices=prices), peak_limit=40)
    assert (plan.repeated, plan.price) == (("f1",), 2)


def test_gradients_of_a_map_with_two_readers_are_summed():
    steps = (
        Step(name="a", reads=("x",), writes=("m",)),
        Step(name="b", reads=("m",), writes=("p",)),
        Step(name="c", reads=("m",), writes=("q",)),
        Step(name="d", reads=("p", "q"), writes=("r",)),
    )
    sizes = dict.fromkeys("xmpqr", 4)
    graph = OrderProblem(name="diamond", sizes=sizes, steps=steps, outputs=("r",))
    training = training_graph(graph, saved={"d": ()})
    assert [step.repeat_price for step in training.steps[:4]] == [1] * 4
    backward = training.steps[4:]
    assert all(step.repeat_price is None for step in backward)
    assert [step.name for step in backward] == [
        "loss of r",
        "d backward",
        "c backward",
        "b backward",
        "sum of gradient of m by b and before",
        "a backward",
    ]
    plan = plan_order(training)
    assert least_price_of_repeats(training, plan.peak) == plan.price
    assert least_price_of_repeats(training, plan.peak - 1) is None


def test_names_of_a_forward_graph_may_be_those_of_backward_steps():
    steps = (
        Step(name="a", reads=("x",), writes=("y",)),
        Step(name="a backward", reads=("y",), writes=("gradient of y by a backward",)),
        Step(name="loss", reads=("y",), writes=("z",)),
    )
    sizes = {"x": 1, "y": 2, "gradient of y by a backward": 4, "z": 3}
    outputs = ("gradient of y by a backward", "y", "z")
    training = training_graph(OrderProblem(name="t", sizes=sizes, steps=steps, outputs=outputs))
    usual = [replace(step, name=name) for step, name in zip(steps, "abc", strict=True)]
    usual[1] = replace(usual[1], writes=("w",))
    sizes, outputs = {"x": 1, "y": 2, "w": 4, "z": 3}, ("w", "y", "z")
    renamed = training_graph(OrderProblem(name="t", sizes=sizes, steps=usual, outputs=outputs))
    assert {"a backward", "a backward backward", "a backward 2"} < {s.name for s in training.steps}
    assert list(training.sizes.values()) == list(renamed.sizes.values())
    assert plan_order(training).peak == plan_order(renamed).peak


def test_a_step_that_writes_several_tensors_is_refused():
    problem = random_problem(1)
    several = Step(name="several", reads=(), writes=("left", "right"))
    sizes = problem.sizes | {"left": 1, "right": 1}
    graph = OrderProblem(name="wrong", sizes=sizes, steps=(several,), outputs=())
    with pytest.raises(InvalidGraph, match="expected one tensor and no alternative"):
        training_graph(graph)


def test_repeated_steps_need_the_scratch_of_each_of_them():
    forward = chain(3)
    steps = [
        replace(step, scratch=scratch)
        for step, scratch in zip(forward.steps, (5, 100, 0), strict=True)
    ]
    training = training_graph(replace(forward, steps=tuple(steps)))
    plan = plan_order(training)
    # f1 takes x0, x1, x2 and its scratch in its only run: a further one would have x3 or a gradient.
    assert (plan.peak, plan.price, plan.status) == (130, 0, Status.OPTIMAL)


def test_an_output_named_twice_has_one_loss():
    forward = chain(2)
    twice = training_graph(replace(forward, outputs=forward.outputs * 2))
    assert twice.steps == training_graph(forward).steps


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"saved": {"convolve": ("x0",)}}, "saved names step 'convolve', which the graph does not"),
        ({"saved": {"f1": ("y",)}}, "saved names tensor 'y', which the graph does not have"),
        ({"prices": {"f11": 3}}, "prices names step 'f11', .*did you mean 'f1'"),
    ],
)
def test_names_that_the_forward_graph_does_not_have_are_refused(options, text):
    with pytest.raises(InvalidGraph, match=text):
        training_graph(chain(2), **options)
