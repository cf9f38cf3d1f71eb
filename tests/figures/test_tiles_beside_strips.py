"""Tiles in the search of `csdf fit`: what they are counted with, and what the page says of them."""

from pathlib import Path

import pytest

from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.operators import Convolution, Window
from figures import tiles_beside_strips as tiles
from figures.fit_networks import Subject, network_of
from planners.memory.moves import GroupMoves
from planners.memory.order import topological_order
from planners.memory.stages import StageTable


def two_convolutions():
    """Two 3x3 convolutions of 8x8 places: 1 map, then 2, then 1."""
    builder = NetworkBuilder("two")
    last = builder.input((1, 8, 8))
    window = Window(kernel=(3, 3), stride=(1, 1), padding=(1, 1, 1, 1))
    for filters in (2, 1):
        last = builder.add(Convolution(filters=filters, window=window), last)
    builder.output(last)
    return builder.network()


def groups_of_two():
    network = two_convolutions()
    moves = GroupMoves(topological_order(network), StageTable(network, element_bytes=1))
    return tiles.Tiles(moves).behind(0)[2]


def test_tiles_of_four_by_four_compute_the_rows_and_columns_that_they_share_again():
    # A tile of 4x4 needs 5x5 places of the first result: 4 tiles compute 100 places of 64. Each takes
    # 9 products for each of 2 maps, a place of the last result 18: 100 * 18 + 64 * 18 = 2,952.
    # Inside are 5 * 5 * 2 = 50 bytes. As the last 4 rows are written, row 2 of the input is the first
    # that they still need: the input begins at least 64 - 2 * 8 = 48 bytes behind the result, so both
    # ends take 64 + 48 = 112 bytes.
    found = {numbers[:2] for numbers, _ in groups_of_two()}
    assert (112 + 50, 2_952) in found


def test_an_upright_strip_keeps_three_rows_and_computes_columns_again():
    # One column of the result at a time needs 3 columns of the first, 2 at the borders: 22 columns of
    # 8 rows, 176 places; of them 3 rows of 3 columns and 2 maps are kept. Both ends lie whole.
    found = {numbers[:2] for numbers, _ in groups_of_two()}
    assert (64 + 64 + 18, (176 + 64) * 18) in found


def kept():
    return Path(tiles.__file__).with_suffix(".md").read_text()


@pytest.mark.slow
def test_documented_lines_are_reproduced():
    network = network_of(Subject("keyword_spotting", "keyword_spotting"))
    found = tiles.compared("keyword_spotting", network, is_outside=True)
    assert tiles.cells(found) in kept()


def test_tiles_improve_few_points_and_by_little():
    lines = [line.split("|") for line in kept().splitlines() if " | in the arena | " in line]
    lines += [line.split("|") for line in kept().splitlines() if " | outside | " in line]
    assert len(lines) == 2 * (len(tiles.CATALOGUE) + len(tiles.CHAINS))
    points, improved = (sum(int(line[place]) for line in lines) for place in (4, 5))
    assert improved * 40 < points
    saved = [float(line[6].strip().rstrip("%")) for line in lines if line[6].strip()]
    assert len(saved) < len(lines) // 4
    assert max(saved) < 6
    assert f"Of {points} points tiles improve {improved}." in kept()
    page = Path(tiles.__file__).parents[1] / "docs" / "fit.md"
    text = " ".join(page.read_text().split())
    assert f"improve at most {improved} of {points} points of the Pareto fronts" in text
