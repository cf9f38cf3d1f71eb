import json
from math import prod

import pytest

from cnn2csdf.parameters import parameter_shapes
from cnn2csdf.readers.json_networks import json_contradictions, parse_json_network
from csdf.errors import InvalidNetwork
from tests.shared_data import SHARED, each

FILES = sorted((SHARED / "networks" / "json").glob("*.json"))
CONTRADICTORY = {"CNN1", "mnist"}


def shared_network(name):
    text = (SHARED / "networks" / "json" / f"{name}.json").read_text()
    return text, f"{name}.json"


@each("path", FILES)
def test_shared_networks_are_read_unless_they_contradict_themselves(path):
    text, name = shared_network(path.stem)
    assert bool(json_contradictions(text, name)) == (path.stem in CONTRADICTORY)
    network = parse_json_network(text, name, repair=path.stem in CONTRADICTORY)
    stated = [layer["name"] for layer in json.loads(text)["_DNN__layers"]]
    assert set(stated) <= {layer.name for layer in network.layers}
    assert network.inputs
    assert network.outputs


@each("name", sorted(CONTRADICTORY) if FILES else [])
def test_contradictory_shared_networks_are_refused_by_name(name):
    with pytest.raises(InvalidNetwork, match=r"l4_1\(add\)|Convolution28"):
        parse_json_network(*shared_network(name))


@each("name", ["CNN1"] if FILES else [])
def test_the_repaired_example_is_that_of_the_paper(name):
    # Minakova and Stefanov, TODAES 2022, table 6.1: 3072 and four times 8192 elements on edges.
    network = parse_json_network(*shared_network(name), repair=True)
    sizes = [network.layer(edge.producer).shape.elements for edge in network.connections]
    assert sorted(sizes) == [3072, 8192, 8192, 8192, 8192]


def unnormalized_parameters(network):
    """Kernels, matrices and biases; normalisations count as folded."""
    return sum(
        prod(dims)
        for layer in network.layers
        for role, dims in parameter_shapes(layer, network.input_shapes(layer)).items()
        if role in ("kernel", "matrix", "bias")
    )


@each(
    "application",
    # TODAES 2022, table 6.6: megabytes (of 10**6) of weights, 4 bytes each.
    [
        (("mobilenetv2",), "13.95"),
        (("efficientnetb0",), "21.07"),
        (("densenet121", "mobilenetv1", "resnet50"), "150.63"),
    ]
    if FILES
    else [],
)
def test_weights_are_those_of_the_paper(application):
    names, megabytes = application
    networks = [parse_json_network(*shared_network(name)) for name in names]
    total = sum(unnormalized_parameters(network) for network in networks)
    assert f"{4 * total / 10**6:.2f}" == megabytes
