"""Sections of a report on the arenas of a network."""

from dataclasses import replace

from cnn2csdf.catalogue.networks import from_catalogue
from planners.memory.fit import fit
from planners.memory.plain_plans import memory_comparison
from planners.memory.several import Together
from planners.report.arena import arena_contribution, in_words
from planners.report.findings import FIT

FOUND = memory_comparison(from_catalogue("samos_example"), element_bytes=1)


def test_an_arena_is_told_with_its_gap():
    said = in_words(FOUND.whole._replace(lower_bound=FOUND.whole.arena_bytes * 4 // 5))
    assert "none for these buffers is below" in said
    assert "a gap of 25" in said


def test_an_arena_that_reaches_its_bound_is_said_to_be_the_smallest():
    said = in_words(FOUND.whole._replace(lower_bound=FOUND.whole.arena_bytes))
    assert said.endswith("no arena for these buffers is smaller.")


def test_both_arenas_are_drawn_with_a_box_for_each_buffer_that_takes_room():
    whole, rows = arena_contribution(FOUND).data["arenas"]
    for drawn, one in ((whole, FOUND.whole), (rows, FOUND.rows)):
        assert max(offset + size for *_, offset, size in drawn["boxes"]) <= drawn["peak"]
        assert drawn["peak"] == one.arena_bytes
        assert sum(drawn["order"][1::2]) == drawn["steps"]  # runs of a layer and how often it fires
    assert len(whole["layers"]) == whole["steps"] == len(FOUND.whole.plan.groups)


def test_the_plan_that_csdf_fit_finds_is_drawn_too():
    network = FOUND.network
    found = Together(fits=(fit(network, element_bytes=1),), flash=None, longest=None)
    *_, drawn = arena_contribution(FOUND, found).data["arenas"]
    assert drawn["title"] == FIT
    assert drawn["peak"] == found.ram_bytes < FOUND.whole.arena_bytes
    assert max(offset + size for *_, offset, size in drawn["boxes"]) == drawn["peak"]


def test_facts_of_others_follow_those_of_the_arenas():
    facts = arena_contribution(replace(FOUND), facts=("More.",)).facts
    assert facts[0].startswith("Layer by layer, one arena: ")
    assert facts[-1] == "More."
