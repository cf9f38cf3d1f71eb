"""Convolutions, nests and their text: what they are, and what they refuse."""

import pytest

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from csdf.errors import InvalidNetwork, InvalidPlan
from planners.traffic.convolution import ConvolutionLoops, convolution_of, group_of
from planners.traffic.footprints import tile_sizes
from planners.traffic.nest import Array, LoopNest, NestLoop, listing
from tests.planners.traffic.layers import nest_of, published_layer


def network():
    build = NetworkBuilder()
    source = build.input((6, 11, 9))
    window = op.Window(kernel=(3, 1), stride=(2, 1), dilation=(1, 2), padding=(1, 0, 0, 2))
    conv = build.add(op.Convolution(filters=4, window=window, groups=2), source, name="conv")
    build.add(op.FullyConnected(units=10), conv, name="dense")
    build.add(op.Activation(function="relu"), conv, name="relu")
    return build.network()


def test_a_convolution_has_the_output_of_its_layer():
    made = network()
    layer = made.layer("conv")
    found = convolution_of(made, layer)
    assert (found.filters, found.output_rows, found.output_columns) == layer.shape.dims
    assert found.input_elements == 6 * 11 * 9
    assert found.output_elements == layer.shape.elements
    assert (group_of(found).filters, group_of(found).channels) == (2, 3)


def test_a_fully_connected_layer_is_a_convolution_of_one_pixel():
    made = network()
    found = convolution_of(made, made.layer("dense"))
    assert (found.channels, found.filters) == (made.layer("conv").shape.elements, 10)
    assert (found.output_rows, found.output_columns) == (1, 1)


def test_other_layers_are_refused_by_name():
    made = network()
    with pytest.raises(InvalidNetwork, match="'relu' is Activation"):
        convolution_of(made, made.layer("relu"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"filters": 0}, "filters is 0"),
        ({"stride": (1, 0)}, "stride is 0"),
        ({"padding": (0, -1, 0, 0)}, "negative"),
        ({"groups": 2}, "do not divide 3 channels"),
        ({"kernel_rows": 6}, "does not fit"),
    ],
)
def test_sizes_that_make_no_convolution_are_refused(change, message):
    sizes = {"filters": 2, "channels": 3, "input_rows": 5, "input_columns": 5} | change
    with pytest.raises(InvalidNetwork, match=message):
        ConvolutionLoops(name="wrong", **sizes)


def test_an_invalid_loop_nest_is_rejected():
    with pytest.raises(InvalidPlan, match="each array once"):
        LoopNest(order=(Array.INPUT,) * 3, tiles=((1,) * 6,) * 3)
    with pytest.raises(InvalidPlan, match="tiles of 2 rows do not lie in tiles of 1"):
        nest_of(tuple(Array), [(1, 2) if loop is NestLoop.ROWS else (1, 1) for loop in NestLoop])


def test_a_listing_shows_loops_and_transfers():
    pairs = (32, 32), (64, 16), (28, 28), (56, 56), (3, 3), (3, 3)
    nest = nest_of((Array.WEIGHTS, Array.OUTPUT, Array.INPUT), pairs)
    assert listing(published_layer(), nest).splitlines() == [
        "for 2 tiles of 32 filters",
        "  load weights 32 x 64 x 3 x 3",
        "  for 2 tiles of 28 rows",
        "    clear output 32 x 28 x 56",
        "    for 4 tiles of 16 channels",
        "      load input 16 x 29 x 56",
        "      multiply and add",
        "    write output 32 x 28 x 56",
    ]


def test_a_listing_names_resident_and_reloaded_arrays():
    pairs = (64, 64), (30, 30), (20, 20), (56, 56), (3, 3), (3, 3)
    nest = nest_of((Array.WEIGHTS, Array.INPUT, Array.OUTPUT), pairs, NestLoop.ROWS)
    assert listing(published_layer(), nest).splitlines() == [
        "for 3 tiles of 30 channels, the last of 4",
        "  load weights 64 x 30 x 3 x 3",
        "  for 3 tiles of 20 rows, the last of 16",
        "    load what is new of input 30 x 22 x 56",
        "    clear, or read back, output 64 x 20 x 56",
        "    multiply and add",
        "    write output 64 x 20 x 56",
    ]


def test_tile_sizes_are_the_smallest_for_each_number_of_tiles():
    # 7 in 1, 2, 3, 4 and 7 tiles.
    assert tile_sizes(7) == (7, 4, 3, 2, 1)
