"""Encoders of language as exporters write them: tokens are looked up, a mask leaves some out."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from cnn2csdf.onnx_files.reader import read_onnx
from cnn2csdf.simplify import simplified
from planners.memory.answer import WHOLE_LAYERS
from planners.memory.fit import fit
from planners.memory.plan_runs import run_plan
from planners.plan.carried_out import require_carried_out
from tests.cnn2csdf.onnx_models import runtime_outputs, saved
from tests.planners.code.compiling import libraries, needs_compiler, run_all

TOKENS, WIDTH, HEADS, HIDDEN, ENTRIES = 8, 8, 4, 16, 50
LOWEST = np.finfo(np.float32).min


class Exported:
    """Nodes and constants of a graph under construction."""

    def __init__(self):
        self.nodes, self.constants = [], []
        self.random = np.random.default_rng(4)

    def add(self, op_type, *inputs, **attributes):
        name = f"{op_type}_{len(self.nodes)}"
        named = [one if isinstance(one, str) else self.constant(one) for one in inputs]
        self.nodes.append(helper.make_node(op_type, named, [name], name=name, **attributes))
        return name

    def constant(self, value):
        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def dense(self, source, width, units):
        matrix = self.random.standard_normal((width, units)).astype(np.float32) / width**0.5
        bias = self.random.standard_normal(units).astype(np.float32)
        return self.add("Add", self.add("MatMul", source, matrix), bias)

    def normal(self, source):
        scale = self.random.uniform(0.5, 1.5, WIDTH).astype(np.float32)
        return self.add("LayerNormalization", source, scale, np.zeros(WIDTH, np.float32), axis=-1)

    def heads(self, source, count=HEADS):
        """Heads of queries, keys or values; fewer are repeated for the queries that share them."""
        width = WIDTH // HEADS
        cut = self.add(
            "Reshape", self.dense(source, WIDTH, count * width), np.array([1, TOKENS, count, width])
        )
        turned = self.add("Transpose", cut, perm=[0, 2, 1, 3])
        if count == HEADS:
            return turned
        times = HEADS // count
        apart = self.add("Reshape", turned, np.array([1, count, 1, TOKENS, width]))
        every = self.add("Expand", apart, np.array([1, count, times, TOKENS, width]))
        return self.add("Reshape", every, np.array([1, HEADS, TOKENS, width]))

    def encoder(self, mask):
        """Two blocks that normalise last. mask: gives the shares of keys that scores stand for."""
        table = self.random.standard_normal((ENTRIES, WIDTH)).astype(np.float32)
        tokens = self.add("Gather", table, "ids")
        kinds = self.random.standard_normal((2, WIDTH)).astype(np.float32)
        of_places = np.arange(TOKENS + 8)[None] % 2, np.arange(TOKENS)[None] + 3
        kind = self.add("Gather", kinds, self.add("GatherElements", *of_places, axis=1))
        stream = self.normal(self.add("Add", tokens, kind))
        masked = mask(self)
        for _ in range(2):
            key = self.add("Transpose", self.heads(stream, 2), perm=[0, 1, 3, 2])
            scores = self.add("MatMul", self.heads(stream), key)
            mixed = self.add("MatMul", masked(scores), self.heads(stream, 2))
            joined = self.add("Transpose", mixed, perm=[0, 2, 1, 3])
            joined = self.add("Reshape", joined, np.array([1, TOKENS, WIDTH]))
            stream = self.normal(self.add("Add", stream, self.dense(joined, WIDTH, WIDTH)))
            hidden = self.add("Relu", self.dense(stream, WIDTH, HIDDEN))
            stream = self.normal(self.add("Add", stream, self.dense(hidden, HIDDEN, WIDTH)))
        self.nodes[-1].output[0] = "result"
        inputs = {"ids": (1, TOKENS), "mask": (1, TOKENS)}
        values = [
            helper.make_tensor_value_info(name, TensorProto.INT64, dims)
            for name, dims in inputs.items()
        ]
        result = helper.make_tensor_value_info("result", TensorProto.FLOAT, (1, TOKENS, WIDTH))
        graph = helper.make_graph(self.nodes, "language", values, [result], self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def chosen(build):
    """A mask of truth values by places that are looked up, repeated for each token, and chosen by."""
    kept = build.add("Cast", "mask", to=TensorProto.BOOL)
    places = np.stack([np.zeros(TOKENS, np.int64), np.arange(TOKENS)], 1)[None, None]
    kept = build.add("GatherND", kept, places)
    kept = build.add("And", kept, np.ones((1, 1, TOKENS, 1), bool))
    added = build.add("Where", kept, np.float32(0), np.float32(-np.inf))

    def masked(scores):
        shares = build.add("Softmax", build.add("Add", scores, added), axis=-1)
        return build.add("Where", build.add("IsNaN", shares), np.float32(0), shares)

    return masked


def subtracted(build):
    """A mask as older exporters write it: a large number for each token that is left out."""
    real = build.add("Cast", build.add("Unsqueeze", "mask", np.array([1, 2])), to=TensorProto.FLOAT)
    added = build.add("Mul", build.add("Sub", np.float32(1), real), LOWEST)
    return lambda scores: build.add("Softmax", build.add("Add", scores, added), axis=-1)


MASKS = {"chosen": chosen, "subtracted": subtracted}


def frame(seed):
    """Numbers of tokens, some counted from the end of the table, and a mask of the first tokens."""
    ids = np.random.default_rng(seed).integers(-ENTRIES, ENTRIES, TOKENS)
    return {"ids": ids, "mask": (np.arange(TOKENS) < 6).astype(np.int64)}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("language")
    return {
        name: saved(Exported().encoder(mask), folder, f"{name}.onnx")
        for name, mask in MASKS.items()
    }


@pytest.fixture(scope="module")
def models(files):
    return {name: simplified(read_onnx(path, with_weights=True)) for name, path in files.items()}


@pytest.mark.parametrize("name", ["chosen", pytest.param("subtracted", marks=pytest.mark.slow)])
def test_tokens_keys_and_values_lie_whole_and_give_what_the_runtime_gives(name, files, models):
    model = models[name]
    given = {one: array[None] for one, array in frame(1).items()}
    (wanted,) = runtime_outputs(files[name], given)
    found = fit(model, element_bytes=4, labels=(2,))
    require_carried_out(model.network, found.least.plan)
    real = {one: array.astype(np.float32) for one, array in frame(1).items()}
    run = run_plan(model, found.least.plan, real)
    assert run.high_water_bytes <= found.least.plan.arena_bytes
    np.testing.assert_allclose(run.outputs["result"], wanted[0], rtol=1e-5, atol=1e-5)
    # Tokens, keys and values; of one token its heads, scores and sums, or its hidden layer; and 7
    # times a number for each token: both inputs, and the steps of the mask up to the scores. Heads of
    # keys and values that are shared pass as half a row each.
    row = max(2 * WIDTH + HEADS * TOKENS, WIDTH + HIDDEN)
    assert found.least.ram_bytes <= 4 * (3 * TOKENS * WIDTH + row + 7 * TOKENS + WIDTH)
    whole = next(one for one in found.methods if one.name == WHOLE_LAYERS)
    assert found.least.ram_bytes < whole.ram_bytes


@needs_compiler
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # a mask of random numbers, not of 0 and 1
def test_c_looks_up_tokens_and_masks_keys_under_sanitizers(models, tmp_path):
    cases = [(one, fit(one, element_bytes=4, labels=(2,)).least.plan) for one in models.values()]
    assert run_all(libraries(cases), tmp_path) == []
