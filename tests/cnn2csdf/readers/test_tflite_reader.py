"""TensorFlow Lite files: what becomes of their operators, axes and numbers."""

import numpy as np
import pytest

from cnn2csdf.dtypes import Element, Quantization
from cnn2csdf.execution.layer_by_layer import first_states, run_layer_by_layer
from cnn2csdf.onnx_files import writer
from cnn2csdf.parameters import parameter_bytes
from cnn2csdf.readers.model_files import read_model
from cnn2csdf.readers.tflite import (
    custom_operators,
    functions,
    moves,
    products,
    recurrences,
    windows,
)
from cnn2csdf.readers.tflite.reader import CONVERTERS, parse_tflite
from cnn2csdf.simplify import simplified
from csdf.cli.main import main
from csdf.errors import CsdfError, InvalidNetwork, UnreadableFile, UnsupportedOperator
from tests.cnn2csdf.readers.tflite_models import (
    Node,
    Tensor,
    constant,
    one_node,
    small_network,
    tflite_bytes,
)

MAPS = (1, 4, 6, 3)


def numbers(dims, seed=0):
    return np.random.default_rng(seed).uniform(-2, 2, dims).astype(np.float32)


def computed(content, *frames):
    """The outputs of a file of real numbers, rows and columns first again."""
    model = parse_tflite(content, "one.tflite", with_weights=True)
    given = {
        layer.name: (np.moveaxis(frame[0], 2, 0) if frame.ndim == 4 else frame).reshape(
            layer.shape.dims
        )
        for layer, frame in zip(model.network.inputs, frames, strict=True)
    }
    found = run_layer_by_layer(model, given).values()
    return [np.moveaxis(one, 0, 2)[None] if one.ndim == 3 else one[None] for one in found]


def indices(name, *values):
    return constant(name, np.array(values, np.int32))


