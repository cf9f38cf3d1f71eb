"""Fused tiles in real memory against the network as a whole."""

from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings

from cnn2csdf.catalogue.embedded import resnet8
from cnn2csdf.execution.compare import difference, random_frames
from cnn2csdf.execution.layer_by_layer import run_layers
from cnn2csdf.readers.model_files import read_model
from cnn2csdf.simplify import simplified
from cnn2csdf.weights import Model
from csdf.errors import InvalidPlan
from figures.published.mafat import paper_configuration
from figures.published.mafat_execution import run_fused as run_as_darknet
from planners.code.library import library
from planners.fusion.groups import configuration, group_of
from planners.fusion.planning import fusion_plan
from planners.memory.answer import GroupMode, ScratchCount
from planners.memory.loaded_plan import fit_of
from planners.memory.order import chain_of
from planners.memory.plan_runs import run_plan
from planners.plan.carried_out import require_carried_out
from planners.plan.plan import Kind
from planners.plan.text import format_plans, parse_plans
from tests.planners.fusion.chains import TERMS, model_of, plain_chain, planned, yolo_chain
from tests.shared_data import SHARED, each


class Ran(NamedTuple):
    output: np.ndarray
    touched: int


def ran(model, plan, frame):
    outputs, touched, _ = run_plan(model, plan.plan, frame)
    return Ran(next(iter(outputs.values())), touched)


@pytest.mark.slow
@given(planned())
@settings(max_examples=50, deadline=None)
def test_tiles_give_what_the_whole_network_gives(drawn):
    chain, groups, terms = drawn
    plan = fusion_plan(chain, groups, terms)
    model = model_of(chain.network)
    (frame,) = random_frames(chain.network, 1, seed=3)
    run = ran(model, plan, frame)
    expected = run_layers(model, frame)[chain.layers[-1]]
    np.testing.assert_allclose(run.output, expected, rtol=1e-4, atol=1e-4)
    assert run.touched <= plan.memory
    if all(
        group.mode is not GroupMode.ROWS for group in groups
    ):  # staged rows need not reach the end
        assert run.touched == plan.memory
    require_carried_out(chain.network, plan.plan)


@pytest.mark.slow
def test_the_layers_of_the_paper_in_its_smallest_configuration():
    chain = yolo_chain(320)
    model = model_of(chain.network)
    (frame,) = random_frames(chain.network, 1, seed=0)
    plan = fusion_plan(chain, paper_configuration(chain, 5, 8), TERMS)
    run = ran(model, plan, frame)
    expected = run_layers(model, frame)[chain.layers[-1]]
    assert difference(run.output, expected).relative < 1e-5
    assert run.touched == plan.memory == plan.least_bytes


@pytest.mark.slow
@pytest.mark.parametrize("way", [GroupMode.RECOMPUTED, GroupMode.CACHED])
def test_the_paper_s_layers_whatever_happens_to_overlaps(way):
    chain = yolo_chain(96)
    model = model_of(chain.network)
    (frame,) = random_frames(chain.network, 1, seed=0)
    plan = fusion_plan(chain, configuration(chain, (8,), [(5, 5), (2, 2)], way), TERMS)
    run = ran(model, plan, frame)
    expected = run_layers(model, frame)[chain.layers[-1]]
    assert difference(run.output, expected).relative < 1e-5
    assert plan.redundant == 0 if way is GroupMode.CACHED else plan.redundant > 0


@pytest.mark.slow
@pytest.mark.parametrize(("cut", "top"), [(None, 1), (4, 3), (8, 2), (12, 4)])
def test_the_arena_of_the_manual_sweep_is_the_planned_one_to_the_byte(cut, top):
    # At a sixth of the resolution, so that it is quick; the figures hold the full one.
    chain = yolo_chain(96)
    model = model_of(chain.network)
    (frame,) = random_frames(chain.network, 1, seed=0)
    for bottom in (1, 3) if cut else (1,):
        plan = fusion_plan(chain, paper_configuration(chain, top, cut, bottom), TERMS)
        assert ran(model, plan, frame).touched == plan.memory


def spoiled(plan, kind, **changes):
    """The plan with the largest buffer of a kind changed."""
    largest = max((one for one in plan.buffers if one.kind is kind), key=lambda one: one.size)
    changed = replace(largest, **{name: change(largest) for name, change in changes.items()})
    return replace(plan, buffers=tuple(changed if one is largest else one for one in plan.buffers))


TILED = chain_of(simplified(Model(network=resnet8(resolution=16))).network)
GROUPS = {
    GroupMode.RECOMPUTED: configuration(TILED, (2,), [(3, 2), (1, 1)]),
    GroupMode.CACHED: configuration(TILED, (2,), [(3, 2), (1, 1)], GroupMode.CACHED),
    GroupMode.ROWS: (
        group_of(TILED, 0, 2, GroupMode.ROWS),
        group_of(TILED, 2, TILED.sections, GroupMode.WHOLE),
    ),
}


@pytest.fixture(scope="module", params=GROUPS, ids=lambda way: way.value)
def fused(request):
    return fusion_plan(TILED, GROUPS[request.param], TERMS).plan


def test_a_plan_reads_back_as_itself_and_is_passed(fused):
    assert parse_plans(format_plans([fused]), "plan.json") == (fused,)
    require_carried_out(TILED.network, fused)
    assert fit_of(TILED.network, fused).best.ram_bytes == fused.arena_bytes


