import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx_nodes import node_output
from single_layers import SingleLayer, assert_near, row_by_row

from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.execution.layer_by_layer import run_layer_by_layer
from cnn2csdf.operators import (
    ChannelShuffle,
    Concatenation,
    DepthToSpace,
    Identity,
    Pad,
    Reshape,
    Resize,
    Slice,
    SpaceToDepth,
    Transpose,
    padding_steps,
)
from cnn2csdf.shape import Shape
from cnn2csdf.weights import Model
from csdf.errors import InvalidNetwork

MAP = (8, 6, 4)


def resized(single, operator):
    size = np.array((1, *single.layer.shape.dims), np.int64)
    modes = {"half pixel": "half_pixel", "pytorch half pixel": "pytorch_half_pixel"}
    modes |= {"align corners": "align_corners", "asymmetric": "asymmetric"}
    rounding = {"prefer floor": "round_prefer_floor", "prefer ceil": "round_prefer_ceil"}
    return node_output(
        "Resize", single.tensors[0], None, None, size,
        mode=operator.function,
        coordinate_transformation_mode=modes[operator.coordinates],
        nearest_mode=rounding.get(operator.rounding, operator.rounding),
    )  # fmt: skip


COORDINATES = ["asymmetric", "half pixel", "pytorch half pixel", "align corners"]
SIZES = [(12, 8), (3, 2), (9, 5), (1, 1), (6, 4)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("rounding", ["floor", "ceil", "prefer floor", "prefer ceil"])
def test_the_nearest_element_is_that_of_onnx(size, coordinates, rounding):
    operator = Resize(size=size, function="nearest", coordinates=coordinates, rounding=rounding)
    single = SingleLayer(operator, MAP)
    expected = resized(single, operator)
    assert_near(single.whole(), expected)
    assert_near(row_by_row(single), expected)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("coordinates", COORDINATES)
def test_linear_interpolation_is_that_of_onnx(size, coordinates):
    operator = Resize(size=size, function="linear", coordinates=coordinates)
    single = SingleLayer(operator, MAP)
    expected = resized(single, operator)
    assert_near(single.whole(), expected)
    assert_near(row_by_row(single), expected)


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge"])
@pytest.mark.parametrize("padding", [(1, 2, 3, 1), (2, 0, 0, 3), (-1, 1, 2, -2), (-2, -1, -1, -1)])
def test_padding_is_that_of_onnx(mode, padding):
    single = SingleLayer(Pad(padding=padding, mode=mode, value=1.5), MAP)
    top, left, bottom, right = padding
    pads = np.array([0, 0, top, left, 0, 0, bottom, right], np.int64)
    expected = node_output("Pad", single.tensors[0], pads, np.array(1.5, np.float32), mode=mode)
    assert_near(single.whole(), expected)
    assert_near(row_by_row(single), expected)


@pytest.mark.parametrize("padding", [(1, 2, 3, 1), (2, 0, 0, 3), (0, 0, 0, 0)])
def test_padding_that_repeats_the_border_is_that_of_numpy(padding):
    single = SingleLayer(Pad(padding=padding, mode="symmetric"), MAP)
    top, left, bottom, right = padding
    amounts = ((0, 0), (top, bottom), (left, right))
    expected = np.pad(single.tensors[0], amounts, mode="symmetric")
    assert np.array_equal(single.whole(), expected)
    assert np.array_equal(row_by_row(single), expected)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_concatenation_is_that_of_onnx(axis):
    dims = [list(MAP) for _ in range(3)]
    dims[1][axis] = 5
    single = SingleLayer(Concatenation(axis=axis), *(tuple(one) for one in dims))
    expected = node_output("Concat", *single.tensors, batched=(0, 1, 2), axis=axis + 1)
    assert_near(single.whole(), expected)
    assert_near(row_by_row(single), expected)
    if axis == 1:
        assert_near(single.in_pieces((4, 9)), expected)


def test_vectors_are_concatenated_whole():
    single = SingleLayer(Concatenation(axis=0), (3,), (4,))
    assert_near(single.whole(), np.concatenate(single.tensors))


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize(("start", "stop", "step"), [(0, 2, 1), (1, 4, 1), (1, 99, 2), (0, 4, 3)])
def test_a_slice_is_that_of_onnx(axis, start, stop, step):
    single = SingleLayer(Slice(axis=axis, start=start, stop=stop, step=step), MAP)
    bounds = ([start], [stop], [axis + 1], [step])
    expected = node_output("Slice", single.tensors[0], *map(np.array, bounds))
    assert_near(single.whole(), expected)
    assert_near(row_by_row(single), expected)
    assert_near(single.in_pieces((2,)), expected)


@pytest.mark.parametrize("block", [1, 2])
def test_space_to_depth_is_that_of_onnx(block):
    single = SingleLayer(SpaceToDepth(block=block), MAP)
    expected = node_output("SpaceToDepth", single.tensors[0], blocksize=block)
    assert_near(single.whole(), expected)
    assert_near(row_by_row(single), expected)


def test_the_reorg_layer_of_darknet_takes_its_input_as_fewer_and_larger_maps():
    # Darknet writes element (k, j, i) of its c x h x w output buffer from place
    # (k % (c / 4), 2j + k / (c / 4) / 2, 2i + k / (c / 4) % 2) of its input buffer taken as
    # c / 4 maps of 2h x 2w; afterwards the buffer is called 4c x h / 2 x w / 2.
    single = SingleLayer(SpaceToDepth(block=2, order="darknet"), MAP)
    channels, height, width = MAP
    source = single.tensors[0].reshape(channels // 4, 2 * height, 2 * width)
    expected = np.empty(MAP, np.float32)
    for k, j, i in np.ndindex(MAP):
        shift, fewer = divmod(k, channels // 4)
        expected[k, j, i] = source[fewer, 2 * j + shift // 2, 2 * i + shift % 2]
    assert_near(single.whole(), expected.reshape(4 * channels, height // 2, width // 2))
    assert_near(row_by_row(single), single.whole())


@pytest.mark.parametrize(("order", "mode"), [("block first", "DCR"), ("channel first", "CRD")])
def test_depth_to_space_is_that_of_onnx(order, mode):
    single = SingleLayer(DepthToSpace(block=2, order=order), MAP)
    expected = node_output("DepthToSpace", single.tensors[0], blocksize=2, mode=mode)
    assert_near(single.whole(), expected)
    assert_near(row_by_row(single), expected)
    assert_near(single.in_pieces((3, 8)), expected)


def test_a_channel_shuffle_is_a_transposition_of_groups_and_places():
    single = SingleLayer(ChannelShuffle(groups=4), MAP)
    # Two channels a group: the first of each, then the second of each.
    expected = single.tensors[0][[0, 2, 4, 6, 1, 3, 5, 7]]
    assert_near(single.whole(), expected)
    assert_near(row_by_row(single), expected)


@pytest.mark.parametrize("permutation", [(2, 1, 0), (0, 2, 1), (1, 2, 0), (0, 1, 2)])
def test_a_transposition_is_that_of_onnx(permutation):
    single = SingleLayer(Transpose(permutation=permutation), MAP)
    expected = node_output(
        "Transpose", single.tensors[0], perm=[0, *(axis + 1 for axis in permutation)]
    )
    assert_near(single.whole(), expected)
    assert_near(row_by_row(single), expected)


@pytest.mark.parametrize("dims", [(192,), (4, 12, 4), (8, 6, 4), (2, 4, 6, 4)])
def test_a_reshape_keeps_the_order_of_the_elements(dims):
    single = SingleLayer(Reshape(dims=dims), MAP)
    assert_near(single.whole(), single.tensors[0].reshape(dims))
    if len(dims) == 3:
        assert_near(row_by_row(single), single.whole())


def test_identity_changes_nothing():
    single = SingleLayer(Identity(), MAP)
    assert_near(single.whole(), single.tensors[0])


@given(
    size=st.tuples(st.integers(1, 20), st.integers(1, 12)),
    coordinates=st.sampled_from(COORDINATES),
    function=st.sampled_from(["nearest", "linear"]),
    ends=st.lists(st.integers(1, 19), max_size=4).map(sorted),
)
@settings(max_examples=25, deadline=None)
def test_pieces_of_resized_rows_make_the_whole(size, coordinates, function, ends):
    operator = Resize(size=size, function=function, coordinates=coordinates)
    single = SingleLayer(operator, MAP)
    assert_near(single.in_pieces([end for end in ends if end < size[0]]), single.whole())


@pytest.mark.parametrize("dims", [(4,), (3, 5), (2, 3, 4), (2, 3, 4, 5), (2, 2, 3, 2, 3)])
def test_a_tensor_of_any_rank_is_padded_along_any_axis(dims):
    source = np.random.default_rng(len(dims))
    for _ in range(5):
        amounts = [(0, 0)] * len(dims)
        for axis in source.permutation(len(dims))[:2]:
            amounts[axis] = tuple(source.integers(0, 3, 2).tolist())
        builder = NetworkBuilder()
        layer = builder.input(dims, name="input")
        for step in padding_steps(dims, amounts, value=1.5):
            layer = builder.add(step, layer)
        builder.output(layer, name="output")
        frame = {"input": source.standard_normal(dims, np.float32)}
        model = Model(network=builder.network(), weights={})
        (result,) = run_layer_by_layer(model, frame).values()
        assert np.array_equal(result, np.pad(frame["input"], amounts, constant_values=1.5))


def test_channels_are_padded_with_a_number_only():
    with pytest.raises(InvalidNetwork, match="padding of channels by"):
        Pad(padding=(0, 0, 0, 0), mode="edge", channels=(1, 0))


@pytest.mark.parametrize(
    "operator",
    [
        Slice(axis=-1, start=0, stop=2),
        Slice(axis=3, start=0, stop=2),
        Slice(axis=1, start=-2, stop=4),
        Slice(axis=1, start=0, stop=4, step=0),
        Concatenation(axis=-1),
    ],
    ids=str,
)
def test_axes_and_starts_are_counted_from_the_begin(operator):
    with pytest.raises(InvalidNetwork, match=r"[sS]lice|concatenation along axis -1"):
        operator.output_dims([Shape(dims=(2, 4, 3))])
