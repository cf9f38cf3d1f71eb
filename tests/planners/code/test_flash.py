"""The flash that `csdf fit` asks for is that of the library which `csdf deploy` writes."""

import pytest

from cnn2csdf.fixed_point.flash import flash_bytes, rescaling_bytes
from cnn2csdf.parameters import parameter_bytes
from cnn2csdf.readers.model_files import read_model
from cnn2csdf.simplify import simplified
from planners.code.sources import library_sources
from planners.streaming.fit import fit
from tests.cnn2csdf.readers.test_tflite_golden import FOLDER, READ
from tests.planners.code.test_quantised_libraries import everything, quantised
from tests.planners.code.test_single_precision_libraries import everything as everything_in_single
from tests.planners.code.test_single_precision_libraries import quantised as in_single_precision
from tests.shared_data import each

DEPLOYED = ("ad01_int8", "kws_int8", "micro_speech_int8", "person_detect_int8", "ad01_fp32")


def found_and_written(model):
    found = fit(model.network, searched=())
    return found, library_sources(model, found.ways[0].plan, "net")


@pytest.mark.parametrize("seed", range(3))
def test_the_flash_of_an_answer_is_that_of_the_library(seed):
    found, written = found_and_written(quantised(everything(), seed))
    assert found.flash_bytes == written.weight_bytes


@pytest.mark.parametrize("seed", range(3))
def test_the_flash_of_integers_in_single_precision_is_that_of_the_library(seed):
    found, written = found_and_written(in_single_precision(everything_in_single(), seed))
    assert found.flash_bytes == written.weight_bytes


@each("name", [name for name in DEPLOYED if name in READ])
def test_the_flash_of_a_model_of_the_field_is_that_of_its_library(name):
    model = simplified(read_model(FOLDER / f"{name}.tflite", with_weights=True))
    found, written = found_and_written(model)
    assert found.flash_bytes == written.weight_bytes


def test_each_filter_takes_five_bytes_to_rescale_and_each_function_a_table():
    network = quantised(everything(), 0).network
    # Convolutions of 6, 6, 9 and 10 filters and a layer of 7 units: a multiplier of four bytes and
    # an exponent of one for each, though equal exponents lie in flash once. relu and clip between
    # other scales are tables of 256.
    assert 4 * 38 + 512 <= rescaling_bytes(network) <= 5 * 38 + 512
    assert flash_bytes(network) == parameter_bytes(network) + rescaling_bytes(network)


def test_flash_that_holds_only_the_trained_numbers_is_too_small():
    network = quantised(everything(), 0).network
    assert fit(network, searched=(), flash=parameter_bytes(network)).best is None
    assert fit(network, searched=(), flash=flash_bytes(network)).best is not None


def test_the_kernels_of_a_library_are_no_types_of_c():
    _, written = found_and_written(quantised(everything(), 0))
    assert "convolve" in written.kernels
    assert not [name for name in written.kernels if name.endswith("_t")]
