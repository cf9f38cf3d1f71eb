"""Rewrites: fewer layers, the same outputs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.catalogue.embedded import keyword_spotting, resnet8
from cnn2csdf.dtypes import Arithmetic, Element, Quantization, Stored
from cnn2csdf.execution.layer_by_layer import run_layer_by_layer
from cnn2csdf.granularity import ROWS
from cnn2csdf.lowering import lower
from cnn2csdf.parameters import stored_arrays
from cnn2csdf.simplify import REWRITES, simplified
from cnn2csdf.weights import Model, random_weights
from csdf.errors import InvalidNetwork
from csdf.search.trade_off import smallest_storage
from tests.cnn2csdf.execution.random_networks import models


def frame_of(model, seed=0):
    generator = np.random.default_rng(seed)
    return {
        layer.name: generator.standard_normal(layer.shape.dims).astype(np.float32)
        for layer in model.network.inputs
    }


def assert_same_outputs(model, other):
    frame = frame_of(model)
    expected, found = run_layer_by_layer(model, frame), run_layer_by_layer(other, frame)
    assert expected.keys() == found.keys()
    for name, tensor in expected.items():
        scale = np.abs(tensor).max() or 1
        assert np.abs(found[name] - tensor).max() <= 1e-4 * scale


def names(model):
    return [layer.name for layer in model.network.layers]


def small():
    """Convolution, batch normalisation, scale, shift, relu, dropout, flatten, fully connected."""
    builder = NetworkBuilder("small")
    here = builder.input((3, 6, 6))
    window = op.Window(kernel=(3, 3), padding=(1, 1, 1, 1))
    here = builder.add(op.Convolution(filters=4, window=window, has_bias=False), here, name="conv")
    here = builder.add(op.BatchNormalization(), here, name="norm")
    for name, function in (("scale", "multiply"), ("shift", "add")):
        operator = op.Elementwise(function=function, constant=(4, 1, 1))
        here = builder.add(operator, here, name=name)
    here = builder.add(op.Activation(function="relu"), here, name="relu")
    here = builder.add(op.Identity(kind="dropout"), here, name="dropout")
    here = builder.add(op.Reshape(dims=(144,)), here, name="flatten")
    builder.output(builder.add(op.FullyConnected(units=3), here, name="classes"))
    network = builder.network()
    return Model(network=network, weights=random_weights(network, 1))


def test_a_rewrite_that_is_not_there_is_refused_by_name():
    with pytest.raises(InvalidNetwork, match="no rewrite 'fuse'; eliminate-nop, "):
        simplified(Model(network=resnet8()), ("fuse",))


def test_dropping_leaves_out_dropout_and_a_reshape_before_a_fully_connected_layer():
    model = small()
    dropped = REWRITES["eliminate-nop"](model)
    assert names(dropped) == [
        "input", "conv", "norm", "scale", "shift", "relu", "classes", "output",
    ]  # fmt: skip
    assert_same_outputs(model, dropped)


def test_folding_puts_normalisation_scale_and_shift_into_the_convolution():
    model = small()
    folded = REWRITES["fuse-bn"](model)
    assert names(folded) == ["input", "conv", "relu", "dropout", "flatten", "classes", "output"]
    assert folded.network.layer("conv").operator.has_bias
    assert_same_outputs(model, folded)


def shared_filters(stored, *following, has_bias=False):
    """Two convolutions with the same filters, and an operator after each, which share arrays."""
    builder = NetworkBuilder("shared")
    convolution = op.Convolution(filters=4, window=op.Window(kernel=(3, 3)), has_bias=has_bias)
    for number, operator in enumerate(following):
        image = builder.input((3, 6, 6), f"image {number}")
        filters = (Stored(role="kernel", name="filters"),)
        last = builder.add(convolution, image, name=f"conv {number}", stored=filters)
        builder.output(builder.add(operator, last, stored=stored))
    return Model(network=builder.network())


NORM = tuple(Stored(role=role, name=role) for role in ("scale", "shift", "mean", "variance"))
SCALE = (Stored(role="constant", name="constant"),)


@pytest.mark.parametrize(
    ("model", "number"),
    [
        (shared_filters(NORM, op.BatchNormalization(), op.BatchNormalization()), 2),
        # A bias without a name is a layer's own, and so are its folded arrays.
        (
            shared_filters(NORM, op.BatchNormalization(), op.BatchNormalization(), has_bias=True),
            4,
        ),
        (
            shared_filters(
                SCALE,
                op.Elementwise(function="multiply", constant=(4, 1, 1)),
                op.Elementwise(function="add", constant=(4, 1, 1)),
            ),
            4,
        ),
    ],
    ids=["all arrays are shared", "biases differ", "functions differ"],
)
def test_layers_share_folded_arrays_that_are_equal(model, number):
    assert len(stored_arrays(REWRITES["fuse-bn"](model).network)) == number


def test_a_sum_of_two_repeated_masks_is_repeated():
    builder = NetworkBuilder("masks")
    first, second = (
        builder.add(op.Repeat(axis=2, times=4), builder.input((1, 8, 1), name))
        for name in ("first", "second")
    )
    query, key = builder.input((2, 8, 3), "query"), builder.input((2, 3, 4), "key")
    scores = builder.add(op.MatrixProduct(), query, key)
    mask = builder.add(op.Elementwise(function="multiply"), first, second)
    builder.output(builder.add(op.Elementwise(function="add"), scores, mask))
    model = Model(network=builder.network(), weights={})
    assert_same_outputs(model, simplified(model))


def test_absorbing_takes_additions_only():
    absorbed = REWRITES["fuse-bias"](small())
    assert "shift" not in names(absorbed)
    assert {"norm", "scale", "relu"} < set(names(absorbed))
    assert_same_outputs(small(), absorbed)


def test_fusing_hangs_functions_of_single_elements_behind_the_layer_before():
    model = small()
    fused = REWRITES["fuse-activation"](REWRITES["eliminate-nop"](model))
    assert names(fused) == ["input", "conv", "classes", "output"]
    assert len(fused.network.layer("conv").epilogue) == 4
    assert_same_outputs(model, fused)


@pytest.mark.parametrize(
    ("dims", "is_fused"),
    [((8,), True), ((1, 8), True), ((6, 8), False), ((6, 1), False), ((4, 6, 1), False)],
    ids=str,
)
def test_a_constant_is_fused_if_it_is_equal_in_all_rows(dims, is_fused):
    # C adds the same numbers to each row.
    builder = NetworkBuilder("constant")
    conv = builder.add(
        op.Convolution(filters=4, window=op.Window(kernel=(1, 1))), builder.input((3, 6, 8))
    )
    builder.output(builder.add(op.Elementwise(function="multiply", constant=dims), conv))
    network = builder.network()
    model = Model(network=network, weights=random_weights(network, 0))
    fused = REWRITES["fuse-activation"](model)
    assert len(fused.network.layers) == 4 - is_fused
    assert_same_outputs(model, fused)


def test_a_sum_that_is_quantised_is_no_bias():
    integers = Quantization(
        element=Element.INT8, scales=(0.5,), arithmetic=Arithmetic.SINGLE_PRECISION
    )
    builder = NetworkBuilder("quantised")
    dense = builder.add(op.MatrixProduct(units=6), builder.input((5, 4)))
    total = builder.add(
        op.Elementwise(function="add", constant=(6,)),
        dense,
        element=Element.INT8,
        quantization=integers,
    )
    builder.output(total)
    network = builder.network()
    model = Model(network=network, weights=random_weights(network, 0))
    assert REWRITES["fuse-bias"](model) is model


def test_a_constant_without_dims_is_added_after_a_product_with_one_column():
    builder = NetworkBuilder("number")
    dense = builder.add(op.MatrixProduct(units=1, has_bias=False), builder.input((8, 4)))
    builder.output(builder.add(op.Elementwise(function="add", constant=()), dense))
    _, product, _ = REWRITES["fuse-bias"](Model(network=builder.network())).network.layers
    assert product.operator == op.MatrixProduct(units=1, has_bias=False)
    assert product.epilogue == (op.Elementwise(function="add", constant=()),)


def test_a_constant_with_more_dims_than_a_product_is_no_bias():
    builder = NetworkBuilder("dims")
    dense = builder.add(op.MatrixProduct(units=6, has_bias=False), builder.input((8, 4)))
    builder.output(builder.add(op.Elementwise(function="add", constant=(1, 1, 6)), dense))
    model = Model(network=builder.network())
    assert REWRITES["fuse-bias"](model) is model


def test_a_layer_that_another_one_reads_keeps_its_output():
    builder = NetworkBuilder("branch")
    image = builder.input((2, 4, 4))
    window = op.Window(kernel=(1, 1))
    conv = builder.add(op.Convolution(filters=2, window=window), image, name="conv")
    norm = builder.add(op.BatchNormalization(), conv, name="norm")
    builder.output(builder.add(op.Elementwise(function="add"), conv, norm, name="sum"))
    network = builder.network()
    model = simplified(Model(network=network, weights=random_weights(network, 0)))
    assert names(model) == ["input", "conv", "norm", "sum", "output"]


@pytest.mark.parametrize("build", [resnet8, keyword_spotting])
def test_networks_of_the_catalogue_compute_the_same(build):
    network = build()
    model = Model(network=network, weights=random_weights(network, 3))
    fewer = simplified(model)
    assert len(fewer.network.layers) < len(network.layers)
    assert_same_outputs(model, fewer)


@pytest.mark.slow
@given(models(), st.sets(st.sampled_from(sorted(REWRITES))))
@settings(deadline=None)
def test_random_networks_compute_the_same_after_any_rewrites(model, steps):
    assert_same_outputs(model, simplified(model, tuple(steps)))


@pytest.mark.slow
@given(models(), st.sets(st.sampled_from(sorted(REWRITES))))
@settings(deadline=None)
def test_weights_do_not_decide_which_layers_are_left(model, steps):
    bare = simplified(Model(network=model.network), tuple(steps))
    assert bare.network == simplified(model, tuple(steps)).network
    assert bare.weights is None


LAST = (  # layers of maps with their channels behind, that treat rows and columns alike
    op.LayerNormalization(axis=2),
    op.MatrixProduct(units=7),
    op.Activation(function="gelu"),
    op.Elementwise(function="multiply", constant=(7,)),
)
BEHIND, BACK = op.Transpose(permutation=(1, 2, 0)), op.Transpose(permutation=(2, 0, 1))


def with_channels_behind(*operators, back=BACK):
    """A window over maps of 8 rows and 6 columns, layers with the channels behind, and a window."""
    builder = NetworkBuilder("behind")
    window = op.Window(kernel=(3, 3), padding=(1, 1, 1, 1))
    here = builder.add(op.Convolution(filters=5, window=window), builder.input((3, 8, 6)))
    for operator in (BEHIND, *operators):
        here = builder.add(operator, here)
    here = builder.add(back, here)
    builder.output(builder.add(op.Convolution(filters=4, window=window), here))
    network = builder.network()
    return Model(network=network, weights=random_weights(network, 0))


def phases(model):
    return [layer.shape.rows for layer in model.network.layers]


def test_maps_with_channels_behind_are_turned_until_all_layers_work_by_rows():
    model = with_channels_behind(*LAST)
    turned = REWRITES["convert-layout"](model)
    assert_same_outputs(model, turned)
    assert names(turned) == names(model)
    # Before, the six columns are the parts between the transpositions; turned, the eight rows.
    assert phases(turned) == [8] * len(LAST) + [8] * 6
    # Rows of 6 places between layers: three of 3 maps and of 7 for the windows, one of 5 for each of
    # the three layers that read 5 maps, one of 7 for each of the other three, and one of 4.
    size = 6 * (3 * 3 + 3 * 7 + 3 * 5 + 3 * 7 + 4)
    assert smallest_storage(lower(turned.network, ROWS)).point.size == size
    # The transpositions need all 8 rows of 5 maps, and all 6 columns of 7.
    assert smallest_storage(lower(model.network, ROWS)).point.size > 8 * 6 * (5 + 7)


@pytest.mark.parametrize(
    "mind",
    [
        op.Softmax(axis=0),
        op.Reduction(function="mean", axes=(1,)),
        op.Elementwise(function="add", constant=(8, 1, 1)),
        op.Slice(axis=1, start=0, stop=6, step=1),
    ],
    ids=str,
)
def test_a_layer_that_minds_rows_and_columns_keeps_maps_as_they_are(mind):
    model = with_channels_behind(op.LayerNormalization(axis=2), mind, LAST[2])
    assert REWRITES["convert-layout"](model) is model


def test_a_result_with_channels_behind_is_not_turned():
    builder = NetworkBuilder("result")
    builder.output(builder.add(BEHIND, builder.input((3, 8, 6))))
    model = Model(network=builder.network())
    assert REWRITES["convert-layout"](model) is model


def test_what_all_rows_and_columns_are_scaled_by_is_turned_too():
    # As the global response normalisation of ConvNeXt V2: a mean over both, with all of the maps.
    builder = NetworkBuilder("response")
    behind = builder.add(BEHIND, builder.input((5, 8, 6)))
    mean = builder.add(op.Reduction(function="mean", axes=(0, 1)), behind)
    scaled = builder.add(op.Elementwise(function="multiply"), behind, mean)
    joined = builder.add(op.Concatenation(axis=2), scaled, behind)
    builder.output(builder.add(BACK, joined))
    network = builder.network()
    model = Model(network=network, weights=random_weights(network, 0))
    turned = REWRITES["convert-layout"](model)
    assert_same_outputs(model, turned)
    assert turned.network.layer(joined).shape.dims == (6, 8, 10)


@pytest.mark.parametrize("places", [(0, 2), (0, 0, 2), (2, 0), (1, 1)])
def test_a_gather_of_positions_before_attention_keeps_its_results(places):
    builder = NetworkBuilder("positions")
    dense = builder.add(op.MatrixProduct(units=6), builder.input((8, 4)))
    split = builder.add(op.Reshape(dims=(8, 3, 2)), dense)
    gathered = builder.add(op.Gather(axis=1, places=places), split)
    flat = builder.add(op.Reshape(dims=(8, 2 * len(places))), gathered)
    transposed = builder.add(op.Transpose(permutation=(1, 0)), flat)
    scores = builder.add(op.MatrixProduct(), flat, transposed)
    weights = builder.add(op.Softmax(axis=1), scores)
    builder.output(builder.add(op.MatrixProduct(), weights, flat))
    network = builder.network()
    model = Model(network=network, weights=random_weights(network, 0))
    frame = {"input": np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32)}
    (expected,) = run_layer_by_layer(model, frame).values()
    (result,) = run_layer_by_layer(simplified(model), frame).values()
    np.testing.assert_allclose(result.reshape(-1), expected.reshape(-1), rtol=1e-5)


def test_channels_of_a_broadcast_single_channel_are_selected_of_the_constant():
    builder = NetworkBuilder("broadcast")
    spread = builder.add(op.Elementwise(function="add", constant=(1, 4)), builder.input((8, 1)))
    split = builder.add(op.Reshape(dims=(8, 2, 2)), spread)
    last = builder.add(op.Gather(axis=1, places=(1,)), split)
    matrix = builder.add(op.Reshape(dims=(8, 2)), last)
    builder.output(builder.add(op.MatrixProduct(), matrix, builder.input((2, 5), name="second")))
    network = builder.network()
    model = Model(network=network, weights=random_weights(network, 0))
    generator = np.random.default_rng(0)
    frame = {
        name: generator.standard_normal(dims).astype(np.float32)
        for name, dims in (("input", (8, 1)), ("second", (2, 5)))
    }
    (expected,) = run_layer_by_layer(model, frame).values()
    (result,) = run_layer_by_layer(REWRITES["tokens-as-rows"](model), frame).values()
    np.testing.assert_allclose(result.reshape(-1), expected.reshape(-1), rtol=1e-5)


def test_a_reshape_that_keeps_the_order_of_memory_is_a_view():
    builder = NetworkBuilder("spectrogram")
    line = builder.input((24,))
    image = builder.add(op.Reshape(dims=(1, 6, 4)), line, name="image")  # a channel: the same order
    pooled = builder.add(op.Pooling(function="max", window=op.Window(kernel=(2, 2))), image)
    channels = builder.add(
        op.Reshape(dims=(4, 15, 1)), line_of(builder, pooled, 4), name="channels"
    )
    builder.output(builder.add(op.Activation(function="relu"), channels))
    model = Model(network=builder.network(), weights={})
    other = simplified(model)
    assert other.network.layer("image").operator == op.View(dims=(1, 6, 4))
    assert other.network.layer("channels").operator.keeps_order  # pixel by pixel: another order
    assert simplified(model, ()) is model
    assert_same_outputs(model, other)


def line_of(builder, tensor, channels):
    """A vector of a map of one channel, repeated for several channels."""
    line = builder.add(op.Reshape(dims=(15,)), tensor)
    return builder.add(op.Concatenation(axis=0), *[line] * channels)


def test_a_matrix_read_before_a_view_has_a_name_of_its_own():
    builder = NetworkBuilder("shared")
    line = builder.add(op.View(dims=(6,)), builder.input((2, 3, 1)))
    stored = (Stored(role="matrix", name="trained"),)
    dense = op.FullyConnected(units=2, has_bias=False)
    builder.output(builder.add(dense, line, name="of map", stored=stored))
    builder.output(builder.add(dense, builder.input((6,)), name="of vector", stored=stored))
    network = builder.network()
    model = Model(network=network, weights=random_weights(network, 0))
    other = simplified(model)
    names = [other.network.layer(name).stored[0].name for name in ("of map", "of vector")]
    assert names == ["trained, columns of 6 as 2x3x1", "trained"]
    assert_same_outputs(model, other)


def test_a_function_after_a_view_stays_when_a_layer_reads_before_the_view():
    builder = NetworkBuilder("limited")
    line = builder.add(op.View(dims=(6,)), builder.input((2, 3, 1)))
    limited = builder.add(op.Activation(function="relu"), line)
    builder.output(builder.add(op.FullyConnected(units=2), limited))
    network = builder.network()
    model = Model(network=network, weights=random_weights(network, 0))
    fused = simplified(model, ("fuse-activation",))
    assert [layer for layer in fused.network.layers if layer.epilogue]
    assert_same_outputs(model, simplified(fused))
