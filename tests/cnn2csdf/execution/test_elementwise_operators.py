import numpy as np
import pytest
from onnx_nodes import node_output
from single_layers import SingleLayer, assert_near, row_by_row

from cnn2csdf.operators import (
    ACTIVATIONS,
    Activation,
    BatchNormalization,
    Elementwise,
    FullyConnected,
    GlobalPooling,
    InstanceNormalization,
    LayerNormalization,
    LocalResponseNormalization,
    MatrixProduct,
    Reduction,
    Softmax,
)

MAP = (6, 5, 4)

NODES = {  # activation: operator of ONNX, its opset, and the names of the parameters
    "relu": ("Relu", 17, ()),
    "leaky relu": ("LeakyRelu", 17, ("alpha",)),
    "sigmoid": ("Sigmoid", 17, ()),
    "hard sigmoid": ("HardSigmoid", 17, ("alpha", "beta")),
    "hard swish": ("HardSwish", 17, ()),
    "mish": ("Mish", 18, ()),
    "gelu": ("Gelu", 20, ()),
    "elu": ("Elu", 17, ("alpha",)),
    "selu": ("Selu", 17, ("alpha", "gamma")),
    "celu": ("Celu", 17, ("alpha",)),
    "tanh": ("Tanh", 17, ()),
    "softplus": ("Softplus", 17, ()),
    "softsign": ("Softsign", 17, ()),
    "thresholded relu": ("ThresholdedRelu", 17, ("alpha",)),
    "exp": ("Exp", 17, ()),
    "log": ("Log", 17, ()),
    "sqrt": ("Sqrt", 17, ()),
    "abs": ("Abs", 17, ()),
    "negative": ("Neg", 17, ()),
    "reciprocal": ("Reciprocal", 17, ()),
    "erf": ("Erf", 17, ()),
    "sin": ("Sin", 17, ()),
    "cos": ("Cos", 17, ()),
    "round": ("Round", 17, ()),
    "floor": ("Floor", 17, ()),
    "ceil": ("Ceil", 17, ()),
    "sign": ("Sign", 17, ()),
}
BY_HAND = {  # of halves from -2 to 2: 0 is in it, and halves go to the even number or to zero
    "truncate": [-2, -1, -1, 0, 0, 0, 1, 1, 2],
    "round": [-2, -2, -1, 0, 0, 0, 1, 2, 2],
    "not": [0, 0, 0, 0, 1, 0, 0, 0, 0],
    "is not zero": [1, 1, 1, 1, 0, 1, 1, 1, 1],
    "zero for nan": [-2, -1.5, -1, -0.5, 0, 0.5, 1, 1.5, 2],
}
PARAMETERS = (0.3, 0.7)


def activated(function, parameters=PARAMETERS):
    operator = Activation(function=function, parameters=parameters[: ACTIVATIONS[function]])
    single = SingleLayer(operator, MAP)
    single.tensors[0] *= 4
    if function in ("log", "sqrt"):
        single.tensors[0] = np.abs(single.tensors[0])
    return single


@pytest.mark.parametrize("function", NODES)
def test_an_activation_is_that_of_onnx(function):
    single = activated(function)
    kind, opset, names = NODES[function]
    attributes = dict(zip(names, PARAMETERS, strict=False))
    expected = node_output(kind, single.tensors[0], opset=opset, **attributes)
    assert_near(single.whole(), expected)
    assert_near(row_by_row(single), expected)


def test_clip_agrees_with_the_onnx_reference():
    low, high = np.array(-1, np.float32), np.array(2, np.float32)
    single = activated("clip", (-1.0, 2.0))
    assert_near(single.whole(), node_output("Clip", single.tensors[0], low, high))


def test_silu_is_the_input_times_its_sigmoid():
    single = activated("silu")
    assert_near(single.whole(), single.tensors[0] * node_output("Sigmoid", single.tensors[0]))


