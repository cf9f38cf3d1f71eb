"""Sections of a report on the arenas of a network, from plans made by hand."""

from csdf.outcome import Status
from planners.arena.problem import Buffer, MemoryPlan, Problem
from planners.network_arena import NetworkArena
from planners.report.arena import TitledArena, arena_contribution


def arena(title, *, bound):
    buffers = (
        Buffer(name="net: x", size=80, start=0, end=2),
        Buffer(name="net: nothing", size=0, start=0, end=2),
    )
    plan = MemoryPlan(
        problem=Problem(name="net", buffers=buffers),
        offsets={"net: x": 0, "net: nothing": 0},
        lower_bound=bound,
        status=Status.FEASIBLE,
        reason="",
    )
    return TitledArena(title, NetworkArena(plan=plan, order=("conv", "conv", "pool")))


def test_an_arena_is_told_with_its_gap():
    (fact,) = arena_contribution([arena("by parts", bound=64)]).facts
    assert fact.startswith("By parts: 80 B (80 bytes); none for these buffers is below 64 B")
    assert "a gap of 25%" in fact  # 80 against 64


def test_an_arena_that_reaches_its_bound_is_said_to_be_the_smallest():
    (fact,) = arena_contribution([arena("by parts", bound=80)]).facts
    assert fact.endswith("no arena for these buffers is smaller.")


def test_nothing_is_said_of_all_arenas_unless_all_are_known():
    parts, whole = arena("by parts", bound=64), arena("whole layers", bound=70)
    assert arena_contribution([whole], "no time").lower_bound is None
    assert arena_contribution([whole, parts]).lower_bound == 64


def test_an_arena_is_drawn_without_buffers_that_take_no_room():
    (data,) = arena_contribution([arena("by parts", bound=64)]).data["arenas"]
    assert data["boxes"] == [["x", 0, 2, 0, 80]]
    assert (data["layers"], data["order"]) == (["conv", "pool"], [0, 2, 1, 1])  # runs of numbers


def test_what_is_left_out_says_why():
    (section,) = arena_contribution([], "no time").sections
    assert section.content == '<p class="left-out">Left out: no time</p>'
