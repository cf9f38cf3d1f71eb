"""The search over groups, cuts and grids."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.catalogue.networks import CATALOGUE
from cnn2csdf.parameters import network_multiply_accumulates
from cnn2csdf.simplify import simplified
from cnn2csdf.weights import Model
from csdf.errors import GaveUp, InvalidNetwork, InvalidPlan
from csdf.time_limit import Stop
from planners.fusion.groups import configuration, group_of, merged
from planners.fusion.planning import best_plan, fusion_plan
from planners.fusion.search import best_under, front, least_memory, options
from planners.memory.answer import GroupMode, ScratchCount
from planners.memory.order import chain_of
from planners.memory.stages import StageTable
from planners.memory.times import PlanTimes
from planners.plan.carried_out import require_carried_out
from planners.plan.regions import layer_range
from tests.planners.fusion.chains import TERMS, mixed, networks, plain_chain, yolo_chain

ways = st.sampled_from(list(GroupMode))
FEW = ((1, 2), (2, 1), (2, 2), (3, 2))


@pytest.mark.slow
@given(
    network=networks().flatmap(mixed),
    scratch=st.sampled_from(list(ScratchCount)),
    element_bytes=st.sampled_from((4, None)),
)
@settings(max_examples=25, deadline=None)
def test_each_option_states_what_its_buffers_and_tiles_add_up_to(network, scratch, element_bytes):
    # Sums over sections against the buffers of the group on their own, and against its times in the
    # network: they depend on who made what it reads, and a frame begins with the first group.
    chain = chain_of(network)
    terms = replace(TERMS, tilings=FEW, scratch=scratch, element_bytes=element_bytes)
    table = StageTable(network, element_bytes=element_bytes)
    times = PlanTimes(table, terms.platform, element_bytes)
    for option in options(chain, terms):
        (group,) = option.groups
        part = chain_of(layer_range(Model(network=network), *_range(chain, group)).network)
        alone = group._replace(first=0, upto=part.sections)
        plan = fusion_plan(part, (alone,), terms)
        start = times.around_groups() if group.first else 0
        assert option.nanoseconds == times.of(plan.plan) - start
        assert option.multiply_accumulates == plan.plan.multiply_accumulates
        # Of rows, what is staged and scratch are not always needed at once, as an option takes them.
        assert plan.least_bytes <= option.memory
        assert plan.least_bytes == option.memory or group.mode is GroupMode.ROWS


def _range(chain, group):
    before = len(chain.between(0, group.first))
    return before, before + len(chain.between(group.first, group.upto))


def _everything(found, sections):
    """Memory and cost of all configurations, one after the other."""
    by_first = {}
    for option in found:
        by_first.setdefault(option.groups[0].first, []).append(option)

    def extended(place, memory, cost):
        if place == sections:
            yield memory, cost
        for one in by_first.get(place, ()):
            both = tuple(map(sum, zip(cost, one.cost, strict=True)))
            yield from extended(one.groups[0].upto, max(memory, one.memory), both)

    return set(extended(0, 0, (0, 0)))


@given(network=networks(most=3), limit=st.integers(0, 60_000))
@settings(max_examples=25, deadline=None)
def test_the_front_is_that_of_all_configurations(network, limit):
    chain = chain_of(network)
    found = list(options(chain, replace(TERMS, tilings=((2, 2), (1, 3)))))
    everything = _everything(found, chain.sections)
    points = front(found, chain.sections)
    best = {
        (memory, cost)
        for memory, cost in everything
        if not any(
            other != (memory, cost) and other[0] <= memory and other[1] <= cost
            for other in everything
        )
    }
    assert {(point.memory, point.cost) for point in points} == best
    fitting = [cost for memory, cost in everything if memory <= limit]
    chosen = best_under(points, limit)
    assert (None if chosen is None else chosen.cost) == min(fitting, default=None)


@given(network=networks())
@settings(max_examples=10, deadline=None)
def test_a_plan_fits_its_limit_and_nothing_fits_below_the_front(network):
    chain = chain_of(network)
    least = front(options(chain, TERMS), chain.sections)[0].memory
    answer = best_plan(chain, TERMS, least)
    assert answer.plan is None or answer.plan.memory <= least
    below = best_plan(chain, TERMS, least - 1)
    assert (below.plan, below.status) == (None, "infeasible")


def test_more_memory_never_costs_time():
    chain = yolo_chain()
    points = best_plan(chain, TERMS, 10**9).front
    assert [point.memory for point in points] == sorted({point.memory for point in points})
    times = [point.cost for point in points]
    assert times == sorted(set(times), reverse=True)


@pytest.mark.slow
def test_with_all_memory_layers_work_as_a_whole():
    # Tiles only add starts of phases and overlaps.
    answer = best_plan(yolo_chain(), TERMS, 10**9)
    assert [group["mode"] for group in answer.plan.to_records()] == ["whole"]
    assert answer.plan.redundant == 0
    # Layer 2 needs 304 * 304 places of 32 + 64 elements and 9 * 32 more for its windows.
    assert answer.plan.memory == 304 * 304 * (32 + 64 + 9 * 32) * 4


def test_an_ended_search_gives_the_best_so_far():
    looks = 0

    def look(_):
        nonlocal looks
        looks += 1
        if looks > 20:
            raise GaveUp("enough")

    answer = best_plan(yolo_chain(), TERMS, 10**9, Stop(report=look))
    assert (answer.status, str(answer.reason)) == ("feasible", "enough")
    assert looks == 21  # nothing looks on after the end: what was not finished is left


def test_an_ended_search_without_a_plan_tells_the_smallest_found_and_a_bound():
    def look(_):
        raise GaveUp("enough")

    # At the first look there are whole layers only. In bytes, with im2col: layer 2 needs 304 * 304
    # places of 32 + 64 elements and 9 * 32 more for its windows. In groups some layer reads the
    # frame of 608 * 608 * 3, or what came of it, and the result of 38 * 38 * 512 is there at its end.
    whole = 304 * 304 * (32 + 64 + 9 * 32) * 4
    answer = best_plan(yolo_chain(), TERMS, whole - 1, Stop(report=look))
    assert (answer.plan, answer.status) == (None, "unknown")
    assert f"enough; the smallest found needs {whole} bytes" in str(answer.reason)
    assert f"need less than {answer.lower_bound} bytes" in str(answer.reason)
    # What is below the bound is a no, however early the search ended.
    below = best_plan(yolo_chain(), TERMS, answer.lower_bound - 1, Stop(report=look))
    assert (below.plan, below.status) == (None, "infeasible")


@given(
    network=networks(), scratch=st.sampled_from(list(ScratchCount)), ways=st.sets(ways, min_size=1)
)
@settings(max_examples=25, deadline=None)
def test_no_configuration_is_below_the_bound_of_an_ended_search(network, scratch, ways):
    chain = chain_of(network)
    terms = replace(TERMS, tilings=FEW, scratch=scratch, modes=frozenset(ways))
    points = front(options(chain, terms), chain.sections)
    if points:
        assert 0 < least_memory(chain, terms) <= points[0].memory


@given(network=networks())
@settings(max_examples=25, deadline=None)
def test_rows_of_all_layers_need_no_more_than_by_rows_of_csdf_fit(network):
    # The lines of csdf fit; a plan may also write a result over a row that nobody else reads.
    chain = chain_of(network)
    terms = replace(TERMS, modes=frozenset({GroupMode.ROWS}), scratch=ScratchCount.NONE)
    (rows,) = (
        one
        for one in options(chain, terms)
        if one.groups[0].upto - one.groups[0].first == chain.sections
    )
    plan = fusion_plan(chain, rows.groups, terms)
    require_carried_out(network, plan.plan)
    assert plan.least_bytes <= min(rows.memory, plan.memory)


def test_without_a_way_for_each_layer_there_is_no_plan():
    # Nothing of one tile: no grid is left.
    terms = replace(TERMS, modes=frozenset({GroupMode.CACHED}), tilings=((1, 1),))
    answer = best_plan(plain_chain((2, 3, 1)), terms, 10**9)
    assert (answer.status, answer.front) == ("infeasible", ())
    assert "no groups in these modes" in str(answer.reason)


def test_neighbours_that_work_as_a_whole_are_one_group():
    chain = plain_chain((2, 3, 1), (2, 3, 1), (2, 3, 1))
    groups = configuration(chain, (1, 2), [(1, 1), (1, 1), (2, 1)])
    assert [(one.first, one.upto, one.mode) for one in merged(groups)] == [
        (0, 2, GroupMode.WHOLE),
        (2, 3, GroupMode.RECOMPUTED),
    ]


def test_a_layer_of_a_single_row_keeps_its_mode():
    chain = plain_chain((2, 1, 1), (2, 1, 1), dims=(2, 1, 9))
    groups = tuple(group_of(chain, first, first + 1, GroupMode.ROWS) for first in range(2))
    plan = fusion_plan(chain, groups, TERMS)
    assert [row["mode"] for row in plan.to_records()] == ["rows", "rows"]
    assert [(len(one["layers"]), one["mode"]) for one in plan.to_json()["groups"]] == [
        (1, "rows"),
        (1, "rows"),
    ]


def test_groups_cover_the_chain():
    chain = plain_chain((2, 3, 1), (2, 3, 1))
    groups = configuration(chain, (1,), [(1, 1), (2, 1)])
    with pytest.raises(InvalidPlan, match="expected each of 0:2 once"):
        fusion_plan(chain, groups[:1], TERMS)
    with pytest.raises(InvalidPlan, match="sections 0:0, 0:1, 1:2; expected each of 0:2 once"):
        fusion_plan(chain, (groups[0]._replace(upto=0), *groups), TERMS)


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_network_of_the_catalogue_is_a_chain(name):
    network = simplified(Model(network=CATALOGUE[name]())).network
    chain = chain_of(network)
    working = {layer.name for layer in network.layers} - {"output", chain.at(0)}
    named = [layer.name for layer in chain.between(0, chain.sections)]
    assert len(named) == len(set(named))
    assert set(named) <= working
    assert network_multiply_accumulates(network) > 0


def test_layers_can_be_taken_out_where_one_tensor_goes_in_and_one_comes_out():
    network = simplified(Model(network=CATALOGUE["resnet8"]())).network
    assert chain_of(layer_range(Model(network=network), 0, 1).network).sections == 1
    with pytest.raises(InvalidNetwork, match="are no part of a chain"):
        layer_range(Model(network=network), 0, 2)
    with pytest.raises(InvalidNetwork, match="which has"):
        layer_range(Model(network=network), 3, 300)


def test_a_network_of_two_inputs_is_refused_with_both_counts():
    builder = NetworkBuilder("two")
    first, second = builder.input((1, 4, 4), name="a"), builder.input((1, 4, 4), name="b")
    builder.output(builder.add(op.Elementwise(function="add"), first, second))
    with pytest.raises(InvalidNetwork, match="has 2 inputs and 1 output; fused tiles need one"):
        chain_of(builder.network())
