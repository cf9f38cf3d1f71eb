"""Traffic as JSON values, rows and tables."""

import json

from planners.traffic.convolution import ConvolutionLoops
from planners.traffic.layer_text import layers_from_text
from planners.traffic.network_traffic import NetworkSearch
from planners.traffic.one_layer import minimum_traffic


def test_the_traffic_of_a_network_is_that_of_its_groups():
    network = layers_from_text("conv:8x8x4,4,3x3,pad=1+conv:4,3x3,pad=1+conv:2,1x1")
    answer = NetworkSearch(network, 4).best(2048)
    found = json.loads(json.dumps(answer.to_json()))
    for part in ("input_bytes", "weight_bytes", "output_bytes", "halo_bytes", "traffic_bytes"):
        assert found[part] == sum(group[part] for group in answer.to_records())
    layers = [name for group in found["groups"] for name in group["layers"]]
    assert layers == [layer.name for layer in network.layers if layer.inputs][: len(layers)]
    assert layers[0] in answer._repr_html_()


def test_the_traffic_of_a_layer_comes_with_its_nest_and_bounds():
    layer = ConvolutionLoops(name="<conv>", filters=4, channels=2, input_rows=6, input_columns=6)
    answer = minimum_traffic(layer, buffer_bytes=4096, element_bytes=1)
    found = json.loads(json.dumps(answer.to_json()))
    # All fits: 72 elements in, 8 weights, 144 out, each once, which is the bound.
    assert found["traffic_bytes"] == found["bounds"]["compulsory"] == 72 + 8 + 144
    assert found["gap"] == "0"
    assert found["nest"][-1] == "write all of the output 4 x 6 x 6"
    assert "&lt;conv&gt;" in answer._repr_html_()
