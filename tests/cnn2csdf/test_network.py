"""Networks, shapes and the builder."""

import pytest

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.geometry import ceil_overhang, same_padding
from cnn2csdf.network import Layer, Network, Shape
from cnn2csdf.operators.elementwise import broadcast
from cnn2csdf.operators.operator import describe
from cnn2csdf.parameters import layer_parameters, multiply_accumulates, operations
from csdf.errors import InvalidNetwork
from csdf.units import bytes_in_words

MAP = Shape(dims=(4, 10, 12))


def window(kernel, stride=1, padding=0):
    return op.Window(kernel=(kernel,) * 2, stride=(stride,) * 2, padding=(padding,) * 4)


def dims(operator, *shapes):
    return operator.output_shape([Shape(dims=one) for one in shapes]).dims


def test_rows_of_a_map_are_those_of_all_its_channels():
    assert (MAP.rows, MAP.row_elements, MAP.elements) == (10, 48, 480)


def test_a_vector_is_a_single_row():
    assert (Shape(dims=(7,)).rows, Shape(dims=(7,)).row_elements) == (1, 7)


@pytest.mark.parametrize("bad", [(), (3, 0, 4), (-1,)])
def test_a_tensor_that_holds_nothing_is_refused(bad):
    with pytest.raises(InvalidNetwork, match="holds nothing"):
        Shape(dims=bad)


@pytest.mark.parametrize(
    ("operator", "shapes", "expected"),
    [
        # floor((224 + 6 - 7) / 2) + 1 = 112
        (op.Convolution(filters=64, window=window(7, 2, 3)), [(3, 224, 224)], (64, 112, 112)),
        # (4 - 1) * 2 + 3 - 2 + 1 = 8
        (
            op.TransposedConvolution(filters=2, window=window(3, 2, 1), extra=(1, 1)),
            [(5, 4, 4)],
            (2, 8, 8),
        ),
        (op.Pooling(function="max", window=window(3, 2)), [(64, 111, 111)], (64, 55, 55)),
        (op.GlobalPooling(function="max"), [(64, 13, 13)], (64, 1, 1)),
        (op.FullyConnected(units=10), [(4, 3, 3)], (10,)),
        (op.MatrixProduct(), [(2, 5, 7), (2, 7, 3)], (2, 5, 3)),
        (op.MatrixProduct(units=3), [(5, 7)], (5, 3)),
        (op.Elementwise(function="multiply"), [(8, 5, 5), (8, 1, 1)], (8, 5, 5)),
        (op.Elementwise(function="add", constant=(5,)), [(8, 5, 5)], (8, 5, 5)),
        (op.Concatenation(axis=0), [(3, 5, 5), (4, 5, 5)], (7, 5, 5)),
        (op.Slice(axis=0, start=1, stop=99, step=2), [(8, 5, 5)], (4, 5, 5)),
        (op.Pad(padding=(1, 2, 3, -1)), [(8, 5, 5)], (8, 9, 6)),
        (op.SpaceToDepth(block=2), [(64, 26, 26)], (256, 13, 13)),
        (op.DepthToSpace(block=2), [(256, 13, 13)], (64, 26, 26)),
        (op.Transpose(permutation=(2, 0, 1)), [(3, 4, 5)], (5, 3, 4)),
        (op.Reduction(function="mean", axes=(1,), keeps=False), [(3, 4, 5)], (3, 5)),
        (op.Resize(size=(8, 6), function="linear"), [(3, 4, 3)], (3, 8, 6)),
    ],
)
def test_output_shapes(operator, shapes, expected):
    assert dims(operator, *shapes) == expected


@pytest.mark.parametrize(
    ("operator", "shapes", "message"),
    [
        (op.Convolution(filters=4, window=window(5)), [(3, 4, 9)], "5x5 does not fit into 4x9"),
        (
            op.Convolution(filters=4, window=window(3), groups=2),
            [(3, 9, 9)],
            "groups: 2 does not divide",
        ),
        (op.Convolution(filters=4, window=window(3)), [(30,)], "needs feature maps"),
        (op.Concatenation(axis=0), [(3, 4, 4), (3, 5, 4)], "do not fit along axis 0"),
        (op.Concatenation(axis=1), [(3, 4), (3,)], "do not fit along axis 1"),
        (op.Elementwise(function="add"), [(3, 4, 4), (3, 5, 4)], "3x4x4 and 3x5x4"),
        (op.Reshape(dims=(5,)), [(2, 3)], "2x3 has 6 elements"),
        (op.Transpose(permutation=(0, 0)), [(2, 3)], "does not reorder"),
        (op.SpaceToDepth(block=2), [(1, 3, 4)], "do not divide 3x4"),
        (op.MatrixProduct(), [(2, 3), (2, 3)], "does not exist"),
        (op.GlobalPooling(function="max"), [(2, 3, 3), (2, 3, 3)], "takes one input, found 2"),
    ],
)
def test_inputs_that_do_not_fit_are_named(operator, shapes, message):
    with pytest.raises(InvalidNetwork, match=message):
        dims(operator, *shapes)


