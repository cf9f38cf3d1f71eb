"""Fused tiles in real memory against the network as a whole."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from cnn2csdf.execution.compare import difference, random_frames
from cnn2csdf.execution.whole import run_layers
from cnn2csdf.readers.model_files import read_model
from cnn2csdf.simplify import simplified
from csdf.errors import ExecutionError
from figures.published.mafat import paper_configuration
from planners.check import check_plan
from planners.fusion.chains import chain_of
from planners.fusion.configurations import Way, configuration, single
from planners.fusion.execution import run_fused
from planners.fusion.memory import Scratch
from planners.fusion.planning import alive_bytes, fusion_plan
from tests.planners.fusion.chains import TERMS, model_of, plain_chain, planned, yolo_chain
from tests.shared_data import SHARED, each


@pytest.mark.slow
@given(planned())
@settings(max_examples=120, deadline=None)
def test_tiles_give_what_the_whole_network_gives(drawn):
    chain, groups, terms = drawn
    plan = fusion_plan(chain, groups, terms)
    check_plan(plan.arena)
    model = model_of(chain.network)
    (frame,) = random_frames(chain.network, 1, seed=3)
    run = run_fused(model, plan, frame)
    expected = run_layers(model, frame)[chain.result]
    np.testing.assert_allclose(run.output, expected, rtol=1e-4, atol=1e-4)
    assert run.touched <= run.arena_bytes == plan.memory


@pytest.mark.slow
def test_the_layers_of_the_paper_in_its_smallest_configuration():
    chain = yolo_chain()
    model = model_of(chain.network)
    (frame,) = random_frames(chain.network, 1, seed=0)
    plan = fusion_plan(chain, paper_configuration(chain, 5, 8), TERMS)
    run = run_fused(model, plan, frame)
    expected = run_layers(model, frame)[chain.result]
    assert difference(run.output, expected).relative < 1e-5
    assert run.touched == plan.memory == alive_bytes(plan)


@pytest.mark.slow
@pytest.mark.parametrize("way", [Way.RECOMPUTE, Way.KEEP])
def test_the_paper_s_layers_whatever_happens_to_overlaps(way):
    chain = yolo_chain(96)
    model = model_of(chain.network)
    (frame,) = random_frames(chain.network, 1, seed=0)
    plan = fusion_plan(chain, configuration(chain, (8,), [(5, 5), (2, 2)], way), TERMS)
    run = run_fused(model, plan, frame)
    expected = run_layers(model, frame)[chain.result]
    assert difference(run.output, expected).relative < 1e-5
    assert plan.redundant == 0 if way is Way.KEEP else plan.redundant > 0


@pytest.mark.slow
@pytest.mark.parametrize("top", range(1, 6))
@pytest.mark.parametrize("cut", [None, 4, 8, 12])
def test_the_arena_of_the_manual_sweep_is_the_planned_one_to_the_byte(cut, top):
    # At a quarter of the resolution, so that it is quick; the figures hold the full one.
    chain = yolo_chain(160)
    model = model_of(chain.network)
    (frame,) = random_frames(chain.network, 1, seed=0)
    for bottom in range(1, 4) if cut else (1,):
        plan = fusion_plan(chain, paper_configuration(chain, top, cut, bottom), TERMS)
        assert run_fused(model, plan, frame).touched == plan.memory


def test_a_tile_larger_than_its_buffer_is_an_error():
    chain = plain_chain((2, 3, 1), (2, 3, 1))
    groups = configuration(chain, (), [(2, 2)])
    plan = fusion_plan(chain, groups, TERMS)
    problem = plan.arena.problem
    small = tuple(
        replace(one, size=one.size - 4) if one.name.endswith("tile") else one
        for one in problem.buffers
    )
    broken = replace(plan, arena=replace(plan.arena, problem=replace(problem, buffers=small)))
    (frame,) = random_frames(chain.network, 1, seed=0)
    with pytest.raises(ExecutionError, match=r"tile' of \d+ bytes is asked for"):
        run_fused(model_of(chain.network), broken, frame)


def test_a_plan_for_small_elements_is_not_run():
    chain = plain_chain((2, 3, 1))
    plan = fusion_plan(chain, configuration(chain, (), [(1, 1)]), replace(TERMS, element_bytes=1))
    (frame,) = random_frames(chain.network, 1, seed=0)
    with pytest.raises(ExecutionError, match="elements of 1 bytes"):
        run_fused(model_of(chain.network), plan, frame)


@each("model", [SHARED / "networks/tflite/mcunet_vww1_int8.tflite"] if SHARED.exists() else [])
def test_an_int8_network_with_a_frame_in_single_precision_runs_in_its_own_bytes(model):
    read = simplified(read_model(str(model), with_weights=True))
    chain = chain_of(read.network)
    terms = replace(TERMS, element_bytes=None, scratch=Scratch.NONE)
    plan = fusion_plan(chain, (single(chain, 0, len(chain.sections), Way.WHOLE),), terms)
    # The frame of 3 x 80 x 80 elements of four bytes, beside its quantised copy of one each.
    assert plan.memory == 3 * 80 * 80 * (4 + 1)
    (frame,) = random_frames(read.network, 1, seed=0)
    run = run_fused(read, plan, frame)
    assert np.array_equal(run.output, run_layers(read, frame)[chain.result])
    assert run.touched <= plan.memory
