"""Weights of float16 in C: two bytes of flash each, and the bits of the network in single precision."""

import subprocess
from dataclasses import replace

import numpy as np
import onnx
import pytest

from cnn2csdf.dtypes import Element
from cnn2csdf.fixed_point.flash import flash_bytes
from cnn2csdf.readers.model_files import read_model
from cnn2csdf.readers.tflite.reader import parse_tflite
from cnn2csdf.simplify import simplified
from cnn2csdf.weights import Model
from planners.code.library import library, write_library
from planners.memory.fit import fit
from planners.plan.plan import Kind
from tests.cnn2csdf.onnx_models import graph_model, saved
from tests.cnn2csdf.readers.tflite_models import Node, Tensor, constant, tflite_bytes
from tests.planners.code.compiling import (
    COMPILER,
    FLAGS,
    SANITIZERS,
    inlined,
    needs_compiler,
    run_all,
)
from tests.planners.code.test_library_on_target import make, needs_target, printed

REAL_BYTES = 4
MAIN = """
#include <stdio.h>
#include <string.h>
#include "halves.h"
#include "singles.h"

int main(void)
{{
    static halves_element half_arena[HALVES_ARENA_ELEMENTS];
    static singles_element single_arena[SINGLES_ARENA_ELEMENTS];
    static float in[{inputs}], halves[{outputs}], singles[{outputs}];
    halves_state half;
    singles_state single;
    int i;
    for (i = 0; i < {inputs}; i++) {{
        in[i] = (float)(i % 37 - 18) / 7.0f;
    }}
    if (halves_init(&half, half_arena, sizeof half_arena) ||
        singles_init(&single, single_arena, sizeof single_arena) ||
        halves_run(&half, in, halves) || singles_run(&single, in, singles)) {{
        return 1;
    }}
    for (i = 0; i < {outputs}; i++) {{
        if (memcmp(&halves[i], &singles[i], sizeof halves[i])) {{
            printf("%d: %g, expected %g\\n", i, halves[i], singles[i]);
            return 1;
        }}
    }}
    return 0;
}}
"""


def halves(dims, seed=0):
    """Numbers of float16, subnormal ones and zeros among them."""
    generator = np.random.default_rng(seed)
    drawn = generator.standard_normal(dims).astype(np.float16)
    drawn.reshape(-1)[:3] = 0, -0.0, 2.0**-24
    drawn.reshape(-1)[3:5] = -(2.0**-15), 2.0**-14
    return drawn


def tflite_model():
    """Every kind of product that reads trained numbers."""
    tensors, nodes = [Tensor("x", (1, 7, 6, 5))], []

    def weights(dims, seed):
        tensors.extend([constant(f"h{seed}", halves(dims, seed)), Tensor(f"w{seed}", dims)])
        nodes.append(Node("DEQUANTIZE", [len(tensors) - 2], [len(tensors) - 1]))
        return len(tensors) - 1

    def layer(kind, dims, inputs, options):
        tensors.append(Tensor(f"t{len(tensors)}", dims))
        nodes.append(Node(kind, inputs, [len(tensors) - 1], options))
        return len(tensors) - 1

    steps = [(1, "i", 1), (2, "i", 1)]  # strides
    maps = layer("CONV_2D", (1, 7, 6, 21), [0, weights((21, 3, 3, 5), 1), weights((21,), 2)], steps)
    kernel = weights((1, 3, 3, 21), 3)
    depth = [maps, kernel, weights((21,), 4)]
    maps = layer("DEPTHWISE_CONV_2D", (1, 7, 6, 21), depth, [*steps, (3, "i", 1)])
    maps = layer(
        "CONV_2D", (1, 7, 6, 9), [maps, weights((9, 1, 1, 21), 5), weights((9,), 6)], steps
    )
    tensors.append(constant("size", np.array([1, 14, 12, 4], np.int32)))
    turned = [len(tensors) - 1, weights((4, 2, 2, 9), 7), maps]
    maps = layer("TRANSPOSE_CONV", (1, 14, 12, 4), turned, [(1, "i", 2), (2, "i", 2)])
    flat = layer("RESHAPE", (1, 672), [maps], [])
    matrix = [flat, weights((19, 672), 8), weights((19,), 9)]
    last = layer("FULLY_CONNECTED", (1, 19), matrix, [])
    content = tflite_bytes(tensors, nodes, [0], [last])
    return simplified(parse_tflite(content, "halves.tflite", with_weights=True))


