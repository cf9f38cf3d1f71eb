from math import prod
from pathlib import Path

import pytest

from cnn2csdf import operators as op
from cnn2csdf.catalogue.networks import CATALOGUE, from_catalogue
from cnn2csdf.parameters import layer_parameters, multiply_accumulates
from cnn2csdf.readers.model_files import read_model
from cnn2csdf.simplify import simplified
from cnn2csdf.weights import Model


def parameters(network):
    return sum(layer_parameters(network).values())


def normalized_channels(network):
    return sum(
        layer.shape.channels
        for layer in network.layers
        if isinstance(layer.operator, op.BatchNormalization)
    )


def work(network):
    return sum(multiply_accumulates(layer, network.input_shapes(layer)) for layer in network.layers)


def output_dims(network):
    return [layer.shape.dims for layer in network.outputs]


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_layer_has_the_shape_that_its_operator_makes(name):
    network = CATALOGUE[name]()
    for layer in network.layers:
        assert layer.shape == layer.operator.output_shape(network.input_shapes(layer)), layer.name


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_network_is_connected_and_named_as_in_the_catalogue(name):
    network = CATALOGUE[name]()
    assert len(network.inputs) == len(network.outputs) == 1
    for layer in network.layers:
        is_read = bool(network.consumers[layer.name])
        assert is_read != layer.is_output, layer.name
    assert network.name == name


# Trainable parameters. torchvision 0.15, table of all classification weights, column "Params"
# (ResNet, DenseNet, VGG, SqueezeNet, MobileNetV2, EfficientNet: exact counts in "num_params").
# MobileNetV1: "Trainable params" of keras.applications.MobileNet. GoogLeNet: the sum over the
# released Caffe model (6,990,272 weights and 8,280 biases). ResNet-8: the layers of the MLPerf
# Tiny reference, added up by hand in the test below. DS-CNN: "Trainable params" of that reference.
TRAINABLE = {
    "densenet121": 7_978_856,
    "efficientnet_b0": 5_288_548,
    "googlenet": 6_998_552,
    "keyword_spotting": 23_756,
    "mobilenet_v1": 4_231_976,
    "mobilenet_v2": 3_504_872,
    "resnet18": 11_689_512,
    "resnet34": 21_797_672,
    "resnet50": 25_557_032,
    "squeezenet1_0": 1_248_424,
    "squeezenet1_1": 1_235_496,
    "vgg16": 138_357_544,
    "vgg19": 143_667_240,
}


@pytest.mark.parametrize(("name", "expected"), TRAINABLE.items())
def test_trainable_parameters_are_those_published(name, expected):
    network = from_catalogue(name)
    # Mean and variance of a normalised feature map are not trained.
    assert parameters(network) - 2 * normalized_channels(network) == expected


@pytest.mark.parametrize(
    ("name", "weights_bytes", "header_bytes"),
    # Sizes of yolov2.weights and yolov2-tiny-voc.weights as distributed: a header of four 32-bit
    # numbers, then all parameters with means and variances, 4 bytes each.
    [("yolo_v2", 203_934_260, 16), ("tiny_yolo_v2", 63_471_556, 16)],
)
def test_yolo_fills_its_file_of_weights(name, weights_bytes, header_bytes):
    assert 4 * parameters(from_catalogue(name)) + header_bytes == weights_bytes


def test_resnet8_has_the_parameters_of_its_layers():
    first = 3 * 9 * 16 + 16 + 4 * 16
    second = 2 * (16 * 9 * 16 + 16 + 4 * 16)
    third = (16 * 9 * 32 + 32) + (32 * 9 * 32 + 32) + 2 * 4 * 32 + (16 * 32 + 32)
    fourth = (32 * 9 * 64 + 64) + (64 * 9 * 64 + 64) + 2 * 4 * 64 + (32 * 64 + 64)
    network = from_catalogue("resnet8")
    assert parameters(network) == first + second + third + fourth + (64 * 10 + 10)


def test_alexnet_has_the_parameters_of_its_layers():
    # Krizhevsky et al., section 3.5: the sizes of all kernels; "60 million parameters" in all.
    kernels = 96 * 11 * 11 * 3 + 256 * 5 * 5 * 48 + 384 * 3 * 3 * (256 + 192) + 256 * 3 * 3 * 192
    matrices = 4096 * (6 * 6 * 256) + 4096 * 4096 + 1000 * 4096
    biases = 96 + 256 + 384 + 384 + 256 + 4096 + 4096 + 1000
    assert parameters(from_catalogue("alexnet")) == kernels + matrices + biases == 60_965_224


