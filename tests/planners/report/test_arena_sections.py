"""Sections of a report on the arenas of a network."""

from dataclasses import replace

from cnn2csdf.catalogue.networks import from_catalogue
from planners.memory.fit import fit
from planners.memory.plain_plans import memory_comparison
from planners.report.arena import arena_contribution
from planners.report.plans import FIT, FitAnswer

FOUND = memory_comparison(from_catalogue("samos_example"), element_bytes=1)


def test_both_arenas_are_drawn_with_a_box_for_each_buffer_that_takes_room():
    whole, rows = arena_contribution(FOUND).data["arenas"]
    for drawn, one in ((whole, FOUND.whole), (rows, FOUND.rows)):
        assert max(offset + size for *_, offset, size in drawn["boxes"]) <= drawn["peak"]
        assert drawn["peak"] == one.arena_bytes
        assert sum(drawn["order"][1::2]) == drawn["steps"]  # runs of a layer and how often it fires
    assert len(whole["layers"]) == whole["steps"] == len(FOUND.whole.plan.groups)


def test_plans_of_csdf_fit_are_drawn_on_one_scale_the_first_one_last():
    network = FOUND.network
    found = fit(network, element_bytes=1)
    low, high = (
        FitAnswer(FIT, network, replace(found, best=method), None)
        for method in (found.methods[0], found.methods[-1])
    )
    assert low.plan.arena_bytes < high.plan.arena_bytes
    *_, other, first = arena_contribution(FOUND, (low, high)).data["arenas"]
    for drawn, answer in ((first, low), (other, high)):
        assert drawn["title"] == f"{FIT}: {answer.method.name}"
        assert drawn["peak"] == answer.plan.arena_bytes
        assert drawn["top"] == high.plan.arena_bytes
        assert max(offset + size for *_, offset, size in drawn["boxes"]) == drawn["peak"]


def test_without_any_plan_the_reason_stands_in_place_of_the_arena():
    (section,) = arena_contribution(None, (), "the time limit of 1 s is reached").sections
    assert "Left out: the time limit of 1 s is reached" in section.content
