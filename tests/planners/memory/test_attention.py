"""Attention in the memory planner: keys and values kept, all else row by row."""

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.dtypes import Stored
from cnn2csdf.execution.compare import random_frames, verify
from cnn2csdf.execution.layer_by_layer import run_layer_by_layer
from cnn2csdf.lowering import lower
from cnn2csdf.parameters import parameter_bytes
from cnn2csdf.platforms import NANOSECONDS, PLATFORMS, USUAL_PLATFORM
from cnn2csdf.readers.model_files import read_model
from cnn2csdf.simplify import simplified
from cnn2csdf.weights import Model
from csdf.analysis.bound_channels import with_capacities
from csdf.analysis.self_timed import self_timed_execution
from csdf.errors import InvalidPlan
from csdf.search.trade_off import smallest_storage
from planners.code.library import library
from planners.memory.answer import HEADS, LINES_AGAIN, WHOLE_LAYERS
from planners.memory.fit import fit
from planners.memory.plan_runs import run_plan
from planners.plan.carried_out import require_carried_out
from planners.plan.plan import Mode, Span
from planners.plan.text import format_plans, parse_plans
from planners.rewrites.copied_layers import require_same
from planners.rewrites.rematerialisation import executed_model, executed_network
from tests.planners.code.compiling import libraries, needs_compiler, run_all
from tests.planners.memory.encoders import Sizes, by_rows, encoder, mixture, vision
from tests.shared_data import SHARED, each

SMALL = Sizes(tokens=16, width=16, heads=4, hidden=32)
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


def test_queries_keys_and_values_are_made_apart_where_their_matrices_are_one():
    layers = by_rows(MODELS["fused"]).network.layers
    filters = [one.shape.channels for one in layers if isinstance(one.operator, op.Convolution)]
    assert max(filters) == SMALL.hidden < 3 * SMALL.width
    assert sum(isinstance(one.operator, op.Conversion) for one in layers) == 3


@pytest.mark.parametrize("name", MODELS)
def test_plans_with_attention_are_carried_out_in_their_bytes(name):
    model, found = fitted(name, 4)
    least = found.least
    require_carried_out(model.network, least.plan)
    assert least.mac_ratio == 1
    assert_equal_run(model, least.plan)


def test_heads_one_after_another_keep_keys_and_values_of_one():
    _, found = fitted("encoder", 1)
    least = found.least
    assert (least.name, least.mac_ratio) == (HEADS, 1)
    assert least.ram_bytes <= SMALL.head_by_head
    ram = {one.name: one.ram_bytes for one in found.methods}
    # What the formula has no room for: the row of the sum between the two halves, once.
    assert ram[LINES_AGAIN] <= SMALL.keys_and_values_kept + SMALL.width
    assert ram[WHOLE_LAYERS] >= SMALL.heads * SMALL.tokens**2  # of scores
    # Two blocks of four heads: each head a group, then their results and what is behind them.
    by_heads = [one for one in least.plan.rematerialised if one.by_heads]
    assert len(by_heads) == 2
    assert parse_plans(format_plans([least.plan]), "plan.json") == (least.plan,)


def test_head_by_head_that_saves_less_ram_than_it_takes_time_needs_a_limit():
    network = by_rows(MODELS["encoder"]).network
    # 4 ms a layer: head by head each normalisation is computed three times for each head.
    durations = dict.fromkeys((one.name for one in network.layers), (4_000_000,))
    terms = {"element_bytes": 1, "labels": (12,), "durations": durations}
    found = fit(network, **terms)
    products = {one.name: one.ram_bytes * one.nanoseconds for one in found.methods}
    assert products[found.best.name] == min(products.values()) < products[HEADS]
    heads = next(one for one in found.methods if one.name == HEADS)
    assert f"--ram {heads.ram_bytes} chooses it" in str(found.reason)
    assert fit(network, ram=heads.ram_bytes, **terms).best.name == HEADS


def test_groups_of_tokens_work_one_after_another_head_by_head():
    model, found = fitted("mixture", 1)
    # The image (64 x 8) and all tokens (64 x 16) lie whole; of one group of 16 tokens its results, keys
    # and values of a head, and a row: normalised, of a query, of scores.
    least = 64 * 8 + 64 * 16 + 16 * 16 + 2 * 16 * 4 + (16 + 4 + 16)
    assert found.least.name == HEADS
    assert least <= found.least.ram_bytes <= least + least // 50
    assert_equal_run(model, found.least.plan)


def test_heads_take_their_parts_of_measured_times():
    network = by_rows(MODELS["mixture"]).network
    durations = dict.fromkeys(
        (one.name for one in network.layers), (1_000_000,)
    )  # a millisecond each
    found = fit(network, element_bytes=1, labels=(12,), durations=durations)
    times = {one.name: one.nanoseconds for one in found.methods}
    # The normalisation in front for queries, keys and values of each head: 11 times more. Firings
    # start: three for keys, values and queries of a token and head, one for scores.
    starts = PLATFORMS[USUAL_PLATFORM].launch * NANOSECONDS * 64 * 4 * 4
    again = times[HEADS] - times[WHOLE_LAYERS] - 11_000_000
    assert starts <= again < 2 * starts


