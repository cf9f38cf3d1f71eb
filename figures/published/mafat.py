"""The numbers that MAFAT prints, and its manual sweep.

Source: Farley and Gerstlauer, MAFAT: Memory-Aware Fusing and Tiling of Neural Networks for
Accelerated Edge Inference, 2021 (arXiv 2107.06960). MB are 2^20 bytes. Its predictor and its search
are in planners.published.mafat.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from types import MappingProxyType
from typing import NamedTuple

from cnn2csdf.network import Layer, Network
from cnn2csdf.parameters import parameter_shapes
from planners.fusion.groups import (
    Configuration,
    FusionPoint,
    SectionRange,
    even_tiles,
    scratch_elements,
    tiled_stage,
)
from planners.memory.answer import GroupMode, ScratchCount
from planners.memory.order import TopologicalOrder
from planners.plan.regions import Needs, TileRanges
from planners.published.mafat import (
    ELEMENT_BYTES,
    MOST_TILES,
    Predictor,
    paper_configuration,
    paper_name,
    paper_search,
    predicted,
    predicted_group,
    tiles_of,
)

PRINTED = Predictor.PRINTED
BIAS = PRINTED.bias  # weights, libraries and everything else, as the paper calibrates it
SWEEP_CUTS = (4, 8, 12)
LIMITS_MB = (256, 192, 128, 96, 80, 64, 48, 32, 16)


class Choice(NamedTuple):
    """A row of table 4.1: best of the manual sweep and Algorithm 3, each with milliseconds."""

    best: str
    best_ms: int
    chosen: str
    chosen_ms: int


TABLE_4_1: Mapping[int, Choice] = MappingProxyType(
    {
        256: Choice("1x1/NoCut", 15065, "1x1/NoCut", 15065),
        192: Choice("1x1/NoCut", 15023, "1x1/NoCut", 15023),
        128: Choice("2x2/12/2x2", 16757, "2x2/NoCut", 16795),
        96: Choice("3x3/4/2x2", 17048, "2x2/12/2x2", 17543),
        80: Choice("3x3/8/2x2", 16968, "3x3/8/2x2", 16968),
        64: Choice("4x4/8/2x2", 17753, "5x5/8/2x2", 18679),
        48: Choice("5x5/8/3x3", 19749, "5x5/8/2x2", 19991),
        32: Choice("5x5/8/2x2", 22215, "5x5/8/2x2", 22215),
        16: Choice("5x5/8/2x2", 31095, "5x5/8/2x2", 31095),
    }
)
DARKNET: Mapping[int, float] = MappingProxyType({64: 1.37, 16: 2.78})  # speed-up by limit in MB
TABLE_2_1 = (  # weights in bytes; input, output, scratch, total as printed, in MB
    (3456, "4.23", "45.13", "38.07", "87.43"),
    (0, "45.13", "11.28", "0", "56.41"),
    (73728, "11.28", "22.56", "101.53", "135.45"),
    (0, "22.56", "5.64", "0", "28.20"),
    (294912, "5.64", "11.28", "50.77", "67.97"),
    (32768, "11.28", "5.64", "11.28", "28.23"),
    (294912, "5.64", "11.28", "50.77", "67.97"),
    (0, "11.28", "2.82", "0", "14.10"),
    (1179648, "2.82", "5.64", "25.38", "34.97"),
    (131072, "5.64", "2.82", "5.64", "14.23"),
    (1179648, "2.82", "5.64", "25.38", "34.97"),
    (0, "5.64", "1.41", "0", "7.05"),
    (4717872, "1.41", "2.82", "12.69", "21.42"),
    (524288, "2.82", "1.41", "2.82", "7.55"),
    (4718592, "1.41", "2.82", "12.69", "21.42"),
    (524288, "2.82", "1.41", "2.82", "7.55"),
)


class LayerRow(NamedTuple):
    """A layer of table 2.1: bytes."""

    number: int
    name: str
    weights: int
    input: int
    output: int
    scratch: int

    @property
    def total(self) -> int:
        """All that the layer needs."""
        return self.weights + self.input + self.output + self.scratch


def layer_table(chain: TopologicalOrder) -> list[LayerRow]:
    """Return what each layer needs when it works as a whole: table 2.1. Biases are not counted."""
    network = chain.network
    return [
        LayerRow(
            number,
            layer.name,
            _kernel(network, layer) * ELEMENT_BYTES,
            sum(shape.elements for shape in network.input_shapes(layer)) * ELEMENT_BYTES,
            layer.shape.elements * ELEMENT_BYTES,
            _scratch(network, layer, layer.shape.height * layer.shape.width) * ELEMENT_BYTES,
        )
        for number, layer in enumerate(chain.between(0, chain.sections))
    ]


def _kernel(network: Network, layer: Layer) -> int:
    shapes = parameter_shapes(layer, network.input_shapes(layer))
    return prod(shapes["kernel"]) if "kernel" in shapes else 0


def _scratch(network: Network, layer: Layer, places: int) -> int:
    return scratch_elements(ScratchCount.IM2COL, network, layer, places)


def work(chain: TopologicalOrder, groups: Configuration) -> int:
    """Return the multiply-accumulates of a configuration, all overlaps computed again."""
    return sum(tiles_of(chain, group).work for group in groups)


def manual_sweep(chain: TopologicalOrder) -> dict[str, Configuration]:
    """Return the configurations of the manual search by name: chapter 4."""
    found = [paper_configuration(chain, top, None) for top in range(1, MOST_TILES + 1)]
    found += [
        paper_configuration(chain, top, cut, bottom)
        for cut in SWEEP_CUTS
        for top in range(1, MOST_TILES + 1)
        for bottom in range(1, 4)
    ]
    return {paper_name(groups): groups for groups in found}


def memory_to_beat(chain: TopologicalOrder, memory: int) -> int:
    """Return a memory limit, or what algorithm 3 predicts for its choice where that is less."""
    return min(memory, predicted(chain, paper_search(chain, memory)))


def predicted_options(
    chain: TopologicalOrder, tilings: Sequence[tuple[int, int]]
) -> Iterator[FusionPoint]:
    """Yield all groups with these grids: memory by algorithm 1 and the bias, cost in work alone.

    For the search of this project on the paper's terms.
    """
    needs = Needs(chain.network)
    for upto in range(1, chain.sections + 1):
        layers = chain.between(0, upto)
        for down, across in tilings:
            tiles = even_tiles(layers[-1], down, across)
            held = TileRanges(chain.network, tiled_stage(layers, tiles), needs)
            memory = spent = 0
            for first in reversed(range(upto)):
                own = chain.between(first, first + 1)
                needed = predicted_group(needs, own, held.rows, held.columns, PRINTED.inputs)
                memory = max(memory, needed)
                spent += sum(map(held.work_of, own))
                mode = GroupMode.WHOLE if (down, across) == (1, 1) else GroupMode.RECOMPUTED
                group = SectionRange(first, upto, mode, tiles)
                yield FusionPoint(BIAS + memory, 0, spent, (group,))
