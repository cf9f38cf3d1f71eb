"""The memory predictor and the search of MAFAT, as printed, for a chain of any layers.

Source: Farley and Gerstlauer, MAFAT: Memory-Aware Fusing and Tiling of Neural Networks for
Accelerated Edge Inference, 2021 (arXiv 2107.06960): algorithms 1, 2 and 3. MB are 2^20 bytes.
Regions are clipped at the borders of the map, grids are even, poolings have no scratch.

Algorithm 3 names its cuts by the index of a layer of YOLOv2: 16, which is no cut, 12 and 8. In YOLOv2
16 is the end of the tiled layers, and 12 and 8 are the positions after the last two poolings, the only
layers with a stride. In other networks the cuts are after the last two sections with a stride. The
longest possible prefix of the chain is tiled. The remaining layers (a global pooling, fully connected
layers) are executed layer by layer with whole tensors; the paper has no such layers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum

from cnn2csdf.network import Layer
from csdf.errors import InvalidNetwork, InvalidPlan
from planners.fusion.groups import (
    Configuration,
    SectionRange,
    configuration,
    scratch_elements,
    tiled_stage,
)
from planners.memory.answer import GroupMode, ScratchCount
from planners.memory.order import TopologicalOrder
from planners.memory.times import tile_lengths
from planners.plan.regions import COLUMNS, ROWS, Bands, Needs, TileRanges, can_be_tiled

MB = 2**20
ELEMENT_BYTES = 4
# Tiles along each side: before the cut, before a late cut, and after the cut.
MOST_TILES = 5
FEW_TILES = 2
BOTTOM = 2
CUTS = 2  # sections with a stride, from the end, after which Algorithm 3 may cut
WRITTEN = re.compile(r"(\d+)x(\d+)")
NO_CUT = "NoCut"


class Predictor(Enum):
    """A formula for memory: the terms of each tile, and a constant for the rest; bytes.

    PRINTED: Algorithm 1 as printed, scratch + output + twice the input, and 31 MB. No constant makes it
    agree with Table 4.1 of the paper. FITTED: scratch + output + input, and 55 MB. This is a fit of one
    constant to that table and not from the text; with it Algorithm 3 has all nine choices of the table,
    and 5x5/8/2x2 needs 65.9 MB; the paper prints 66.
    """

    PRINTED = (2, 31 * MB)
    FITTED = (1, 55 * MB)

    @property
    def inputs(self) -> int:
        """How many times the input of a tile counts."""
        return self.value[0]

    @property
    def bias(self) -> int:
        """Bytes of weights, libraries and everything else."""
        return self.value[1]


def predicted_group(
    needs: Needs, layers: Sequence[Layer], rows: Bands, columns: Bands, inputs: int
) -> int:
    """Return the bytes of a group by Algorithm 1: the most that any layer of any tile needs.

    inputs: how many times the input of the tile counts, beside its scratch and its output.
    """
    maximum = 0
    for layer in layers:
        shapes = needs.network.input_shapes(layer)
        for heights in tile_lengths(needs, layer, rows[layer.name], ROWS):
            for widths in tile_lengths(needs, layer, columns[layer.name], COLUMNS):
                indices = heights[0] * widths[0]
                read = sum(
                    shape.channels * height * width
                    for shape, height, width in zip(shapes, heights[1:], widths[1:], strict=True)
                )
                written = indices * layer.shape.channels
                scratch = scratch_elements(ScratchCount.IM2COL, needs.network, layer, indices)
                maximum = max(maximum, scratch + written + inputs * read)
    return maximum * ELEMENT_BYTES


def predicted(
    chain: TopologicalOrder,
    groups: Configuration,
    predictor: Predictor = Predictor.PRINTED,
    bias: int | None = None,
) -> int:
    """Return the bytes of a configuration by Algorithm 2: the largest group, and the bias.

    bias: bytes of another system than the paper's, instead of the predictor's.
    """
    needs = Needs(chain.network)
    sizes = []
    for group in groups:
        layers = chain.between(group.first, group.upto)
        if group.mode is GroupMode.WHOLE:
            sizes += [_predicted_whole(needs, layer, predictor.inputs) for layer in layers]
        else:
            tiles = tiles_of(chain, group)
            sizes.append(
                predicted_group(needs, layers, tiles.rows, tiles.columns, predictor.inputs)
            )
    return (predictor.bias if bias is None else bias) + max(sizes)


def _predicted_whole(needs: Needs, layer: Layer, inputs: int) -> int:
    """The bytes of a layer by Algorithm 1, as one tile that is its whole output."""
    shape = layer.shape
    read = sum(shape.elements for shape in needs.network.input_shapes(layer))
    scratch = scratch_elements(
        ScratchCount.IM2COL, needs.network, layer, shape.height * shape.width
    )
    return (scratch + shape.elements + inputs * read) * ELEMENT_BYTES


def tiles_of(chain: TopologicalOrder, group: SectionRange) -> TileRanges:
    """Return what each tile of a group holds; one tile where it works layer by layer."""
    stage = tiled_stage(chain.between(group.first, group.upto), group.tiles)
    return TileRanges(chain.network, stage)


def paper_configuration(
    chain: TopologicalOrder, top: int, cut: int | None, bottom: int = BOTTOM
) -> Configuration:
    """Return top x top / cut / bottom x bottom, or top x top without a cut, as the paper writes.

    Behind what can be tiled, one tile: layers that are executed whole. Raises InvalidNetwork where
    nothing can be tiled.
    """
    cuts = [] if cut is None else [cut]
    sides = [top] if cut is None else [top, bottom]
    if (end := tiled_sections(chain)) < chain.sections:
        cuts, sides = [*cuts, end], [*sides, 1]
    return configuration(chain, cuts, [(side, side) for side in sides])


def tiled_sections(chain: TopologicalOrder) -> int:
    """Return how many sections the longest beginning has that can be cut into 2x2 tiles.

    Raises InvalidNetwork where there is none.
    """
    upto = group_start = 0
    while upto < chain.sections and all(
        can_be_tiled(chain.network, layer) for layer in chain.between(upto, upto + 1)
    ):
        upto += 1
        if _most_tiles(chain, upto) >= FEW_TILES:
            group_start = upto
    if not group_start:
        layer = chain.between(0, 1)[-1]
        raise InvalidNetwork(
            f"network {chain.network.name!r} has no beginning that can be tiled: up to {layer.name!r} "
            f"a layer needs more than a rectangle of its input, or the result is smaller than "
            f"{FEW_TILES}x{FEW_TILES}; without --method, csdf plan fusion works it layer by layer"
        )
    return group_start


def _most_tiles(chain: TopologicalOrder, upto: int) -> int:
    """The most tiles along a side that the result of these sections has places for."""
    shape = chain.network.layer(chain.at(upto)).shape
    return min(shape.height, shape.width)


def paper_name(groups: Configuration) -> str:
    """Return a configuration as the paper writes it: 5x5/8/2x2 or 2x2/NoCut."""
    cuts = [f"/{group.first}/" if group.first else "" for group in groups]
    text = "".join(f"{cut}{group.tiles}" for cut, group in zip(cuts, groups, strict=True))
    return text if len(groups) > 1 else f"{text}/{NO_CUT}"


def named_configuration(chain: TopologicalOrder, name: str) -> Configuration:
    """Return the configuration that the paper would write so, with any number of cuts.

    Raises InvalidPlan for a text that is none, and where it does not fit the chain.
    """
    words = name.removesuffix(f"/{NO_CUT}").split("/")
    grids = [WRITTEN.fullmatch(word) for word in words[::2]]
    if len(words) % 2 == 0 or not all(grids) or not all(map(str.isdecimal, words[1::2])):
        raise InvalidPlan(
            f"configuration {name!r}: expected tiles, then cuts with tiles, such as 2x2/NoCut, "
            "5x5/8/2x2 or 3x3/4/2x2/8/2x2"
        )
    cuts = [int(word) for word in words[1::2]]
    ends = [0, *cuts, chain.sections]
    if sorted(set(ends)) != ends:
        raise InvalidPlan(
            f"configuration {name!r}: cuts at {', '.join(map(str, cuts))}; expected growing numbers "
            f"from 1 to {chain.sections - 1}"
        )
    sides = [(int(grid[1]), int(grid[2])) for grid in grids if grid]
    return configuration(chain, cuts, sides)


def cuts_of(chain: TopologicalOrder) -> tuple[int, ...]:
    """Return the cuts of Algorithm 3 in its order, the end of what is tiled first: no cut."""
    end = tiled_sections(chain)
    strided = [
        upto
        for upto in range(1, end)
        if any(max(layer.operator.stride) > 1 for layer in chain.between(upto - 1, upto))
    ]
    return (end, *reversed(strided[-CUTS:]))


def paper_search(
    chain: TopologicalOrder,
    memory: int,
    predictor: Predictor = Predictor.PRINTED,
    bias: int | None = None,
) -> Configuration:
    """Return the choice of Algorithm 3 strictly below a memory limit in bytes.

    Cuts are the outer loop, the latest first; tiles above the cut the inner one, few first; with a
    cut behind the last pooling or none, at most 2x2. Where nothing is below the limit, the choice
    looked at last. The printed "LG2 <- 4" is read as 2x2, as everywhere else in the paper. More tiles
    than a result has places are left out. bias: bytes instead of the predictor's.
    """
    cuts = cuts_of(chain)
    late = cuts[1] if len(cuts) > 1 else cuts[0]
    for cut in cuts:
        for top in range(1, MOST_TILES + 1):
            if (cut >= late and top > FEW_TILES) or top > _most_tiles(chain, cut):
                continue
            configuration = paper_configuration(chain, top, None if cut == cuts[0] else cut)
            if predicted(chain, configuration, predictor, bias) < memory:
                return configuration
    return configuration
