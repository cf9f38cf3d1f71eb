"""Two convolutions that share a buffer: the worked example of Liao et al., and better schedules.

56x56x64 -> 64 -> 64 with windows of 3x3, elements of 4 bytes, a buffer of 512 KB (524,288 bytes).
Run `python -m figures.liao_pair`: writes the .md and the pictures beside it.
"""

from pathlib import Path
from typing import NamedTuple

from cnn2csdf.geometry import ReceptiveField
from figures.tile_pictures import TiledMap, tiles_picture
from planners.plan.regions import COLUMNS
from planners.traffic.command.picture import TrafficBar, bars_picture
from planners.traffic.convolution import ConvolutionLoops
from planners.traffic.fused.axis_cuts import axis_cut
from planners.traffic.fused.group import FusedGroup, FusedLayer
from planners.traffic.fused.schedule import CACHED, RECOMPUTED, RELOADED, SPILLED, FusedSchedule
from planners.traffic.fused.search import FusedTraffic, GroupSearch, answer_of
from planners.traffic.one_layer import minimum_traffic

BYTES = 4
BUFFER = 512 * 1024
SIZE, MAPS = 56, 64

HEAD = """# Two layers that share a buffer

Made by `python -m figures.liao_pair`. Two convolutions of 3x3 on 56x56x64 maps, 64 filters each,
elements of {bytes} bytes, a buffer of 512 KB, which is 524,288 bytes here: the worked example in the
slides of Liao et al.

The map between the layers has 56 * 56 * 64 * 4 = 802,816 bytes and does not fit, so it is cut in
two. Cut in X, the second layer makes {second[0]} and {second[1]} columns. Its windows are three
columns wide: the first tile needs columns 0 to 28 of the map between, {first[0]} columns, and the
second columns 27 to 55. Two of those are there already, so the first layer makes {first[1]} more.
{first[0]} * 56 * 64 * 4 = {stays} bytes stay in the buffer. Beside them there is one tile of the
input, a map at a time of at most 30 columns (6,720 bytes), and 64 weights (256 bytes), one for each
filter at one place of one map; this makes 422,720 bytes. (To pass a row of the input by the vectors
of all filters takes less: 2,424 bytes.) Maps and windows are square, so a cut in Y moves and holds
the same.

The two columns of the halo are cached in the buffer, spilled to DRAM, or recomputed. A
tile brings in all weights, but for those that there is room to keep.

| schedule | in the buffer | input | weights | output | halo | total bytes | of the bound |
|---|---|---|---|---|---|---|---|
"""

TAIL = """
The bound is input, weights and output once: {bound} bytes. No schedule moves less, and the last one
moves no more: smaller tiles leave room for the weights of both layers, which then come once, and
halos of input and map between are cached. Five tiles are enough; two are too large for that, for
{stays} bytes and all weights (294,912) are more than the buffer.

![traffic](liao_pair.svg)

![what each tile makes](liao_pair_parts.svg)
"""


class Row(NamedTuple):
    """A schedule: bytes held, and moved by array."""

    name: str
    held: int
    input: int
    weights: int
    output: int
    halo: int

    @property
    def total(self) -> int:
        """Bytes in all."""
        return self.input + self.weights + self.output + self.halo


def pair() -> FusedGroup:
    """Return the two layers."""
    reach = ReceptiveField(inputs=SIZE, outputs=SIZE, kernel=3, padding=1)
    layer = FusedLayer(channels=MAPS, filters=MAPS, rows=reach, columns=reach)
    return FusedGroup(layers=(layer, layer))


def two_tiles(halo: tuple, input_halo: tuple, kept: tuple[int, ...] = ()) -> FusedTraffic:
    """Return the schedule of the slides with what becomes of the halo."""
    return answer_of(
        FusedSchedule(
            group=pair(),
            tiles=(1, 2),
            halo=halo,
            input_halo=input_halo,
            stationary_bytes=kept,
        )
    )


def best() -> FusedTraffic:
    """Return the schedule that moves least."""
    found = GroupSearch(pair()).best(BUFFER // BYTES)
    if found is None:
        raise AssertionError("the pair fits")
    return found


def rows() -> list[Row]:
    """Return the layers one by one, the tiles of the slides, and the best schedule."""
    again = (RELOADED, RELOADED)
    return [
        alone(),
        row("two tiles, halo spilled to DRAM", two_tiles((SPILLED, SPILLED), again)),
        row("two tiles, halo recomputed", two_tiles((RECOMPUTED, RECOMPUTED), again)),
        row("two tiles, halo cached", two_tiles((CACHED, CACHED), again)),
        row(
            "two tiles, halo of the input cached too",
            two_tiles((CACHED, CACHED), (CACHED, CACHED)),
        ),
        row("best: {0[0]}x{0[1]} tiles, weights stationary".format(best().schedule.tiles), best()),
    ]


def row(name: str, found: FusedTraffic) -> Row:
    """Return a fused schedule in bytes."""
    moved = found.moved
    halo = moved.halo_written + moved.halo_read
    sizes = (found.held, moved.input, moved.weights, moved.output, halo)
    return Row(name, *(size * BYTES for size in sizes))


def alone() -> Row:
    """Return both layers, each with its best loop nest."""
    layer = ConvolutionLoops(
        name="conv",
        filters=MAPS,
        channels=MAPS,
        input_rows=SIZE,
        input_columns=SIZE,
        kernel_rows=3,
        kernel_columns=3,
        padding=(1, 1, 1, 1),
    )
    found = minimum_traffic(layer, buffer_bytes=BUFFER, element_bytes=BYTES)
    sizes = (found.input_bytes, found.weight_bytes, found.output_bytes)
    return Row("layer by layer", found.held_bytes, *(2 * size for size in sizes), 0)


def page() -> str:
    """Return the page."""
    cut = axis_cut(pair(), COLUMNS, 2, makes_once=True, reads_once=False)
    first, second = ([one.bit_count() for one in cut.computed[number]] for number in (1, 2))
    stays = f"{first[0] * SIZE * MAPS * BYTES:,}"
    bound = GroupSearch(pair()).bound * BYTES
    lines = [
        f"| {one.name} | {one.held:,} | {one.input:,} | {one.weights:,} | {one.output:,} "
        f"| {one.halo:,} | {one.total:,} | {one.total / bound:.3f} |\n"
        for one in rows()
    ]
    head = HEAD.format(bytes=BYTES, first=first, second=second, stays=stays)
    return head + "".join(lines) + TAIL.format(bound=f"{bound:,}", stays=stays)


def pictures() -> dict[str, str]:
    """Return the pictures by what follows the name of the script."""
    bound = GroupSearch(pair()).bound * BYTES
    bars = [
        TrafficBar(one.name, one.input, one.weights, one.output, one.halo, bound) for one in rows()
    ]
    between = [(0, SIZE, 0, 29), (0, SIZE, 27, SIZE)]
    output = [(0, SIZE, 0, 28), (0, SIZE, 28, SIZE)]
    title = "needed by each of two tiles"
    maps = [TiledMap("between", SIZE, SIZE, between), TiledMap("output", SIZE, SIZE, output)]
    return {
        "": str(bars_picture("56x56x64, two layers, buffer of 512 KB", bars, "svg")),
        "_parts": str(tiles_picture(title, maps, "svg")),
    }


if __name__ == "__main__":
    here = Path(__file__)
    here.with_suffix(".md").write_text(page())
    for name, picture in pictures().items():
        here.with_name(f"{here.stem}{name}.svg").write_text(picture)
