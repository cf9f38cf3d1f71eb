"""Networks of uint8 in C, against the whole network."""

import pytest

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.dtypes import Arithmetic, Element, Quantization
from cnn2csdf.readers.tflite.reader import parse_tflite
from cnn2csdf.weights import Model
from csdf.errors import UnsupportedOperator
from planners.code.library import library, write_library
from planners.memory.fit import fit
from tests.cnn2csdf.readers.test_tflite_operators import frames_of, ours
from tests.cnn2csdf.readers.tflite_cases import case
from tests.planners.code.compiling import FLAGS, needs_compiler, run_all
from tests.planners.code.mixed_networks import Mixing
from tests.planners.code.test_library_on_target import make, needs_target

IN_C = (
    *("CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV", "AVERAGE_POOL_2D"),
    *("MAX_POOL_2D", "ADD", "SUB", "MUL", "HARD_SWISH", "LEAKY_RELU"),
    *("RELU", "RELU6", "PRELU", "RESIZE_NEAREST_NEIGHBOR", "MEAN", "SOFTMAX", "PAD", "PADV2"),
    *("PAD of channels", "SLICE", "STRIDED_SLICE", "SPLIT", "PACK", "CONCATENATION"),
    *("DEPTH_TO_SPACE", "SPACE_TO_DEPTH", "LOGISTIC", "TANH", "RESIZE_BILINEAR"),
    "FULLY_CONNECTED",
)


def made(kind, seed, number=0):
    model = parse_tflite(case(kind, "uint8", seed), "one.tflite", with_weights=True)
    plan = fit(model.network, budget=1).least.plan
    frames = [ours(model.network, frames_of(model.network, draw)) for draw in range(2)]
    return library(model, plan, name=f"net{number}", frames=frames)


@needs_compiler
@pytest.mark.slow
def test_operators_of_uint8_give_the_same_bytes_in_c(tmp_path):
    pairs = [(kind, seed) for kind in IN_C for seed in range(2)]
    libraries = [made(*pair, number) for number, pair in enumerate(pairs)]
    assert run_all(libraries, tmp_path) == []


def averaged(*, padding):
    """Means of two bytes, whose halves are rounded, of a model that no reader of files made."""
    builder = NetworkBuilder("means")
    types = Quantization(element=Element.UINT8, scales=(0.1,), zero_point=3)
    common = {"element": Element.UINT8, "quantization": types}
    window = op.Window(kernel=(2, 1), padding=(padding, 0, 0, 0))
    pooling = op.Pooling(function="average", window=window, counts_padding=True)
    builder.output(builder.add(pooling, builder.input((2, 7, 5), **common), **common))
    return Model(network=builder.network(), weights={})


@needs_compiler
def test_means_of_uint8_of_a_model_built_in_python_are_rounded_alike_in_c(tmp_path):
    model = averaged(padding=0)
    made = library(model, fit(model.network, budget=1).least.plan, name="net")
    assert run_all([made], tmp_path, FLAGS) == []


def test_means_of_uint8_that_count_padding_are_refused_in_c():
    model = averaged(padding=1)
    with pytest.raises(UnsupportedOperator, match="counts padding of zeros"):
        library(model, fit(model.network, budget=1).least.plan, name="net")


@pytest.mark.slow
@needs_target
@pytest.mark.parametrize("target", ["qemu", "qemu-m55"])
def test_convolutions_with_zero_points_of_weights_give_the_same_bytes_on_a_cortex_m(
    target, tmp_path
):
    builder = NetworkBuilder("net")
    last = builder.input((3, 6, 5))
    for filters, size, groups in ((8, 3, 1), (8, 3, 8), (6, 1, 1)):
        window = op.Window(kernel=(size, size), padding=(size // 2,) * 4)
        last = builder.add(op.Convolution(filters=filters, window=window, groups=groups), last)
    builder.output(last)
    model = Mixing(1, Arithmetic.UNSIGNED_FIXED_POINT, real=()).mixed(builder.network())
    assert model.network.layer("convolution").stored_as("kernel").quantization.zero_point
    write_library(model, fit(model.network, budget=1).least.plan, tmp_path, name="net")
    ran = make(tmp_path, target)
    assert ran.returncode == 0, ran.stdout + ran.stderr
