import tracemalloc

import numpy as np
import pytest

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.execution.layer_by_layer import run_layers
from cnn2csdf.weights import Model, random_weights
from csdf.errors import InvalidPlan
from planners.primitives.library.layers import (
    change_layout,
    layer_variants,
    layouts_of,
    prepared_layer,
)
from planners.primitives.library.primitive import map_dims
from planners.primitives.profile import CHW, HWC, LAYER, Variant

DIMS = (24, 33, 30)
WINDOW = op.Window(kernel=(3, 2), stride=(2, 1), padding=(1, 0, 0, 1), overhang=(1, 0))
DILATED = op.Window(kernel=(2, 3), dilation=(2, 1), padding=(1, 1, 1, 1))
IN_BOTH = (
    op.Pooling(function="max", window=WINDOW),
    op.Pooling(function="max", window=DILATED),
    op.Pooling(function="average", window=WINDOW),
    op.Pooling(function="average", window=DILATED, counts_padding=True),
    op.GlobalPooling(function="average"),
    op.GlobalPooling(function="max"),
    op.Activation(function="relu"),
    op.Activation(function="clip", parameters=(-0.5, 0.75)),
    op.BatchNormalization(),
    op.LocalResponseNormalization(size=5, alpha=0.02),
    op.LocalResponseNormalization(size=4, beta=0.5, bias=2.0),
)
IN_ONE = (
    op.FullyConnected(units=7),
    op.Reshape(dims=(30, 24 * 33)),
    op.ChannelShuffle(groups=3),
    op.Activation(function="mish"),
    op.Softmax(axis=0),
    op.Softmax(axis=1),
    op.Slice(axis=0, start=2, stop=9),
    op.TransposedConvolution(filters=4, window=op.Window(kernel=(2, 2), stride=(2, 2))),
)


def model_with(*operators, inputs=1, dims=DIMS):
    """Inputs, the operators one behind the other (the first reads all inputs), an output."""
    builder = NetworkBuilder()
    sources = [builder.input(dims, name=f"input{number}") for number in range(inputs)]
    for operator in operators:
        sources = [builder.add(operator, *sources, name="layer")]
    builder.output(sources[0])
    network = builder.network()
    return Model(network=network, weights=random_weights(network, 3))


def frame_of(model):
    generator = np.random.default_rng(4)
    return {
        one.name: generator.standard_normal(one.shape.dims, np.float32)
        for one in model.network.inputs
    }


def laid_out(array, layout):
    is_moved = layout == HWC and array.ndim == 3
    return np.ascontiguousarray(array.transpose(1, 2, 0) if is_moved else array)


