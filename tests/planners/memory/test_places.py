"""Chains of groups whose tensors find places beside one another, against all offsets of all chains."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cnn2csdf.catalogue.networks import from_catalogue
from cnn2csdf.simplify import simplified
from cnn2csdf.weights import Model
from csdf.time_limit import Stop
from planners.memory.answer import ROWS
from planners.memory.fit import fit
from planners.memory.labels import ANY_WORK, PlanFront
from planners.memory.placed_chains import PlacedChains
from tests.planners.memory.plain import plan_of
from tests.planners.memory.streamed import space

SIZE = st.integers(0, 6)


@st.composite
def tables(draw):
    """Groups between a few cuts, all of almost the same bytes, so that only places decide.

    Perhaps those behind the first cut take rows as they come.
    """
    count, needed = draw(st.integers(3, 5)), draw(st.integers(12, 14))
    sizes = tuple(draw(SIZE) for _ in range(count))
    groups = {}
    for begin in range(count - 1):
        for is_streamed in (False, True) if begin == 0 and draw(st.booleans()) else (False,):
            for end in (begin + 1, begin + 1, min(begin + 2, count - 1)):
                source = 0 if is_streamed else sizes[begin]
                lead = 0 if is_streamed else draw(st.integers(0, sizes[end]))
                both = max(sizes[end], source + lead)
                pool = draw(st.integers(0, needed - both))
                lines = max(0, needed - both - pool - draw(st.integers(0, 1)))
                group = lines + pool + both, draw(st.integers(1, 9)), lines, pool, lead
                groups.setdefault((begin, is_streamed), {}).setdefault(end, []).append((group, ()))
    return PlacedChains(sizes, groups)


def has_room(lines, pool, source, result, cap):
    """Whether the pool finds a place in one piece, and lines room, beside two spans of bytes."""
    taken = {*range(*source), *range(*result)}
    pools = (set(range(at, at + pool)) for at in range(cap - pool + 1))
    return len(taken) + pool + lines <= cap and any(not one & taken for one in pools)


def results(chains, ends, group, places, cap, *, is_streamed):
    """The offsets of the result of a group whose input lies at one of some places."""
    begin, end = ends
    _, _, lines, pool, lead = group
    size, source = chains.sizes[end], 0 if is_streamed else chains.sizes[begin]
    return {
        q
        for p in places
        for q in range(cap - size + 1)
        if (not source or not size or q + lead <= p or q >= p + source)
        and has_room(lines, pool, (p, p + source), (q, q + size), cap)
    }


def least_work(chains, cap):
    """The least work of all chains, and all offsets; None where none fits."""
    streams = (0, True) in chains.groups
    ways = {0: [(0, set(range(cap - chains.sizes[0] + 1)))]} if chains.sizes[0] <= cap else {}
    for begin in range(len(chains.sizes) - 1):
        for is_streamed in (True, False) if begin == 0 and streams else (False,):
            come = [(0, {0})] if is_streamed else ways.get(begin, [])
            for end, groups in chains.groups.get((begin, is_streamed), {}).items():
                for group, _ in groups:
                    for work, places in come:
                        found = results(
                            chains, (begin, end), group, places, cap, is_streamed=is_streamed
                        )
                        if found:
                            ways.setdefault(end, []).append((work + group[1], found))
    return min((work for work, _ in ways.get(len(chains.sizes) - 1, [])), default=None)


@settings(deadline=None, max_examples=30)
@given(chains=tables())
def test_the_chain_has_the_least_work_of_all_whose_tensors_find_places(chains):
    cap, answers = max(chains.sizes), 0
    while answers < 3:  # the least arenas, where places are scarce
        found, least = chains.within(cap, ANY_WORK, Stop()), least_work(chains, cap)
        assert (None if found is None else found[0]) == least
        answers += least is not None
        cap += 1


@settings(deadline=None, max_examples=15)
@given(chains=tables(), cap=st.integers(5, 25), most=st.integers(0, 40))
def test_a_chain_has_less_work_than_is_asked_for_or_there_is_none(chains, cap, most):
    found, least = chains.within(cap, most, Stop()), least_work(chains, cap)
    assert (found is not None) == (least is not None and least < most)


def test_where_the_counted_plan_leaves_gaps_another_chain_is_placed_in_its_bytes():
    # In the plan with the least count a result lies at the bottom, so that the next lies beside it.
    text = "mobilenet_v1:width=1/4,resolution=96,classes=2"
    network = simplified(Model(network=from_catalogue(text))).network
    moves = space(network, element_bytes=1)
    plans = PlanFront(moves, 10_000, is_streamed=True).plans
    counted, _, groups = min(plans, key=lambda plan: plan[0])
    plan = plan_of(moves.layer_order, moves.table, groups, is_streamed=True)
    assert plan.arena_bytes > counted
    assert fit(network, element_bytes=1, input=ROWS).least.ram_bytes == counted


@pytest.mark.slow
def test_the_smallest_arena_is_looked_for_between_what_is_counted_and_what_is_taken():
    # Five layers of 14 x 14 x 512 bytes lie over one another, 100,352; beside them lie two rows of
    # 7,168 between the two layers of a group, and one that is staged. With a result below what it
    # is made from each time 114,688 are counted, for which there are no offsets.
    network = simplified(Model(network=from_catalogue("mobilenet_v1"))).network
    assert fit(network, element_bytes=1, input=ROWS).least.ram_bytes == 100_352 + 3 * 7_168
