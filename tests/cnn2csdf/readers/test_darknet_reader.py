import pytest

from cnn2csdf import operators as op
from cnn2csdf.catalogue.yolo import tiny_yolo_v2, yolo_v2
from cnn2csdf.parameters import layer_parameters
from cnn2csdf.readers.darknet import parse_darknet
from tests.cnn2csdf.readers.darknet_texts import NET, TINY


def layers(text):
    """Operators and shapes by name."""
    network = parse_darknet(text, "tiny.cfg")
    return {layer.name: (layer.operator, layer.shape.dims) for layer in network.layers}


def shape_of(section):
    """The shape that one section makes of a 4x8x6 image."""
    network = parse_darknet(NET + section, "tiny.cfg")
    return network.outputs[0].shape.dims


def cfg(*sections):
    """A file of sections given as a heading and options."""
    lines = []
    for kind, options in sections:
        lines += [f"[{kind}]", *(f"{key}={value}" for key, value in options.items())]
    return "\n".join(lines)


def convolutions(*plan):
    """Normalised, leaky convolutions by filters and kernel; None is a pooling by two."""
    for layer in plan:
        if layer is None:
            yield ("maxpool", {"size": 2, "stride": 2})
        else:
            weights = {"batch_normalize": 1, "filters": layer[0], "size": layer[1], "stride": 1}
            yield ("convolutional", weights | {"pad": 1, "activation": "leaky"})


def box_scores(filters):
    return ("convolutional", {"size": 1, "filters": filters, "activation": "linear"})


def image(resolution):
    return ("net", {"height": resolution, "width": resolution, "channels": 3})


def dims_by_kind(network, kind):
    return [layer.shape.dims for layer in network.layers if isinstance(layer.operator, kind)]


def test_a_section_becomes_unfused_layers():
    found = layers(TINY)
    assert list(found) == [
        "input",
        "conv0",
        "conv0_normalization",
        "conv0_leaky",
        "pool1",
        "conv2",
        "output",
    ]
    window = op.Window(kernel=(3, 3), padding=(1, 1, 1, 1))
    convolution = op.Convolution(filters=16, window=window, has_bias=False)
    assert found["input"] == (op.Input(dims=(3, 8, 6)), (3, 8, 6))
    assert found["conv0"] == (convolution, (16, 8, 6))
    assert found["conv0_leaky"][0] == op.Activation(function="leaky relu", parameters=(0.1,))
    assert found["pool1"][1] == (16, 4, 3)
    assert found["conv2"][0].has_bias
    assert found["output"] == (op.Output(), (10, 4, 3))


def test_the_network_is_named_after_the_file():
    assert parse_darknet(TINY, "some/tiny.cfg").name == "tiny"


def test_missing_options_have_the_defaults_of_darknet():
    found = layers(NET + "[convolutional]\n[connected]\n[maxpool]\n".replace("[maxpool]\n", ""))
    assert found["conv0"][0] == op.Convolution(filters=1, window=op.Window(kernel=(1, 1)))
    assert found["conv0_logistic"][0] == op.Activation(function="sigmoid")
    assert found["connected1"][0] == op.FullyConnected(units=1)
    assert "connected1_logistic" in found


@pytest.mark.parametrize(
    ("section", "dims"),
    [
        # (8 + 2 * 1 - 3) // 2 + 1 = 4; (6 + 2 - 3) // 2 + 1 = 3
        ("[convolutional]\nsize=3\nstride=2\npadding=1\nfilters=5", (5, 4, 3)),
        ("[convolutional]\nsize=3\nstride_y=2\nstride_x=3\nfilters=5", (5, 3, 2)),
        # a kernel of 3 with dilation 2 spans 5, and half of the kernel is dilated as well
        ("[convolutional]\nsize=3\npad=1\ndilation=2\nfilters=5", (5, 8, 6)),
        ("[convolutional]\ngroups=2\nfilters=6", (6, 8, 6)),
        # (8 - 1) * 2 + 2 = 16
        ("[deconvolutional]\nsize=2\nstride=2\nfilters=3", (3, 16, 12)),
        # (8 + 1 - 2) // 1 + 1 = 8
        ("[maxpool]\nsize=2\nstride=1", (4, 8, 6)),
        # (8 + 2 - 3) // 2 + 1 = 4
        ("[maxpool]\nsize=3\nstride=2", (4, 4, 3)),
        ("[maxpool]\nsize=3\nstride=2\npadding=0", (4, 3, 2)),
        ("[maxpool]\nstride=2", (4, 4, 3)),
        ("[avgpool]", (4, 1, 1)),
        ("[connected]\noutput=7\nactivation=relu", (7,)),
        ("[upsample]\nstride=3", (4, 24, 18)),
        ("[upsample]", (4, 16, 12)),
        ("[reorg]\nstride=2", (16, 4, 3)),
        ("[softmax]\ngroups=1\ntemperature=1.0", (4, 8, 6)),
        ("[dropout]\nprobability=.5", (4, 8, 6)),
        ("[normalization]\nsize=3\nalpha=.001", (4, 8, 6)),
        ("[batchnorm]", (4, 8, 6)),
        ("[activation]\nactivation=mish", (4, 8, 6)),
        ("[region]\nclasses=20", (4, 8, 6)),
    ],
)
def test_sections_make_the_shapes_of_darknet(section, dims):
    assert shape_of(section) == dims


