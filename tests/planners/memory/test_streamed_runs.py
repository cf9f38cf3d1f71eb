"""Plans of lines and strips, carried out in one arena whose every byte knows what it holds."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.catalogue.networks import from_catalogue
from cnn2csdf.dtypes import Element
from cnn2csdf.execution.layer_by_layer import run_layer_by_layer
from cnn2csdf.simplify import simplified
from cnn2csdf.weights import Model, random_weights
from csdf.errors import ExecutionError
from figures.branched_networks import lraspp_like, yolov8n_like
from planners.memory.answer import INPUTS, OUTPUT_MEMORIES, SEARCHED
from planners.memory.fit import fit
from planners.memory.moves import WHOLE
from planners.plan.executor import PlanMachine
from planners.plan.plan import Kind
from tests.cnn2csdf.execution.random_networks import models
from tests.planners.code.test_quantised_libraries import quantised
from tests.planners.memory.plain import plan_of
from tests.planners.memory.streamed import outputs, random_frame, random_plan, space

pytestmark = pytest.mark.slow

NETWORKS = (
    "resnet8:resolution=16",
    "keyword_spotting:rows=25",
    "mobilenet_v2:resolution=16,width=0.1",
)
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


@settings(max_examples=50)
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
        parts=(2, 3),
    )
    require_equal(outputs(model, plan, frame), run_layer_by_layer(model, frame))


CASES = [(NETWORKS[1], one, OUTPUT_MEMORIES[number % 2]) for number, one in enumerate(INPUTS)]
CASES += [(NETWORKS[0], "resident", "resident"), (NETWORKS[2], "rows", "external")]


@pytest.mark.parametrize(("name", "input_", "result"), CASES)
def test_every_way_that_fit_prints_runs(name, input_, result):
    network = simplified(Model(network=from_catalogue(name))).network
    model = Model(network=network, weights=random_weights(network, 0))
    frame = random_frame(network, 0)
    found = fit(network, element_bytes=4, input=input_, output=result, searched=SEARCHED)
    assert len(found.methods) >= 3
    for way in found.methods:
        require_equal(outputs(model, way.plan, frame), run_layer_by_layer(model, frame))


@pytest.mark.parametrize("element_bytes", [2, None])
def test_a_plan_for_elements_of_other_bytes_computes_the_same(element_bytes):
    # With None the elements of int8, int16 and single precision take turns, as in networks that are
    # quantised at run time: all are computed in single precision.
    network = from_catalogue("keyword_spotting:rows=13")
    kinds = (Element.FLOAT32, Element.INT8, Element.INT16)
    layers = (
        replace(layer, element=kinds[number % 3]) for number, layer in enumerate(network.layers)
    )
    network = replace(network, layers=tuple(layers))
    model = Model(network=network, weights=random_weights(network, 0))
    for way in fit(network, element_bytes=element_bytes, searched=SEARCHED).methods:
        frame = random_frame(network, way.ram_bytes)
        require_equal(outputs(model, way.plan, frame), run_layer_by_layer(model, frame))


@pytest.mark.parametrize("make", [yolov8n_like, lraspp_like])
def test_graphs_with_many_branches_run_in_the_planned_bytes(make):
    network = simplified(Model(network=make(resolution=64, classes=3))).network
    model = Model(network=network, weights=random_weights(network, 0))
    frame = random_frame(network, 0)
    for result in OUTPUT_MEMORIES:
        found = fit(network, element_bytes=4, input="rows", output=result)
        wanted = run_layer_by_layer(model, frame)
        require_equal(outputs(model, found.least.plan, frame), wanted)
        assert found.least.ram_bytes < found.methods[-1].ram_bytes


def bottleneck():
    """A 1x1 convolution, one of each feature map, and a 1x1 convolution that sums up."""
    builder = NetworkBuilder("critical_cycle")
    point = op.Window(kernel=(1, 1), stride=(1, 1), padding=(0, 0, 0, 0))
    window = op.Window(kernel=(3, 3), stride=(2, 1), padding=(1, 1, 1, 1))
    last = builder.input((3, 9, 8))
    last = builder.add(op.Convolution(filters=10, window=point), last)
    last = builder.add(op.Convolution(filters=10, groups=10, window=window), last)
    builder.output(builder.add(op.Convolution(filters=4, window=point), last))
    return builder.network()


def plans_in_parts(network, *, rows, parts):
    """Plans of one stage of all layers, whose channels come in parts."""
    moves = space(network, element_bytes=1, parts=(parts,))
    for move in moves.moves_from(0, WHOLE):
        stage = move.stages[0]
        if len(stage.layers) == 3 and (stage.rows, stage.channel_blocks) == (rows, parts):
            yield plan_of(moves.layer_order, moves.table, [(move,)], is_streamed=False)


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("parts", [2, 4, 10])
def test_int8_in_parts_gives_the_bytes_of_the_whole_network(rows, parts):
    """A part adds to sums of integers, which the last part rounds: no byte may differ."""
    model = quantised(bottleneck(), 1)
    source = np.random.default_rng(0)
    image = model.network.inputs[0]
    frame = {image.name: source.integers(-128, 128, image.shape.dims).astype(np.int8)}
    (plan,) = plans_in_parts(model.network, rows=rows, parts=parts)
    found = outputs(model, plan, frame)
    for name, array in run_layer_by_layer(model, frame).items():
        assert np.array_equal(found[name], array)


def test_strips_in_parts_hold_a_part_of_the_channels_and_sums_of_one_row():
    # Strips: 3 rows and columns of ceil(10 / 4) = 3 channels, 27 bytes; a place of 3. Sums: 8 places
    # of 4 channels and 4 bytes, 128, and at most 3 to begin at a word.
    (plan,) = plans_in_parts(quantised(bottleneck(), 1).network, rows=1, parts=4)
    (pool,) = [one for one in plan.buffers if one.kind is Kind.STAGING]
    assert pool.size == 27 + 3 + 128 + 3


def test_sums_of_parts_that_are_overwritten_are_refused():
    network = quantised(bottleneck(), 1).network
    (plan,) = plans_in_parts(network, rows=1, parts=4)
    (pool,) = [one for one in plan.buffers if one.kind is Kind.STAGING]
    image = next(one for one in plan.buffers if one.tensor == network.inputs[0].name)
    over = replace(pool, offset=image.offset)
    buffers = tuple(over if one is pool else one for one in plan.buffers)
    with pytest.raises(ExecutionError):
        PlanMachine(network, replace(plan, buffers=buffers)).run()