def test_each_buffer_that_lies_elsewhere_or_is_smaller_is_refused(fused):
    kinds = {one.kind for one in fused.buffers if one.size and one.kind is not Kind.SCRATCH}
    for kind in sorted(kinds, key=lambda one: one.value):
        for change in (
            {"size": lambda one: one.size - 4},
            {"offset": lambda one: fused.arena_bytes - one.size + 4},
        ):
            with pytest.raises(InvalidPlan):
                require_carried_out(TILED.network, spoiled(fused, kind, **change))


def test_buffers_that_lie_over_one_another_in_a_group_are_refused(fused):
    first = [one for one in fused.buffers if one.size and one.begin == 0]
    refused = 0
    for one, other in pairwise(first):
        moved = replace(one, offset=min(other.offset, fused.arena_bytes - one.size))
        buffers = tuple(moved if here is one else here for here in fused.buffers)
        try:
            require_carried_out(TILED.network, replace(fused, buffers=buffers))
        except InvalidPlan:
            refused += 1
    assert refused > len(first) // 2  # others live at different times of the group


def test_a_tile_over_what_its_layer_reads_is_refused():
    # What the second layer reads is needed until it has ended, and by nobody behind it.
    chain = plain_chain((2, 3, 1), (2, 3, 1), (2, 3, 1))
    plan = fusion_plan(chain, configuration(chain, (), [(1, 2)]), TERMS).plan
    require_carried_out(chain.network, plan)
    first, second = (one for one in plan.buffers if one.kind is Kind.TILE)
    over = replace(second, offset=first.offset)
    buffers = tuple(over if one is second else one for one in plan.buffers)
    with pytest.raises(InvalidPlan, match="do not hold elements"):
        require_carried_out(chain.network, replace(plan, buffers=buffers))


def with_tiles(plan, **changes):
    """The plan with the tiles of its first group changed."""
    first, *rest = plan.groups
    (stage,) = first.stages
    group = replace(first, stages=(replace(stage, tiles=replace(stage.tiles, **changes)),))
    return replace(plan, groups=(group, *rest))


@pytest.mark.parametrize("way", [GroupMode.RECOMPUTED, GroupMode.CACHED])
def test_tiles_that_are_not_those_of_the_plan_are_refused(way):
    plan = fusion_plan(TILED, GROUPS[way], TERMS).plan
    tiles = plan.groups[0].stages[0].tiles
    with pytest.raises(InvalidPlan, match="tiles that end at"):
        require_carried_out(TILED.network, with_tiles(plan, row_ends=tiles.row_ends[:-1]))
    with pytest.raises(InvalidPlan, match=r"multiply-accumulates|asked for"):
        require_carried_out(TILED.network, with_tiles(plan, row_ends=tiles.row_ends[1:]))
    with pytest.raises(InvalidPlan, match=r"multiply-accumulates|no tile"):
        require_carried_out(TILED.network, with_tiles(plan, halo_cached=not tiles.halo_cached))


def test_tiles_rows_and_whole_layers_are_written_in_c():
    model = model_of(TILED.network)
    whole = (group_of(TILED, 0, TILED.sections, GroupMode.WHOLE),)
    for groups in (*GROUPS.values(), whole):
        plan = fusion_plan(TILED, groups, replace(TERMS, scratch=ScratchCount.NONE))
        header = library(model, plan.plan).files["include/resnet8.h"]
        assert f"ARENA_BYTES {plan.memory}\n" in header


def test_a_run_as_darknet_does_it_gives_the_same():
    plan = fusion_plan(TILED, GROUPS[GroupMode.CACHED], TERMS)
    model = model_of(TILED.network)
    (frame,) = random_frames(TILED.network, 1, seed=0)
    ours, theirs = ran(model, plan, frame), run_as_darknet(model, plan, frame)
    assert difference(ours.output, theirs.output).relative < 1e-5
    assert ours.touched == theirs.touched == plan.memory


def test_a_plan_for_small_elements_runs_in_its_bytes():
    chain = plain_chain((2, 3, 1))
    plan = fusion_plan(chain, configuration(chain, (), [(1, 1)]), replace(TERMS, element_bytes=1))
    model = model_of(chain.network)
    (frame,) = random_frames(chain.network, 1, seed=0)
    run = ran(model, plan, frame)
    assert difference(run.output, run_layers(model, frame)[chain.layers[-1]]).relative < 1e-5
    assert run.touched == plan.memory


@each("model", [SHARED / "networks/tflite/mcunet_vww1_int8.tflite"] if SHARED.exists() else [])
def test_an_int8_network_with_a_frame_in_single_precision_runs_in_its_own_bytes(model):
    read = simplified(read_model(str(model), with_weights=True))
    chain = chain_of(read.network)
    terms = replace(TERMS, element_bytes=None, scratch=ScratchCount.NONE)
    plan = fusion_plan(chain, (group_of(chain, 0, chain.sections, GroupMode.WHOLE),), terms)
    # The frame of 3 x 80 x 80 elements of four bytes, beside its quantised copy of one each.
    assert plan.memory == 3 * 80 * 80 * (4 + 1)
    (frame,) = random_frames(read.network, 1, seed=0)
    run = ran(read, plan, frame)
    assert np.array_equal(run.output, run_layers(read, frame)[chain.layers[-1]])
    assert run.touched <= plan.memory
