"""C of each family of kernels, for small networks, in one program: what the whole network gives.

A quick look at all: the other tests, most of them slow, draw many networks and plans for each family.
"""

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.dtypes import Arithmetic, Element
from cnn2csdf.simplify import simplified
from cnn2csdf.weights import Model, random_weights
from planners.code.library import library
from tests.planners.code import test_cells_in_integers as cells
from tests.planners.code import test_library_operators as operators
from tests.planners.code import test_short_libraries as short
from tests.planners.code import test_single_precision_libraries as single
from tests.planners.code import test_wide_integers as filters
from tests.planners.code.compiling import needs_compiler, run_all
from tests.planners.code.mixed_networks import Mixing
from tests.planners.code.test_quantised_libraries import quantised
from tests.planners.code.test_weights_with_zeros import shifted
from tests.planners.memory.streamed import random_plan

QUICKLY = ("-std=c99", "-O0", "-w")
WINDOW = op.Window(kernel=(3, 3), padding=(1, 1, 1, 1))


def layers(*operators, dims=(3, 5, 6)):
    """Layers in a row, whose result is that of the network."""
    builder = NetworkBuilder("row")
    last = builder.input(dims)
    for operator in operators:
        last = builder.add(operator, last)
    builder.output(last)
    return builder.network()


def depthwise(channels):
    """Convolutions, each channel by itself: blocks of eight, of four, and what is left of them."""
    return layers(
        op.Convolution(filters=channels, groups=channels, window=WINDOW),
        op.Activation(function="relu"),
        op.Convolution(filters=5, window=op.Window(kernel=(1, 1))),
        dims=(channels, 4, 3),
    )


def branches():
    """A sum, a product and a joint of two branches, averages and the largest, units and shares."""
    builder = NetworkBuilder("branches")
    one = builder.input((3, 6, 5))
    left = builder.add(op.Convolution(filters=4, window=WINDOW), one)
    left = builder.add(op.Activation(function="clip", parameters=(0.0, 6.0)), left)
    right = builder.add(op.Convolution(filters=4, window=WINDOW), one)
    both = builder.add(op.Elementwise(function="add"), left, right)
    both = builder.add(op.Elementwise(function="multiply"), both, left)
    both = builder.add(op.Concatenation(axis=0), both, both)
    half = op.Window(kernel=(2, 2), stride=(2, 2))
    both = builder.add(op.Pooling(function="average", window=half), both)
    both = builder.add(op.Pooling(function="max", window=WINDOW), both)
    builder.output(builder.add(op.Reduction(function="mean", axes=(1, 2)), both))
    units = builder.add(op.FullyConnected(units=7), both)
    builder.output(builder.add(op.Softmax(axis=0), units))
    return builder.network()


def real(network, seed):
    return Model(network=network, weights=random_weights(network, seed))


def models():
    """Names of models and, with each, the bytes of an element; None where layers are of both kinds."""
    window = op.Window(kernel=(2, 3), stride=(2, 1), padding=(1, 0, 0, 1))
    turned = op.TransposedConvolution(filters=3, window=op.Window(kernel=(3, 3), stride=(2, 2)))
    yield "real", real(branches(), 0), 4
    yield "real_11", real(depthwise(11), 1), 4
    yield "real_moves", real(layers(
        op.Pad(padding=(1, 0, 1, 2)), op.Convolution(filters=6, groups=3, window=window),
        op.Resize(size=(5, 4), function="nearest"), op.LayerNormalization(axis=0), turned,
        op.Slice(axis=0, start=1, stop=3), op.Activation(function="elu", parameters=(0.5,)),
    ), 2), 4  # fmt: skip
    wide = op.Convolution(filters=20, window=WINDOW)
    yield "real_20", real(layers(wide, op.Convolution(filters=9, window=WINDOW)), 3), 4
    yield "real_sides", operators.side_by_side([*operators.CONVOLUTIONS, *operators.OTHERS]), 4
    yield "real_curves", operators.activations(), 4
    yield "integers", quantised(branches(), 0), 1
    yield "integers_fused", simplified(quantised(branches(), 1), ("fuse-activation",)), 1
    yield "integers_11", quantised(depthwise(11), 2), 1
    yield "integers_20", simplified(quantised(depthwise(20), 3), ("fuse-activation",)), 1
    yield "zeros", shifted(quantised(depthwise(7), 4), 4), 1
    yield "single", single.quantised(branches(), 5), 1
    yield "single_7", single.quantised(depthwise(7), 6), 1
    yield "short", short.quantised(short.network(), 7, Element.INT64), 2
    yield "mixed", Mixing(8, Arithmetic.FIXED_POINT).mixed(branches()), None
    yield "mixed_single", Mixing(9, Arithmetic.SINGLE_PRECISION).mixed(branches()), None
    yield "cells", cells.quantised(cells.network(3), 3), 1
    yield "filters", filters.filters(0), None


@needs_compiler
def test_each_family_of_kernels_gives_what_the_whole_network_gives(tmp_path):
    made = []
    for seed, (name, model, element_bytes) in enumerate(models()):
        plan = random_plan(
            model.network, seed, is_streamed=seed % 2 == 1, element_bytes=element_bytes
        )
        made.append(library(model, plan, name=name))
    assert run_all(made, tmp_path, QUICKLY) == []
