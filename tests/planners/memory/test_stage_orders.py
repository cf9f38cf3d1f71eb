"""Other orders of the stages inside groups: smaller plans, and one answer for all orders of a file."""

import json
import runpy
from dataclasses import replace
from random import Random

import pytest

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.execution.layer_by_layer import run_layer_by_layer
from cnn2csdf.readers.model_files import read_model
from cnn2csdf.simplify import simplified
from cnn2csdf.weights import Model, random_weights
from csdf.status import Ended
from csdf.time_limit import Stop
from planners.memory.answer import FitWhy
from planners.memory.fit import fit
from planners.memory.layer_orders import FILE_ORDER, canonical_orders, in_order
from planners.memory.plan_runs import run_plan
from planners.memory.search import PlanSearch
from planners.memory.stage_orders import ANY_BYTES, PLAN_EFFORT, StageOrders, shifted
from planners.memory.stages import StageTable
from planners.order.heuristics import random_order
from planners.plan.carried_out import require_carried_out
from tests.planners.memory.streamed import random_frame
from tests.planners.memory.test_streamed_runs import require_equal
from tests.shared_data import SHARED

ORDER = SHARED / "order"


def inception_block():
    """A block like Inception-C: branches that split again, and concatenations of concatenations."""
    builder = NetworkBuilder("inception")
    image = builder.input((24, 8, 8), name="image")

    def convolution(name, source, filters, kernel=(1, 1)):
        top, left = kernel[0] // 2, kernel[1] // 2
        window = op.Window(kernel=kernel, stride=(1, 1), padding=(top, left, top, left))
        return builder.add(op.Convolution(filters=filters, window=window), source, name=name)

    def split(name, source):
        pair = (convolution(f"{name}{k}", source, 4, kernel) for k, kernel in enumerate(KERNELS))
        return builder.add(op.Concatenation(axis=0), *pair, name=f"{name} joined")

    plain = convolution("plain", image, 4)
    short = split("short", convolution("narrow", image, 6))
    tall = convolution("tall", convolution("narrow again", image, 6), 7, KERNELS[1])
    long = split("long", convolution("wide", tall, 8, KERNELS[0]))
    window = op.Window(kernel=(3, 3), stride=(1, 1), padding=(1,) * 4)
    pooled = builder.add(op.Pooling(function="max", window=window), image, name="pooled")
    branches = plain, short, long, convolution("last", pooled, 4)
    builder.output(builder.add(op.Concatenation(axis=0), *branches, name="joined"))
    return builder.network()


KERNELS = (1, 3), (3, 1)


def in_random_order(network, seed):
    """The network with its layers in a random topological order."""
    steps = [layer for layer in network.layers if layer not in (*network.inputs, *network.outputs)]
    number = {layer.name: place for place, layer in enumerate(steps)}
    before = [{number[name] for name in layer.inputs if name in number} for layer in steps]
    order = random_order(before, Random(seed))
    return in_order(network, [steps[place].name for place in order])


def planned(network, **options):
    return fit(network, element_bytes=1, budget=Stop(effort=9), **options)


def fewest_macs(answer):
    return min(method.ram_bytes for method in answer.methods if method.mac_ratio == 1)


@pytest.mark.slow
def test_one_answer_for_every_order_of_the_file_below_the_plan_of_each_order():
    networks = [in_random_order(inception_block(), seed) for seed in range(2)]
    answers = [planned(network) for network in networks]
    figures = [
        [(way.name, way.ram_bytes, way.mac_ratio, way.nanoseconds) for way in answer.methods]
        for answer in answers
    ]
    assert all(figure == figures[0] for figure in figures)
    for network in networks:
        assert fewest_macs(answers[0]) <= fewest_macs(planned(network, order=FILE_ORDER))


