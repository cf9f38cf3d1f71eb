"""Plans of lines and strips, carried out in one arena whose every byte knows what it holds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cnn2csdf.catalogue.networks import from_catalogue
from cnn2csdf.execution.whole import run_whole
from cnn2csdf.simplify import simplified
from cnn2csdf.weights import Model, random_weights
from planners.streaming.fit import INPUTS, RESULTS, fit
from tests.cnn2csdf.execution.random_networks import models
from tests.planners.streaming.streamed import outputs, random_frame, random_plan

pytestmark = pytest.mark.slow

SEEDS = st.integers(0, 2**32)


def works(network):
    """Whether there is a layer between input and output."""
    return any(layer.inputs and layer.name not in _outputs(network) for layer in network.layers)


def _outputs(network):
    return {layer.name for layer in network.outputs}


def require_equal(found, wanted):
    for name, array in wanted.items():
        largest = max(1.0, float(np.abs(array).max()))
        assert np.abs(found[name] - array).max() <= 2e-4 * largest, name


@settings(max_examples=120)
@given(model=models(), seed=SEEDS, is_streamed=st.booleans(), is_outside=st.booleans())
def test_any_plan_computes_what_the_whole_network_computes(model, seed, is_streamed, is_outside):
    if not works(model.network):
        return
    frame = random_frame(model.network, seed)
    plan = random_plan(
        model.network,
        seed,
        is_streamed=is_streamed and len(model.network.inputs) == 1,
        is_outside=is_outside,
    )
    require_equal(outputs(model, plan, frame), run_whole(model, frame))


@pytest.mark.parametrize("input_", INPUTS)
@pytest.mark.parametrize("name", ["resnet8:resolution=16", "keyword_spotting:rows=25"])
@pytest.mark.parametrize("result", RESULTS)
def test_every_way_that_fit_prints_runs(name, input_, result):
    network = simplified(Model(network=from_catalogue(name))).network
    model = Model(network=network, weights=random_weights(network, 0))
    frame = random_frame(network, 0)
    found = fit(network, element_bytes=4, input=input_, result=result)
    assert len(found.ways) > 3
    for way in found.ways:
        require_equal(outputs(model, way.plan, frame), run_whole(model, frame))
