"""Orders of least peak: against all orders of small graphs, and against proved peaks of networks."""

import json

import pytest

from csdf.errors import InvalidGraph
from csdf.kernels import compile as compiler
from csdf.status import Ended, Status
from csdf.time_limit import Stop
from planners.formats.tensor_graphs import parse_tensor_graph
from planners.order.problem import OrderProblem, Step, peak_of
from planners.order.search import plan_order
from tests.planners.order.graphs import least_peak, random_problem
from tests.shared_data import SHARED

ORDER = SHARED / "order"
SEEDS = range(300)
LARGE = ("random_layered_500", "random_sp_1000")
# Seconds of a processor each; proved likewise.
LONG = ("randwire_ws64_4_s5", "birnn_unrolled8")


def test_small_graphs_get_the_least_peak_of_all_their_orders():
    for seed in SEEDS:
        problem = random_problem(seed)
        plan = plan_order(problem)
        assert plan.peak == plan.lower_bound == least_peak(problem), seed
        assert peak_of(problem, plan.order) == plan.peak, seed


@pytest.mark.slow
def test_two_thousand_small_graphs_get_the_least_peak_of_all_their_orders():
    for seed in range(1000, 3000):
        problem = random_problem(seed)
        assert plan_order(problem).peak == least_peak(problem), seed


@pytest.mark.slow
def test_graphs_of_thirteen_steps_get_the_least_peak_of_all_their_orders():
    for seed in range(150):
        problem = random_problem(seed, most_steps=13)
        assert plan_order(problem).peak == least_peak(problem), seed


def test_kernels_as_they_are_written_give_the_same_orders(monkeypatch):
    compiled = [plan_order(random_problem(seed)).order for seed in range(60)]
    monkeypatch.setattr(compiler, "has_compiled", lambda: False)
    assert [plan_order(random_problem(seed)).order for seed in range(60)] == compiled


def shared_problem(name, variant):
    text = (ORDER / "instances" / f"{name}.json").read_text()
    return parse_tensor_graph(text, name, elementwise_in_place=variant == "in_place")


@pytest.mark.slow
@pytest.mark.skipif(not ORDER.exists(), reason="needs ../shared/order beside the checkout")
@pytest.mark.parametrize("variant", ["plain", "in_place"])
def test_networks_get_their_proved_peaks(variant):
    for name, known in json.loads((ORDER / "truth.json").read_text()).items():
        is_other = any(
            known["plain"][key] != known[variant][key] for key in ("best_peak", "file_peak")
        )
        if name not in (*LARGE, *LONG) and (variant == "plain" or is_other):
            plan = plan_order(shared_problem(name, variant), budget=Stop(effort=10))
            assert plan.file_peak == known[variant]["file_peak"], name
            assert (plan.peak, plan.status) == (known[variant]["best_peak"], Status.OPTIMAL), name


@pytest.mark.slow
@pytest.mark.skipif(not ORDER.exists(), reason="needs ../shared/order beside the checkout")
@pytest.mark.parametrize("name", LARGE)
def test_large_graphs_get_the_best_known_peak_and_a_bound(name):
    known = json.loads((ORDER / "truth.json").read_text())[name]["plain"]
    plan = plan_order(shared_problem(name, "plain"), budget=Stop(effort=3))
    assert known["lower_bound"] <= plan.lower_bound <= plan.peak <= known["best_peak"]


def branches(count, wide, narrow):
    """Branches that widen from one input and narrow before they are joined, breadth first."""
    sizes, steps = {"image": narrow}, []
    for k in range(count):
        sizes[f"wide{k}"] = wide
        steps.append(Step(name=f"widen{k}", reads=("image",), writes=(f"wide{k}",)))
    for k in range(count):
        sizes[f"narrow{k}"] = narrow
        steps.append(Step(name=f"shrink{k}", reads=(f"wide{k}",), writes=(f"narrow{k}",)))
    sizes["joined"] = count * narrow
    joined = tuple(f"narrow{k}" for k in range(count))
    steps.append(Step(name="join", reads=joined, writes=("joined",)))
    return OrderProblem(name="branches", sizes=sizes, steps=tuple(steps), outputs=("joined",))


def test_widening_branches_run_sequentially():
    plan = plan_order(branches(4, wide=100, narrow=10))
    # All widened first: the image, freed after the fourth, and 4 * 100, then 10 for the first result.
    assert plan.file_peak == 410
    # Depth first: three narrow results and the wide map of the fourth branch, with the image, which
    # is freed by then where its result is written: 10 + 30 + 100 when it is widened.
    assert (plan.peak, plan.status) == (140, Status.OPTIMAL)


def test_a_step_in_place_takes_no_further_bytes():
    sizes = {"x": 8, "y": 8}
    step = Step(name="relu", reads=("x",), writes=("y",))
    apart = OrderProblem(name="relu", sizes=sizes, steps=(step,), outputs=("y",))
    over = Step(name="relu", reads=("x",), writes=("y",), overwrites=("x",))
    together = OrderProblem(name="relu", sizes=sizes, steps=(over,), outputs=("y",))
    assert (plan_order(apart).peak, plan_order(together).peak) == (16, 8)


def test_a_search_that_has_no_effort_left_answers_with_an_order_and_a_bound():
    plan = plan_order(random_problem(7, most_steps=40), budget=Stop(steps=0))
    assert plan.status == Status.FEASIBLE
    assert plan.reason.has(Ended.STEPS)
    assert plan.lower_bound <= plan.peak == peak_of(plan.problem, plan.order)


def test_a_graph_without_steps_takes_the_bytes_of_its_inputs():
    problem = OrderProblem(name="nothing", sizes={"x": 5}, steps=(), outputs=("x",))
    plan = plan_order(problem)
    assert (plan.order, plan.peak, plan.status) == ((), 5, Status.OPTIMAL)


def test_the_same_effort_gives_the_same_order():
    problem = random_problem(3, most_steps=60)
    first, second = (plan_order(problem, budget=Stop(effort=0.01)) for _ in range(2))
    assert first.order == second.order


@pytest.mark.parametrize(
    ("steps", "text"),
    [
        ([("a", ["y"], ["x"]), ("b", ["x"], ["y"])], "cycle"),
        ([("a", ["x"], ["y"]), ("b", ["x"], ["y"])], "written by"),
        ([("a", ["z"], ["y"])], "not a tensor"),
        ([("a", ["x"], ["y"]), ("a", ["x"], [])], "have the name"),
    ],
)
def test_graphs_that_cannot_run_are_refused(steps, text):
    steps = tuple(
        Step(name=name, reads=tuple(reads), writes=tuple(writes)) for name, reads, writes in steps
    )
    with pytest.raises(InvalidGraph, match=text):
        OrderProblem(name="wrong", sizes={"x": 1, "y": 1}, steps=steps, outputs=())
