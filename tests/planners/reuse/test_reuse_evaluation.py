"""Algorithm 10 on small applications: schedules, storage, periods, memory."""

import pickle
import random
from dataclasses import replace
from fractions import Fraction

import pytest

from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.catalogue.embedded import mobilenet_v1, mobilenet_v2, resnet8
from cnn2csdf.durations import platform_durations
from cnn2csdf.granularity import Granularity
from cnn2csdf.lowering import channel_names, lower
from cnn2csdf.operators import Activation, Elementwise
from csdf.analysis.bound_channels import with_capacities
from csdf.errors import InvalidNetwork, InvalidPlan
from csdf.search.trade_off import smallest_storage
from figures.published.offset_points import elementwise_in_place
from planners.arena.allocation import plan_arena
from planners.reuse import partition
from planners.reuse.application import (
    Application,
    ApplicationNetwork,
    Partition,
    single_partition,
)
from planners.reuse.bounds import memory_bound
from planners.reuse.evaluation import Costs, Evaluator
from planners.reuse.placement import offset_problem
from planners.reuse.problem import search_problem
from tests.planners.reuse.front.small_applications import divided
from tests.planners.reuse.reuse_checkers import clashes, replay
from tests.reference.self_timed_reuse import self_timed_periods

RESIDUAL = resnet8()
ALLELES = (None, 1, 2, 5)


def alone(network):
    return Application(name=network.name, members=(single_partition(network),))


def pipelined(network, *sizes):
    member = divided(network, (*sizes, len(network.layers) - sum(sizes)))
    names = frozenset(partition.name for partition in member.partitions)
    return Application(name="pipelined", members=(member,), parallel=(names,))


def two_networks():
    first = divided(RESIDUAL, (6, len(RESIDUAL.layers) - 6))
    second = single_partition(mobilenet_v1(width=Fraction(1, 4), resolution=32))
    names = frozenset(partition.name for partition in first.partitions)
    return Application(name="two", members=(first, second), parallel=(names,))


def chromosomes(application, count, alleles=ALLELES):
    drawn = random.Random(7)
    layers = len(application.layers)
    yield (None,) * layers
    yield (1,) * layers
    for _ in range(count):
        yield tuple(drawn.choice(alleles) for _ in range(layers))


def graph_of(application, genes, plan):
    """The only network of an application in the buffers of its plan."""
    (member,) = application.members
    rows = {layer: gene for (_, layer), gene in zip(application.layers, genes, strict=True)}
    graph = lower(member.network, Granularity(rows=None, layers=rows))
    names = channel_names(member.network)
    capacities = {
        names[edge.connection]: capacity
        for edge, capacity in zip(plan.edges, plan.capacities, strict=True)
    }
    return with_capacities(graph, capacities)


@pytest.mark.parametrize(
    "application", [two_networks(), pipelined(RESIDUAL, 4, 5)], ids=["two", "pipelined"]
)
def test_edges_that_are_in_use_together_have_buffers_of_their_own(application):
    evaluator = Evaluator(application)
    groups = evaluator.groups
    parallel = [
        {one, other}
        for one in range(len(groups))
        for other in range(one)
        if groups[one] is not None and groups[one] == groups[other]
    ]
    for genes in chromosomes(application, 10):
        plan = evaluator.plan(genes)
        assert clashes(plan, parallel) == []
        assert plan.live_load <= plan.elements <= sum(plan.capacities)


def test_the_schedule_runs_in_the_buffers_of_its_plan():
    application = alone(RESIDUAL)
    evaluator = Evaluator(application)
    names = application.members[0].layers
    for genes in chromosomes(application, 10):
        plan = evaluator.plan(genes)
        order = [names[layer] for layer in plan.orders[0]]
        assert replay(graph_of(application, genes, plan), order) is None


def test_whole_layers_fire_in_the_order_of_the_partition():
    build = NetworkBuilder("branches")
    build.input((2, 8, 8), name="a")
    for name in ("b", "c"):
        build.add(Activation(function="relu"), "a", name=name)
    build.add(Elementwise(function="add"), "b", "c", name="d")
    build.output("d", name="e")
    swapped = Partition(name="P", layers=("a", "c", "b", "d", "e"))
    member = ApplicationNetwork(network=build.network(), partitions=(swapped,))
    plan = Evaluator(Application(name="swapped", members=(member,))).plan((None,) * 5)
    assert plan.orders == ((0, 1, 2, 3, 4),)
    assert [edge.connection.consumer for edge in plan.edges][:2] == ["c", "b"]


def test_lifetimes_agree_with_the_schedule():
    application = alone(RESIDUAL)
    evaluator = Evaluator(application)
    for genes in chromosomes(application, 10):
        plan = evaluator.plan(genes)
        (order,) = plan.orders
        for edge, spans in zip(plan.edges, plan.spans, strict=True):
            (stay,) = edge.stays
            steps = len(order) - 1 - order[::-1].index(stay.last)
            assert spans == ((order.index(stay.first), steps),)


def test_buffers_are_the_smallest_that_the_engine_finds():
    application = alone(RESIDUAL)
    evaluator = Evaluator(application)
    for genes in chromosomes(application, 4):
        plan = evaluator.plan(genes)
        rows = {layer: gene for (_, layer), gene in zip(application.layers, genes, strict=True)}
        found = smallest_storage(lower(RESIDUAL, Granularity(rows=None, layers=rows)))
        assert found.status == "optimal"
        assert sum(plan.capacities) == found.point.size


@pytest.mark.slow
def test_an_evaluation_is_the_same_with_and_without_what_is_remembered():
    application = two_networks()
    warm = Evaluator(application)
    for genes in chromosomes(application, 12):
        assert warm.evaluate(genes) == Evaluator(application).evaluate(genes)