def onnx_model(folder):
    """A normalisation behind a convolution, rows of a table, a matrix of rows, and an LSTM."""
    constants = {
        "e": halves((9, 6), 10),
        "k": halves((18, 3, 3, 3), 1), "scale": halves((18,), 2), "shift": halves((18,), 3),
        "mean": halves((18,), 4), "variance": np.abs(halves((18,), 5)) + np.float16(0.5),
        "m": halves((6, 10), 6),
        "w": halves((1, 28, 10), 7), "r": halves((1, 28, 7), 8), "b": halves((1, 56), 9),
    }  # fmt: skip
    casts = [*constants]
    constants["axis"] = np.array([1], np.int64)
    make_node = onnx.helper.make_node
    batch = [f"{name} 4" for name in ("scale", "shift", "mean", "variance")]
    nodes = [
        *(make_node("Cast", [name], [f"{name} 4"], to=onnx.TensorProto.FLOAT) for name in casts),
        make_node("Conv", ["x", "k 4"], ["c"], pads=[1, 1, 1, 1]),
        make_node("BatchNormalization", ["c", *batch], ["n"]),
        make_node("Cast", ["x"], ["numbers"], to=onnx.TensorProto.INT64),
        make_node("ReduceMax", ["numbers"], ["last"], axes=[1, 3], keepdims=0),
        make_node("Gather", ["e 4", "last"], ["rows"]),
        make_node("Unsqueeze", ["rows", "axis"], ["u"]),
        make_node("Add", ["n", "u"], ["s"]),
        make_node("MatMul", ["s", "m 4"], ["p"]),
        make_node("ReduceMean", ["p"], ["q"], axes=[2], keepdims=0),
        make_node("Transpose", ["q"], ["t"], perm=[1, 0, 2]),
        make_node("LSTM", ["t", "w 4", "r 4", "b 4"], ["y"], hidden_size=7),
    ]
    model = graph_model(nodes, inputs={"x": (1, 3, 5, 6)}, constants=constants)
    return simplified(read_model(saved(model, folder), with_weights=True))


MODELS = {"tflite": lambda folder: tflite_model(), "onnx": onnx_model}


def as_singles(model):
    """The same network with all weights in four bytes."""
    layers = tuple(
        replace(layer, stored=tuple(replace(one, element=Element.FLOAT32) for one in layer.stored))
        for layer in model.network.layers
    )
    return Model(network=replace(model.network, layers=layers), weights=model.weights)


def plans_of(network):
    return [way.plan for way in fit(network, element_bytes=REAL_BYTES, budget=1).methods]


@pytest.mark.parametrize(
    ("kind", "numbers"),
    [
        # of both convolutions, the channels' own, the transposed one, and the matrix
        ("tflite", 21 * 45 + 21 * 9 + 9 * 21 + 4 * 4 * 9 + 19 * 672),
        # of the convolution, the table, the matrix, and the gates of the LSTM
        ("onnx", 18 * 27 + 9 * 6 + 6 * 10 + 28 * (10 + 7)),
    ],
)
def test_weights_of_float16_take_two_bytes_of_flash(kind, numbers, tmp_path):
    model = MODELS[kind](tmp_path)
    in_singles = flash_bytes(as_singles(model).network)
    assert flash_bytes(model.network) == in_singles - 2 * numbers
    assert flash_bytes(model.network) == flash_bytes(model.network, REAL_BYTES)
    written = library(model, plans_of(model.network)[0], name="halves").written
    assert written.weight_bytes == flash_bytes(model.network)


