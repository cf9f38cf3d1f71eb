import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.catalogue.networks import from_catalogue
from cnn2csdf.execution.calibration import calibrated_weights
from cnn2csdf.execution.layer_by_layer import run_layer_by_layer
from cnn2csdf.simplify import simplified
from cnn2csdf.weights import Model, random_weights
from csdf.errors import ExecutionError, InvalidPlan
from planners.arena.checker import check_plan
from planners.primitives.execution import (
    SelectedNetwork,
    changes_of,
    map_plan,
    run_selected,
)
from planners.primitives.library.layers import layer_variants, primitive_of
from planners.primitives.library.winograd import ROUNDING
from planners.primitives.profile import Variant
from planners.primitives.profiling import random_frame
from tests.planners.primitives.outputs import largest_difference


def small_model():
    """Branches of several kernels that join again, a pooling, a depthwise layer, a classifier."""
    builder = NetworkBuilder("small")
    image = builder.input((3, 22, 19))
    first = builder.add(convolution(8, 3), image, name="first")
    branches = [
        builder.add(convolution(filters, kernel), first, name=f"branch{kernel}")
        for filters, kernel in ((4, 1), (8, 3), (4, 5))
    ]
    joined = builder.add(op.Concatenation(), *branches, name="joined")
    pool = op.Pooling(function="max", window=op.Window(kernel=(2, 2), stride=(2, 2)))
    pooled = builder.add(pool, joined, name="pooled")
    depthwise = builder.add(convolution(16, 3, groups=16), pooled, name="depthwise")
    total = builder.add(op.Elementwise(function="add"), depthwise, pooled, name="total")
    builder.output(builder.add(op.FullyConnected(units=5), total, name="classifier"))
    network = builder.network()
    return Model(network=network, weights=random_weights(network, 1))


def convolution(filters, kernel, groups=1):
    side = kernel // 2
    window = op.Window(kernel=(kernel, kernel), padding=(side, side, side, side))
    return op.Convolution(filters=filters, window=window, groups=groups)


SMALL = small_model()


def plain(network, layout="CHW"):
    """The way of each layer that keeps to one layout, where there is one."""
    return {
        layer.name: min(
            layer_variants(network, layer),
            key=lambda way: (way.input_layout != layout, way.output_layout != layout),
        )
        for layer in network.layers
    }


@pytest.mark.slow
@given(st.data())
@settings(max_examples=25, deadline=None)
def test_any_selection_gives_the_output_of_the_whole_network(data):
    network = SMALL.network
    selection = {
        layer.name: data.draw(st.sampled_from(layer_variants(network, layer)))
        for layer in network.layers
    }
    frame = random_frame(network, 2)
    found = run_selected(SMALL, selection, frame)
    assert largest_difference(found.outputs, run_layer_by_layer(SMALL, frame)) < ROUNDING


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["CHW", "HWC"])
@pytest.mark.parametrize(
    "name", ["resnet8", "squeezenet1_1:resolution=64", "googlenet:resolution=64"]
)
def test_networks_of_the_catalogue_keep_their_outputs(name, layout):
    given_model = simplified(Model(network=from_catalogue(name)))
    network = given_model.network
    model = Model(network=network, weights=calibrated_weights(network, 1))
    frame = random_frame(network, 2)
    found = run_selected(model, plain(network, layout), frame)
    assert largest_difference(found.outputs, run_layer_by_layer(model, frame)) < ROUNDING


def test_one_layout_needs_no_change_and_two_need_one_for_each_reader():
    network = SMALL.network
    selection = plain(network)
    assert changes_of(network, selection) == {}
    selection["first"] = Variant("im2col", "CHW", "HWC")
    changes = changes_of(network, selection)
    assert [one.consumer for one in changes] == ["branch1", "branch3", "branch5"]
    assert set(changes.values()) == {("HWC", "CHW")}


def test_maps_share_the_arena_as_the_checker_allows():
    network = SMALL.network
    plan = map_plan(network, changes_of(network, plain(network)), {})
    check_plan(plan)
    together = sum(layer.shape.elements * 4 for layer in network.layers)
    assert plan.peak < together


@pytest.mark.slow
def test_the_workspace_is_that_of_the_hungriest_layer_alone():
    # im2col keeps 8 * 25 elements for each of 22 * 19 places in front of branch5, 4 bytes each.
    selection = plain(SMALL.network)
    for layer in SMALL.network.layers:
        if isinstance(layer.operator, op.Convolution):
            selection[layer.name] = Variant("im2col", "CHW", "CHW")
    found = run_selected(SMALL, selection, random_frame(SMALL.network, 1))
    assert found.workspace_bytes == 8 * 25 * 22 * 19 * 4
    assert found.memory_bytes == found.arena_bytes + found.workspace_bytes + found.parameter_bytes


@pytest.mark.slow
def test_a_second_frame_is_not_disturbed_by_the_first():
    network = SMALL.network
    frames = [random_frame(network, seed) for seed in (1, 2)]
    selected = SelectedNetwork(SMALL, plain(network, "HWC"))
    for frame in frames:
        selected.run(frame)
    found = {one.name: selected.maps[one.name] for one in network.outputs}
    assert largest_difference(found, run_layer_by_layer(SMALL, frames[1])) < ROUNDING


def test_a_run_has_a_time():
    found = run_selected(SMALL, plain(SMALL.network), random_frame(SMALL.network, 1), repeats=3)
    assert found.nanoseconds > 0


def test_a_layer_without_a_choice_is_named():
    selection = plain(SMALL.network)
    del selection["branch3"]
    with pytest.raises(ExecutionError, match="layer 'branch3' has no primitive"):
        run_selected(SMALL, selection, random_frame(SMALL.network, 1))


def test_a_primitive_that_does_not_fit_is_refused():
    way = Variant("pointwise", "CHW", "CHW")
    assert primitive_of(way)
    with pytest.raises(InvalidPlan, match="layer 'first': 'pointwise' cannot compute it"):
        run_selected(SMALL, {**plain(SMALL.network), "first": way}, random_frame(SMALL.network, 1))


def test_a_run_without_repeats_is_refused():
    with pytest.raises(ExecutionError, match="0 repeats of a run"):
        run_selected(SMALL, plain(SMALL.network), random_frame(SMALL.network, 1), repeats=0)
