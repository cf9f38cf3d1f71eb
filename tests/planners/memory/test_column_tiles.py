"""Tiles of columns: what they move, and networks with wrong copies, which the checker refuses."""

from dataclasses import replace

import pytest

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.execution.layer_by_layer import run_layer_by_layer
from csdf.errors import InvalidPlan
from planners.memory.plan_runs import run_plan
from planners.plan.carried_out import require_carried_out
from planners.plan.text import format_plans, parse_plans
from planners.rewrites.column_tiles import in_columns, part_of
from planners.rewrites.copied_layers import require_same
from tests.planners.code.calibrated import real_model
from tests.planners.memory.streamed import random_frame
from tests.planners.memory.test_memories import planned, two_layers
from tests.planners.memory.test_streamed_runs import require_equal


def branched():
    """A residual sum of an enlarged map; the map before it is a result, too."""
    builder = NetworkBuilder("branched")
    source = builder.input((2, 5, 6))
    wide = builder.add(op.Resize(size=(10, 12), function="nearest"), source)
    window = op.Window(kernel=(3, 3), padding=(1, 1, 1, 1))
    inner = builder.add(op.Convolution(filters=2, window=window), wide)
    last = builder.add(op.Convolution(filters=2, window=window), inner)
    total = builder.add(op.Elementwise(function="add"), wide, last)
    builder.output(
        builder.add(op.Pooling(function="max", window=replace(window, stride=(2, 2))), total)
    )
    builder.output(inner)
    return builder.network()


def test_tiles_read_the_columns_that_neighbours_share_twice():
    # 24 rows of 32 bytes in, as many out. A layer keeps three rows, and the rows of three tensors take
    # 7 * 32 bytes; in two tiles those of 10, 9 and 8 columns, of 2 bytes a column, 3 and 3 and none,
    # and a pixel of the result on its way to slow memory.
    plan = planned(two_layers(), 3 * 20 + 3 * 18 + 2).plan
    assert [span.tiles for span in plan.rematerialised] == [2]
    assert plan.slow_bytes == 2 * 24 * (8 + 2) * 2 + 24 * 32
    require_carried_out(two_layers(), plan)
    assert parse_plans(format_plans([plan]), "plan.json") == (plan,)


@pytest.mark.parametrize("fast", [90, 140])
def test_branches_and_several_results_in_tiles_compute_the_same(fast):
    model = real_model(branched())
    plan = planned(model.network, fast).plan
    assert any(span.layers for span in plan.rematerialised)
    frame = random_frame(model.network, 0)
    require_equal(run_plan(model, plan, frame).outputs, run_layer_by_layer(model, frame))


def spans_of(plan, **changes):
    return replace(plan, rematerialised=(plan.rematerialised[0]._replace(**changes),))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tiles": 3}, "columns"),
        ({"tiles": 99}, "work in 99 tiles"),
        ({"layers": ("convolution 2", "convolution")}, "work in 2 tiles"),
        ({"layers": ("convolution", "nothing")}, "work in 2 tiles"),
    ],
)
def test_a_plan_with_other_tiles_is_refused(changes, words):
    plan = planned(two_layers(), 116).plan
    with pytest.raises(InvalidPlan, match=words):
        require_carried_out(two_layers(), spans_of(plan, **changes))


def copied(network, tiles=2):
    works = [one.name for one in network.layers if one.inputs and one not in network.outputs]
    return in_columns(network, works, tiles).network


@pytest.mark.parametrize("tiles", [1, 2, 5])
@pytest.mark.parametrize("network", [two_layers(), branched()])
def test_a_network_in_tiles_is_taken_for_the_same(network, tiles):
    require_same(network, copied(network, tiles))


@pytest.mark.parametrize("tiles", [1, 2, 5])
@pytest.mark.parametrize("network", [two_layers(), branched()])
def test_a_single_tile_has_the_layers_of_that_tile(network, tiles):
    inside = [
        layer.name for layer in network.layers if layer.inputs and layer not in network.outputs
    ]
    section = part_of(network, inside)
    together = in_columns(section, inside, tiles)
    for number, tile in enumerate(together.parts):
        alone = in_columns(section, inside, tiles, only=number)
        assert alone.parts == (tile,)
        for layer in alone.network.layers:
            assert layer == together.network.layer(layer.name)
        assert set(tile.layers) <= {layer.name for layer in alone.network.layers}


def shifted(layer):
    """Slices of columns one further on; other padding; columns joined in another order."""
    match layer.operator:
        case op.Slice(axis=2, start=start, stop=stop):
            yield replace(layer, operator=replace(layer.operator, start=start + 1, stop=stop + 1))
        case op.Convolution(window=window) | op.Pooling(window=window):
            top, left, bottom, right = window.padding
            other = replace(window, padding=(top, right, bottom, left))
            if left != right:
                yield replace(layer, operator=replace(layer.operator, window=other))
        case op.Concatenation(axis=2):
            yield replace(layer, inputs=layer.inputs[::-1])


@pytest.mark.parametrize("network", [two_layers(), branched()])
def test_a_network_with_other_columns_is_refused(network):
    worked, refused = copied(network), 0
    for number, layer in enumerate(worked.layers):
        for other in shifted(layer):
            layers = (*worked.layers[:number], other, *worked.layers[number + 1 :])
            with pytest.raises(InvalidPlan, match="no copy"):
                require_same(network, replace(worked, layers=layers))
            refused += 1
    assert refused > 6
