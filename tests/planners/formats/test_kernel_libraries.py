"""Arenas of TensorFlow Lite Micro with CMSIS-NN and ESP-NN: scratch as the libraries request it."""

from dataclasses import astuple

import numpy as np
import pytest

from cnn2csdf.readers.tflite.model_file import graphs_of
from planners.formats.kernel_libraries import (
    LIBRARIES,
    Convolution,
    WindowAxis,
    arm_dsp_convolution,
    arm_dsp_depthwise,
    arm_mve_convolution,
    arm_mve_depthwise,
    convolution_of,
    esp_1_1_convolution,
    esp_1_1_depthwise,
    esp_1_2_convolution,
    esp_1_2_depthwise,
)
from planners.formats.tflite_micro_arena import DEVICE, interpreter_arena
from tests.cli.running import answer as answer
from tests.cli.running import run as run
from tests.cnn2csdf.readers.tflite_models import Tensor, constant, one_node, small_network
from tests.shared_data import SHARED, each

DSP, MVE, OLDER_ESP, NEWER_ESP = LIBRARIES
# What the libraries' own functions return, compiled: input, kernel, output, channels, strides,
# dilation, padding; bytes for DSP, MVE, ESP-NN 1.1.2 and 1.2.3.
CONVOLUTIONS = {
    ((49, 10), (10, 4), (25, 5), (1, 1, 64), (2, 2), (1, 1), (4, 1)): (160, 192, 41932, 3472),
    ((32, 32), (3, 3), (32, 32), (3, 3, 16), (1, 1), (1, 1), (1, 1)): (112, 128, 5868, 704),
    ((25, 5), (1, 1), (25, 5), (64, 64, 64), (1, 1), (1, 1), (0, 0)): (0, 0, 5152, 5184),
    ((32, 32), (1, 1), (16, 16), (16, 16, 32), (2, 2), (1, 1), (0, 0)): (0, 0, 672, 1216),
    ((1, 40), (1, 5), (1, 36), (24, 24, 48), (1, 1), (1, 1), (0, 0)): (480, 120, 7904, 14080),
    ((1, 40), (1, 5), (1, 40), (8, 8, 24), (1, 1), (1, 1), (0, 2)): (160, 56, 2400, 3936),
    ((5, 5), (1, 1), (5, 5), (12, 12, 7), (1, 1), (1, 1), (0, 0)): (0, 0, 800, 832),
    ((9, 9), (3, 3), (5, 5), (32, 16, 32), (1, 1), (2, 2), (0, 0)): (1152, 1152, 9376, 18624),
}
DEPTHWISE = {
    ((25, 5), (3, 3), (25, 5), (64, 64, 64), (1, 1), (1, 1), (1, 1)): (0, 4464, 12688, 12688),
    ((49, 40), (10, 8), (25, 20), (1, 8, 8), (2, 2), (1, 1), (4, 3)): (0, 960, 5216, 5232),
    ((12, 12), (5, 5), (12, 12), (24, 24, 24), (1, 1), (1, 1), (2, 2)): (1200, 12400, 32, 8144),
    ((12, 12), (3, 3), (10, 10), (24, 24, 24), (1, 1), (1, 1), (0, 0)): (0, 4464, 7360, 8160),
    ((12, 12), (3, 3), (12, 12), (8, 8, 8), (1, 1), (1, 1), (1, 1)): (0, 4464, 2464, 2480),
    ((96, 96), (3, 3), (96, 96), (16, 16, 16), (1, 1), (1, 1), (1, 1)): (0, 4464, 153824, 4864),
    ((48, 48), (5, 5), (48, 48), (24, 24, 24), (1, 1), (1, 1), (2, 2)): (1200, 12400, 32, 12752),
    ((7, 7), (3, 3), (7, 7), (6, 6, 6), (1, 1), (1, 1), (1, 1)): (0, 4464, 32, 1440),
    ((7, 7), (3, 3), (7, 7), (8, 16, 16), (1, 1), (1, 1), (1, 1)): (0, 0, 32, 32),
    ((12, 12), (3, 3), (8, 8), (16, 16, 16), (1, 1), (2, 2), (0, 0)): (0, 0, 1760, 1760),
}
OF_CONVOLUTIONS = (
    arm_dsp_convolution,
    arm_mve_convolution,
    esp_1_1_convolution,
    esp_1_2_convolution,
)
OF_DEPTHWISE = (arm_dsp_depthwise, arm_mve_depthwise, esp_1_1_depthwise, esp_1_2_depthwise)
AXIS = ("size", "taps", "outputs", "stride", "dilation", "pad")
CHANNELS = ("channels", "filter_channels", "outputs")
# Arenas in the manifests of wake words for ESPHome, and predicted with ESP-NN 1.1.2 and 1.2.3.
WAKE_WORDS = {
    "mww_v2_hey_jarvis": (22860, 22816, 30320),
    "mww_v2_hey_mycroft": (23628, 23760, 31760),
    "mww_v2_vad": (16772, 16848, 24848),
}
# Arenas recorded on a Cortex-M4 with CMSIS-NN, less than an alignment below those predicted.
ON_CORTEX_M4 = {
    "ic_resnet8_int8": 54996, "kws_int8": 22820, "lenet300_int8": 4912, "mcunet_vww1_int8": 219808,
    "micro_speech_int8": 6836, "person_detect_int8": 82308, "simple_add_int8": 49604,
}  # fmt: skip


