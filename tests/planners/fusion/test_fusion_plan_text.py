"""Plans of fusion as JSON."""

import json
from dataclasses import replace

import pytest

from cnn2csdf.catalogue.embedded import resnet8
from cnn2csdf.execution.compare import random_frames
from cnn2csdf.execution.whole import run_layers
from cnn2csdf.simplify import simplified
from cnn2csdf.weights import Model
from csdf.errors import UnreadableFile
from planners.fusion.chains import chain_of
from planners.fusion.configurations import Way, configuration, single
from planners.fusion.execution import run_fused
from planners.fusion.memory import Scratch
from planners.fusion.plan_text import format_fusion_plan, parse_fusion_plan
from planners.fusion.planning import fusion_plan
from tests.planners.fusion.chains import TERMS, model_of, plain_chain

CHAIN = chain_of(simplified(Model(network=resnet8())).network)
SECTIONS = len(CHAIN.sections)
PLANS = {
    "tiles computed again": configuration(CHAIN, (2,), [(3, 2), (1, 1)]),
    "tiles that keep": configuration(CHAIN, (2,), [(2, 2), (1, 1)], Way.KEEP),
    "rows": (single(CHAIN, 0, 2, Way.ROWS), single(CHAIN, 2, SECTIONS, Way.WHOLE)),
}
PLAN = fusion_plan(CHAIN, PLANS["tiles computed again"], TERMS)
TEXT = format_fusion_plan(PLAN)


@pytest.mark.parametrize("groups", PLANS.values(), ids=PLANS)
@pytest.mark.parametrize("scratch", Scratch)
def test_a_plan_reads_back_as_the_same_groups_cost_and_offsets(groups, scratch):
    terms = replace(TERMS, scratch=scratch, element_bytes=1)
    plan = fusion_plan(CHAIN, groups, terms)
    found = parse_fusion_plan(format_fusion_plan(plan), "plan.json", CHAIN)
    assert (found.groups, found.cost, found.arena) == (plan.groups, plan.cost, plan.arena)
    assert found.terms == terms
    assert format_fusion_plan(found) == format_fusion_plan(plan)


def test_a_plan_of_tensors_with_their_own_elements_reads_back():
    plan = fusion_plan(CHAIN, PLANS["tiles that keep"], replace(TERMS, element_bytes=None))
    found = parse_fusion_plan(format_fusion_plan(plan), "plan.json", CHAIN)
    assert found.terms.element_bytes is None
    assert (found.cost, found.arena) == (plan.cost, plan.arena)


def test_a_plan_that_was_read_runs():
    chain = plain_chain((4, 3, 1), (4, 3, 2))
    plan = fusion_plan(chain, configuration(chain, (), [(2, 2)]), TERMS)
    found = parse_fusion_plan(format_fusion_plan(plan), "plan.json", chain)
    model = model_of(chain.network)
    (frame,) = random_frames(chain.network, 1, 0)
    reference = run_layers(model, frame)[chain.result]
    assert abs(run_fused(model, found, frame).output - reference).max() < 1e-5


def test_the_offsets_of_the_document_are_taken():
    found = json.loads(TEXT)
    for one in found["buffers"]:
        one["offset"] += 4096
    found |= {"arena_bytes": found["arena_bytes"] + 4096, "status": "feasible"}
    plan = parse_fusion_plan(json.dumps(found), "plan.json", CHAIN)
    assert plan.memory == PLAN.memory + 4096


def edited(key, value):
    return json.dumps(json.loads(TEXT) | {key: value})


def with_first(key, **values):
    document = json.loads(TEXT)
    document[key][0] |= values
    return json.dumps(document)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "plan.json:1: not JSON"),
        (edited("more", 1), "the key 'more' is unknown"),
        (edited("scratch", "some"), "scratch: found 'some'; expected one of im2col, none"),
        (edited("element_bytes", 0), "element_bytes: found 0; expected at least 1"),
        (edited("platform", {}), "platform: the key 'operations_per_second' is missing"),
        (
            edited("platform", json.loads(TEXT)["platform"] | {"launch": "1e999999999"}),
            r"platform.launch: found '1e999999999'; expected a number",
        ),
        (edited("status", "fine"), "status: found 'fine'; expected optimal or feasible"),
        (edited("lower_bound", 1), "called optimal at"),
        (edited("nanoseconds", 1), "nanoseconds: found 1; with this network it is"),
        (edited("groups", []), "expected each of 0:"),
        (with_first("groups", layers=["conv1", "pool"]), r"groups\[0\].layers: .* next sections"),
        (with_first("groups", layers=[]), r"groups\[0\].layers: .* next sections"),
        (with_first("groups", way="sideways"), "expected one of whole, recompute, keep, rows"),
        (with_first("groups", row_ends=[1, 2]), "a grid over 2x"),
        (with_first("groups", row_ends=[]), "expected growing numbers"),
        (with_first("buffers", size=1), r"buffers\[0\]: .* no such buffer of this size"),
        (edited("buffers", []), "expected buffer .* too"),
        (with_first("buffers", offset=1), "expected a multiple of 4"),
    ],
)
def test_a_document_with_a_mistake_is_refused_with_its_place(text, complaint):
    with pytest.raises(UnreadableFile, match=complaint):
        parse_fusion_plan(text, "plan.json", CHAIN)


def test_buffers_that_lie_over_one_another_do_not_pass():
    document = json.loads(TEXT)
    for one in document["buffers"]:
        one["offset"] = 0
    with pytest.raises(UnreadableFile, match=r"plan\.json: buffers? "):
        parse_fusion_plan(json.dumps(document), "plan.json", CHAIN)


def test_the_plan_of_another_network_is_refused():
    with pytest.raises(UnreadableFile, match="next sections"):
        parse_fusion_plan(TEXT, "plan.json", plain_chain((4, 3, 1)))