def test_pooling_pads_the_smaller_half_in_front():
    window = layers(NET + "[maxpool]\nsize=2\nstride=1")["pool0"][0].window
    assert window.padding == (0, 0, 1, 1)
    window = layers(NET + "[maxpool]\nsize=5\nstride=1")["pool0"][0].window
    assert window.padding == (2, 2, 2, 2)


def test_routes_count_sections_from_the_start_or_backwards():
    text = NET + "[convolutional]\nfilters=2\n[convolutional]\nfilters=3\n[route]\nlayers={}\n"
    for numbers in ("0, 1", "-2,-1", "-2,1"):
        network = parse_darknet(text.format(numbers), "net.cfg")
        route = network.layer("route2")
        assert route.inputs == ("conv0_logistic", "conv1_logistic")
        assert route.shape.dims == (5, 8, 6)


def test_a_route_from_one_section_is_no_layer():
    text = NET + "[convolutional]\n[convolutional]\n[route]\nlayers=0\n[maxpool]\nsize=2\nstride=2"
    network = parse_darknet(text, "net.cfg")
    assert network.layer("pool3").inputs == ("conv0_logistic",)


def test_a_route_can_take_one_group_of_the_maps():
    text = NET + "[convolutional]\nfilters=6\n[route]\nlayers=-1\ngroups=2\ngroup_id=1"
    assert layers(text)["route1_group0"] == (op.Slice(axis=0, start=3, stop=6), (3, 8, 6))


def test_a_shortcut_adds_and_activates():
    text = NET + "[convolutional]\n[convolutional]\n[shortcut]\nfrom=-2\nactivation=relu"
    network = parse_darknet(text, "net.cfg")
    assert network.layer("shortcut2").operator == op.Elementwise(function="add")
    assert network.layer("shortcut2").inputs == ("conv1_logistic", "conv0_logistic")
    assert network.layer("shortcut2_relu").inputs == ("shortcut2",)


def test_detections_and_unread_layers_become_outputs():
    text = NET + "[convolutional]\n[yolo]\nmask=0,1\n[route]\nlayers=-2\n[maxpool]\nsize=2"
    network = parse_darknet(text, "net.cfg")
    assert [layer.name for layer in network.outputs] == ["detection1", "output"]
    assert network.outputs[1].inputs == ("pool3",)


def test_tiny_yolo_is_that_of_the_catalogue():
    plan = convolutions((16, 3), None, (32, 3), None, (64, 3), None, (128, 3), None, (256, 3), None)
    rest = convolutions((1024, 3), (1024, 3))
    pool = ("maxpool", {"size": 2, "stride": 1})
    last = next(convolutions((512, 3)))
    region = ("region", {"classes": 20, "num": 5})
    text = cfg(image(416), *plan, last, pool, *rest, box_scores(125), region)
    network, expected = parse_darknet(text, "tiny.cfg"), tiny_yolo_v2()
    for kind in (op.Convolution, op.Pooling, op.Output):
        assert dims_by_kind(network, kind) == dims_by_kind(expected, kind)
    found, wanted = (sum(layer_parameters(each).values()) for each in (network, expected))
    assert found == wanted


def test_yolo_with_its_reorganised_route_is_that_of_the_catalogue():
    plan = convolutions(
        *((32, 3), None, (64, 3), None, (128, 3), (64, 1), (128, 3), None),
        *((256, 3), (128, 1), (256, 3), None, (512, 3), (256, 1), (512, 3), (256, 1), (512, 3)),
        *(None, (1024, 3), (512, 1), (1024, 3), (512, 1), (1024, 3), (1024, 3), (1024, 3)),
    )
    back, join = ("route", {"layers": "-9"}), ("route", {"layers": "-1,-4"})
    reorg = ("reorg", {"stride": 2})
    narrow, wide = next(convolutions((64, 1))), next(convolutions((1024, 3)))
    text = cfg(image(416), *plan, back, narrow, reorg, join, wide, box_scores(425), ("region", {}))
    network, expected = parse_darknet(text, "yolo.cfg"), yolo_v2()
    for kind in (op.Convolution, op.Pooling, op.SpaceToDepth, op.Concatenation, op.Output):
        assert dims_by_kind(network, kind) == dims_by_kind(expected, kind)