@pytest.mark.parametrize(
    ("layers", "formulas"), [(CONVOLUTIONS, OF_CONVOLUTIONS), (DEPTHWISE, OF_DEPTHWISE)]
)
def test_scratch_is_what_the_functions_of_the_libraries_return(layers, formulas):
    for shapes, wanted in layers.items():
        sizes, taps, outputs, channels, *steps = shapes
        axes = zip(sizes, taps, outputs, *steps, strict=True)
        rows, columns = (WindowAxis(**dict(zip(AXIS, axis, strict=True))) for axis in axes)
        depths = dict(zip(CHANNELS, channels, strict=True))
        layer = Convolution(batch=1, rows=rows, columns=columns, **depths)
        assert tuple(formula(layer) for formula in formulas) == wanted, shapes


def with_library(content, library):
    arena = interpreter_arena(content, "net", DEVICE, library)
    scratch = {b.name: b.size for b in arena.problem.buffers if not b.name.isdigit()}
    return arena, scratch


def test_layers_of_a_file_request_scratch_during_their_operator_alone():
    reference, nothing = with_library(small_network(), None)
    arena, scratch = with_library(small_network(), DSP)
    # 3x3 of 3 channels: two columns of 28 int16; average pooling: a sum for each of 4 channels.
    assert nothing == {}
    assert sorted(scratch.values()) == [16, 112]
    assert all(b.end == b.start + 1 for b in arena.problem.buffers if b.name in scratch)
    assert arena.scratch == 112
    assert arena.persistent > reference.persistent  # data of the fully connected layer
    assert arena.not_known == ()


def fully_connected(*dims, is_constant=True, scales=(0.01,), kind="int8"):
    weights = constant("w", np.ones((6, dims[-1]), np.int8), scales)
    if not is_constant:
        weights = Tensor("w", (6, dims[-1]), "int8", (0.01,), 0)
    output = Tensor("y", (*dims[:-1], 6), kind, (0.1,), 0)
    x = Tensor("x", dims, kind, (0.1,), 0)
    return one_node("FULLY_CONNECTED", [x, weights], output, [(2, "b", int(len(dims) > 2))])


def test_a_fully_connected_layer_keeps_sums_of_constant_weights_on_vector_cores():
    constant_weights = fully_connected(1, 8)
    sums = with_library(constant_weights, MVE)[0].persistent
    assert sums - with_library(constant_weights, DSP)[0].persistent == 32  # 6 words, aligned
    assert with_library(constant_weights, MVE)[1] == {}
    assert list(with_library(fully_connected(1, 8, is_constant=False), MVE)[1].values()) == [32]


def test_a_fully_connected_layer_of_three_axes_is_a_convolution_of_one_scale_a_channel():
    assert list(with_library(fully_connected(1, 2, 8), DSP)[1].values()) == [48]
    assert with_library(fully_connected(1, 2, 7), DSP)[1] == {}
    assert with_library(fully_connected(1, 2, 8, scales=(0.01,) * 6), DSP)[1] == {}