@pytest.mark.parametrize(
    ("text", "expected", "unit"),
    [
        # He et al., table 1, "FLOPs" in multiply-adds.
        ("resnet18", "1.8", 10**9),
        ("resnet34", "3.7", 10**9),  # printed as 3.6, which cuts off
        ("resnet50", "3.9", 10**9),  # printed as 3.8, which cuts off
        # torchvision 0.15, column "GIPS" of the table of classification weights.
        ("densenet121", "2.83", 10**9),
        ("efficientnet_b0", "0.39", 10**9),
        ("mobilenet_v2", "0.30", 10**9),
        ("squeezenet1_1", "0.35", 10**9),
        ("vgg16", "15.47", 10**9),
        ("vgg19", "19.63", 10**9),
        # Howard et al., tables 6 and 7, "Million Mult-Adds".
        ("mobilenet_v1", "569", 10**6),
        ("mobilenet_v1:width=1/4", "41", 10**6),
        ("mobilenet_v1:resolution=192", "418", 10**6),
        ("mobilenet_v1:resolution=128", "186", 10**6),
        # Darknet's own table: 62.94 and 6.97 billion operations, two for a multiply-add.
        ("yolo_v2:resolution=608", "31.47", 10**9),
        ("tiny_yolo_v2", "3.49", 10**9),
    ],
)
def test_multiply_accumulates_are_those_published(text, expected, unit):
    decimals = len(expected.partition(".")[2])
    assert f"{work(from_catalogue(text)) / unit:.{decimals}f}" == expected


@pytest.mark.parametrize(
    ("text", "macs", "weights"),
    # Sandler et al., release of MobileNetV2: millions of multiply-adds and of parameters.
    [
        ("mobilenet_v2:width=1.4", 582, 6.06),
        ("mobilenet_v2:width=1.3", 509, 5.34),
        ("mobilenet_v2:width=0.75", 209, 2.61),
        ("mobilenet_v2:width=0.75,resolution=96", 39, 2.61),
        ("mobilenet_v2:width=0.5", 97, 1.95),
        ("mobilenet_v2:width=0.35", 59, 1.66),
        ("mobilenet_v2:width=0.35,resolution=128", 20, 1.66),
    ],
)
def test_widths_of_mobilenet_v2_are_those_released(text, macs, weights):
    network = from_catalogue(text)
    assert round(work(network) / 10**6) == macs
    folded = parameters(network) - 4 * normalized_channels(network)
    assert round(folded / 10**6, 2) == weights


@pytest.mark.parametrize(
    ("text", "dims"),
    [
        ("resnet50:classes=10", (10,)),
        ("yolo_v2", (425, 13, 13)),
        ("yolo_v2:classes=20,resolution=608", (125, 19, 19)),
        ("tiny_yolo_v2", (125, 13, 13)),
        ("yolo_v2_beginning", (256, 38, 38)),
        ("squeezenet1_0", (1000, 1, 1)),
        ("keyword_spotting", (12,)),
        ("person_detection", (2,)),
    ],
)
def test_outputs_have_the_published_shapes(text, dims):
    assert output_dims(from_catalogue(text)) == [dims]


