"""Recurrent layers of integers in C: the bytes of the whole network, in the flash that is counted."""

from dataclasses import replace

import numpy as np
import pytest

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.dtypes import Arithmetic, Element, Quantization, Stored
from cnn2csdf.network import Network
from cnn2csdf.operators.recurrences import CELL_GATES
from cnn2csdf.weights import Model, random_weights
from csdf.errors import UnsupportedOperator
from planners.code.frames import random_frame
from planners.code.library import library
from planners.code.makefile import MAIN
from planners.memory.answer import INPUTS
from planners.memory.fit import fit
from tests.planners.code.compiling import needs_compiler, run_all
from tests.planners.code.test_quantised_libraries import golden_library, least, listed, stored
from tests.planners.memory.streamed import random_plan
from tests.shared_data import each

pytestmark = pytest.mark.slow

MODELS = ("mnist_lstm_int8", "dtln_int8", "keyword_scrambled_8bit")


@needs_compiler
@each("name", MODELS)
def test_a_recurrent_model_in_the_least_memory_gives_the_golden_bytes(name, tmp_path):
    made, outputs = golden_library(name, lambda network: least(network, "resident"), 0)
    for frame, wanted in enumerate(outputs):
        for port in made.written.outputs:
            found = listed(made.files[MAIN], f"{port.array}_{frame}")
            assert found == stored(wanted[port.layer])
    assert run_all([made], tmp_path) == []


def network(seed):
    """Two LSTMs one behind another, the first read by units too; sizes in whole blocks and others."""
    source = np.random.default_rng(seed)
    frames, elements, first, second = (int(one) for one in source.integers(1, 14, 4))
    if seed % 3 == 0:
        elements, first = 8, 12  # four values meet four weights of each of four units
    builder = NetworkBuilder("cells")
    one = builder.add(lstm(source, first), builder.input((frames, elements)))
    two = builder.add(lstm(source, second), one)
    builder.output(two)
    builder.output(builder.add(op.FullyConnected(units=5), one))
    return builder.network()


def lstm(source, units):
    """An LSTM with steps of cells from 2 ** -13 to 4, with and without a limit."""
    power = int(source.integers(-13, 3))
    clip = int(source.integers(1, 2**15)) if source.integers(2) else None
    return op.QuantizedLstm(units=units, cell_scale=2.0**power, clip=clip)


def quantised(given, seed, arithmetic=Arithmetic.FIXED_POINT):
    """The network in integers of drawn scales, so that gates are shut, open and between."""
    source = np.random.default_rng(seed)
    layers = []
    for layer in given.layers:
        types = Quantization(
            element=Element.INT8,
            scales=(float(np.float32(source.uniform(0.004, 0.02))),),
            zero_point=int(source.integers(-30, 30)),
            arithmetic=arithmetic,
        )
        if layer.is_output:
            types = layers[[one.name for one in layers].index(layer.inputs[0])].quantization
        layers.append(
            replace(
                layer,
                element=Element.INT8,
                stored=tuple(_stored(layer, source)),
                quantization=types,
            )
        )
    found = Network(name="cells", layers=tuple(layers))
    return Model(network=found, weights=random_weights(found, seed))


def _stored(layer, source):
    match layer.operator:
        case op.QuantizedLstm():
            matrices = [
                f"{gate}{kind} matrix" for gate in CELL_GATES for kind in ("", " recurrent")
            ]
            biases = [f"{gate} bias" for gate in CELL_GATES]
        case op.FullyConnected():
            matrices, biases = ["matrix"], ["bias"]
        case _:
            return
    for role in matrices:
        scale = float(np.float32(source.uniform(0.001, 0.02)))
        types = Quantization(element=Element.INT8, scales=(scale,))
        yield Stored(role=role, element=Element.INT8, quantization=types)
    for role in biases:
        yield Stored(role=role, element=Element.INT32)


@needs_compiler
def test_random_cells_give_the_bytes_of_the_whole_network(tmp_path):
    made = []
    for seed in range(8):
        model = quantised(network(seed), seed)
        frames = [random_frame(model.network, one) for one in range(3)]
        plan = random_plan(model.network, seed, is_streamed=False, element_bytes=1)
        made.append(library(model, plan, name=f"net{seed}", frames=frames))
    for input_ in INPUTS:
        made.append(library(model, least(model.network, input_), name=f"least_{input_}"))
    assert run_all(made, tmp_path) == []


@pytest.mark.parametrize("seed", range(3))
def test_the_flash_of_cells_is_that_of_the_library(seed):
    model = quantised(network(seed), seed)
    found = fit(model.network, searched=())
    written = library(model, found.methods[0].plan, name="net", frames=[]).written
    assert found.flash_bytes == written.weight_bytes


def test_the_state_grows_by_two_bytes_for_each_cell():
    # of the layer with the most units: layers work one after another. States are whole words of 8.
    model = quantised(network(0), 0)
    units = [one.operator.units for one in model.network.layers if "lstm" in one.name]
    written = library(model, least(model.network, "resident"), name="net", frames=[]).written
    assert f"net_element scratch[{2 * max(units)}];" in written.header


def test_cells_that_are_not_rescaled_in_fixed_point_are_refused_by_name():
    model = quantised(network(0), 0, Arithmetic.SINGLE_PRECISION)
    with pytest.raises(UnsupportedOperator, match="no C code for QuantizedLstm"):
        library(model, random_plan(model.network, 0, is_streamed=False, element_bytes=1), frames=[])


def test_cells_over_the_rows_of_a_map_that_begin_at_rest_are_refused_by_name():
    builder = NetworkBuilder("rows")
    source = builder.input((3, 4, 1))
    builder.output(
        builder.add(op.QuantizedLstm(units=2, cell_scale=2.0**-11), source, name="cells")
    )
    model = quantised(builder.network(), 0)
    with pytest.raises(UnsupportedOperator, match=r"'cells'.*over the rows of a map"):
        library(model, least(model.network, "resident"), frames=[])


def test_layers_that_are_rounded_in_two_ways_are_refused():
    model = quantised(network(0), 0)
    *others, last = model.network.layers
    single = replace(last.quantization, arithmetic=Arithmetic.SINGLE_PRECISION)
    layers = (*others, replace(last, quantization=single))
    mixed = replace(model, network=replace(model.network, layers=layers))
    with pytest.raises(UnsupportedOperator, match="beside some in single precision"):
        library(mixed, least(mixed.network, "resident"), frames=[])
