"""The memory predictor and the search of MAFAT, read literally.

Source: Farley and Gerstlauer, MAFAT: Memory-Aware Fusing and Tiling of Neural Networks for
Accelerated Edge Inference, 2021 (arXiv 2107.06960): table 2.1, algorithms 1, 2 and 3. MB are 2^20
bytes. What the text leaves open, and how it is read here:

- scratch counts the output places of a tile; regions are clipped at the borders of the map; grids
  are even; poolings have no scratch;
- the 66 MB that the paper states for its smallest configuration, 5x5/8/2x2, do not follow from its
  algorithms, which give 42.8 MB. They are not fitted here;
- algorithm 3 is read as: few tiles first, for each number of tiles the latest cut first (none, 12,
  8), 2x2 tiles below the cut, 5x5/8/2x2 where nothing fits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import NamedTuple

from cnn2csdf.network import Layer, Network
from cnn2csdf.parameters import parameter_shapes
from planners.fusion.chains import Chain
from planners.fusion.choices import Cost, Option
from planners.fusion.configurations import Configuration, Group, Way, configuration
from planners.fusion.cost import lengths
from planners.fusion.memory import Scratch, scratch_elements
from planners.fusion.tiles import Bands, TiledGroup, bands, even_grid, tiled_group
from planners.tiling.regions import COLUMNS, ROWS, Needs

MB = 2**20
BIAS = 31 * MB  # weights, libraries and everything else, as the paper calibrates it
ELEMENT_BYTES = 4
MOST_TILES = 5  # along each side, above the cut
BOTTOM = (2, 2)
CUTS = (None, 12, 8)
SWEEP_CUTS = (4, 8, 12)
LIMITS_MB = (256, 192, 128, 96, 80, 64, 48, 32, 16)


class LayerRow(NamedTuple):
    """One layer of table 2.1: bytes."""

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


def layer_table(chain: Chain) -> list[LayerRow]:
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
        for number, layer in enumerate(chain.layers(0, len(chain.sections)))
    ]


def _kernel(network: Network, layer: Layer) -> int:
    shapes = parameter_shapes(layer, network.input_shapes(layer))
    return prod(shapes["kernel"]) if "kernel" in shapes else 0


def _scratch(network: Network, layer: Layer, places: int) -> int:
    return scratch_elements(network, layer, places, Scratch.IM2COL)


def predicted_group(needs: Needs, layers: Sequence[Layer], rows: Bands, columns: Bands) -> int:
    """Return the bytes of a group by algorithm 1: the most that any layer of any tile needs.

    Scratch, the output, and twice the input of the tile.
    """
    most = 0
    for layer in layers:
        inputs = needs.network.input_shapes(layer)
        for heights in lengths(needs, layer, rows[layer.name], ROWS):
            for widths in lengths(needs, layer, columns[layer.name], COLUMNS):
                places = heights[0] * widths[0]
                read = sum(
                    shape.channels * height * width
                    for shape, height, width in zip(inputs, heights[1:], widths[1:], strict=True)
                )
                written = places * layer.shape.channels
                most = max(most, _scratch(needs.network, layer, places) + written + 2 * read)
    return most * ELEMENT_BYTES


def predicted(chain: Chain, groups: Configuration) -> int:
    """Return the bytes of a configuration by algorithm 2: the largest group, and the bias."""
    needs = Needs(chain.network)
    tiled = [_tiles(chain, group) for group in groups]
    return BIAS + max(
        predicted_group(needs, group.layers, group.rows, group.columns) for group in tiled
    )


def work(chain: Chain, groups: Configuration) -> int:
    """Return the multiply-accumulates of a configuration, all overlaps computed again."""
    return sum(_tiles(chain, group).multiply_accumulates for group in groups)


def _tiles(chain: Chain, group: Group) -> TiledGroup:
    return tiled_group(
        chain.network,
        chain.sections[group.first].source,
        chain.layers(group.first, group.upto),
        group.grid,
    )


def paper_configuration(chain: Chain, top: int, cut: int | None, bottom: int = 2) -> Configuration:
    """Return top x top / cut / bottom x bottom, or top x top without a cut, as the paper writes."""
    if cut is None:
        return configuration(chain, (), [(top, top)])
    return configuration(chain, (cut,), [(top, top), (bottom, bottom)])


def paper_name(groups: Configuration) -> str:
    """Return a configuration of at most two groups as the paper writes it: 5x5/8/2x2."""
    cuts = [f"/{group.first}/" if group.first else "" for group in groups]
    text = "".join(f"{cut}{group.grid}" for cut, group in zip(cuts, groups, strict=True))
    return text if len(groups) > 1 else f"{text}/NoCut"


def manual_sweep(chain: Chain) -> dict[str, Configuration]:
    """Return the configurations of the manual search by name: chapter 4."""
    found = [paper_configuration(chain, top, None) for top in range(1, MOST_TILES + 1)]
    found += [
        paper_configuration(chain, top, cut, bottom)
        for cut in SWEEP_CUTS
        for top in range(1, MOST_TILES + 1)
        for bottom in range(1, 4)
    ]
    return {paper_name(groups): groups for groups in found}


def paper_search(chain: Chain, memory: int) -> Configuration:
    """Return what algorithm 3 chooses under a memory limit in bytes."""
    for top in range(1, MOST_TILES + 1):
        for cut in CUTS:
            groups = paper_configuration(chain, top, cut)
            if predicted(chain, groups) <= memory:
                return groups
    return paper_configuration(chain, MOST_TILES, CUTS[-1])


def memory_to_beat(chain: Chain, memory: int) -> int:
    """Return a memory limit, or what algorithm 3 predicts for its choice where that is less."""
    return min(memory, predicted(chain, paper_search(chain, memory)))


def predicted_options(chain: Chain, tilings: Sequence[tuple[int, int]]) -> Iterator[Option]:
    """Yield all groups with these grids: memory by algorithm 1 and the bias, cost in work alone.

    For the search of this project on the paper's terms.
    """
    needs = Needs(chain.network)
    for upto in range(1, len(chain.sections) + 1):
        layers = chain.layers(0, upto)
        for down, across in tilings:
            grid = even_grid(layers[-1], down, across)
            rows = bands(needs, layers, grid.rows, ROWS)
            columns = bands(needs, layers, grid.columns, COLUMNS)
            memory = spent = 0
            for first in reversed(range(upto)):
                own = chain.layers(first, first + 1)
                memory = max(memory, predicted_group(needs, own, rows, columns))
                spent += TiledGroup(
                    network=chain.network,
                    source=chain.sections[first].source,
                    layers=own,
                    grid=grid,
                    keeps=False,
                    rows=rows,
                    columns=columns,
                ).multiply_accumulates
                way = Way.WHOLE if (down, across) == (1, 1) else Way.RECOMPUTE
                group = Group(first=first, upto=upto, way=way, grid=grid)
                yield Option(BIAS + memory, Cost(0, spent), group, BIAS + memory)
