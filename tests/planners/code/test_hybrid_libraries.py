"""Products of real numbers with weights of int8 in C, against the whole network."""

import numpy as np
import pytest

from cnn2csdf import operators as op
from cnn2csdf.execution.layer_by_layer import run_layer_by_layer
from cnn2csdf.fixed_point.flash import flash_bytes
from cnn2csdf.readers.tflite.reader import parse_tflite
from planners.code.library import library, write_library
from planners.memory.fit import fit
from planners.plan.ram import state_bytes
from tests.cnn2csdf.readers.test_tflite_hybrid import BY_ROW, KINDS, embedding_case, hybrid_case
from tests.cnn2csdf.readers.tflite_models import Node, Tensor, constant, tflite_bytes
from tests.planners.code.compiling import inlined, needs_compiler, run_all
from tests.planners.code.test_status_codes import built

REAL_BYTES = 4


def made(kind, seed, number):
    content, frame = hybrid_case(kind, seed)
    return library_of(content, frame[0].transpose(2, 0, 1) if frame.ndim == 4 else frame[0], number)


def library_of(content, values, number):
    model = parse_tflite(content, "one.tflite", with_weights=True)
    (layer,) = model.network.inputs
    plan = fit(model.network, element_bytes=REAL_BYTES, budget=1).least.plan
    frames = [{layer.name: factor * values} for factor in (1, 0)]  # the last one of zeros
    written = library(model, plan, name=f"net{number}", frames=frames)
    assert written.written.weight_bytes == flash_bytes(model.network, REAL_BYTES)
    assert written.written.state_bytes <= state_bytes(plan, model.network)
    return written


@needs_compiler
@pytest.mark.slow
def test_products_with_weights_of_int8_are_the_same_in_c(tmp_path):
    pairs = [(kind, seed) for kind in KINDS for seed in range(3)]
    assert run_all([made(*pair, number) for number, pair in enumerate(pairs)], tmp_path) == []


@needs_compiler
@pytest.mark.slow
def test_rows_of_a_table_of_int8_are_the_same_in_c(tmp_path):
    libraries = []
    for number, scales in enumerate([(0.013,), BY_ROW]):
        content, _, frame = embedding_case(scales)
        libraries.append(library_of(content, frame.astype(np.float32), number))
        # A byte for each element of the table, and the scales.
        assert libraries[-1].written.weight_bytes == 20 + REAL_BYTES * len(scales)
    assert run_all(libraries, tmp_path) == []


@needs_compiler
@pytest.mark.slow
def test_products_with_weights_of_int8_among_integers_are_the_same_in_c(tmp_path):
    matrix = constant("w", np.arange(-9, 12, dtype=np.int8).reshape(3, 7), [0.01])
    tensors = [
        Tensor("x", (1, 7), "int8", (0.1,), 3),
        Tensor("real", (1, 7)),
        matrix,
        Tensor("sums", (1, 3)),
        Tensor("y", (1, 3), "int8", (0.02,), -5),
    ]
    nodes = [
        Node("DEQUANTIZE", [0], [1]),
        Node("FULLY_CONNECTED", [1, 2], [3], [(0, "b", 1)]),
        Node("QUANTIZE", [3], [4]),
    ]
    model = parse_tflite(tflite_bytes(tensors, nodes, [0], [4]), "one.tflite", with_weights=True)
    plan = fit(model.network, budget=1).least.plan
    written = library(model, plan, name="net0")
    assert "fully_connected_hybrid" in inlined(written.files, "src/net0.c")
    assert run_all([written], tmp_path) == []


UNUSUAL = """#include <math.h>
#include <string.h>
#include "one.h"
#define COUNT ONE_X_ELEMENTS
static one_element arena[ONE_ARENA_ELEMENTS];
static one_state state;
static float input[COUNT], output[ONE_Y_OUTPUT_ELEMENTS], zeros[ONE_Y_OUTPUT_ELEMENTS];
static float other[ONE_Y_OUTPUT_ELEMENTS];
int main(void)
{
    static const float small[] = {1e-39f, -1e-39f, 1e-45f, 3e-37f, -3e-38f};
    int i, j, failed = one_init(&state, arena, sizeof arena) || one_run(&state, input, zeros);
    for (j = 0; j < 5; j++) {
        for (i = 0; i < COUNT; i++) {
            input[i] = small[j];
        }
        failed |= one_run(&state, input, output);
        for (i = 0; i < ONE_Y_OUTPUT_ELEMENTS; i++) {
            failed |= !(fabsf(output[i] - zeros[i]) < 1e-30f);
        }
    }
    for (j = 0; j < COUNT; j++) {
        for (i = 0; i < COUNT; i++) {
            input[i] = (float)(i % 5) - 1.5f;
        }
        input[j] = 0;
        failed |= one_run(&state, input, other);
        input[j] = NAN; /* counts as zero */
        failed |= one_run(&state, input, output) || memcmp(output, other, sizeof output);
        input[j] = (j % 2) ? INFINITY : -INFINITY;
        failed |= one_run(&state, input, output);
    }
    return failed;
}
"""


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(2))
def test_tiny_and_infinite_numbers_are_defined_beside_weights_of_int8(tmp_path, kind, seed):
    model = parse_tflite(hybrid_case(kind, seed)[0], "one.tflite", with_weights=True)
    plan = fit(model.network, element_bytes=REAL_BYTES, budget=1).least.plan
    write_library(model, plan, tmp_path, name="one")
    assert built(tmp_path, "one", UNUSUAL, "-fsanitize=float-cast-overflow") == ("", 0)


NAN_STORED = """#include <math.h>
#include "one.h"
static one_element arena[ONE_ARENA_ELEMENTS];
static one_state state;
int main(void)
{
    static const float input[] = {NAN, 1, -INFINITY, INFINITY};
    static const one_element expected[] = {-128, 5, -128, 127};
    one_element output[4];
    int i, failed = one_init(&state, arena, sizeof arena) || one_run(&state, input, output);
    for (i = 0; i < 4; i++) {
        failed |= output[i] != expected[i];
    }
    return failed;
}
"""


@needs_compiler
@pytest.mark.slow
def test_a_nan_is_stored_as_the_minimum(tmp_path):
    tensors = [Tensor("x", (1, 4)), Tensor("y", (1, 4), "int8", (0.1,), -5)]
    content = tflite_bytes(tensors, [Node("QUANTIZE", [0], [1])], [0], [1])
    model = parse_tflite(content, "one.tflite", with_weights=True)
    frame = {"x": np.array([np.nan, 1, -np.inf, np.inf], np.float32)}
    (expected,) = run_layer_by_layer(model, frame).values()
    assert expected.tolist() == [-128, 5, -128, 127]
    write_library(model, fit(model.network, budget=1).least.plan, tmp_path, name="one")
    assert built(tmp_path, "one", NAN_STORED, "-fsanitize=float-cast-overflow") == ("", 0)


def test_weights_of_int8_for_real_numbers_take_a_byte_of_flash():
    content, _ = hybrid_case("FULLY_CONNECTED", 0)
    network = parse_tflite(content, "one.tflite").network
    (layer,) = (one for one in network.layers if isinstance(one.operator, op.HybridProduct))
    units, columns = layer.operator.product.units, network.inputs[0].shape.elements
    # The matrix, a scale, and a bias of four bytes for each unit.
    assert flash_bytes(network, REAL_BYTES) == units * columns + REAL_BYTES * (1 + units)