@pytest.mark.parametrize(
    ("nodes", "matrix_bytes"),
    [
        # alpha times a number of float16 is not one of float16
        ([("Gemm", ["v", "m 4"], {"alpha": 0.3})], 4 * 36),
        # the addition reads the numbers of the matrix in single precision
        ([("MatMul", ["x", "m 4"], {}), ("Add", ["y0", "m 4"], {})], (2 + 4) * 36),
    ],
    ids=["scaled", "read by an addition too"],
)
def test_flash_counts_numbers_of_float16_that_c_holds_in_four_bytes(nodes, matrix_bytes, tmp_path):
    make_node = onnx.helper.make_node
    made = [
        make_node("Cast", ["m"], ["m 4"], to=onnx.TensorProto.FLOAT),
        make_node("Flatten", ["x"], ["v"]),
        *(
            make_node(kind, inputs, ["y" if number == len(nodes) - 1 else f"y{number}"], **options)
            for number, (kind, inputs, options) in enumerate(nodes)
        ),
    ]
    dims = (1, 6) if nodes[0][0] == "Gemm" else (1, 6, 6)
    content = graph_model(made, inputs={"x": dims}, constants={"m": halves((6, 6))})
    model = simplified(read_model(saved(content, tmp_path), with_weights=True))
    written = library(model, plans_of(model.network)[0], name="halves").written
    assert flash_bytes(model.network) == written.weight_bytes == matrix_bytes


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("kind", MODELS)
def test_weights_of_float16_give_the_bits_of_single_precision_in_c(kind, tmp_path):
    model = MODELS[kind](tmp_path)
    (inputs,), (outputs,) = model.network.inputs, model.network.outputs
    text = MAIN.format(inputs=inputs.shape.elements, outputs=outputs.shape.elements)
    for number, plan in enumerate(plans_of(model.network)):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "main.c").write_text(text)
        for name, one in (("halves", model), ("singles", as_singles(model))):
            files = library(one, plan, name=name).files
            (folder / f"{name}.h").write_text(files[f"include/{name}.h"])
            for path in (f"src/{name}.c", f"src/{name}_weights.c"):
                (folder / path.replace("/", "_")).write_text(inlined(files, path))
        sources = sorted(path.name for path in folder.glob("*.c"))
        core = ["-march=native"] if number == 0 else []  # its conversions, where there are any
        built = subprocess.run(
            [COMPILER, *FLAGS, *SANITIZERS, *core, *sources, "-lm", "-o", "all"],
            cwd=folder, capture_output=True, text=True,
        )  # fmt: skip
        assert built.returncode == 0, built.stderr[:2000]
        ran = subprocess.run([folder / "all"], capture_output=True, text=True)
        assert ran.returncode == 0, f"{number}: {ran.stdout[-200:]}{ran.stderr[-500:]}"


@needs_target
@pytest.mark.slow
@pytest.mark.parametrize("target", ["qemu", "qemu-m55"])
def test_weights_of_float16_are_read_on_a_core(target, tmp_path):
    model = tflite_model()
    library_written = write_library(model, plans_of(model.network)[-1], tmp_path)
    ran = make(tmp_path, target, "ARM_CFLAGS=-O2 -Werror")
    assert "outputs equal" in ran.stdout + ran.stderr
    assert printed(ran.stdout + ran.stderr, "stack") <= library_written.written.stack_bytes


@needs_compiler
@pytest.mark.slow
def test_weights_of_float16_are_copied_to_fast_memory_in_two_bytes(tmp_path):
    model = tflite_model()
    memories = ("near=16kB", "psram=1MB:slow", "flash=1MB:slow:holds=weights")
    plan = fit(model.network, element_bytes=REAL_BYTES, memories=memories).best.plan
    moved = {buffer.tensor: buffer.size for buffer in plan.buffers if buffer.kind is Kind.RESIDENT}
    assert moved
    for name, size in moved.items():
        layer = model.network.layer(name)
        (role,) = layer.operator.half_roles
        assert size == 2 * model.weights[name][role].size
    assert run_all([library(model, plan, name="net0")], tmp_path) == []