def test_operands_are_aligned_at_their_last_axes():
    assert broadcast([(3, 1, 5), (4, 1), (5,)]) == (3, 4, 5)


def test_the_odd_row_of_same_padding_is_at_the_end():
    # 3x3 with stride 2 over 224 rows: 112 places need 2 * 111 + 3 = 225 rows, one more.
    assert same_padding((224, 224), window(3, 2)) == (0, 0, 1, 1)
    assert same_padding((224, 224), window(3, 2), extra_first=True) == (1, 1, 0, 0)


def test_rounding_up_adds_the_rows_of_one_more_window():
    # 3x3 with stride 2 over 112 rows: floor gives 55 places, one row is left; 56 need 113 rows.
    assert ceil_overhang((112, 112), window(3, 2)) == (1, 1)


def test_a_window_that_would_start_in_the_padding_is_left_out():
    # 1x1, stride 2, padding 1, 4 rows: a fourth window would start at row 5 of the padded 6,
    # which is behind the input and its first padding (5 rows).
    assert ceil_overhang((4, 4), window(1, 2, 1)) == (0, 0)


def tiny():
    builder = NetworkBuilder("tiny")
    image = builder.input((3, 8, 8))
    left = builder.add(op.Convolution(filters=4, window=window(3, 1, 1)), image, name="left")
    right = builder.add(op.Convolution(filters=4, window=window(1)), image, name="right")
    joined = builder.add(op.Elementwise(function="add"), left, right, name="joined")
    builder.output(builder.add(op.FullyConnected(units=5), joined, name="classes"))
    return builder.network()


def test_connections_come_in_the_order_of_the_layers():
    found = [(one.producer, one.consumer, one.index) for one in tiny().connections]
    assert found == [
        ("input", "left", 0), ("input", "right", 0), ("left", "joined", 0), ("right", "joined", 1),
        ("joined", "classes", 0), ("classes", "output", 0),
    ]  # fmt: skip


def test_parameters_and_work_by_hand():
    network = tiny()
    # Kernels of 4x3x3x3 and 4x3x1x1 with 4 biases each; a matrix of 5 x 256 with 5 biases.
    assert layer_parameters(network) == {
        "input": 0, "left": 112, "right": 16, "joined": 0, "classes": 1285, "output": 0,
    }  # fmt: skip
    work = {
        one.name: multiply_accumulates(one, network.input_shapes(one)) for one in network.layers
    }
    assert (work["left"], work["right"], work["classes"]) == (256 * 27, 256 * 3, 1280)
    joined = network.layer("joined")
    assert operations(joined, network.input_shapes(joined)) == 256  # an addition an element


def test_a_layer_that_reads_a_later_one_is_refused():
    layers = (
        Layer(name="a", operator=op.Identity(), inputs=("b",), shape=MAP),
        Layer(name="b", operator=op.Input(dims=MAP.dims), inputs=(), shape=MAP),
    )
    with pytest.raises(InvalidNetwork, match="'a' reads 'b', which is not a layer before it"):
        Network(name="n", layers=layers)


def test_two_layers_of_one_name_are_refused():
    layer = Layer(name="a", operator=op.Input(dims=MAP.dims), inputs=(), shape=MAP)
    with pytest.raises(InvalidNetwork, match="two layers are named 'a'"):
        Network(name="n", layers=(layer, layer))


def test_the_builder_names_the_layer_that_does_not_fit():
    builder = NetworkBuilder("n")
    builder.input((3, 4, 4))
    with pytest.raises(InvalidNetwork, match="layer 'conv': a window of 5x5"):
        builder.add(op.Convolution(filters=1, window=window(5)), "input", name="conv")
    with pytest.raises(InvalidNetwork, match="reads 'nothing', which does not exist"):
        builder.add(op.Identity(), "nothing")


def test_layers_are_described_by_window_and_what_is_fused():
    layer = Layer(
        name="c", operator=op.Convolution(filters=8, window=window(7, 2), groups=4), inputs=("i",),
        shape=MAP, epilogue=(op.Activation(function="relu"),),
    )  # fmt: skip
    assert describe(layer.operator, layer.epilogue) == "conv 7x7/2, 4 groups + relu"


def test_bytes_are_written_with_decimal_units():
    assert [bytes_in_words(n) for n in (999, 1000, 1_234_567)] == ["999 B", "1 kB", "1.235 MB"]
