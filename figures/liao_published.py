"""Liao et al. as printed: T = T_I + T_W + 2 T_O, the pair's form, and the four nests of the slides.

Run `python -m figures.liao_published`: writes the .md beside it.
"""

from pathlib import Path
from textwrap import indent

from cnn2csdf.geometry import ReceptiveField
from figures.liao_pair import BUFFER, BYTES, MAPS, SIZE
from planners.published.liao import PairTraffic, least_pair_traffic, nests
from planners.traffic.convolution import ConvolutionLoops
from planners.traffic.fused.group import FusedGroup, FusedLayer
from planners.traffic.nest import Halo
from planners.traffic.one_layer import minimum_traffic

KERNEL = 3
SHAPES = ((28, 128), (14, 256), (7, 512))  # other pairs of ResNet-34: places along a side, maps


def map_bytes(columns: int, size: int = SIZE, maps: int = MAPS) -> int:
    """Return the bytes of so many columns of all maps."""
    return columns * size * maps * BYTES


def pair(size: int = SIZE, maps: int = MAPS) -> PairTraffic:
    """Return two layers of 3x3 in the buffer as printed, cut so that they move least."""
    reach = ReceptiveField(inputs=size, outputs=size, kernel=KERNEL, padding=1)
    layer = FusedLayer(channels=maps, filters=maps, rows=reach, columns=reach)
    found = least_pair_traffic(FusedGroup(layers=(layer, layer)), BUFFER // BYTES)
    if found is None:
        raise AssertionError(f"the pair of {size}x{size}x{maps} fits")
    return found


def alone(halo: Halo) -> int:
    """Return one layer by its best nest, the output always moved twice."""
    layer = ConvolutionLoops(
        name="conv",
        filters=MAPS,
        channels=MAPS,
        input_rows=SIZE,
        input_columns=SIZE,
        kernel_rows=KERNEL,
        kernel_columns=KERNEL,
        padding=(1, 1, 1, 1),
    )
    found = minimum_traffic(layer, buffer_bytes=BUFFER, element_bytes=BYTES, halo=halo)
    # T_O is the output once for each round; ours leaves out the read before the first write.
    return found.total_bytes + map_bytes(SIZE)


HEAD = """# Liao et al. with traffic as printed

Made by `python -m figures.liao_published`; the same from a prompt:
`csdf plan traffic "conv:56x56x64,64,3x3,pad=1+conv:64,3x3,pad=1" --buffer 512KiB --nest --accounting
published`. Elements of {bytes} bytes, a buffer of 512 KB (524,288 bytes). Printed:
T = T_I + T_W + 2 T_O for a layer (partial results are read back and written, the first time too),
T1 = T_I + T_W and T2 = T_W + 2 T_O for a pair whose map between stays. Rows and columns that windows
share are read again for each tile. Ours counts an output that is written once as once, and may
keep what windows share. For one layer both find the same nests, because 2 T_O is always one output
more.

| traffic in bytes | printed formula | ours |
|---|---|---|
| the schedule of the slides | {slides:,} | {slides_own:,} |
| of it input | {input:,} | {input:,} |
| weights, twice each | {weights:,} | {weights:,} |
| halo, written and read back | {halo:,} | {halo:,} |
| output | 2 * {output:,} | {output:,} |
| layer by layer, shared rows read again | 2 * {reloaded:,} | 2 * {reloaded_own:,} |
| layer by layer, shared rows kept | 2 * {kept:,} | 2 * {kept_own:,} |
{others}

## The buffer

{held}: the part of the map between (415,744),
one map of the input or of the output, and the weights of 64 filters at one place of one channel (m is
the innermost loop, so 256 bytes, not nine weights). Both are less than 524,288.

## The four nests

Indices are from 1, upper ends exclusive.

{nests}

## One layer: ten loops

Six loops in any order (720), of which filters, channels, rows and columns are each cut into a loop of
tiles and one of points: ten loops, and a level in the nest for each of three buffers. Ours are
`plan traffic --nest`, with one or two levels of tiles; three small cases where the printed ten loops
are better than one level of tiles are tests of tests/planners/traffic/test_nested.py: 69,632 elements
with 73 in the buffer, 2,304 with 21 and 90,112 with 46.

The text of the slides prints no traffic figure; its results are pictures.
"""


def page() -> str:
    """Return the page."""
    slides = pair()
    output = map_bytes(SIZE)
    reloaded, kept = alone(Halo.RELOADED), alone(Halo.CACHED)
    first, second = (elements * BYTES for elements in slides.held)
    return HEAD.format(
        bytes=BYTES,
        slides=slides.total * BYTES,
        slides_own=slides.total * BYTES - output,
        input=slides.input * BYTES,
        weights=slides.weights * BYTES,
        halo=slides.halo * BYTES,
        output=output,
        reloaded=reloaded,
        reloaded_own=reloaded - output,
        kept=kept,
        kept_own=kept - output,
        others="\n".join(other_pair(size, maps) for size, maps in SHAPES),
        held=f"{first:,} bytes are held in nest 1, {second:,} in nest 2",
        nests=indent(nests(slides), "    "),
    )


def other_pair(size: int, maps: int) -> str:
    """Return the line of a pair whose map between fits the buffer."""
    total = pair(size, maps).total * BYTES
    own = total - map_bytes(size, size, maps)
    return f"| the pair of {size}x{size}x{maps}, which fits | {total:,} | {own:,} |"


if __name__ == "__main__":
    Path(__file__).with_suffix(".md").write_text(page())
