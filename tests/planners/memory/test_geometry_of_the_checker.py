"""The geometry of the checker beside that of the planners: two derivations, one answer."""

from functools import partial
from itertools import combinations, product

import numpy as np
import pytest

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.catalogue.networks import from_catalogue
from cnn2csdf.execution.layer_by_layer import run_layer_by_layer
from cnn2csdf.geometry import Region
from cnn2csdf.simplify import simplified
from cnn2csdf.weights import Model
from planners.memory.fit import fit
from planners.plan import accumulators, aliases, state, weights
from planners.plan.carried_out import require_carried_out
from planners.plan.checked_geometry import CheckedFirings, InputNeeds, TiledStage
from planners.plan.checked_rules import (
    adds_up_rows,
    bytes_kept,
    bytes_of_weights,
    can_lie_apart,
    has_wide_accumulators,
    makes_rectangles,
    may_accumulate,
    variable_updates,
    works_on_blocks,
)
from planners.plan.computing import ModelComputing
from planners.plan.plan import Mode
from planners.plan.regions import COLUMNS, ROWS, Needs, TileRanges, can_be_tiled
from planners.plan.running_stage import RunningStage, input_rows, rows_of_firings
from planners.rewrites.rematerialisation import executed_network
from tests.planners.memory.streamed import random_frame
from tests.planners.memory.wrong_plans import right_plans


def network_of(name):
    return simplified(Model(network=from_catalogue(name))).network


def cases():
    return [
        (executed_network(one.model.network, one.plan.rematerialised), one.plan)
        for one in right_plans()
    ]


def test_firings_of_plans_make_and_need_the_same_rows():
    compared = 0
    for network, plan in cases():
        needs = InputNeeds(network)
        for planned in (stage for group in plan.groups for stage in group.stages):
            ours, theirs = CheckedFirings(planned, needs), RunningStage(planned, network, None)
            assert (ours.targets, ours.needs) == (theirs.targets, theirs.needs)
            assert list(ours.needs) == list(theirs.needs)
            if planned.mode is not Mode.ACCUMULATING and theirs.needs:
                ranges, needs_found = rows_of_firings(
                    network, planned, theirs.targets, partial(input_rows, network)
                )
                for name, spans in (ranges | needs_found).items():
                    assert [rows[name] for rows in ours.ranges] == list(spans)
            compared += len(ours.targets)
    assert compared > 1000


def test_tiles_of_plans_hold_and_compute_the_same_rectangles():
    compared = 0
    for network, plan in cases():
        for stage in (stage for group in plan.groups for stage in group.stages):
            if stage.tiles is None:
                continue
            ours, theirs = TiledStage(stage, InputNeeds(network)), TileRanges(network, stage)
            assert ours.multiply_accumulates == theirs.work
            for name in stage.layers:
                for down in range(len(stage.tiles.row_ends)):
                    assert ours.rows_below(name, down) == theirs.rows_below(name, down)
                    for across in range(len(stage.tiles.column_ends)):
                        at = name, down, across
                        assert ours.held(*at) == theirs.held(*at)
                        assert ours.computed(*at) == theirs.computed(*at)
                        assert ours.columns_beside(*at) == theirs.columns_beside(*at)
                        compared += 1
    assert compared > 20


@pytest.mark.parametrize(
    "name", ["mobilenet_v2", "densenet121", "keyword_spotting", "inception_v2"]
)
def test_rules_of_layers_are_those_of_the_planners(name):
    network = network_of(name)
    for layer in network.layers:
        if layer.is_end:
            continue
        assert adds_up_rows(network, layer) == accumulators.sums_over_rows(network, layer)
        assert may_accumulate(network, layer) == accumulators.takes_rows(network, layer)
        assert has_wide_accumulators(network, layer) == accumulators.has_wide_sums(network, layer)
        for is_first in (False, True):
            blocks = accumulators.works_by_channels(layer, is_first=is_first)
            assert works_on_blocks(layer, is_first=is_first) == blocks
        assert makes_rectangles(network, layer) == can_be_tiled(network, layer)
        reach = aliases.is_reached(network, layer, in_one_piece=False)
        assert can_lie_apart(network, layer) == reach
        shape = layer.shape
        assert shape.pixel_elements == (shape.channels if shape.is_map else shape.elements)
        assert bytes_kept(network, layer) == state.layer_state_bytes(network, layer)
        for element in (None, 1, 4):
            size = weights.weight_bytes(network, layer, element)
            assert bytes_of_weights(network, layer, element) == size


def test_variables_take_over_their_rows_behind_the_same_groups():
    updates = 0
    for network, plan in cases():
        ours = variable_updates(network, plan)
        assert ours == state.state_updates(network, plan)
        updates += len(ours)
    assert updates > 4


@pytest.mark.parametrize("axis", range(4))
def test_a_slice_of_a_tensor_with_four_axes_reads_it_whole(axis):
    builder = NetworkBuilder("four axes")
    tensor = builder.add(op.Reshape(dims=(2, 3, 8, 4)), builder.input((3, 8, 8)))
    builder.output(builder.add(op.Slice(axis=axis, start=1, stop=3), tensor))
    network = builder.network()
    require_carried_out(network, fit(network).best.plan)


@pytest.mark.parametrize("padding", [(0, 0, -2, -3), (1, 1, -2, -2)])
@pytest.mark.parametrize("function", ["mean", "max"])
def test_each_region_of_a_cropping_window_is_that_of_the_whole_output(function, padding):
    builder = NetworkBuilder("cropped")
    window = op.Window(kernel=(3, 3), padding=padding)
    builder.output(
        builder.add(op.Pooling(function=function, window=window), builder.input((2, 9, 9)))
    )
    model = Model(network=builder.network(), weights={})
    frame = random_frame(model.network, 1)
    (whole,) = run_layer_by_layer(model, frame).values()
    layer, (image,) = model.network.layers[1], frame.values()
    computing, needs = ModelComputing(model, frame), Needs(model.network)
    ((of_rows,), (of_columns,)) = (needs.of(layer, axis) for axis in (ROWS, COLUMNS))
    spans = [list(combinations(range(size + 1), 2)) for size in layer.shape.dims[1:]]
    for rows, columns in product(*spans):
        read = Region(of_rows.clipped(rows), of_columns.clipped(columns))
        values = image[:, slice(*read.rows), slice(*read.columns)].transpose(1, 2, 0)
        found = computing.region(layer, Region(rows, columns), [(read, values)])
        wanted = whole[:, slice(*rows), slice(*columns)].transpose(1, 2, 0)
        assert np.allclose(found, wanted, atol=1e-5), (rows, columns)