def test_scratch_for_activations_of_int16_is_said_to_be_a_guess():
    content = fully_connected(1, 8, kind="int16")
    assert interpreter_arena(content, "net").not_known == ()
    assert with_library(content, MVE)[0].not_known == ("FULLY_CONNECTED",)
    content = fully_connected(1, 8, kind="int32")  # as wide as floating point, whose are counted
    assert with_library(content, MVE)[0].not_known == ("FULLY_CONNECTED",)


def test_fit_prints_the_arena_with_each_library_on_request(tmp_path, run):
    path = tmp_path / "small.tflite"
    path.write_bytes(small_network())
    code, short, _ = run("fit", path)
    assert code == 0
    assert "CMSIS-NN" not in short
    _, explained, _ = run("fit", path, "--explain")
    rows = [line for line in explained.splitlines() if "TFLM" in line and "-NN" in line]
    assert len(rows) == len(LIBRARIES)
    assert all(len(row) <= 80 for row in rows)
    assert "with CMSIS-NN 4ab83cc, DSP, scratch 112" in rows[0]


def test_fit_has_the_arena_with_each_library_in_json(tmp_path, answer):
    path = tmp_path / "small.tflite"
    path.write_bytes(small_network())
    document = answer("fit", path, "--json")[1]
    libraries = document["interpreter"]["libraries"]
    names = [(row["name"], row["version"], row["build"]) for row in libraries]
    assert names == [(one.name, one.version, one.build) for one in LIBRARIES]
    for row, library in zip(libraries, LIBRARIES, strict=True):
        arena, scratch = with_library(path.read_bytes(), library)
        assert row["arena_bytes"] == arena.size(row["head_bytes"])
        assert row["scratch_bytes"] == max(scratch.values()) <= row["head_bytes"]


@each(
    "name", [name for name in WAKE_WORDS if (SHARED / f"networks/stateful/{name}.tflite").exists()]
)
def test_wake_words_need_more_with_a_newer_library_than_their_manifests_say(name):
    content = (SHARED / f"networks/stateful/{name}.tflite").read_bytes()
    manifest, *wanted = WAKE_WORDS[name]
    arenas = [with_library(content, library)[0] for library in (OLDER_ESP, NEWER_ESP)]
    sizes = [arena.size(arena.head(arena.placed({}))) for arena in arenas]
    assert sizes == wanted
    assert abs(sizes[0] - manifest) < manifest // 100


@each(
    "name", [name for name in ON_CORTEX_M4 if (SHARED / f"networks/tflite/{name}.tflite").exists()]
)
def test_the_recorded_arena_with_a_library_is_predicted_up_to_alignment(name):
    arena, _ = with_library((SHARED / f"networks/tflite/{name}.tflite").read_bytes(), DSP)
    size = arena.size(arena.head(arena.placed({})))
    assert 0 <= size - ON_CORTEX_M4[name] < 16


def shapes_in_file(kind, dims, weights, result, options):
    layer = [Tensor("x", dims, "int8", (0.1,), 0), constant("w", np.ones(weights, np.int8), (1.0,))]
    content = one_node(kind, layer, Tensor("y", result, "int8", (0.1,), 0), options)
    graph = graphs_of(content)[0]
    return convolution_of(graph.nodes[0], graph)


def test_shapes_are_read_with_rows_before_columns():
    options = [(0, "b", 0), (1, "i", 1), (2, "i", 2), (3, "b", 0), (4, "i", 3), (5, "i", 1)]
    layer = shapes_in_file("CONV_2D", (1, 9, 12, 6), (4, 3, 5, 6), (1, 5, 12, 4), options)
    assert astuple(layer.rows) == (9, 3, 5, 2, 1, 1)
    assert astuple(layer.columns) == (12, 5, 12, 1, 3, 6)
    assert (layer.channels, layer.filter_channels, layer.outputs) == (6, 6, 4)
    options = [(0, "b", 1), (1, "i", 3), (2, "i", 1), (3, "i", 2), (5, "i", 1), (6, "i", 2)]
    layer = shapes_in_file("DEPTHWISE_CONV_2D", (1, 9, 12, 2), (1, 3, 3, 4), (1, 5, 4, 4), options)
    assert astuple(layer.rows) == (9, 3, 5, 1, 2, 0)
    assert astuple(layer.columns) == (12, 3, 4, 3, 1, 0)
    assert (layer.channels, layer.filter_channels, layer.outputs) == (2, 4, 4)
