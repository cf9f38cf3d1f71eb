"""Layers from a line of text."""

import pytest

from csdf.errors import InvalidNetwork
from planners.traffic.layer_text import is_layer_text, layers_from_text, single_layer


def test_a_chain_of_layers():
    network = layers_from_text(
        "conv:56x40x64,32,3x5,stride=2x1,pad=1x2+conv:32,3x3,groups=32,dilation=2+pool:2x2,stride=2"
    )
    names = [layer.name for layer in network.layers]
    assert names == ["input", "conv1", "conv2", "pool3", "output"]
    assert network.layer("input").shape.dims == (64, 56, 40)
    # (56 + 2 - 3) // 2 + 1 rows; 40 + 4 - 5 + 1 columns; windows of 5 places; halves.
    assert network.layer("conv1").shape.dims == (32, 28, 40)
    assert network.layer("conv2").shape.dims == (32, 24, 36)
    assert network.layer("pool3").shape.dims == (32, 12, 18)
    assert network.layer("conv2").operator.groups == 32


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("conv:56x56,64,3x3", "'56x56' is not 3 numbers"),
        ("conv:56x56x64,3x3", "is not such as conv:56x56x64,64,3x3"),
        ("conv:56x56x64,64,3y3", "'3y3' is not 1 numbers"),
        ("conv:56x56x64,64,3x3,strides=2", "'strides' is none of stride, pad, dilation, groups"),
        ("conv:5x5x4,4,3x3+dense:10", "layer 'dense:10' is not such as"),
        ("conv:5x5x4,4,9x9", "a window of 9x9 does not fit into 5x5"),
    ],
)
def test_an_invalid_text_is_rejected_with_its_part(text, complaint):
    assert is_layer_text(text)
    with pytest.raises(InvalidNetwork, match=complaint):
        layers_from_text(text)


def test_one_layer_of_a_network_has_ends_of_its_own():
    network = layers_from_text("conv:8x8x2,4,3x3+conv:6,1x1")
    one = single_layer(network, "conv2")
    assert [layer.name for layer in one.layers] == ["conv1", "conv2", "conv2 result"]
    assert one.layer("conv1").is_input
    with pytest.raises(InvalidNetwork, match="works on nothing"):
        single_layer(network, "input")