def test_an_evaluation_is_the_same_however_little_is_remembered(monkeypatch):
    application = two_networks()
    warm = Evaluator(application)
    monkeypatch.setattr(partition, "MOST_SPANS", 1)
    forgetful = Evaluator(application)
    for genes in [*chromosomes(application, 4), *chromosomes(application, 4)]:
        assert forgetful.plan(genes) == warm.plan(genes)


def test_an_evaluator_can_be_sent_to_another_process():
    evaluator = Evaluator(two_networks())
    genes = (1,) * len(evaluator.application.layers)
    assert pickle.loads(pickle.dumps(evaluator)).evaluate(genes) == evaluator.evaluate(genes)


def test_finer_parts_never_lengthen_the_buffer_of_a_single_edge():
    # Of an edge that is a block of its own, with parts that divide the coarser parts.
    network = mobilenet_v1(width=Fraction(1, 4), resolution=64)
    application = alone(network)
    evaluator = Evaluator(application)
    layers = len(application.layers)
    coarse, fine, finest = (evaluator.plan((rows,) * layers) for rows in (4, 2, 1))
    for one, other in ((coarse, fine), (fine, finest)):
        pairs = zip(one.capacities, other.capacities, strict=True)
        assert all(large >= small for large, small in pairs)


def test_a_partition_takes_the_time_of_all_its_phases():
    application, costs = pipelined(RESIDUAL, 4), Costs()
    evaluator = Evaluator(application, costs)
    genes = (1,) * len(application.layers)
    times = platform_durations(RESIDUAL, Granularity(rows=1), costs.platform)
    longest = max(
        sum(sum(times[layer]) for layer in partition.layers)
        for _, partition in application.partitions
    )
    assert evaluator.evaluate(genes)[1:] == (Fraction(longest, 10**9),)
    serial = Evaluator(replace(application, parallel=()), costs).evaluate(genes)
    assert serial[1:] == (Fraction(sum(map(sum, times.values())), 10**9),)


def test_layers_with_processors_of_their_own_are_never_slower_than_one_after_another():
    application = alone(RESIDUAL)
    evaluator = Evaluator(application)
    for genes in chromosomes(application, 2):
        (fast,), (slow,) = self_timed_periods(evaluator, genes), evaluator.evaluate(genes)[1:]
        assert 0 < fast <= slow


def test_what_is_outside_takes_neither_time_nor_memory():
    outside = frozenset({"input", "output"})
    inside = Application(name="inside", members=(single_partition(RESIDUAL, outside),))
    whole, rest = Evaluator(alone(RESIDUAL)), Evaluator(inside)
    all_genes, genes = (1,) * len(RESIDUAL.layers), (1,) * len(inside.layers)
    assert len(genes) == len(all_genes) - 2
    assert rest.weights == whole.weights
    assert rest.evaluate(genes) < whole.evaluate(all_genes)
    assert rest.evaluate(genes)[1] < whole.evaluate(all_genes)[1]
    assert self_timed_periods(rest, genes) <= self_timed_periods(whole, all_genes)


def test_zero_bytes_are_refused():
    with pytest.raises(InvalidPlan, match="an element of 0 bytes"):
        Costs(element_bytes=0)


def test_quantisation_scales_buffers_and_weights_on_their_own():
    application = alone(RESIDUAL)
    genes = (1,) * len(application.layers)
    full = Evaluator(application, Costs())
    mixed = Evaluator(application, Costs(element_bytes=1, parameter_bytes=2))
    bytes_of_buffers = [each.evaluate(genes)[0] - each.weights for each in (full, mixed)]
    assert bytes_of_buffers[0] == 4 * bytes_of_buffers[1]
    assert full.weights == 2 * mixed.weights


def test_no_chromosome_is_below_the_bound():
    evaluator = Evaluator(two_networks())
    bound = memory_bound(evaluator, ALLELES)
    for genes in chromosomes(evaluator.application, 15):
        assert evaluator.evaluate(genes)[0] >= bound


def test_a_missing_gene_is_refused():
    with pytest.raises(InvalidNetwork, match=r"3 genes .* expected one for each of its"):
        Evaluator(alone(RESIDUAL)).evaluate((None, None, None))


def test_offsets_need_no_more_than_whole_buffers_and_no_less_than_the_load():
    evaluator = Evaluator(two_networks())
    unit = evaluator.costs.element_bytes
    for genes in chromosomes(evaluator.application, 3):
        plan = evaluator.plan(genes)
        placed = plan_arena(offset_problem(evaluator, plan))
        assert plan.live_load * unit <= placed.lower_bound
        assert placed.peak <= plan.elements * unit


def test_an_addition_may_write_over_what_it_reads():
    evaluator = Evaluator(alone(RESIDUAL))
    plan = evaluator.plan((None,) * len(RESIDUAL.layers))
    problem = offset_problem(evaluator, plan)
    placed_over = elementwise_in_place(evaluator, plan, problem)
    assert problem.in_place == ()
    names = {name for pair in placed_over.in_place for name in pair}
    assert names <= {buffer.name for buffer in problem.buffers}
    assert plan_arena(placed_over).peak <= plan_arena(problem).peak


def test_the_evolution_searches_the_genes_that_matter():
    evaluator = Evaluator(alone(mobilenet_v2(width=Fraction(1, 4), resolution=32)))
    problem = search_problem(evaluator, (0, 1, 64))
    # 64 rows are all rows of every tensor here: the same as the whole.
    assert {len(alleles) for alleles in problem.alleles} == {1, 2}
