"""The flash that `csdf fit` asks for is that of the library which `csdf deploy` writes."""

import re
import subprocess
from itertools import product

import numpy as np
import pytest

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.dtypes import Stored
from cnn2csdf.fixed_point.flash import flash_by_layer, flash_bytes
from cnn2csdf.network import Layer, Network
from cnn2csdf.parameters import parameter_bytes
from cnn2csdf.shape import Shape
from cnn2csdf.simplify import simplified
from cnn2csdf.token_moves import in_runs
from cnn2csdf.tokens import tokens_as_rows
from cnn2csdf.weights import Model, random_weights
from planners.code.packaging import Package
from planners.code.sources import library_sources
from planners.memory.fit import fit
from planners.plan.ram import ram_beside
from tests.cnn2csdf.readers.test_tflite_golden import READ, golden_model
from tests.planners.code.call_graphs import CORES, has_compiler
from tests.planners.code.test_quantised_libraries import everything, quantised
from tests.planners.code.test_single_precision_libraries import everything as everything_in_single
from tests.planners.code.test_single_precision_libraries import quantised as in_single_precision
from tests.shared_data import each

DEPLOYED = ("ad01_int8", "kws_int8", "micro_speech_int8", "person_detect_int8", "ad01_fp32")


# Constants of integers are the same on all cores but Cortex-M55, constants of real numbers on all.
COMPILED = [
    (name, core)
    for name in ("all operators", *(name for name in DEPLOYED if name in READ))
    for core in CORES
    if name in ("all operators", "kws_int8")
    or core == "cortex-m4"
    or (core == "cortex-m55" and name != "ad01_fp32")
]


def found_and_written(model, core=None):
    found = fit(model.network, searched=(), beside=core and ram_beside(model.network, core))
    package = Package(target=core)
    return found, library_sources(model, found.methods[0].plan, "net", package=package)


@pytest.mark.parametrize("seed", range(3))
def test_the_flash_of_an_answer_is_that_of_the_library(seed):
    found, written = found_and_written(quantised(everything(), seed))
    assert found.flash_bytes == written.weight_bytes


@pytest.mark.parametrize("seed", range(3))
def test_the_flash_of_integers_in_single_precision_is_that_of_the_library(seed):
    found, written = found_and_written(in_single_precision(everything_in_single(), seed))
    assert found.flash_bytes == written.weight_bytes


WIDTHS = {"int8_t": 1, "int16_t": 2, "int32_t": 4, "int64_t": 8, "float": 4}


@pytest.mark.parametrize(
    ("quantise", "network"),
    [(quantised, everything), (in_single_precision, everything_in_single)],
)
def test_the_flash_of_a_layer_is_that_of_the_arrays_with_its_name_in_c(quantise, network):
    # Arrays that equal layers share are written for the first, and carry its name.
    model = quantise(network(), 0)
    written = found_and_written(model)[1]
    sizes = flash_by_layer(model.network)
    prefixes = {f"net_w_{name.replace(' ', '_')}_": name for name in sizes}
    arrays = re.findall(r"^const (\w+) (\w+)\[(\d+)\]", written.weights, re.MULTILINE)
    in_c = dict.fromkeys(sizes, 0)
    for kind, symbol, count in arrays:
        if not symbol.endswith("_folded"):  # in place of others, on one core
            owner = max((one for one in prefixes if symbol.startswith(one)), key=len)
            in_c[prefixes[owner]] += WIDTHS[kind] * int(count)
    assert sizes == in_c
    assert sum(sizes.values()) == flash_bytes(model.network)
    assert sum(flash_by_layer(model.network, 2).values()) == parameter_bytes(model.network, 2)


def test_different_filters_selected_from_one_array_of_a_file_count_twice():
    # The first, the last and the number of the filters are equal: 0, 11 and 9.
    builder = NetworkBuilder()
    builder.add(op.Input(dims=(8, 4)), name="tokens")
    stored = (Stored(role="matrix", name="weights"),)
    builder.add(op.MatrixProduct(units=12), "tokens", name="dense", stored=stored)
    builder.add(op.Reshape(dims=(8, 3, 4)), "dense", name="three")
    for name, places in (("query", (0, 1, 3)), ("key", (0, 2, 3))):
        builder.add(op.Gather(axis=2, places=places), "three", name=f"{name} of head")
        builder.add(op.Reshape(dims=(8, 9)), f"{name} of head", name=name)
    builder.add(op.Transpose(permutation=(1, 0)), "key", name="turned")
    builder.add(op.MatrixProduct(), "query", "turned", name="scores")
    builder.output("scores")
    network = builder.network()
    model = Model(network=network, weights=random_weights(network, 0))
    found, written = found_and_written(tokens_as_rows(model))
    assert found.flash_bytes == written.weight_bytes == 2 * 9 * 4 * 4


def test_names_of_selections_are_short_and_different():
    assert in_runs([*range(0, 384, 4), 5]) == "0:4:96,5"
    sequences = [sequence for size in range(1, 6) for sequence in product(range(4), repeat=size)]
    assert len(set(map(in_runs, sequences))) == len(sequences)


@each("name", [name for name in DEPLOYED if name in READ])
def test_the_flash_of_a_model_of_the_field_is_that_of_its_library(name):
    model = simplified(golden_model(name))
    found, written = found_and_written(model)
    assert found.flash_bytes == written.weight_bytes