def test_heads_share_the_weights_of_the_file():
    model, found = fitted("fused", 4)
    worked = executed_model(model, found.least.plan.rematerialised)
    assert len(worked.network.layers) > len(model.network.layers)
    assert parameter_bytes(worked.network) == parameter_bytes(model.network)
    assert library(model, found.least.plan).written.weight_bytes == found.flash_bytes


def with_inputs(layer, place, source):
    """The layer with one of its inputs changed."""
    return replace(
        layer, inputs=tuple(source if n == place else one for n, one in enumerate(layer.inputs))
    )


def test_weights_that_another_block_reads_whole_are_not_cut_into_heads():
    network = by_rows(MODELS["encoder"]).network
    span = fitted("encoder", 1)[1].least.plan.rematerialised[:1]
    scores = [one for one in network.layers if getattr(one.operator, "gives", "") == "scores"]
    tied = {one.inputs[0]: (Stored(role="kernel", name="of both"),) for one in scores}
    layers = tuple(replace(one, stored=tied.get(one.name, one.stored)) for one in network.layers)
    assert executed_network(network, span)
    with pytest.raises(InvalidPlan, match="has no heads"):
        executed_network(replace(network, layers=layers), span)


def test_heads_and_groups_in_another_order_are_another_network():
    network = by_rows(MODELS["mixture"]).network
    worked = executed_network(network, fitted("mixture", 1)[1].least.plan.rematerialised)
    require_same(network, worked)
    groups, joined = (
        next(one for one in worked.layers if one.operator == op.Concatenation(axis=axis))
        for axis in (1, 2)
    )
    values = [worked.layer(name) for name in joined.inputs]
    cut = next(one for one in worked.layers if isinstance(one.operator, op.Slice))
    later = replace(cut.operator, start=cut.operator.start + 16, stop=cut.operator.stop + 16)
    for wrong in (
        replace(joined, inputs=tuple(reversed(joined.inputs))),
        replace(groups, inputs=tuple(reversed(groups.inputs))),
        with_inputs(values[1], 1, values[0].inputs[1]),  # its values are those of another head
        replace(cut, operator=later),
    ):
        layers = tuple(wrong if one.name == wrong.name else one for one in worked.layers)
        with pytest.raises(InvalidPlan, match=f"{wrong.name}' is no copy of a layer"):
            require_same(network, replace(worked, layers=layers))


def test_a_span_without_heads_is_refused():
    network = by_rows(MODELS["encoder"]).network
    (first, *_) = network.inputs
    ends = [one.inputs[0] for one in network.outputs]
    for source, result in ((first.name, ends[0]), (ends[0], first.name)):
        with pytest.raises(InvalidPlan, match="has no heads of attention between"):
            executed_network(network, (Span(source, result, by_heads=True),))


def test_an_output_of_tokens_has_the_dimensions_of_the_file():
    builder = NetworkBuilder("tokens")
    tokens = builder.add(op.Activation(function="relu"), builder.input((3, 4, 1)))
    builder.add(op.Output(dims=(1, 4, 3)), tokens, name="output")
    model = Model(network=builder.network(), weights={})
    assert_equal_run(model, fit(model.network).best.plan)


def test_places_of_an_image_are_put_in_the_order_of_tokens_as_rows_come():
    model, found = fitted("mixture", 1)
    plan = found.least.plan
    stages = [one for group in plan.groups for one in group.stages]
    moving = {one.name for one in model.network.layers if isinstance(one.operator, op.PlaceOrder)}
    (scattering,) = [one for one in stages if one.mode is Mode.ACCUMULATING]
    assert scattering.result in moving
    # Image and tokens lie whole, keys and values of one of four groups: 64 places, 16 + 8 wide.
    assert plan.arena_bytes <= 64 * 24 + 2 * 16 * 16 + 300


def test_a_plan_that_drops_keys_too_early_is_refused():
    model = by_rows(MODELS["encoder"])
    plan = fit(model, element_bytes=1, ram=SMALL.keys_and_values_kept + 16, labels=(12,)).least.plan
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
def test_the_least_plan_takes_no_more_than_the_page_says_and_two_percent(path):
    known = json.loads((path.parent / "networks.json").read_text())[path.stem]
    least = fit(simplified(read_model(path)), element_bytes=1, labels=(12,)).least
    assert least.mac_ratio == 1
    assert least.ram_bytes * 50 <= known["head_by_head"] * 51


@needs_compiler
@pytest.mark.slow
@each(
    "path",
    [
        one
        for pattern in ("encoder*.tflite", "conformer*_int8.onnx")
        for one in (SHARED / "networks/attention").glob(pattern)
    ],
)
def test_heads_of_integers_give_the_golden_bytes_in_c(path, tmp_path):
    model = simplified(read_model(path, with_weights=True))
    found = fit(model, input="rows", output="external", labels=(12,))
    assert found.least.name == HEADS
    assert run_all(libraries([(model, found.least.plan)]), tmp_path) == []
