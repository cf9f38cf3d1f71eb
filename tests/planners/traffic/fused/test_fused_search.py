"""The search for the best schedule of a group, against enumeration."""

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planners.traffic.footprints import tile_sizes
from planners.traffic.fused.accounting import (
    CutTables,
    WorkingBytes,
    minimum_working_bytes,
    peak_bytes_by_layer,
)
from planners.traffic.fused.axis_cuts import weights_of
from planners.traffic.fused.schedule import (
    INPUT_HALOS,
    MAP_HALOS,
    FusedSchedule,
    MapsPerPass,
    can_hold_one_map,
)
from planners.traffic.fused.search import (
    GroupSearch,
    answer_of,
    grids,
    stationary_weights,
)
from tests.planners.traffic.fused.groups import branches, groups, schedules, slides_pair


@st.composite
def weight_problems(draw):
    count = draw(st.integers(1, 3))
    wanted, weights, sizes = [], [], []
    for _ in range(count):
        full = draw(st.integers(0, 8))
        wanted.append(WorkingBytes(full + draw(st.integers(0, 4)), full))
        sizes.append(draw(st.sampled_from((1, 2, 4))))
        weights.append(draw(st.integers(0, 5)) * sizes[-1])
    return tuple(wanted), tuple(weights), draw(st.integers(0, 30)), tuple(sizes)


def most_kept(wanted, weights, buffer, sizes):
    """The most bytes of whole weights that can stay, trying all; None where nothing fits."""
    found = [
        sum(kept)
        for kept in product(
            *(range(0, own + 1, size) for own, size in zip(weights, sizes, strict=True))
        )
        if bytes_needed(wanted, kept, weights) <= buffer
    ]
    return max(found, default=None)


def bytes_needed(wanted, kept, weights):
    """Bytes of the buffer with these stationary weights."""
    peaks = (
        need.full if stays == own else need.streamed
        for need, stays, own in zip(wanted, kept, weights, strict=True)
    )
    return sum(kept) + max(peaks)


@given(weight_problems())
@settings(max_examples=120, deadline=None)
def test_no_choice_keeps_more_weights(problem):
    wanted, weights, buffer, sizes = problem
    kept = stationary_weights(wanted, weights, buffer, 2, sizes)
    expected = most_kept(wanted, weights, buffer, sizes)
    assert (None if kept is None else sum(kept)) == expected
    assert kept is None or bytes_needed(wanted, kept, weights) <= buffer


def every_schedule(group):
    """Held, total, parts and weights that could still stay, of all schedules on the cuts looked at."""
    passes = tuple(MapsPerPass) if can_hold_one_map(group) else (MapsPerPass.ALL,)
    choices = product(grids(group), (True, False), MAP_HALOS, INPUT_HALOS, passes)
    tables = CutTables(group)
    for parts, order, halo, of_input, maps_per_pass in choices:
        for full in product((False, True), repeat=group.length):
            kept = [own if stays else 0 for own, stays in zip(weights_of(group), full, strict=True)]
            schedule = FusedSchedule(
                group=group,
                tiles=parts,
                columns_first=order,
                halo=halo,
                input_halo=of_input,
                maps_per_pass=maps_per_pass,
                stationary_bytes=tuple(kept),
            )
            answer = answer_of(schedule, tables, 0)
            yield answer.held, answer.total, schedule.count, sum(weights_of(group)) - sum(kept)


def least_total(schedules, buffer):
    """The least total in a buffer, with as many weights staying as there is room for."""
    totals = [
        total - (count - 1) * min(buffer - held, weights)
        for held, total, count, weights in schedules
        if held <= buffer
    ]
    return min(totals, default=None)


@pytest.mark.slow
@given(st.one_of(groups(longest=2, largest=3), branches(longest=3, largest=3)))
@settings(max_examples=40, deadline=None)
def test_no_schedule_moves_less_than_the_best_in_any_buffer(group):
    # Every buffer in which some schedule just fits, and the one below it, with a search of its own
    # and with one that knows other buffers already: one byte more or less is noticed. Weights are
    # of one byte, so that any room is filled; `test_no_choice_keeps_more_weights` has larger ones.
    group = replace(group, layers=tuple(replace(one, weight_bytes=1) for one in group.layers))
    schedules = set(every_schedule(group))
    sizes = sorted({held for held, *_ in schedules})
    buffers = [one for held in sizes[:: max(1, len(sizes) // 10)] for one in (held - 1, held)]
    search = GroupSearch(group)
    for buffer in reversed(buffers):
        expected = least_total(schedules, buffer)
        for known in (search, GroupSearch(group)):
            found = known.best(buffer)
            assert (None if found is None else found.total) == expected
        if expected is not None:
            assert search.best(buffer, expected + 1).total == expected
            assert search.best(buffer, expected) is None
            assert search.could_fit(buffer)


@pytest.mark.slow
@given(st.one_of(groups(), branches()), st.integers(20, 800))
@settings(max_examples=60, deadline=None)
def test_the_best_schedule_is_found_again_in_just_the_buffer_it_holds(group, buffer):
    found = GroupSearch(group).best(buffer)
    if found is not None:
        assert GroupSearch(group).best(found.held).total == found.total


@given(st.one_of(groups(longest=3), branches(longest=3)), st.integers(20, 400))
@settings(max_examples=40, deadline=None)
def test_a_larger_buffer_never_moves_more(group, buffer):
    search = GroupSearch(group)
    small, large = search.best(buffer), search.best(buffer * 2)
    if small is not None:
        assert large is not None
        assert large.total <= small.total


@pytest.mark.slow
@given(schedules(branches))
@settings(max_examples=80, deadline=None)
def test_no_schedule_needs_less_than_the_quick_bound(schedule):
    tables = CutTables(schedule.group)
    said = minimum_working_bytes(schedule.tiles, tables)
    if schedule.maps_per_pass is MapsPerPass.ALL:
        assert said <= max(need.full for need in peak_bytes_by_layer(schedule, tables))
    # The finest cut needs least of all.
    finest = schedule.group.dims(schedule.group.length)[1:]
    assert minimum_working_bytes(finest, tables) <= said


@given(groups())
@settings(max_examples=40, deadline=None)
def test_in_a_buffer_for_everything_all_moves_once(group):
    everything = (
        sum(map(group.elements, range(group.length + 1))) + 2 * sum(weights_of(group)) + 1000
    )
    # A skipped input that waits is read once; the bound knows no more than one reading either.
    assert GroupSearch(group).best(everything).total == search_bound(group)


def search_bound(group):
    return GroupSearch(group).bound


@pytest.mark.slow
def test_only_schedules_below_the_limit_are_returned():
    search = GroupSearch(slides_pair())
    best = search.best(2**17)
    assert search.best(2**17, best.total) is None
    assert search.best(2**17, best.total + 1).total == best.total
    assert search.best(100) is None


@pytest.mark.parametrize("length", range(1, 40))
def test_tile_sizes_are_the_fewest_tiles_for_each_largest_tile(length):
    # 7 positions: 1 tile of 7, 2 of at most 4, 3 of at most 3, 4 of at most 2, 7 of 1; with 5 and 6
    # tiles the largest is still of 2.
    fewest = {-(-length // tiles): tiles for tiles in range(length, 0, -1)}
    assert set(tile_sizes(length)) == set(fewest.values())


def test_a_schedule_one_element_below_the_limit_is_found():
    # All fits, so the best moves just the bound: a limit of one element more must not prune it.
    search = GroupSearch(slides_pair())
    assert search.best(10**9, search.bound + 1).total == search.bound
    assert search.best(10**9, search.bound) is None
