"""Liao et al. as printed: T = T_I + T_W + 2 T_O, the pair's form, and the four nests of the slides.

Run `python -m figures.liao_published`: writes the .md beside it.
"""

from pathlib import Path
from typing import NamedTuple

from figures.liao_pair import BUFFER, BYTES, MAPS, SIZE
from planners.traffic.convolution import Convolution
from planners.traffic.nest import Halo
from planners.traffic.one_layer import least_traffic

KERNEL = 3
COLUMNS = ((29, 27), (28, 28))  # made in both parts: of the map between, and of the output
READ = (30, 28)  # columns of the input that the first layer reads in both parts, within the map
SHAPES = ((28, 128), (14, 256), (7, 512))  # other pairs of ResNet-34: places along a side, maps


class Pair(NamedTuple):
    """The bytes that two layers move by the printed form; borders: written, and read back."""

    input: int
    weights: int
    borders: int
    output: int

    @property
    def total(self) -> int:
        """T1 + T2, T1 = T_I + T_W and T2 = T_W + 2 T_O, and what goes out between the parts."""
        return self.input + self.weights + self.borders + 2 * self.output


def kernel_bytes(maps: int) -> int:
    """Return the bytes of the weights of one layer."""
    return maps * maps * KERNEL * KERNEL * BYTES


def map_bytes(columns: int, size: int = SIZE, maps: int = MAPS) -> int:
    """Return the bytes of so many columns of all maps."""
    return columns * size * maps * BYTES


def slides_pair() -> Pair:
    """Return the example: two parts, all weights in each, a border of two columns."""
    border = map_bytes(KERNEL - 1)
    return Pair(map_bytes(sum(READ)), 4 * kernel_bytes(MAPS), 2 * border, map_bytes(SIZE))


def fitting_pair(size: int, maps: int) -> Pair:
    """Return a pair whose map between fits the buffer."""
    whole = map_bytes(size, size, maps)
    return Pair(whole, 2 * kernel_bytes(maps), 0, whole)


def held() -> tuple[int, int]:
    """Return the bytes in the buffer in the first and in the second nest.

    The map between, with one map of the input or of the output, and W: m is innermost, so that the
    weights of 64 filters at one place of one channel are there.
    """
    between = map_bytes(COLUMNS[0][0])
    weights = MAPS * BYTES
    taken, made = READ[0] * SIZE * BYTES, COLUMNS[1][0] * SIZE * BYTES
    return between + taken + weights, between + made + weights


def alone(halo: Halo) -> int:
    """Return one layer by its best nest, the output always moved twice."""
    layer = Convolution(
        name="conv",
        filters=MAPS,
        channels=MAPS,
        input_rows=SIZE,
        input_columns=SIZE,
        kernel_rows=KERNEL,
        kernel_columns=KERNEL,
        padding=(1, 1, 1, 1),
    )
    found = least_traffic(layer, buffer_bytes=BUFFER, element_bytes=BYTES, halo=halo)
    # T_O is the output once for each round; ours leaves out the read before the first write.
    return found.total_bytes + map_bytes(SIZE)


NESTS = """
    nest 1, layer 1, into the buffer          nest 2, layer 2
    for mm = 1, 65, step 64                   for mm = 1, 65, step 1
      for cc = 1, 65, step 1                    for cc = 1, 65, step 64
        for oxx = 1, {a}     # {b} columns          for oxx = 1, {c}     # {d} columns
          for oyy = 1, 57                           for oyy = 1, 57
            [I]                                       [O]
            for fy = 1, 4                             for fy = 1, 4
              for fx = 1, 4                             for fx = 1, 4
                [W]                                       [W]
                for oy, ox, c, m                          for oy, ox, c, m
                  I2 += I1 * W1                             O += I2 * W2

    two columns of I2 go to DRAM              and come back before nest 4

    nest 3, layer 1: oxx = {e}, {f}  # {g} columns    nest 4, layer 2: oxx = {h}, {f}  # {i} columns
"""
HEAD = """# Liao et al. with traffic as printed

Made by `python -m figures.liao_published`. Elements of {bytes} bytes, a buffer of 512 KB (524,288
bytes). Printed: T = T_I + T_W + 2 T_O for a layer (partial results are read back and written, the first
time too), T1 = T_I + T_W and T2 = T_W + 2 T_O for a pair whose map between stays. Rows and columns that
windows share are read again for each tile. Ours counts an output that is written once as once, and may
keep what windows share. For one layer both find the same nests, because 2 T_O is always one output
more.

| traffic in bytes | printed formula | ours |
|---|---|---|
| the schedule of the slides | {slides:,} | 2,281,472 |
| of it input | {input:,} | 831,488 |
| weights, twice each | {weights:,} | 589,824 |
| border, written and read back | {borders:,} | 57,344 |
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
    slides = slides_pair()
    others = "\n".join(
        f"| the pair of {size}x{size}x{maps}, which fits | {fitting_pair(size, maps).total:,} "
        f"| {fitting_pair(size, maps).total - fitting_pair(size, maps).output:,} |"
        for size, maps in SHAPES
    )
    reloaded, kept = alone(Halo.RELOADED), alone(Halo.KEPT)
    first, second = held()
    return HEAD.format(
        bytes=BYTES,
        slides=slides.total,
        input=slides.input,
        weights=slides.weights,
        borders=slides.borders,
        output=slides.output,
        reloaded=reloaded,
        reloaded_own=reloaded - slides.output,
        kept=kept,
        kept_own=kept - slides.output,
        others=others,
        held=f"{first:,} bytes are held in nest 1, {second:,} in nest 2",
        nests=nests(),
    )


def nests() -> str:
    """Return the nests with the columns of the example."""
    (first, rest), (second, last) = COLUMNS
    return NESTS.format(
        a=first + 1,
        b=first,
        c=second + 1,
        d=second,
        e=first + 1,
        f=SIZE + 1,
        g=rest,
        h=second + 1,
        i=last,
    )


if __name__ == "__main__":
    Path(__file__).with_suffix(".md").write_text(page())