def test_slopes_of_prelu_belong_to_channels():
    single = activated("prelu")
    slopes = single.weights["slope"].reshape(-1, 1, 1)
    assert_near(single.whole(), node_output("PRelu", single.tensors[0], slopes))


def test_gelu_by_tanh_is_that_of_onnx():
    single = activated("gelu tanh")
    expected = node_output("Gelu", single.tensors[0], opset=20, approximate="tanh")
    assert_near(single.whole(), expected)


@pytest.mark.parametrize("function", BY_HAND)
def test_truth_values_and_whole_numbers(function):
    single = SingleLayer(Activation(function=function), (9,))
    single.tensors[0] = np.arange(-2, 2.5, 0.5, dtype=np.float32)
    assert single.whole().tolist() == BY_HAND[function]


def test_every_activation_has_a_test():
    assert set(ACTIVATIONS) == {*NODES, *BY_HAND, "clip", "silu", "prelu", "gelu tanh", "rsqrt"}


ELEMENTWISE_NODES = {
    "add": "Add",
    "subtract": "Sub",
    "multiply": "Mul",
    "divide": "Div",
    "maximum": "Max",
    "minimum": "Min",
    "mean": "Mean",
    "power": "Pow",
}


@pytest.mark.parametrize("function", ELEMENTWISE_NODES)
@pytest.mark.parametrize(
    "dims",
    [(MAP, MAP), (MAP, (6, 1, 1)), ((1, 5, 1), MAP), (MAP, (1, 1, 4)), ((6, 1, 4), (1, 5, 1))],
)
def test_an_elementwise_function_is_that_of_onnx(function, dims):
    single = SingleLayer(Elementwise(function=function), *dims)
    single.tensors[0] = np.abs(single.tensors[0])  # a negative base has no broken power
    expected = node_output(ELEMENTWISE_NODES[function], *single.tensors, batched=(0, 1))
    assert_near(single.whole(), expected, 1e-4)
    assert_near(row_by_row(single), expected, 1e-4)


@pytest.mark.parametrize("is_first", [False, True])
@pytest.mark.parametrize("dims", [(6, 1, 1), (6, 5, 4), (5, 1), (5, 4), (4,), (1,)])
def test_a_constant_stands_on_its_side_of_the_inputs(is_first, dims):
    operator = Elementwise(function="subtract", constant=dims, constant_first=is_first)
    single = SingleLayer(operator, MAP)
    constant, tensor = single.weights["constant"], single.tensors[0]
    expected = constant - tensor if is_first else tensor - constant
    assert_near(single.whole(), expected)
    assert_near(row_by_row(single), expected)


def test_a_flat_input_meets_the_columns_of_a_map():
    single = SingleLayer(Elementwise(function="add"), MAP, (5, 4))
    assert_near(row_by_row(single), single.tensors[0] + single.tensors[1])


def test_a_mean_of_three_inputs_is_that_of_onnx():
    single = SingleLayer(Elementwise(function="mean"), MAP, MAP, MAP)
    assert_near(single.whole(), node_output("Mean", *single.tensors, batched=(0, 1, 2)))


def test_batch_normalisation_is_that_of_onnx():
    single = SingleLayer(BatchNormalization(epsilon=1e-3), MAP)
    roles = ("scale", "shift", "mean", "variance")
    expected = node_output(
        "BatchNormalization", *single.tensors, *(single.weights[role] for role in roles),
        epsilon=1e-3,
    )  # fmt: skip
    assert_near(single.whole(), expected)
    assert_near(row_by_row(single), expected)


def test_instance_normalisation_is_that_of_onnx():
    single = SingleLayer(InstanceNormalization(epsilon=1e-3), MAP)
    expected = node_output(
        "InstanceNormalization", *single.tensors, single.weights["scale"], single.weights["shift"],
        epsilon=1e-3,
    )  # fmt: skip
    assert_near(single.whole(), expected)
    assert_near(row_by_row(single), expected)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("has_bias", [False, True])
