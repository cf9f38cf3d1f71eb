"""Single arenas for networks, and the least of the ways to lay a network into memory."""

from fractions import Fraction

import pytest
from hypothesis import given, settings

from cnn2csdf.catalogue.networks import from_catalogue
from cnn2csdf.granularity import WHOLE, Granularity
from cnn2csdf.platforms import PLATFORMS
from cnn2csdf.simplify import simplified
from cnn2csdf.weights import Model
from csdf.errors import GaveUp
from csdf.time_limit import Stop
from planners.arena.checker import check_plan
from planners.fusion.groups import Terms
from planners.fusion.planning import best_plan
from planners.memory.answer import BY_ROWS, EXTERNAL, GroupMode, ScratchCount
from planners.memory.fit import fit
from planners.memory.order import chain_of
from planners.memory.plain_plans import (
    ROWS_ARENA,
    ROWS_SEPARATE,
    WHOLE_ARENA,
    WHOLE_SEPARATE,
    Method,
    least_method,
    memory_comparison,
    reduction,
    whole_arena,
    whole_tensors,
)
from planners.plan.carried_out import require_carried_out
from tests.cnn2csdf.execution.random_networks import models
from tests.planners.memory.plain import ordered_plan


def fused(name):
    return simplified(Model(network=from_catalogue(name))).network


def most_alive(network):
    """The most elements alive at one layer: a second count, by asking each layer who still waits."""
    layers = list(network.layers)
    most = 0
    for place, layer in enumerate(layers):
        waiting = {name for later in layers[place:] for name in later.inputs}
        made = [one for one in layers[: place + 1] if one.name in waiting or one is layer]
        alive = (one.shape.elements for one in made if not one.is_output)
        most = max(most, sum(alive))
    return most


@pytest.mark.parametrize(
    ("name", "elements"),
    [
        ("person_detection", (8 + 16) * 48 * 48),  # what the first pointwise layer reads and writes
        ("resnet8", 3 * 16 * 32 * 32),  # an addition with its two operands
        ("efficientnet_b0", 96 * 112 * 112 + 96 * 56 * 56),  # a depthwise layer of stride 2
        ("mobilenet_v2", 96 * 112 * 112 + 96 * 56 * 56),  # likewise
    ],
)
def test_whole_tensors_need_what_is_alive_at_the_worst_layer(name, elements):
    plan = whole_arena(fused(name), element_bytes=1)
    assert (plan.peak, plan.lower_bound, plan.status) == (elements, elements, "optimal")
    check_plan(plan)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(model=models(layers=6))
def test_an_arena_of_whole_tensors_is_that_of_parts_that_are_whole(model):
    network = model.network
    whole = whole_arena(network)
    assert 4 * most_alive(network) <= whole.lower_bound
    assert ordered_plan(network, WHOLE).arena_bytes == whole.peak
    check_plan(whole)


@pytest.mark.parametrize("name", ["resnet8", "person_detection", "squeezenet1_1", "googlenet"])
def test_a_search_for_groups_that_may_only_be_whole_finds_the_same_arena(name):
    network = fused(name)
    terms = Terms(
        platform=PLATFORMS["cortex-m7"], scratch=ScratchCount.NONE, element_bytes=1,
        modes=frozenset([GroupMode.WHOLE]),
    )  # fmt: skip
    answer = best_plan(chain_of(network), terms, 10**9)
    assert answer.plan.memory == whole_arena(network, element_bytes=1).peak


def test_a_tensor_with_two_readers_has_one_buffer():
    network = fused("resnet8")
    problem = whole_tensors(network)
    assert len(problem.buffers) == sum(not layer.is_output for layer in network.layers)


def test_a_watch_that_ends_the_search_leaves_an_arena_with_its_bound():
    def watch(_):
        raise GaveUp("enough")

    plan = whole_arena(fused("densenet121"), budget=Stop(report=watch))
    check_plan(plan)
    assert plan.lower_bound <= plan.peak


WAYS = (
    Method(WHOLE_SEPARATE, 900, 900, 100),
    Method(WHOLE_ARENA, 300, 300, 100),
    Method(ROWS_SEPARATE, 500, 500, 100),
    Method(ROWS_ARENA, 200, 200, 100),
)


def test_a_reduction_is_relative_to_the_smallest_layer_by_layer_plan():
    assert least_method(WAYS).title == ROWS_ARENA
    assert reduction(WAYS) == Fraction(1, 4)  # 300 of 400, not of 1000


def test_parts_that_need_more_than_an_arena_of_whole_tensors_reduce_nothing():
    assert least_method(WAYS[:3]).title == WHOLE_ARENA
    assert reduction(WAYS[:3]) == 0
    level = (*WAYS[:3], Method(ROWS_ARENA, 300, 300, 100))
    assert least_method(level).title == WHOLE_ARENA  # of equal ones the one without parts
    assert reduction(WAYS[2:]) == 0  # nothing to compare with


def test_efficientnet_row_by_row_saves_what_the_smaller_arena_saves():
    # int8, fused: 1.51 MB for whole tensors in one arena.
    found = memory_comparison(fused("efficientnet_b0"), element_bytes=1)
    assert found.whole.arena_bytes == 1_505_280
    said = found.to_json()
    assert said["layer_by_layer"]["arena_bytes"] == 1_505_280
    assert said["min"]["buffer_bytes"] == min(one.buffers for one in found.methods)
    whole = found.whole.arena_bytes + found.parameters
    assert found.reduction == 1 - Fraction(found.least.total, whole)


@pytest.mark.parametrize("rows", [1, 3])
def test_line_buffers_need_no_more_in_one_arena_than_separate_rings(rows):
    for name in ("resnet8", "keyword_spotting", "samos_example"):
        found = memory_comparison(fused(name), Granularity(rows=rows)).rows
        assert found.lower_bound <= found.arena_bytes <= found.separate_bytes
        require_carried_out(fused(name), found.plan)


@pytest.mark.parametrize("name", ["resnet8", "keyword_spotting", "samos_example"])
def test_rows_in_one_arena_lie_between_those_of_fit_and_its_least(name):
    # All layers in one group, groups of single layers, and groups of any stages without recomputation.
    network = fused(name)
    found = fit(network, input="rows", output=EXTERNAL, searched=())
    plain = next(one for one in found.methods if one.name == BY_ROWS)
    rows = memory_comparison(network).rows.arena_bytes
    assert found.least.ram_bytes <= rows <= plain.ram_bytes
