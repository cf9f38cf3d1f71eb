"""Attention in the memory planner: keys and values kept, all else row by row."""

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from cnn2csdf import operators as op
from cnn2csdf.execution.compare import random_frames, verify
from cnn2csdf.execution.layer_by_layer import run_layer_by_layer
from cnn2csdf.lowering import lower
from cnn2csdf.readers.model_files import read_model
from cnn2csdf.simplify import simplified
from csdf.analysis.bound_channels import with_capacities
from csdf.analysis.self_timed import self_timed_execution
from csdf.errors import InvalidPlan
from csdf.search.trade_off import smallest_storage
from planners.memory.answer import WHOLE_LAYERS
from planners.memory.fit import fit
from planners.memory.several import run_plan
from planners.plan.checker import require_carried_out
from planners.plan.plan import Mode
from tests.planners.code.compiling import libraries, needs_compiler, run_all
from tests.planners.memory.encoders import Sizes, by_rows, encoder, mixture, vision
from tests.shared_data import SHARED, each

SMALL = Sizes(tokens=24, width=16, heads=4, hidden=32)
MODELS = {
    "encoder": encoder(SMALL, blocks=2),
    "fused": encoder(SMALL, is_fused=True),
    "vision": vision(replace(SMALL, tokens=17), size=16, patch=4),
    "mixture": mixture(replace(SMALL, tokens=64), size=8, channels=8),
}


@cache
def fitted(name, element_bytes):
    """The model by rows and the answer for it."""
    model = by_rows(MODELS[name])
    return model, fit(model, element_bytes=element_bytes, labels=(12,))


def assert_equal_run(model, plan):
    (frame,) = random_frames(model.network, 1, 7)
    wanted = run_layer_by_layer(model, frame)
    found = run_plan(model, plan, frame)
    assert found.high_water_bytes <= plan.arena_bytes
    for name, array in wanted.items():
        np.testing.assert_allclose(found.outputs[name], array, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_tokens_as_rows_compute_what_the_file_does(name):
    model, rewritten = MODELS[name], by_rows(MODELS[name])
    (frame,) = random_frames(model.network, 1, 5)
    wanted, found = (run_layer_by_layer(one, frame) for one in (model, rewritten))
    assert any(isinstance(one.operator, op.AttentionProduct) for one in rewritten.network.layers)
    for output, array in wanted.items():
        np.testing.assert_allclose(found[output], array, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", MODELS)
def test_plans_with_attention_are_carried_out_in_their_bytes(name):
    model, found = fitted(name, 4)
    least = found.least
    require_carried_out(model.network, least.plan)
    assert least.mac_ratio == 1
    assert_equal_run(model, least.plan)


def test_an_encoder_keeps_keys_and_values_and_one_token_beside_them():
    _, found = fitted("encoder", 1)
    # What the formula has no room for: the row of the sum between the two halves, once.
    assert found.least.ram_bytes <= SMALL.keys_and_values_kept + SMALL.width
    whole = next(one for one in found.methods if one.name == WHOLE_LAYERS)
    assert whole.ram_bytes >= SMALL.heads * SMALL.tokens**2  # of scores


def test_places_of_an_image_are_put_in_the_order_of_tokens_as_rows_come():
    model, found = fitted("mixture", 1)
    plan = found.least.plan
    stages = [one.stage for group in plan.groups for one in group.stages]
    moving = {one.name for one in model.network.layers if isinstance(one.operator, op.PlaceOrder)}
    (scattering,) = [one for one in stages if one.mode is Mode.ACCUMULATING]
    assert scattering.result in moving
    # Image and tokens lie whole, keys and values of one of four groups: 64 places, 16 + 8 wide.
    assert plan.arena_bytes <= 64 * 24 + 2 * 16 * 16 + 300


def test_a_plan_that_drops_keys_too_early_is_refused():
    model = by_rows(MODELS["encoder"])
    plan = fit(model, element_bytes=1, labels=(12,)).least.plan
    kept = max(
        (one for one in plan.buffers if one.kind.value == "line buffer"), key=lambda one: one.rows
    )
    size = kept.size // kept.rows * (kept.rows - 1)
    smaller = replace(kept, rows=kept.rows - 1, size=size)
    buffers = tuple(smaller if one is kept else one for one in plan.buffers)
    with pytest.raises(InvalidPlan, match="rows"):
        require_carried_out(model.network, replace(plan, buffers=buffers))


def test_keys_are_consumed_whole_by_the_first_token_and_released_by_the_last():
    network = by_rows(MODELS["encoder"]).network
    scores = next(one for one in network.layers if isinstance(one.operator, op.AttentionProduct))
    query, key = scores.inputs
    graph = lower(network)
    channels = {(one.producer, one.consumer): one for one in graph.channels}
    row, rows = SMALL.width, SMALL.tokens
    assert channels[query, scores.name].consumption == (row,) * rows
    assert channels[key, scores.name].consumption == (row * rows, *(0,) * (rows - 1))
    assert channels[key, scores.name].release == (*(0,) * (rows - 1), row * rows)


@pytest.mark.parametrize("name", MODELS)
def test_tokens_run_row_by_row_in_the_smallest_buffers(name):
    model = by_rows(MODELS[name])
    graph = lower(model.network)
    bounded = with_capacities(graph, smallest_storage(graph).point.capacities)
    firings = self_timed_execution(bounded, iterations=1).firings
    frames = random_frames(model.network, 1, 3)
    assert verify(model, bounded, firings, frames).worst.relative < 1e-5


@needs_compiler
@pytest.mark.slow
def test_libraries_with_attention_give_the_golden_numbers_under_sanitizers(tmp_path):
    cases = [(model, found.least.plan) for model, found in (fitted(name, 4) for name in MODELS)]
    assert run_all(libraries(cases), tmp_path) == []


@pytest.mark.slow
@each(
    "path",
    [
        one
        for one in sorted((SHARED / "networks/attention").glob("*.onnx"))
        if "int8" not in one.stem
    ],
)
def test_keys_and_values_are_kept_in_no_more_than_the_page_says_and_two_percent(path):
    known = json.loads((path.parent / "networks.json").read_text())[path.stem]
    least = fit(simplified(read_model(path)), element_bytes=1, labels=(12,)).least
    assert least.mac_ratio == 1
    assert least.ram_bytes * 50 <= known["k_and_v_kept"] * 51