def test_layer_normalisation_is_that_of_onnx(axis, has_bias):
    single = SingleLayer(LayerNormalization(axis=axis, has_bias=has_bias), MAP)
    expected = node_output(
        "LayerNormalization", *single.tensors, single.weights["scale"],
        single.weights.get("shift"), axis=axis + 1,
    )  # fmt: skip
    assert_near(single.whole(), expected)
    assert_near(row_by_row(single), expected)


@pytest.mark.parametrize("size", [1, 3, 5, 11])
def test_local_response_normalisation_is_that_of_onnx(size):
    operator = LocalResponseNormalization(size=size, alpha=0.2, beta=0.6, bias=1.5)
    single = SingleLayer(operator, MAP)
    expected = node_output("LRN", *single.tensors, size=size, alpha=0.2, beta=0.6, bias=1.5)
    assert_near(single.whole(), expected)
    assert_near(row_by_row(single), expected)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("is_logarithm", [False, True])
def test_softmax_along_an_axis_is_that_of_onnx(axis, is_logarithm):
    single = SingleLayer(Softmax(axis=axis, is_logarithm=is_logarithm), MAP)
    kind = "LogSoftmax" if is_logarithm else "Softmax"
    expected = node_output(kind, *single.tensors, axis=axis + 1)
    assert_near(single.whole(), expected)
    assert_near(row_by_row(single), expected)


def test_softmax_to_the_last_axis_is_that_of_old_onnx():
    single = SingleLayer(Softmax(axis=0, last=2), MAP)
    assert_near(single.whole(), node_output("Softmax", *single.tensors, axis=1, opset=11))


@pytest.mark.parametrize(
    ("function", "kind"), [("max", "GlobalMaxPool"), ("average", "GlobalAveragePool")]
)
def test_global_pooling_is_that_of_onnx(function, kind):
    single = SingleLayer(GlobalPooling(function=function), MAP)
    assert_near(single.whole(), node_output(kind, *single.tensors))


REDUCTION_NODES = {
    "mean": "ReduceMean",
    "sum": "ReduceSum",
    "max": "ReduceMax",
    "min": "ReduceMin",
    "l2": "ReduceL2",
}


@pytest.mark.parametrize("function", REDUCTION_NODES)
@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (0, 2), (1, 2), (0, 1, 2)])
@pytest.mark.parametrize("keeps", [False, True])
def test_a_reduction_is_that_of_onnx(function, axes, keeps):
    single = SingleLayer(Reduction(function=function, axes=axes, keeps=keeps), MAP)
    expected = node_output(
        REDUCTION_NODES[function], *single.tensors, np.array(axes) + 1,
        opset=18, keepdims=int(keeps),
    )  # fmt: skip
    assert_near(single.whole(), expected.reshape(single.layer.shape.dims))
    if len(single.layer.shape.dims) == 3:
        assert_near(row_by_row(single), expected)


def test_a_fully_connected_layer_reads_channels_then_rows_then_columns():
    single = SingleLayer(FullyConnected(units=7), MAP)
    flat = single.tensors[0].reshape(1, -1)
    expected = node_output(
        "Gemm", flat, single.weights["matrix"], single.weights["bias"], batched=(), transB=1
    )
    assert_near(single.whole(), expected[0])


@pytest.mark.parametrize("dims", [(8,), (3, 8), (2, 3, 8), (2, 2, 3, 8)])
def test_a_product_with_weights_runs_over_the_last_axis(dims):
    single = SingleLayer(MatrixProduct(units=5), dims)
    expected = node_output("MatMul", single.tensors[0], single.weights["matrix"], batched=())
    assert_near(single.whole(), expected)


@pytest.mark.parametrize("dims", [((2, 4, 3), (2, 3, 5)), ((4, 3), (2, 3, 5)), ((2, 4, 3), (3, 5))])
def test_a_product_of_two_inputs_is_that_of_onnx(dims):
    single = SingleLayer(MatrixProduct(), *dims)
    expected = node_output("MatMul", *single.tensors, batched=())
    assert_near(single.whole(), expected)
    assert_near(row_by_row(single), expected)
