"""Random small networks under random plans, written as C, compiled, run, compared."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cnn2csdf.catalogue.networks import from_catalogue
from cnn2csdf.simplify import simplified
from cnn2csdf.weights import Model, random_weights
from planners.memory.answer import INPUTS
from planners.memory.fit import fit
from tests.cnn2csdf.execution.random_networks import models
from tests.planners.code.compiling import libraries, needs_compiler, run_all
from tests.planners.code.drawing import same_in_each_run
from tests.planners.memory.streamed import random_plan

pytestmark = pytest.mark.slow

RANDOM_NETWORKS = 16


def drawn(count):
    """Models with a random plan each, half of them with fused layers; the same in each run."""
    found = []

    @same_in_each_run(count)
    @given(model=models(), seed=st.integers(0, 2**32), is_streamed=st.booleans())
    def collect(model, seed, is_streamed):
        model = simplified(model) if seed % 2 else model
        outputs = {layer.name for layer in model.network.outputs}
        if any(layer.inputs and layer.name not in outputs for layer in model.network.layers):
            plan = random_plan(model.network, seed, is_streamed=is_streamed)
            found.append((model, plan))

    collect()
    return found


@needs_compiler
def test_any_plan_in_c_gives_what_the_whole_network_gives(tmp_path):
    cases = drawn(RANDOM_NETWORKS)
    assert len(cases) > RANDOM_NETWORKS // 2
    assert run_all(libraries(cases), tmp_path) == []


CATALOGUE = ("resnet8:resolution=16", "keyword_spotting:rows=25")


@needs_compiler
def test_ways_that_fit_prints_are_libraries(tmp_path):
    cases = []
    for name in CATALOGUE:
        network = simplified(Model(network=from_catalogue(name))).network
        model = Model(network=network, weights=random_weights(network, 0))
        for input_ in INPUTS:
            ways = {way.name: way for way in fit(network, element_bytes=4, input=input_).methods}
            cases += [(model, way.plan) for way in ways.values()][::4]
    assert len(cases) >= 6
    assert run_all(libraries(cases), tmp_path) == []