@pytest.mark.parametrize(
    ("name", "layer", "dims"),
    [
        # Krizhevsky et al., figure 2: the second to fifth layer have 186,624, 64,896, 64,896 and
        # 43,264 neurons; and section 3.5: 256 kernels of size 5x5x48, 384 of 3x3x256.
        ("alexnet", "conv2", (256, 27, 27)),
        ("alexnet", "conv3", (384, 13, 13)),
        ("alexnet", "conv4", (384, 13, 13)),
        ("alexnet", "conv5", (256, 13, 13)),
        # He et al., table 1.
        ("resnet18", "conv1", (64, 112, 112)),
        ("resnet18", "conv3_2_relu", (128, 28, 28)),
        ("resnet50", "conv5_3_relu", (2048, 7, 7)),
        # Szegedy et al., table 1.
        ("googlenet", "pool1", (64, 56, 56)),
        ("googlenet", "pool2", (192, 28, 28)),
        ("googlenet", "inception3b", (480, 28, 28)),
        ("googlenet", "pool4", (832, 7, 7)),
        ("googlenet", "inception5b", (1024, 7, 7)),
        # Huang et al., table 1.
        ("densenet121", "transition3_pool", (512, 7, 7)),
        ("densenet121", "dense4_16_concatenation", (1024, 7, 7)),
        # Iandola et al., table 1.
        ("squeezenet1_0", "conv1", (96, 111, 111)),
        ("squeezenet1_0", "pool1", (96, 55, 55)),
        ("squeezenet1_0", "pool4", (256, 27, 27)),
        ("squeezenet1_0", "pool8", (512, 13, 13)),
        # Sandler et al., table 2; Tan and Le, table 1.
        ("mobilenet_v2", "conv8_1_project", (320, 7, 7)),
        ("efficientnet_b0", "stage6_3_add", (112, 14, 14)),
        ("efficientnet_b0", "head", (1280, 7, 7)),
        # Redmon and Farhadi, section 2: 26x26x512 maps become 13x13 ones.
        ("yolo_v2", "conv16", (512, 26, 26)),
        ("yolo_v2", "reorg27", (256, 13, 13)),
        ("yolo_v2", "route28", (1280, 13, 13)),
    ],
)
def test_layers_have_the_published_shapes(name, layer, dims):
    assert from_catalogue(name).layer(layer).shape.dims == dims


def test_samos_example_has_the_printed_shapes():
    # SAMOS 2020, figure 1.
    network = from_catalogue("samos_example")
    shapes = {layer.name: layer.shape.dims for layer in network.layers}
    assert shapes == {"n1": (1, 32, 32), "n2": (4, 16, 16), "n3": (3, 4, 4), "n4": (2,), "n5": (2,)}


def test_the_beginning_of_yolo_is_that_of_mafat():
    # MAFAT, table 2.1, layer 2: 11.28 and 22.56 MB (of 2**20 bytes) in and out, 4 bytes each.
    network = from_catalogue("yolo_v2_beginning")
    layer = network.layer("conv2")
    megabytes = [4 * prod(dims) / 2**20 for dims in ((32, 304, 304), layer.shape.dims)]
    assert [round(size, 2) for size in megabytes] == [11.28, 22.56]
    kinds = (op.Convolution, op.Pooling)
    assert sum(isinstance(layer.operator, kinds) for layer in network.layers) == 16


def test_the_beginning_of_yolo_is_a_part_of_it():
    whole = from_catalogue("yolo_v2:resolution=608")
    for layer in from_catalogue("yolo_v2_beginning").layers[:-1]:
        assert whole.layer(layer.name) == layer


def test_person_detection_needs_the_known_bytes_layer_by_layer():
    # 48x48x8 in and 48x48x16 out of the first pointwise convolution, one byte each: 55,296.
    network = from_catalogue("person_detection")
    sizes = [
        layer.shape.elements + network.input_shapes(layer)[0].elements
        for layer in network.layers
        if isinstance(layer.operator, op.Convolution)
    ]
    assert max(sizes) == 55_296


def test_keyword_spotting_leaves_one_row_out_of_its_pooling():
    network = from_catalogue("keyword_spotting")
    pool = network.layer("pool")
    assert network.input_shapes(pool)[0].dims == (64, 25, 5)
    assert pool.operator.window.kernel == (24, 5)
    assert pool.shape.dims == (64, 1, 1)


def test_inception_v2_is_layer_by_layer_that_of_the_onnx_package():
    onnx = pytest.importorskip("onnx")
    path = (
        Path(onnx.__file__).parent
        / "backend"
        / "test"
        / "data"
        / "light"
        / "light_inception_v2.onnx"
    )
    theirs, ours = (
        simplified(model).network
        for model in (read_model(str(path)), Model(network=from_catalogue("inception_v2")))
    )
    assert parameters(ours) == parameters(theirs)
    assert work(ours) == work(theirs)
    assert [type(layer.operator) for layer in ours.layers if layer.shape.height > 1] == [
        type(layer.operator) for layer in theirs.layers if layer.shape.height > 1
    ]
    assert sorted(layer.shape.dims for layer in ours.layers if layer.shape.height > 1) == sorted(
        layer.shape.dims for layer in theirs.layers if layer.shape.height > 1
    )