def ready(model, layout):
    """A run of the layer, its output, what is expected there, and what it declares."""
    layer = model.network.layer("layer")
    maps = run_layers(model, frame_of(model))
    prepared = prepared_layer(model, layer, Variant(LAYER, layout, layout))
    inputs = [laid_out(maps[source], layout) for source in layer.inputs]
    output = np.full(map_dims(layer.shape.dims, layout), np.nan, np.float32)
    workspace = np.empty(prepared.workspace_bytes // 4, np.float32)
    expected = laid_out(np.asarray(maps["layer"]), layout)
    return lambda: prepared.run(inputs, workspace, output), output, expected, prepared


@pytest.mark.parametrize("layout", [CHW, HWC])
@pytest.mark.parametrize("operator", IN_BOTH, ids=str)
def test_a_layer_is_the_same_in_both_layouts(operator, layout):
    run, output, expected, _ = ready(model_with(operator), layout)
    run()
    assert np.allclose(output, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("layout", [CHW, HWC])
@pytest.mark.parametrize("operator", IN_BOTH, ids=str)
def test_a_layer_allocates_at_most_its_declared_workspace(operator, layout):
    # Maps have 24 * 33 * 30 * 4 = 95 kB; objects of Python and small tables take a few thousand.
    run, _, _, prepared = ready(model_with(operator), layout)
    run()
    tracemalloc.start()
    try:
        run()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert not prepared.allocates
    assert peak < prepared.workspace_bytes + 8_000


@pytest.mark.parametrize("layout", [CHW, HWC])
def test_softmax_over_one_element_a_channel_runs_in_both_layouts(layout):
    run, output, expected, prepared = ready(model_with(op.Softmax(axis=0), dims=(50, 1, 1)), layout)
    run()
    assert np.allclose(output, expected, rtol=1e-5)
    assert not prepared.allocates


@pytest.mark.parametrize("operator", IN_ONE, ids=str)
def test_any_other_layer_runs_by_channels_only(operator):
    model = model_with(operator)
    assert layouts_of(model.network, model.network.layer("layer")) == (CHW,)
    run, output, expected, _ = ready(model, CHW)
    run()
    assert np.allclose(output, expected, rtol=1e-5, atol=1e-5)
    with pytest.raises(InvalidPlan, match="layer 'layer' cannot run as 'layer' from HWC to HWC"):
        prepared_layer(model, model.network.layer("layer"), Variant(LAYER, HWC, HWC))


@pytest.mark.parametrize("layout", [CHW, HWC])
@pytest.mark.parametrize(
    "operator",
    [
        op.Concatenation(axis=0),
        op.Concatenation(axis=1),
        op.Concatenation(axis=2),
        op.Elementwise(function="add"),
        op.Elementwise(function="subtract"),
        op.Elementwise(function="maximum"),
    ],
    ids=str,
)
def test_layers_of_three_inputs_are_the_same_in_both_layouts(operator, layout):
    run, output, expected, _ = ready(model_with(operator, inputs=3), layout)
    run()
    assert np.array_equal(output, expected)


def with_epilogue(*epilogue):
    """A pointwise convolution with operators fused behind it."""
    plain = model_with(op.Convolution(filters=8, window=op.Window(kernel=(1, 1))))
    layers = [
        op_layer if op_layer.name != "layer" else fused(op_layer, epilogue)
        for op_layer in plain.network.layers
    ]
    network = type(plain.network)(name="fused", layers=tuple(layers))
    return Model(network=network, weights=random_weights(network, 5))


def fused(layer, epilogue):
    return type(layer)(
        name=layer.name,
        operator=layer.operator,
        inputs=layer.inputs,
        shape=layer.shape,
        epilogue=epilogue,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "epilogue",
    [
        (),
        (op.Activation(function="relu"),),
        (op.Activation(function="leaky relu", parameters=(0.1,)),),
        (op.Activation(function="clip", parameters=(0.0, 6.0)), op.BatchNormalization()),
        (op.Activation(function="silu"),),
        (op.Activation(function="relu"), op.LocalResponseNormalization(size=5, alpha=0.02)),
        (op.BatchNormalization(), op.Activation(function="prelu")),
    ],
    ids=str,
)
def test_bias_and_fused_operators_follow_every_primitive(epilogue):
    model = with_epilogue(*epilogue)
    layer = model.network.layer("layer")
    maps = run_layers(model, frame_of(model))
    for way in layer_variants(model.network, layer):
        prepared = prepared_layer(model, layer, way)
        output = np.empty(map_dims(layer.shape.dims, way[2]), np.float32)
        workspace = np.empty(prepared.workspace_bytes // 4, np.float32)
        prepared.run([laid_out(maps["input0"], way[1])], workspace, output)
        assert np.allclose(output, laid_out(maps["layer"], way[2]), rtol=1e-4, atol=1e-4), way


def test_fused_responses_take_two_rows_of_workspace():
    # The frame has 33 rows of 30 columns, the layer 8 maps: two rows of 8 * 30 elements, 4 bytes.
    model = with_epilogue(op.LocalResponseNormalization(size=5))
    layer = model.network.layer("layer")
    assert layer.shape.dims == (8, 33, 30)
    prepared = prepared_layer(model, layer, Variant("pointwise", CHW, CHW))
    assert prepared.workspace_bytes == 2 * 8 * 30 * 4
    assert not prepared.allocates


def test_parameters_are_counted_with_bias_and_fused_ones():
    # 8 * 24 weights and 8 of bias; 4 * 8 of the normalisation and 8 slopes; 4 bytes each.
    model = with_epilogue(op.BatchNormalization(), op.Activation(function="prelu"))
    prepared = prepared_layer(model, model.network.layer("layer"), Variant("pointwise", CHW, CHW))
    assert prepared.parameter_bytes == 4 * (8 * 24 + 8 + 4 * 8 + 8)


@pytest.mark.parametrize("dims", [(1, 1, 1), (3, 17, 40), (40, 5, 1), (16, 16, 16)])
def test_a_layout_transformation_and_its_inverse_cancel(dims):
    array = np.arange(np.prod(dims), dtype=np.float32).reshape(dims)
    changed = np.empty(map_dims(dims, HWC), np.float32)
    again = np.empty_like(array)
    change_layout(array, CHW, changed)
    change_layout(changed, HWC, again)
    assert np.array_equal(changed, array.transpose(1, 2, 0))
    assert np.array_equal(again, array)