@pytest.mark.slow
@pytest.mark.skipif(not ORDER.exists(), reason="needs ../shared/order beside the checkout")
@pytest.mark.parametrize(
    ("name", "fewest_bytes", "most_macs"),
    [
        # Depth first, and in the order of the lowest peak, 376,320 bytes without recomputation.
        ("nasnet_a_normal_28_relu", 302_592, 1),
        # Depth first 367,634 bytes, where stages of branches begin with the layers that they share.
        ("hrnet_w18_stages34_nb1", 357_518, 2),
        # 135,168 bytes where no plan of more multiply-accumulates is improved.
        ("inception_v4_c_8", 130_944, 2),
    ],
)
def test_a_network_takes_one_answer_from_all_files_by_a_random_order(
    name, fewest_bytes, most_macs, tmp_path
):
    instance = json.loads((ORDER / "instances" / f"{name}.json").read_text())
    build = runpy.run_path(str(ORDER / "to_onnx.py"))["build"]
    figures = []
    for order in (instance["file_order"], nodes_in_random_order(instance, 1)):
        path = tmp_path / f"{len(figures)}.onnx"
        build(instance, order, path)
        answer = planned(simplified(read_model(path)).network)
        figures.append([(way.name, way.ram_bytes, way.mac_ratio) for way in answer.methods])
    assert figures[0] == figures[1]
    methods = [method for method in answer.methods if method.mac_ratio <= most_macs]
    assert min(method.ram_bytes for method in methods) <= fewest_bytes


def nodes_in_random_order(instance, seed):
    """The names of nodes of a shared graph in a random topological order."""
    names = [node["name"] for node in instance["nodes"]]
    before = [[names.index(name) for name in node["inputs"]] for node in instance["nodes"]]
    return [names[number] for number in random_order(before, Random(seed))]


def test_a_plan_with_other_orders_of_stages_computes_the_same_in_its_bytes():
    network = inception_block()
    model = Model(network=network, weights=random_weights(network, 1))
    frame = random_frame(network, 2)
    answer = fit(network, budget=Stop(effort=1))
    for method in answer.methods:
        require_carried_out(network, method.plan)
        run = run_plan(model, method.plan, frame)
        require_equal(run.outputs, run_layer_by_layer(model, frame))
        assert run.high_water_bytes <= method.ram_bytes


def test_without_a_budget_the_search_of_stage_orders_ends_after_counted_work(monkeypatch):
    stages = []
    planned_in_full = StageOrders._planned

    def counted(orders, chain, than):
        stages.append(sum(len(move.stages) for moves in chain for move in moves))
        return planned_in_full(orders, chain, than)

    monkeypatch.setattr(StageOrders, "_planned", counted)
    monkeypatch.setattr("planners.memory.network_searches.STAGES_EFFORT", 0.02)
    fit(inception_block(), element_bytes=1)
    most = 20_000 // PLAN_EFFORT + max(stages)
    # The first orders and the others are two searches.
    assert most // 2 < sum(stages) <= 2 * most


@pytest.mark.parametrize("seed", range(20))
def test_changed_orders_are_topological_orders_of_all_stages(seed):
    random = Random(seed)
    count = random.randrange(1, 9)
    before = [
        {source for source in range(number) if random.random() < 0.4} for number in range(count)
    ]
    for order in (random_order(before, random), shifted(before, random)):
        place = {number: index for index, number in enumerate(order)}
        assert sorted(place) == list(range(count))
        for number, sources in enumerate(before):
            assert all(place[source] < place[number] for source in sources)


@pytest.mark.parametrize(("work", "calls"), [("run", 3), ("improve", 1)])
def test_a_clock_that_ends_later_orders_or_stage_orders_is_the_reason(work, calls, monkeypatch):
    """The searches in the first two orders are complete."""
    begun = []
    searched = getattr(PlanSearch, work)

    def at_the_end_of_time(search, *arguments):
        begun.append(search)
        if len(begun) == calls:
            monkeypatch.setattr("csdf.time_limit.time.monotonic", lambda: 1e12)
        searched(search, *arguments)

    monkeypatch.setattr(PlanSearch, work, at_the_end_of_time)
    # In the canonical order of its layers, the network needs no search in the order of the file.
    network = canonical_orders(inception_block(), StageTable(inception_block()), stop=Stop())[0][0]
    answer = fit(network, element_bytes=1, budget=Stop(1000))
    assert len(begun) >= calls
    assert answer.reason.kind is FitWhy.LEAST_BY_THEN
    assert answer.reason.has(Ended.TIME_LIMIT)


def test_no_restart_adds_multiply_accumulates(monkeypatch):
    planned_in_full = StageOrders._planned

    def smaller_with_more_work(orders, chain, _):
        plan = planned_in_full(orders, chain, ANY_BYTES)
        return replace(plan, arena_bytes=1, multiply_accumulates=2 * plan.multiply_accumulates)

    monkeypatch.setattr(StageOrders, "_planned", smaller_with_more_work)
    assert fit(inception_block(), element_bytes=1).least.ram_bytes > 1
