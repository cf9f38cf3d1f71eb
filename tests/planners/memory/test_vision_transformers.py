"""Vision transformers of 8-bit integers: tokens become rows once, behind the patches of the image."""

from __future__ import annotations

import pytest

from cnn2csdf import operators as op
from cnn2csdf.readers.model_files import read_model
from cnn2csdf.simplify import simplified
from planners import fit, require_carried_out
from tests.cnn2csdf.readers.tflite_encoders import vision_transformer

IMAGE, PATCH, WIDTH, HEADS = 32, 4, 96, 3
TOKENS = (IMAGE // PATCH) ** 2


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "vit.tflite"
    path.write_bytes(
        vision_transformer(image=IMAGE, patch=PATCH, width=WIDTH, heads=HEADS, blocks=1)
    )
    return simplified(read_model(path))


def test_one_view_behind_the_patches_puts_all_tokens_on_rows(model):
    layers = model.network.layers
    assert not any(isinstance(layer.operator, op.PlaceOrder) for layer in layers)
    on_rows = [layer for layer in layers if layer.shape.dims == (WIDTH, TOKENS, 1)]
    views = [layer for layer in on_rows if isinstance(layer.operator, op.View)]
    assert len(views) == 1
    assert len(on_rows) > 20


def test_an_int8_vision_transformer_keeps_keys_and_values_not_whole_tensors(model):
    plan = fit(model, input="rows", labels=(8,)).least.plan
    # The residual stream, keys and values of one head, and some rows; whole layers take six streams.
    assert plan.arena_bytes < 3 * TOKENS * WIDTH
    require_carried_out(model.network, plan)
