"""`csdf plan arena --order` as its users see it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from csdf.errors import GaveUp
from csdf.io.graph_files import write_graph
from csdf.model.graph import Actor, Channel, Graph
from csdf.status import Ended, because
from csdf.time_limit import Stop
from planners.arena.allocation import plan_arena
from planners.arena.command import main, tensor_graph
from planners.order import reuse, search

EXAMPLE = Path(__file__).parents[2] / "models" / "order" / "branches.json"
PAIR = {
    "name": "pair",
    "nodes": [
        {"name": "conv", "inputs": ["image"], "outputs": ["map"]},
        {"name": "relu", "inputs": ["map"], "outputs": ["result"], "in_place": ["map"]},
    ],
    "tensors": {"image": 3, "map": 8, "result": 8},
    "inputs": ["image"],
    "outputs": ["result"],
}


@pytest.fixture
def written(tmp_path):
    def write(**changes):
        path = tmp_path / "pair.json"
        path.write_text(json.dumps(PAIR | changes))
        return path

    return write


def test_branches_run_one_after_another_and_fit_into_their_peak(answer):
    _, document = answer("plan", "arena", EXAMPLE, "--order")
    order, (arena,) = document["order"], document["problems"]
    # Depth first, the third branch has the image, which the fourth reads, two shrunk maps, and both
    # wide maps of its own: 3000 + 2 * 1500 + 2 * 24000. The fourth has no image: 3 * 1500 + 2 * 24000.
    assert (order["peak"], order["status"], arena["peak"]) == (54000, "optimal", 54000)
    # Breadth first: four wide maps, and a fifth while the first is computed on.
    assert order["file_peak"] == 5 * 24000
    steps = order["order"]
    for branch in "abcd":
        assert steps.index(f"shrink_{branch}") - steps.index(f"widen_{branch}") == 2


def test_elements_are_computed_in_place_where_it_is_allowed(answer):
    _, document = answer("plan", "arena", EXAMPLE, "--order", "--in-place")
    # One wide map at a time. The third is shrunk while the image and two shrunk maps are live:
    # 3000 + 2 * 1500 + 24000, and 1500 for the result.
    assert document["order"]["peak"] == document["problems"][0]["peak"] == 31500


def test_a_node_overwrites_the_input_that_its_file_names(answer, written):
    _, document = answer("plan", "arena", written(), "--order")
    # conv: 3 + 8; relu in place: 8.
    assert (document["order"]["peak"], document["problems"][0]["peak"]) == (11, 11)
    offsets = document["problems"][0]["offsets"]
    assert offsets["map"] == offsets["result"]


RELU = {"name": "relu", "inputs": ["map"], "outputs": ["result"]}
ORDER = ("order", "problems")
CONV = {"name": "conv", "inputs": ["image"], "outputs": ["map"]}


def test_a_node_has_scratch_and_runs_at_its_position(answer, written):
    side = {"name": "side", "inputs": ["image"], "bytes": 1, "scratch": 20, "time": 2}
    path = written(nodes=[CONV, RELU, side])
    document = answer("plan", "arena", path, "--order")[1]
    # The image stays live until the last node; the result is an output: 3 + 8 + 1 + 20.
    assert (document["order"]["order"][2], document["order"]["peak"]) == ("side", 32)
    assert "side scratch" in document["problems"][0]["offsets"]


def test_an_alternative_of_fewer_bytes_is_chosen_within_the_price_limit(answer, run, written):
    relu = RELU | {"alternatives": [{}, {"bytes": 2, "scratch": 1, "price": 3}]}
    path = written(nodes=[CONV, relu])
    order = answer("plan", "arena", path, "--order")[1]["order"]
    assert (order["peak"], order["alternatives"], order["price"]) == (11, {"relu": 1}, 3)
    order = answer("plan", "arena", path, "--order", "--price-limit", 2)[1]["order"]
    assert (order["peak"], order["alternatives"], order["price"]) == (16, {"relu": 0}, 0)
    assert "relu 1" in run("plan", "arena", path, "--order")[1]


def test_an_alternative_without_scratch_has_that_of_the_node_and_another_replaces_it(
    answer, written
):
    # relu runs while map and result are live: 8 + 8 and the scratch.
    for scratch, peak in (({}, 21), ({"scratch": 2}, 18)):
        relu = RELU | {"scratch": 5, "alternatives": [scratch]}
        order = answer("plan", "arena", written(nodes=[CONV, relu]), "--order")[1]["order"]
        assert order["peak"] == peak


def test_a_node_of_two_outputs_is_not_computed_in_place(answer, written):
    split = {"name": "split", "op": "Relu", "inputs": ["map"], "outputs": ["result", "rest"]}
    tensors = PAIR["tensors"] | {"rest": 8}
    path = written(nodes=[CONV, split], tensors=tensors, outputs=["result", "rest"])
    assert answer("plan", "arena", path, "--order", "--in-place")[1]["order"]["peak"] == 24


def test_activations_are_computed_again_within_a_capacity(answer, run):
    words = ("plan", "arena", EXAMPLE, "--order", "--training")
    order, (arena,) = (answer(*words, "--capacity", "60kB")[1][key] for key in ORDER)
    assert (
        (order["price"], order["status"]) == (len(order["repeated"]), "optimal") == (10, "optimal")
    )
    assert order["peak"] <= arena["peak"] <= 60000
    # Each run is a step, after the first with a name of its own.
    assert len(set(order["order"])) == len(order["order"]) == 27 + 10
    order = answer(*words, "--price-limit", 0)[1]["order"]
    assert "repeated" not in order
    assert order["peak"] > 100_000
    code, shown, _ = run(*words, "--capacity", "50kB")
    assert "peak        57 kB (57000 bytes)\n" in shown
    assert (code, "infeasible" in shown) == (1, True)


def test_progress_names_the_graph_that_is_searched(run, monkeypatch):
    texts = []

    def noted(seconds, text):
        texts.append(text)
        return Stop(seconds)

    monkeypatch.setattr(tensor_graph, "stop_after", noted)
    run("plan", "arena", EXAMPLE, "--order", "--training", "--price-limit", 0)
    assert [text.partition(": ")[0].rpartition(", ")[2] for text in texts] == ["training"]


@pytest.mark.parametrize(
    "extra", [{}, {"reuse_prices": [{"tensors": ["map", "side"], "price": 1}]}]
)
def test_ctrl_c_in_the_search_of_the_order_ends_the_search_of_offsets_too(
    answer, written, monkeypatch, extra
):
    def interrupted(*_):
        raise KeyboardInterrupt

    stops = []

    def arena_within(problem, *, budget, capacity=None):
        stops.append(budget)
        return plan_arena(problem, budget=budget, capacity=capacity)

    monkeypatch.setattr(search, "cut_bound", interrupted)
    monkeypatch.setattr(main, "plan_arena", arena_within)
    monkeypatch.setattr(reuse, "plan_arena", arena_within)
    side = {"name": "side", "inputs": ["image"], "bytes": 1, "scratch": 20}
    document = answer("plan", "arena", written(nodes=[side, CONV, RELU], **extra), "--order")[1]
    assert document["order"]["order"] == ["side", "conv", "relu"]
    *with_prices, offsets = stops  # with prices, the arena without reuse is planned at first
    assert (len(with_prices), offsets.is_over()) == (len(extra), True)


def test_ctrl_c_in_the_search_of_the_order_ends_or_tools_too(run, monkeypatch):
    pytest.importorskip("ortools")

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(search, "cut_bound", interrupted)
    code, output, _ = run("plan", "arena", EXAMPLE, "--order", "--method", "cp-sat")
    assert (code, "branches: unknown: CP-SAT: interrupted" in output) == (3, True)


def test_ctrl_c_in_the_arena_without_reuse_ends_the_search_of_offsets_too(
    answer, written, monkeypatch
):
    def without_effort(*_):
        raise GaveUp(because(Ended.EFFORT, seconds=1))

    stops = []

    def arena_within(problem, *, budget, capacity=None):
        stops.append(budget)
        plan = plan_arena(problem, budget=budget, capacity=capacity)
        reason = because(Ended.INTERRUPTED) if len(stops) == 1 else plan.reason
        return replace(plan, reason=reason)

    monkeypatch.setattr(reuse._ReuseSearch, "run", without_effort)
    monkeypatch.setattr(main, "plan_arena", arena_within)
    monkeypatch.setattr(reuse, "plan_arena", arena_within)
    prices = [{"tensors": ["map", "side"], "price": 1}]
    nodes = [{"name": "side", "inputs": ["image"], "bytes": 1, "scratch": 20}, CONV, RELU]
    answer("plan", "arena", written(nodes=nodes, reuse_prices=prices), "--order")
    assert (len(stops), stops[-1].is_over()) == (2, True)


def test_a_node_of_a_repeat_price_runs_again_or_is_refused_with_alternatives(answer, run, written):
    nodes = [
        CONV | {"repeat_price": 4},
        {"name": "wide", "inputs": ["map"], "bytes": 20},
        {"name": "wider", "inputs": ["wide"], "bytes": 20},
        {"name": "small", "inputs": ["wider"], "bytes": 1},
        {"name": "last", "inputs": ["map", "small", "image"], "bytes": 1},
    ]
    path = written(nodes=nodes, tensors={"image": 3, "map": 8}, outputs=["last"])
    order = answer("plan", "arena", path, "--order")[1]["order"]
    assert (order["peak"], order["repeated"], order["price"]) == (3 + 20 + 20, ["conv"], 4)
    assert "repeated    conv\n  price       4" in run("plan", "arena", path, "--order")[1]
    order = answer("plan", "arena", path, "--order", "--capacity", 51)[1]["order"]
    assert (order["peak"], order.get("price", 0)) == (3 + 8 + 40, 0)
    nodes[1]["alternatives"] = [{}]
    path = written(nodes=nodes, tensors={"image": 3, "map": 8}, outputs=["last"])
    assert "steps that may run again, and alternatives" in run("plan", "arena", path, "--order")[2]


def test_tensors_share_bytes_where_their_price_is_within_the_limit(answer, run, written):
    last = {"name": "last", "inputs": ["result"], "bytes": 8}
    prices = [{"tensors": ["map", "last"], "price": 5}]
    path = written(nodes=[CONV, RELU, last], outputs=["last"], reuse_prices=prices)
    order, (arena,) = (answer("plan", "arena", path, "--order")[1][key] for key in ORDER)
    # relu: 8 + 8; then last lies over the map.
    assert (arena["peak"], order["reuse"]["price"]) == (16, 5)
    assert order["reuse"]["pairs"] == [["map", "last"]]
    words = ("plan", "arena", path, "--order", "--price-limit", 4)
    order, (arena,) = (answer(*words)[1][key] for key in ORDER)
    # The last result has bytes of its own: 8 + 8 + 8, of which the image takes the last.
    assert (arena["peak"], order["reuse"]["price"], order["reuse"]["status"]) == (24, 0, "optimal")
    assert "paid pairs  map and last" in run("plan", "arena", path, "--order")[1]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"nodes": []}, "no node writes tensor"),
        ({"reuse_prices": [{"tensors": ["map"], "price": 1}]}, "expected two tensors"),
        ({"reuse_prices": [{"tensors": ["map", "map"], "price": 1}]}, "of two tensors, each pair"),
        ({"nodes": [CONV, RELU | {"time": 0}]}, "no order has each step within its positions"),
        ({"nodes": [CONV, RELU | {"time": 2}]}, "expected a range within 0 to 1"),
        ({"nodes": [CONV, RELU | {"time": [0, 1, 2]}]}, "or the first and the last one"),
        ({"nodes": [CONV, RELU | {"scratch": -1}]}, "expected an integer >= 0"),
        ({"nodes": [CONV, RELU | {"alternatives": []}]}, "expected at least one alternative"),
        ({"nodes": [CONV, RELU | {"alternatives": [{"cost": 1}]}]}, "the key 'cost' is unknown"),
        (
            {"nodes": [CONV, RELU | {"alternatives": [{"bytes": {"map": 1}}]}]},
            "expected of the tensors that the step writes",
        ),
        ({"nodes": [{"name": "conv", "inputs": ["images"]}]}, "found 'images'; expected a tensor"),
        ({"nodes": [{"name": "conv", "input": ["image"]}]}, "the key 'input' is unknown"),
        ({"nodes": [{"name": "conv"}]}, "the bytes of tensor 'conv' are missing"),
        ({"tensors": {"image": -3, "map": 8, "result": 8}}, "expected an integer >= 0"),
        ({"inputs": ["image", "map"]}, "input 'map' is written by a node"),
        ({"outputs": ["class"]}, "found 'class'; expected a tensor"),
        ({"file_order": ["conv"]}, "'relu' is only in one of"),
        ({"tensors": {"image": 3, "map": 7, "result": 8}}, "expected at most as many"),
        (
            {"nodes": [{"name": "a", "inputs": ["map"], "outputs": ["map"]}], "inputs": []},
            "cycle",
        ),
    ],
)
def test_wrong_graphs_are_refused_in_one_line(run, written, changes, text):
    code, output, remarks = run("plan", "arena", written(**changes), "--order")
    assert (code, output) == (2, "")
    assert text in remarks
    assert remarks.count("\n") == 1


def test_firings_of_a_dataflow_graph_are_ordered(answer, run, tmp_path):
    actors = tuple(Actor(name=name, durations=(1,)) for name in "ab")
    channel = Channel(name="c", producer="a", consumer="b", production=(2,), consumption=(3,))
    path = tmp_path / "pair.json"
    write_graph(path, Graph(name="pair", actors=actors, channels=(channel,)))
    order = answer("plan", "arena", path, "--order")[1]["order"]
    # Flat: three firings of a put 6 tokens. Least: a a b leaves 1 token, a adds 2.
    assert (order["peak"], order["file_peak"]) == (4, 6)
    assert order["order"] == ["a 1", "a 2", "b 1", "a 3", "b 2"]
    assert "has actors" in run("plan", "arena", path, "--order", "--in-place")[2]
    deadlocked = Path(__file__).parents[2] / "models" / "graphs" / "deadlocked.xml"
    assert "cycle" in run("plan", "arena", deadlocked, "--order")[2]


@pytest.mark.parametrize("suffix", ["xml", "json"])
def test_a_dataflow_graph_on_standard_input_is_ordered(answer, monkeypatch, tmp_path, suffix):
    actors = tuple(Actor(name=name, durations=(1,)) for name in "ab")
    channel = Channel(name="c", producer="a", consumer="b", production=(2,), consumption=(1,))
    path = tmp_path / f"pair.{suffix}"
    write_graph(path, Graph(name="pair", actors=actors, channels=(channel,)))
    from_file = answer("plan", "arena", path, "--order")[1]["order"]
    with path.open() as file:
        monkeypatch.setattr("sys.stdin", file)
        assert answer("plan", "arena", "-", "--order")[1]["order"] == from_file


def test_a_network_and_buffers_are_no_graph_of_tensors(run, tmp_path):
    path = tmp_path / "small.csv"
    path.write_text("id,lower,upper,size\na,0,2,4\n")
    assert "not JSON" in run("plan", "arena", path, "--order")[2]
    assert "found the network resnet8" in run("plan", "arena", "resnet8", "--order")[2]
    assert "give --order" in run("plan", "arena", path, "--in-place")[2]
    assert "give --order" in run("plan", "arena", path, "--price-limit", 3)[2]
    assert "--training is for a graph" in run("plan", "arena", path, "--training")[2]
