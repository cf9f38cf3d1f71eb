"""Tiles: what they hold, compute, share and keep."""

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from cnn2csdf.parameters import multiply_accumulates
from csdf.errors import InvalidPlan
from planners.fusion.groups import tiled_stage
from planners.memory.order import chain_of
from planners.plan.plan import Tiles
from planners.plan.regions import (
    COLUMNS,
    ROWS,
    Needs,
    TileRanges,
    can_be_tiled,
    even_ends,
    fresh,
    length,
)
from tests.planners.fusion.chains import networks, plain_chain, tilings
from tests.reference.shared_borders import reuse_multiply_accumulates, reuse_order, shared_elements


def tiled(chain, tiles):
    return TileRanges(chain.network, tiled_stage(chain.between(0, chain.sections), tiles))


@st.composite
def groups(draw, *, halo_cached=None):
    chain = chain_of(draw(networks()))
    layers = chain.between(0, chain.sections)
    assume(all(can_be_tiled(chain.network, layer) for layer in layers))
    is_cached = draw(st.booleans()) if halo_cached is None else halo_cached
    return tiled(chain, draw(tilings(layers[-1].shape, is_cached)))


def places(group):
    """The tiles, row by row of tiles."""
    return list(product(range(len(group.tiles.row_ends)), range(len(group.tiles.column_ends))))


def test_even_tiles_differ_by_one_place_at_most():
    # 38 places in 5 tiles: 38 * k / 5 = 7.6, 15.2, 22.8, 30.4, 38.
    assert even_ends(38, 5) == (7, 15, 22, 30, 38)


@pytest.mark.parametrize("tiles", [0, 4])
def test_there_are_no_more_tiles_than_places(tiles):
    with pytest.raises(InvalidPlan, match="expected 1 to 3"):
        even_ends(3, tiles)


def test_a_tile_holds_what_its_windows_see_clipped_at_the_border():
    # Two 3x3 convolutions over 9 places in tiles of 4 and 5: outputs [0, 4) and [4, 9) need
    # [0, 5) and [3, 9) of the middle, and [0, 6) and [2, 9) of the input.
    chain = plain_chain((2, 3, 1), (2, 3, 1))
    group = tiled(chain, Tiles(row_ends=(4, 9), column_ends=(9,)))
    first, last = (layer.name for layer in group.layers)
    assert group.rows[last] == ((0, 4), (4, 9))
    assert group.rows[first] == ((0, 5), (3, 9))
    assert group.rows[chain.at(0)] == ((0, 6), (2, 9))
    assert fresh(group.rows[first]) == ((0, 5), (5, 9))


def test_work_grows_by_the_overlaps():
    # The middle layer: 9x9 places, 2 * 2 * 9 = 36 multiply-accumulates each; tiles compute 5 + 6
    # rows of 9. The last layer computes nothing twice.
    chain = plain_chain((2, 3, 1), (2, 3, 1))
    tiles = Tiles(row_ends=(4, 9), column_ends=(9,))
    assert tiled(chain, tiles).work == 36 * 9 * (11 + 9)
    assert tiled(chain, replace(tiles, halo_cached=True)).work == 36 * 9 * (9 + 9)


@pytest.mark.slow
@given(group=groups())
def test_tiles_hold_what_each_place_of_theirs_needs(group):
    # Place by place instead of range by range.
    needs = Needs(group.network)
    for layer, axis in product(group.layers, (ROWS, COLUMNS)):
        held = group.rows if axis == ROWS else group.columns
        for need in needs.of(layer, axis):
            for own, read in zip(held[layer.name], held[need.source], strict=True):
                for place in range(*own):
                    first, upto = need.of((place, place + 1))
                    inside = set(range(max(first, 0), min(upto, need.limit)))
                    assert inside <= set(range(*read))


@pytest.mark.slow
@given(group=groups(halo_cached=True))
def test_tiles_with_cached_halos_compute_no_place_twice_and_miss_none(group):
    for layer in group.layers:
        computed = [
            place
            for tile in places(group)
            for place in product(
                range(*group.computed(layer.name, *tile).rows),
                range(*group.computed(layer.name, *tile).columns),
            )
        ]
        held = {
            place
            for tile in places(group)
            for place in product(
                range(*group.held(layer.name, *tile).rows),
                range(*group.held(layer.name, *tile).columns),
            )
        }
        assert len(computed) == len(set(computed))
        assert set(computed) == held


@pytest.mark.slow
@given(group=groups())
def test_input_ranges_of_tiles_are_monotonic(group):
    for held in (group.rows, group.columns):
        for ranges in held.values():
            assert list(ranges) == sorted(ranges)
            assert [end for _, end in ranges] == sorted(end for _, end in ranges)


@pytest.mark.slow
@given(group=groups(halo_cached=False))
def test_what_white_tiles_take_over_is_what_black_neighbours_hold(group):
    # As sets of places, for each white tile.
    def held(name, place):
        region = group.held(name, *place)
        return set(product(range(*region.rows), range(*region.columns)))

    known = set(places(group))
    work = 0
    for layer in group.layers:
        taken = 0
        for row, column in places(group):
            own = held(layer.name, (row, column))
            sides = ((row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1))
            near = set().union(*(held(layer.name, side) for side in sides if side in known))
            left = own - near if (row + column) % 2 else own
            taken += len(own) - len(left)
            work += len(left) * _each(group, layer)
        assert shared_elements(group, layer.name) == taken * layer.shape.channels
    assert reuse_multiply_accumulates(group) == work


def _each(group, layer):
    shape = layer.shape
    whole = multiply_accumulates(layer, group.network.input_shapes(layer))
    return whole // (length(shape, ROWS) * length(shape, COLUMNS))


def test_every_other_tile_goes_first():
    assert reuse_order(2, 3) == [(0, 0), (0, 2), (1, 1), (0, 1), (1, 0), (1, 2)]
