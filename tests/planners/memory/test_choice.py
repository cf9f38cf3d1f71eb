"""The way that is taken of those that fit."""

from fractions import Fraction

import pytest

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.catalogue.networks import from_catalogue
from cnn2csdf.dtypes import Element, Quantization
from cnn2csdf.platforms import Platform
from cnn2csdf.simplify import simplified
from cnn2csdf.weights import Model
from csdf.status import Status
from csdf.time_limit import Stop
from planners.memory.alternatives import fit_with_alternatives
from planners.memory.answer import BY_ROWS, LINES, WHOLE_LAYERS, FitWhy
from planners.memory.fit import fit

# A roofline: calls and bytes cost so little that ways with the same MACs are as fast.
PLATFORM = Platform(
    operations_per_second=Fraction(864_000_000),
    bytes_per_second=Fraction(864_000_000),
    launch=Fraction(1, 10**6),
)


def person_detection():
    return simplified(Model(network=from_catalogue("person_detection"))).network


def chosen(ram=None, platform=PLATFORM):
    return fit(person_detection(), ram=ram, element_bytes=1, platform=platform)


def test_with_ram_to_spare_the_fastest_way_of_the_least_work_is_taken():
    found = chosen(64_000)
    times = {way.name: way.nanoseconds for way in found.methods}
    assert found.best.name == WHOLE_LAYERS
    assert found.reason.kind == FitWhy.FASTEST
    # A layer starts once and reads its numbers once, so nothing is faster than whole layers.
    assert times[WHOLE_LAYERS] == min(times.values())


def test_among_ways_as_fast_the_one_with_the_least_ram_is_taken():
    found = chosen(40_000)
    ways = {way.name: way for way in found.methods}
    assert ways[LINES].ram_bytes < ways[BY_ROWS].ram_bytes <= 40_000 < ways[WHOLE_LAYERS].ram_bytes
    assert abs(ways[LINES].nanoseconds - ways[BY_ROWS].nanoseconds) * 100 < ways[LINES].nanoseconds
    assert found.best.name == LINES


def test_without_a_limit_or_a_platform_the_least_ram_is_taken():
    for found in (chosen(), chosen(64_000, platform=None)):
        assert found.best.ram_bytes == min(
            way.ram_bytes for way in found.methods if way.mac_ratio == 1
        )
        assert found.reason.kind == FitWhy.LEAST_WORK


def test_measured_times_decide_which_plan_is_fast_enough():
    network = from_catalogue("resnet8")
    ends = {one.name for one in (*network.inputs, *network.outputs)}
    names = [one.name for one in network.layers if one.name not in ends]
    durations = dict.fromkeys(names, (1000000,))  # a millisecond for each layer
    whole = len(names) * 1_000_000
    found = fit(network, ram="1MB", nanoseconds=whole + 100_000, durations=durations, budget=5)
    assert found.best is not None
    assert found.best.nanoseconds is not None
    assert whole <= found.best.nanoseconds <= whole + 100_000
    limits = {"ram": 10**6, "nanoseconds": whole - 1, "durations": durations}
    slow = fit_with_alternatives(network, budget=5, **limits)
    # What is too slow is not helped by less RAM, but by fewer frames.
    (reached,) = slow.alternatives
    assert (slow.best, reached.fits) == (None, True)
    assert reached.options == f"--fps {1_000_000_000 // slow.reason.values['nanoseconds']}"


@pytest.mark.parametrize("ram", [None, "1MB"])
def test_too_little_flash_is_reported_with_advice(ram):
    network = from_catalogue("samos_example")
    found = fit_with_alternatives(network, ram=ram, flash="2kB")
    needed = fit(network, element_bytes=1).flash_bytes
    assert needed <= 2000 < found.flash_bytes
    options = ["--element-bytes 1 (as int8)", f"--flash {found.flash_bytes}"]
    assert [one.options for one in found.alternatives if one.fits] == options


def test_a_figure_nearby_whose_search_ended_early_says_so():
    network = from_catalogue("resnet8")
    found = fit_with_alternatives(network, ram=1, element_bytes=1, budget=Stop(steps=0))
    assert found.alternatives
    assert not any(one.is_complete or one.fits for one in found.alternatives)
    assert "at most" in found.alternatives[0].ram_in_words


def test_an_input_that_is_too_large_is_told_with_the_bytes_of_what_it_becomes():
    builder = NetworkBuilder("converted")
    given = builder.input((3, 8, 8), name="picture", element=Element.FLOAT32)
    scale = Quantization(element=Element.INT8, scales=(0.1,), zero_point=0)
    narrow = {"element": Element.INT8, "quantization": scale}
    builder.output(builder.add(op.Conversion(), given, name="narrow", **narrow))
    found = fit(builder.network(), ram=700)
    # 3 x 8 x 8 numbers of 4 bytes, or of one
    assert (found.status, found.reason.values["least"]) == (Status.INFEASIBLE, 768)
    words = (
        "input 'picture' is float32 and at once converted to int8; "
        "an export with int8 input would take 192 bytes"
    )
    assert words in str(found.reason)