@pytest.mark.slow
@pytest.mark.parametrize(("name", "core"), COMPILED)
def test_the_flash_of_a_core_is_that_of_the_compiled_constants(name, core, tmp_path):
    if not has_compiler(core):
        pytest.skip(f"{CORES[core].prefix}gcc is not installed")
    model = quantised(everything(), 0) if name not in READ else simplified(golden_model(name))
    found, written = found_and_written(model, core)
    for file, text in (("net_weights.h", written.weights_header), ("weights.c", written.weights)):
        (tmp_path / file).write_text(text)
    prefix, options = CORES[core]
    words = [f"{prefix}gcc", *options, "-O2", "-fdata-sections", "-c", "weights.c"]
    subprocess.run(words, cwd=tmp_path, check=True)
    words = [f"{prefix}size", "-A", "weights.o"]
    sizes = subprocess.run(words, cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    bytes_of = re.findall(r"^\.s?rodata\S*\s+(\d+)", sizes, re.MULTILINE)
    assert sum(map(int, bytes_of)) == written.weight_bytes
    assert found.flash_bytes >= written.weight_bytes
    # Sums row by row read no initial sums, on which the plan decides.
    if core != "cortex-m55" or "sum_fully" not in written.kernels:
        assert found.flash_bytes == written.weight_bytes


def test_a_cortex_m55_has_initial_sums_in_flash_besides():
    model = quantised(everything(), 0)
    (_, portable), (found, written) = (
        found_and_written(model, core) for core in ("cortex-m4", "cortex-m55")
    )
    assert portable.weight_bytes < written.weight_bytes <= found.flash_bytes
    layers, on_helium = (flash_by_layer(model.network, core=core) for core in (None, "cortex-m55"))
    assert sum(on_helium.values()) == found.flash_bytes
    assert on_helium["fullyconnected"] == layers["fullyconnected"] + 4 * 7  # of 7 units


def test_each_filter_takes_five_bytes_to_rescale_and_each_function_a_table():
    network = quantised(everything(), 0).network
    # Convolutions of 6, 6, 9, 10 and 10 filters and a layer of 7 units: a multiplier of four bytes
    # and an exponent of one for each, though equal exponents lie in flash once. Two relu and a clip
    # between other scales are tables of 256.
    rescaling = flash_bytes(network) - parameter_bytes(network)
    assert 4 * 48 + 768 <= rescaling <= 5 * 48 + 768


def test_flash_that_holds_only_the_trained_numbers_is_too_small():
    network = quantised(everything(), 0).network
    assert fit(network, searched=(), flash=parameter_bytes(network)).best is None
    assert fit(network, searched=(), flash=flash_bytes(network)).best is not None


def test_the_kernels_of_a_library_are_no_types_of_c():
    _, written = found_and_written(quantised(everything(), 0))
    assert "convolve" in written.kernels
    assert not [name for name in written.kernels if name.endswith("_t")]


@pytest.mark.parametrize(
    ("shape", "operator"),
    [
        # A tensor of 2 axes lies in one row, so a constant of 6 columns has all 4 rows: 24 numbers.
        (Shape(dims=(4, 6)), op.Elementwise(function="add", constant=(6,))),
        (Shape(dims=(2, 3, 2, 5)), op.Elementwise(function="multiply", constant=(5,))),
        (Shape(dims=(4, 6)), op.Activation(function="prelu")),
        # Factor and offset of each channel in place of scale, shift, mean and variance.
        (Shape(dims=(8, 3, 3)), op.BatchNormalization(epsilon=1e-5)),
        (Shape(dims=(4, 6)), op.BatchNormalization(epsilon=1e-5)),
        # The factor of the sums of squares.
        (Shape(dims=(8, 3, 3)), op.LocalResponseNormalization(size=3)),
    ],
)
def test_the_flash_of_repeated_and_folded_numbers_is_that_of_the_library(shape, operator):
    network = Network(
        name="net",
        layers=(
            Layer(name="in", operator=op.Input(dims=shape.dims), inputs=(), shape=shape),
            Layer(name="out", operator=operator, inputs=("in",), shape=shape),
            Layer(name="end", operator=op.Output(), inputs=("out",), shape=shape),
        ),
    )
    found, written = found_and_written(Model(network=network, weights=random_weights(network, 0)))
    assert found.flash_bytes == written.weight_bytes


def test_the_flash_does_not_depend_on_the_values_of_trained_numbers():
    shape = Shape(dims=(8, 3, 3))
    network = Network(
        name="net",
        layers=(
            Layer(name="in", operator=op.Input(dims=shape.dims), inputs=(), shape=shape),
            Layer(name="a", operator=op.Elementwise(function="add", constant=(8, 1, 1)),
                  inputs=("in",), shape=shape),
            Layer(name="b", operator=op.Elementwise(function="add", constant=(8, 1, 1)),
                  inputs=("a",), shape=shape),
            Layer(name="end", operator=op.Output(), inputs=("b",), shape=shape),
        ),
    )  # fmt: skip
    alike = {name: {"constant": np.zeros((8, 1, 1), np.float32)} for name in ("a", "b")}
    found, written = found_and_written(Model(network=network, weights={"in": {}, **alike}))
    # Two arrays of 8 numbers of 4 bytes, though equal ones.
    assert found.flash_bytes == written.weight_bytes == 64