X = Tensor("x", MAPS)
MOVES = {
    "reshape to a vector": ("RESHAPE", [indices("s", 1, 72)], (1, 72), lambda x: x.reshape(1, 72)),
    "reshape to maps": (
        "RESHAPE", [indices("s", 1, 2, 9, 4)], (1, 2, 9, 4), lambda x: x.reshape(1, 2, 9, 4),
    ),
    "reshape to a matrix": (
        "RESHAPE", [indices("s", 1, 24, 3)], (1, 24, 3), lambda x: x.reshape(1, 24, 3),
    ),
    "channels first": (
        "TRANSPOSE", [indices("p", 0, 3, 1, 2)], (1, 3, 4, 6), lambda x: x.transpose(0, 3, 1, 2),
    ),
    "turned": (
        "TRANSPOSE", [indices("p", 0, 2, 1, 3)], (1, 6, 4, 3), lambda x: x.transpose(0, 2, 1, 3),
    ),
    "padded": (
        "PAD",
        [constant("p", np.array([[0, 0], [1, 2], [0, 3], [0, 0]], np.int32))],
        (1, 7, 9, 3),
        lambda x: np.pad(x, [[0, 0], [1, 2], [0, 3], [0, 0]]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MOVES)
def test_elements_move_as_with_channels_last(name):
    kind, constants, dims, expected = MOVES[name]
    x = numbers(MAPS)
    (found,) = computed(one_node(kind, [X, *constants], Tensor("y", dims)), x)
    assert np.array_equal(found.reshape(dims), expected(x))


@pytest.mark.parametrize("keeps", [0, 1])
@pytest.mark.parametrize("axes", [(1,), (2,), (3,), (1, 2), (2, 3), (1, 3), (1, 2, 3)])
def test_means_are_those_of_the_axes_with_channels_last(axes, keeps):
    x = numbers(MAPS)
    expected = x.mean(axis=axes, keepdims=bool(keeps))
    content = one_node(
        "MEAN", [X, indices("axes", *axes)], Tensor("y", expected.shape), [(0, "b", keeps)]
    )
    (found,) = computed(content, x)
    np.testing.assert_allclose(found.reshape(expected.shape), expected, rtol=1e-5, atol=1e-6)


def test_a_split_gives_each_part_to_one_output():
    x = numbers(MAPS)
    content = one_node(
        "SPLIT",
        [indices("axis", 2), X],
        [Tensor("a", (1, 4, 3, 3)), Tensor("b", (1, 4, 3, 3))],
        [(0, "i", 2)],
    )
    left, right = computed(content, x)
    assert np.array_equal(left, x[:, :, :3])
    assert np.array_equal(right, x[:, :, 3:])


def test_a_slice_goes_along_several_axes():
    x = numbers(MAPS)
    ends = [indices("begin", 0, 1, 0, 1), indices("end", 1, 4, 6, 3), indices("step", 1, 2, 1, 1)]
    content = one_node("STRIDED_SLICE", [X, *ends], Tensor("y", (1, 2, 6, 2)), [(0, "i", 1)])
    (found,) = computed(content, x)
    assert np.array_equal(found, x[:, 1:4:2, :, 1:3])


def test_a_matrix_reads_maps_row_by_row_with_channels_last():
    x, matrix = numbers(MAPS), numbers((5, 72), 1)
    content = one_node(
        "FULLY_CONNECTED", [X, constant("w", matrix)], Tensor("y", (1, 5)), [(0, "b", 0)]
    )
    (found,) = computed(content, x)
    np.testing.assert_allclose(found, x.reshape(1, 72) @ matrix.T, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("kernel", "stride"), [((3, 2), 2), ((2, 3), 1), ((4, 4), 3)])
def test_same_padding_puts_the_odd_row_behind(kernel, stride):
    x, filters = numbers(MAPS), numbers((2, *kernel, 3), 1)
    rows, columns = -(-4 // stride), -(-6 // stride)
    missing = [
        max((out - 1) * stride + size - length, 0)
        for out, size, length in zip((rows, columns), kernel, (4, 6), strict=True)
    ]
    framed = np.pad(x, [[0, 0], *([n // 2, n - n // 2] for n in missing), [0, 0]])
    expected = np.array(
        [
            [
                np.einsum(
                    "ohwc,hwc->o",
                    filters,
                    framed[0, r * stride :][: kernel[0], c * stride :][:, : kernel[1]],
                )
                for c in range(columns)
            ]
            for r in range(rows)
        ]
    )
    options = [(0, "b", 0), (1, "i", stride), (2, "i", stride), (4, "i", 1), (5, "i", 1)]
    content = one_node(
        "CONV_2D", [X, constant("w", filters)], Tensor("y", (1, rows, columns, 2)), options
    )
    (found,) = computed(content, x)
    np.testing.assert_allclose(found[0], expected, rtol=1e-5, atol=1e-5)


def test_a_transposed_convolution_is_a_convolution_backwards():
    x, filters = numbers(MAPS), numbers((2, 3, 3, 3), 1)
    full = np.zeros((9, 13, 2), np.float32)
    for row, column in np.ndindex(4, 6):
        full[2 * row : 2 * row + 3, 2 * column : 2 * column + 3] += np.einsum(
            "ohwc,c->hwo", filters, x[0, row, column]
        )
    # SAME: 8 x 12 places of 9 x 13; the odd row and column are cut behind.
    content = tflite_bytes(
        [X, indices("size", 1, 8, 12, 2), constant("w", filters), Tensor("y", (1, 8, 12, 2))],
        [Node("TRANSPOSE_CONV", [1, 2, 0], [3], [(0, "b", 0), (1, "i", 2), (2, "i", 2)])],
        [0],
        [3],
    )
    (found,) = computed(content, x)
    np.testing.assert_allclose(found[0], full[:8, :12], rtol=1e-5, atol=1e-5)


def test_tensors_know_how_they_are_quantised():
    network = parse_tflite(small_network(), "small.tflite").network
    conv = network.layer("conv")
    scale = float(np.float32(0.1))
    assert conv.quantization == Quantization(element=Element.INT8, scales=(scale,), zero_point=2)
    assert len(conv.stored_as("kernel").quantization.scales) == 4
    # 4 x 27 + 9 x 4 + 5 x 8 weights of one byte, 4 + 4 + 5 biases of four.
    assert parameter_bytes(network) == 108 + 36 + 40 + 4 * 13


def test_a_quantised_network_is_not_written_as_onnx():
    model = parse_tflite(small_network(), "small.tflite", with_weights=True)
    with pytest.raises(InvalidNetwork, match="layer 'x' is quantised"):
        writer.onnx_bytes(model)


def strided(begins, ends, options, dims=(1, 4)):
    """A slice of a tensor with two axes; dims: of the result."""
    names = {"begins": begins, "ends": ends, "steps": (1, 1)}
    limits = [constant(name, np.array(values, np.int32)) for name, values in names.items()]
    return one_node("STRIDED_SLICE", [Tensor("x", (1, 4)), *limits], Tensor("y", dims), options)


BAD = {
    "nothing": (b"", UnreadableFile, "is empty"),
    "text": (b"not a model at all", UnreadableFile, "is not a TensorFlow Lite model"),
    "cut": (small_network()[:200], UnreadableFile, "is not a TensorFlow Lite model"),
    "unknown": (
        one_node("WHERE", [X], Tensor("y", MAPS)), UnsupportedOperator, r"WHERE \(1x, operator 0\)",
    ),
    "batch": (
        one_node("RELU", [Tensor("x", (2, 4))], Tensor("y", (2, 4))),
        UnsupportedOperator,
        "'x' of shape 2x4; expected a batch of 1",
    ),
    "16 bits around a number": (
        one_node("RELU", [Tensor("x", (1, 4), "int16", (0.1,), 5)], Tensor("y", (1, 4))),
        UnsupportedOperator,
        "int16 with a zero point of 5; expected 0",
    ),
    "scales": (
        one_node(
            "FULLY_CONNECTED",
            [
                Tensor("x", (1, 4), "int8", (0.1,)),
                constant("w", np.ones((3, 4), np.int8), (0.1, 0.2)),
            ],
            Tensor("y", (1, 3), "int8", (0.1,)),
            [(0, "b", 0)],
        ),
        UnreadableFile,
        "2 scales of weights for 3 channels",
    ),
    "truths": (
        one_node("RELU", [Tensor("x", (1, 4), "bool", (0.1,))], Tensor("y", (1, 5), "bool", (1.0,))),
        UnsupportedOperator,
        "its output would be",
    ),
    "hybrid": (
        one_node(
            "FULLY_CONNECTED",
            [Tensor("x", (1, 4)), constant("w", np.ones((2, 4), np.uint8), (0.1,))],
            Tensor("y", (1, 2)),
        ),
        UnsupportedOperator,
        r"uint8 for an input of float32 \(hybrid\)",
    ),
    "a mean over an axis beyond the rank": (
        one_node(
            "MEAN",
            [Tensor("x", (1, 4, 2)), constant("axes", np.array([7], np.int32))],
            Tensor("y", (1, 4, 2)),
            [(0, "b", 0)],
        ),
        UnsupportedOperator,
        r"axes \(7,\) of a tensor with 3 axes",
    ),
    "a softmax without a number": (
        one_node("SOFTMAX", [Tensor("x", (1, 4))], Tensor("y", (1, 4)), [(0, "f", float("nan"))]),
        UnsupportedOperator,
        "beta is nan, expected a finite number",
    ),
    "a slice with all bits of the ellipsis": (
        strided((0, 0), (1, 2), [(2, "i", -1)]),
        UnsupportedOperator,
        "a slice by",
    ),
    "a slice with an offset": (
        strided((0, 1), (1, 2), [(5, "b", 1)]),
        UnsupportedOperator,
        "the option offset",
    ),
    "a place beyond the axis": (
        strided((0, 5), (1, 6), [(4, "i", 2)], (1,)),
        UnsupportedOperator,
        "place 5 of an axis of 4",
    ),
    "wrong shape": (
        one_node("RELU", [Tensor("x", (1, 4))], Tensor("y", (1, 5))),
        UnsupportedOperator,
        "its output would be",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_refused_by_name(name, tmp_path):
    content, kind, message = BAD[name]
    path = tmp_path / "bad.tflite"
    path.write_bytes(content)
    with pytest.raises(kind, match=message) as found:
        read_model(path)
    assert str(found.value).startswith(str(path))


@pytest.mark.parametrize(("begin", "mask", "place"), [(-1, 0, 3), (-9, 0, 0), (2, 2, 0)])
def test_a_dropped_axis_begins_where_the_reference_begins(begin, mask, place):
    content = strided((0, begin), (1, 9), [(0, "i", mask), (4, "i", 2)], (1,))
    model = parse_tflite(content, "a.tflite", with_weights=True)
    (result,) = run_layer_by_layer(model, {"x": np.arange(4, dtype=np.float32)}).values()
    assert result.tolist() == [place]


def test_a_file_cut_anywhere_is_refused():
    content = small_network()
    for length in range(0, len(content), 7):
        with pytest.raises(CsdfError, match=r"^cut\.tflite: "):
            parse_tflite(content[:length], "cut.tflite", with_weights=True)


def test_a_convolution_pads_quantised_maps_with_their_zero_point_itself():
    generator = np.random.default_rng(3)
    x = Tensor("x", (1, 5, 6, 2), "int8", (0.05,), 17)
    amounts = constant("p", np.array([[0, 0], [1, 2], [0, 1], [0, 0]], np.int32))
    kernel = constant("w", generator.integers(-127, 128, (3, 3, 3, 2)).astype(np.int8), (0.01,))
    content = tflite_bytes(
        [x, amounts, Tensor("padded", (1, 8, 7, 2), "int8", (0.05,), 17), kernel,
         constant("b", np.array([5, -9, 100], np.int32)),
         Tensor("y", (1, 3, 3, 3), "int8", (0.3,), -4)],
        [Node("PAD", [0, 1], [2]),
         Node("CONV_2D", [2, 3, 4], [5],
              [(0, "b", 1), (1, "i", 2), (2, "i", 2), (3, "b", 0), (4, "i", 1), (5, "i", 1)])],
        [0],
        [5],
    )  # fmt: skip
    model = parse_tflite(content, "padded.tflite", with_weights=True)
    folded = simplified(model, ("fuse-pad",))
    assert len(folded.network.layers) == len(model.network.layers) - 1
    assert folded.network.layers[1].operator.window.padding == (1, 0, 2, 1)
    frame = {"x": generator.integers(-128, 128, (2, 5, 6)).astype(np.int8)}
    (whole,), (found,) = (run_layer_by_layer(one, frame).values() for one in (model, folded))
    assert np.array_equal(found, whole)


def test_all_operators_that_are_refused_are_said_at_once():
    weights = constant("w", np.ones((4, 4), np.uint8), (0.1,))
    vectors = [Tensor(name, (1, 4)) for name in "xyz"]
    content = tflite_bytes(
        [*vectors, weights, Tensor("v", (1, 4))],
        [
            Node("FULLY_CONNECTED", [0, 3], [1], [(0, "b", 0)]),
            Node("RELU", [1], [2]),  # behind a refused one: not looked at
            Node("FULLY_CONNECTED", [0, 3], [4], [(0, "b", 0)]),
        ],
        [0],
        [2, 4],
    )
    with pytest.raises(UnsupportedOperator) as found:
        parse_tflite(content, "hybrid.tflite")
    said = str(found.value)
    assert said.startswith("hybrid.tflite: operator 0 (FULLY_CONNECTED): ")
    assert "; operator 2 (FULLY_CONNECTED): " in said
    assert "RELU" not in said


def filter_over_time(state, *, given=()):
    """A file of an SVDF with that state; given: numbers of the tensors that come with the frame."""
    tensors = [
        Tensor("x", (1, 4), "int8", (0.1,), 3),
        constant("matrix", np.ones((2, 4), np.int8), (0.1,)),
        constant("filters", np.ones((2, 3), np.int8), (0.1,)),
        constant("bias", np.zeros(2, np.int32)),
        state,
        Tensor("y", (1, 2), "int8", (0.1,), 0),
    ]
    return tflite_bytes(
        tensors, [Node("SVDF", [0, 1, 2, 3, 4], [5], [(0, "i", 1)])], [0, *given], [5]
    )


VARIABLE = Tensor("memory", (1, 6), "int8", (0.1,), 5, is_variable=True)


def test_a_variable_tensor_of_a_filter_over_time_stays_from_frame_to_frame():
    model = parse_tflite(filter_over_time(VARIABLE), "words.tflite", with_weights=True)
    states, found = first_states(model), []
    for value in (13, 3, 3, 3):
        frame = {"x": np.full(4, value, np.int8)}
        found.append(run_layer_by_layer(model, frame, states)["y output"].tolist())
    # 4 elements of 13 - 3 = 10, in steps of 0.1 * 0.1 / 0.1: a feature of 4. It weighs 1 in each of
    # three frames, in steps of 0.1 again: 0.4, rounded to 0 steps; see the state below.
    assert found == [[0, 0]] * 4
    frame = {"x": np.full(4, 13, np.int8)}
    run_layer_by_layer(model, frame, states)
    assert states["y"]["places"].tolist() == [[5, 9], [5, 9]]  # with the zero point of 5


@pytest.mark.parametrize("command", ["plan fusion --ram 1kB", "plan primitives"])
def test_commands_that_know_no_state_say_which_do(command, tmp_path, capsys):
    path = tmp_path / "words.tflite"
    path.write_bytes(filter_over_time(VARIABLE))
    first, *others = command.split(" --")
    options = [word for one in others for word in f"--{one}".split()]
    assert main([*first.split(), str(path), *options]) == 2
    said = capsys.readouterr().err
    assert f"csdf {first} does not support states, in contrast to csdf fit" in said


def test_a_state_that_begins_anew_with_each_invocation_is_read():
    zeros = np.full((1, 6), 5, np.int8)  # the zero point
    for state in (
        Tensor("memory", (1, 6), "int8", (0.1,), 5),
        constant("memory", zeros, (0.1,), 5),
    ):
        assert len(parse_tflite(filter_over_time(state), "words.tflite").network.layers) == 3


def test_a_state_that_is_not_zero_is_refused_by_name():
    begins = constant("memory", np.full((1, 6), 4, np.int8), (0.1,), 5)
    with pytest.raises(UnsupportedOperator, match="'memory' begins at other numbers than zero"):
        parse_tflite(filter_over_time(begins), "words.tflite")
    given = filter_over_time(Tensor("memory", (1, 6), "int8", (0.1,), 5), given=[4])
    with pytest.raises(UnsupportedOperator, match="'memory' depends on the frame"):
        parse_tflite(given, "words.tflite")


def test_each_operator_of_a_file_has_one_converter():
    names = [
        name
        for module in (custom_operators, functions, moves, products, recurrences, windows)
        for name in module.CONVERTERS
    ]
    assert len(names) == len({*names})  # a later module would replace the converter of an earlier
    assert {*names} < {*CONVERTERS}
