"""Predictions for fused schedules are what the checker counts when it runs them."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from csdf.errors import ExecutionError, InvalidPlan
from planners.traffic.fused.group import FusedGroup
from planners.traffic.fused.schedule import (
    CACHED,
    RECOMPUTED,
    RELOADED,
    SPILLED,
    FusedSchedule,
    MapsPerPass,
)
from planners.traffic.fused.search import GroupSearch, answer_of
from tests.planners.traffic.fused.groups import branches, groups, layer, schedules, slides_pair
from tests.reference.fused_schedule_run import run_schedule


def counted(run):
    return run.input, run.weights, run.output, run.halo_written, run.halo_read


def require_predicted(schedule, seed):
    answer = answer_of(schedule)
    run = run_schedule(schedule, answer.held, seed)
    assert counted(run) == tuple(answer.moved)
    assert run.peak == answer.held
    assert answer.moved.total >= answer.bound


@pytest.mark.slow
@given(schedules(), st.integers(0, 9))
@settings(max_examples=160, deadline=None)
def test_every_element_moved_and_held_is_predicted(schedule, seed):
    require_predicted(schedule, seed)


@pytest.mark.slow
@given(schedules(branches), st.integers(0, 9))
@settings(max_examples=160, deadline=None)
def test_every_element_of_branches_moved_and_held_is_predicted(schedule, seed):
    require_predicted(schedule, seed)


@pytest.mark.slow
@given(st.one_of(schedules(), schedules(branches)))
@settings(max_examples=25, deadline=None)
def test_a_buffer_one_element_smaller_overflows(schedule):
    with pytest.raises(ExecutionError, match="bytes in a buffer of"):
        run_schedule(schedule, answer_of(schedule).held - 1)


@pytest.mark.slow
@given(st.one_of(groups(), branches()), st.integers(20, 800))
@settings(max_examples=65, deadline=None)
def test_the_best_schedule_runs_in_its_buffer(group, buffer):
    answer = GroupSearch(group).best(buffer)
    if answer is not None:
        assert counted(run_schedule(answer.schedule, buffer)) == tuple(answer.moved)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("group", "halo"),
    [(slides_pair(), SPILLED), (slides_pair(maps=4), CACHED), (slides_pair(maps=4), RECOMPUTED)],
)
def test_the_pair_of_the_slides_runs_as_predicted(group, halo):
    schedule = FusedSchedule(
        group=group,
        tiles=(1, 2),
        halo=(halo, halo),
        input_halo=(RELOADED, RELOADED),
    )
    answer = answer_of(schedule)
    run = run_schedule(schedule, 512 * 1024 // 4)
    assert counted(run) == tuple(answer.moved)
    assert run.peak == answer.held


def test_a_map_that_is_not_made_as_a_whole_is_not_taken_for_written():
    # The second layer reads every other row and column of map 1: the others are never made.
    first = layer(1, 1, 5, 1)
    half = replace(first.rows, outputs=3, stride=2)
    second = replace(first, rows=half, columns=half)
    group = FusedGroup(layers=(first, second), written=frozenset({1}))
    with pytest.raises(ExecutionError, match="map 1 in DRAM is not what its layer makes"):
        run_schedule(FusedSchedule(group=group), 1000)


def test_schedules_that_cannot_be_are_refused():
    group = FusedGroup(layers=(layer(2, 2, 4), layer(2, 2, 4), layer(2, 2, 4)))
    with pytest.raises(InvalidPlan, match="tiles of 4 rows"):
        FusedSchedule(group=group, tiles=(5, 1))
    with pytest.raises(InvalidPlan, match="no schedule has halo"):
        FusedSchedule(group=group, halo=(CACHED, RECOMPUTED))
    with pytest.raises(InvalidPlan, match="one map at a time"):
        FusedSchedule(group=group, maps_per_pass=MapsPerPass.ONE)
    with pytest.raises(InvalidPlan, match="kept weights of 1 layer,"):
        FusedSchedule(group=group, stationary_bytes=(3,))


def test_groups_that_do_not_fit_together_are_refused():
    with pytest.raises(InvalidPlan, match="fusing takes two at least"):
        FusedGroup(layers=(layer(1, 1, 4),))
    with pytest.raises(InvalidPlan, match=r"\(1,\) are \(2, 4, 4\), layer 2 reads \(3, 4, 4\)"):
        FusedGroup(layers=(layer(1, 2, 4), layer(3, 1, 4)))
    with pytest.raises(InvalidPlan, match="map 0 of"):
        FusedGroup(layers=(layer(1, 2, 4), layer(2, 2, 4)), skips=((0, 2),))
    one, half = layer(1, 1, 4), layer(1, 1, 4)
    half = replace(half, rows=replace(half.rows, outputs=2, stride=2))
    with pytest.raises(InvalidPlan, match=r"ends of a group, maps \(1, 2\), are cut alike"):
        FusedGroup(layers=(one, half), sources=((0,), (0,)))
    with pytest.raises(InvalidPlan, match=r"layer 1 cannot read maps \(1,\)"):
        FusedGroup(layers=(one, one), sources=((1,), (0,)))
    with pytest.raises(InvalidPlan, match="sources of 1 of 2 layers"):
        FusedGroup(layers=(one, one), sources=((0,),))
