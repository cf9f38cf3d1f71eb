"""Weights whose integers have a zero point: sums are corrected in integers, to the last bit."""

from dataclasses import replace

import pytest

from cnn2csdf.network import Network
from cnn2csdf.simplify import simplified
from planners.code.library import library
from planners.memory.answer import INPUTS
from planners.memory.fit import fit
from tests.planners.code import test_single_precision_libraries as single
from tests.planners.code.compiling import inlined, needs_compiler, run_all
from tests.planners.code.test_libraries_in_parts import expanded, in_parts
from tests.planners.code.test_quantised_libraries import everything, quantised, summing, wide
from tests.planners.memory.streamed import random_plan

pytestmark = pytest.mark.slow


def shifted(model, seed):
    """The model with zero points for its kernels and matrices, of which some are zero."""
    layers = []
    for number, layer in enumerate(model.network.layers):
        zero = (0, -5, 117, 3, -128)[(seed + number) % 5]
        kept = tuple(
            replace(one, quantization=replace(one.quantization, zero_point=zero))
            if one.role in ("kernel", "matrix")
            else one
            for one in layer.stored
        )
        layers.append(replace(layer, stored=kept))
    return replace(model, network=Network(name="shifted", layers=tuple(layers)))


def cases():
    """Networks whose sums are found in each way that the kernels have."""
    for seed in range(4):
        given = quantised(everything(), seed) if seed % 2 else single.quantised(wide(), seed)
        model = shifted(given, seed)
        model = simplified(model, ("fuse-activation",)) if seed == 3 else model
        yield model, random_plan(model.network, seed, is_streamed=seed > 1, element_bytes=1)
    for number, kind in enumerate(("mean", "pool", "units")):
        make = (quantised, single.quantised)[number % 2]
        model = shifted(make(summing(kind), number), 2)
        for input_ in INPUTS:
            yield model, fit(model.network, input=input_).least.plan
    for seed in (1, 2, 3, 4):
        model = shifted(quantised(expanded(seed).network, seed), seed)
        plan = in_parts(model, seed, element_bytes=1, is_streamed=seed % 2 == 0)
        if plan is not None:
            yield model, plan


@needs_compiler
def test_weights_with_a_zero_point_give_the_bytes_of_the_whole_network(tmp_path):
    made = [library(*case, name=f"net{number}") for number, case in enumerate(cases())]
    assert len(made) > 14
    assert run_all(made, tmp_path) == []


def test_a_library_without_such_weights_has_no_room_for_their_zero_points():
    model = quantised(wide(), 0)
    plan = random_plan(model.network, 0, is_streamed=False, element_bytes=1)
    source = inlined(library(model, plan, frames=[]).files, "src/quantised.c")
    assert "WEIGHTS_HAVE_ZEROS" not in source
