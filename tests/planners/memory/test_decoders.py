"""Causal decoders token by token: keys and values that stay, beside onnxruntime on all tokens."""

import subprocess

import numpy as np
import onnx
import onnxruntime as ort
import pytest

from cnn2csdf.readers.model_files import read_model
from cnn2csdf.rings import with_states
from cnn2csdf.simplify import simplified
from csdf.cli.main import main
from planners.memory.plan_runs import run_frames
from planners.memory.stateful import stateful_plan
from tests.cnn2csdf.decoders import (
    Sizes,
    causal_mask,
    quantized,
    step_mask,
    step_model,
    steps,
    whole_model,
)
from tests.cnn2csdf.onnx_models import saved

KEPT, TOKENS = 6, 10  # with four tokens behind that with which keys and values are full
PAIRS = ["--state", "past.*=present.*"]
DRAWN = np.random.default_rng(1).integers(0, Sizes().entries, TOKENS)


def decoder(path):
    """The model of a step whose keys and values stay."""
    model = read_model(path, with_weights=True)
    names = [one.name for one in model.network.inputs if one.name.startswith("past")]
    return simplified(with_states(model, {one: one.replace("past", "present") for one in names}))


def logits(model):
    """Logits of each token, in the bytes of the plan, with all that does not stay spoilt between."""
    frames = []
    for number, token in enumerate(DRAWN):
        given = {"token": token, "position": number, "mask": step_mask(number, KEPT)}
        frames.append(
            {
                one.name: np.asarray(given[one.name], one.array_type).reshape(one.shape.dims)
                for one in model.network.inputs
            }
        )
    runs = run_frames(model, stateful_plan(model.network).plan, frames)
    return np.array([one.outputs["logits output"].reshape(-1) for one in runs])


def whole_logits(sizes):
    """Logits of all tokens at once, by onnxruntime; each sees the last tokens that are kept."""
    whole = ort.InferenceSession(whole_model(sizes, TOKENS).SerializeToString())
    given = {"token": DRAWN[None], "position": np.arange(TOKENS)[None]}
    return whole.run(None, {**given, "mask": causal_mask(TOKENS, KEPT)})[0][0]


def test_heads_that_share_keys_and_values_have_one_ring(tmp_path):
    sizes = Sizes(blocks=1, heads=4, shared=2)
    model = decoder(saved(step_model(sizes, KEPT), tmp_path))
    assert np.abs(logits(model) - whole_logits(sizes)).max() < 1e-5
    # 5 tokens before, 2 heads of 4 numbers of 4 bytes.
    assert model.network.kept_bytes() == 2 * 5 * 2 * 4 * 4


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_each_step_gives_what_all_tokens_so_far_give(kind, tmp_path):
    sizes = Sizes(kind=kind)
    model = decoder(saved(step_model(sizes, KEPT), tmp_path))
    assert np.abs(logits(model) - whole_logits(sizes)).max() < 1e-5
    # Keys and values of 5 tokens before, 16 numbers of 4 bytes, in 2 blocks.
    assert model.network.kept_bytes() == 2 * 5 * 16 * 4 * 2
    # Nothing has a copy of all keys or values.
    windows = {f"present.{number}.{one} rows" for number in "01" for one in ("key", "value")}
    kept = {one.name for one in model.network.layers if one.shape.elements >= KEPT * 16}
    assert kept == windows | {f"{name[:-5]} output" for name in windows}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_integers_are_those_of_the_plain_runtime_bit_by_bit(kind, tmp_path):
    path = saved(step_model(Sizes(kind=kind), KEPT), tmp_path)
    calibrating = np.random.default_rng(2).integers(0, Sizes().entries, 16)
    path = quantized(path, calibrating, KEPT, tmp_path)
    plain = ort.SessionOptions()
    plain.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(path, plain)
    wanted = [found["logits"].reshape(-1) for _, found in steps(session, DRAWN, KEPT)]
    model = decoder(path)
    assert logits(model).tolist() == np.array(wanted).tolist()
    # A byte for each number of keys and values: the file makes them real between two steps.
    assert model.network.kept_bytes() == 2 * 5 * 16 * 2
    folder = tmp_path / "c"
    assert main(["deploy", path, *PAIRS, "-o", str(folder)]) == 0
    subprocess.run(["make", "-s", "-C", folder, "test", f"CFLAGS={SANITIZED}"], check=True)


SANITIZED = "-O0 -fsanitize=address,undefined -fno-sanitize-recover=all"


@pytest.mark.slow
def test_c_works_token_by_token_in_the_bytes_that_stay(tmp_path):
    path = saved(step_model(Sizes(), KEPT), tmp_path)
    folder = tmp_path / "c"
    assert main(["deploy", path, *PAIRS, "-o", str(folder)]) == 0
    subprocess.run(["make", "-s", "-C", folder, "test", f"CFLAGS={SANITIZED}"], check=True)


def test_names_with_a_star_pair_inputs_with_outputs(tmp_path, capsys):
    path = saved(step_model(Sizes(blocks=1), KEPT), tmp_path)
    assert main(["fit", path, *PAIRS, "--json"]) == 0
    assert f'"kept_bytes": {2 * 5 * 16 * 4}' in capsys.readouterr().out
    assert main(["fit", path, "--state", "old.*=present.*"]) == 2
    assert "no input has such a name, only 'token'" in capsys.readouterr().err
    graph = onnx.load(path)
    graph.graph.input[3].type.tensor_type.shape.dim[3].dim_value = 3
    assert main(["fit", saved(graph, tmp_path), *PAIRS]) == 2
