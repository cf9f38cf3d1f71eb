"""Small convolutions and loop nests, at random."""

from itertools import permutations, product
from math import prod

from csdf.errors import InvalidNetwork
from planners.traffic.convolution import ConvolutionLoops, axes_of
from planners.traffic.footprints import input_reads, used_weights
from planners.traffic.nest import (
    AXES,
    MOVES,
    Array,
    Halo,
    LoopNest,
    NestLoop,
    arrays_moved_by,
    lengths,
)

SLIDES = (None, NestLoop.ROWS, NestLoop.COLUMNS, NestLoop.KERNEL_ROWS, NestLoop.KERNEL_COLUMNS)


def published_layer(maps=64, size=56):
    """The layer of the worked example: 3 x 3, as many filters as channels, the map as it was."""
    return ConvolutionLoops(
        name="published",
        filters=maps,
        channels=maps,
        input_rows=size,
        input_columns=size,
        kernel_rows=3,
        kernel_columns=3,
        padding=(1, 1, 1, 1),
    )


def random_convolution(random, *, largest=7):
    """Any stride, dilation, padding and number of groups; also where most is padding."""
    while True:
        groups = random.choice([1, 1, 2, 3])
        try:
            return ConvolutionLoops(
                name="random",
                filters=groups * random.randint(1, 3),
                channels=groups * random.randint(1, 3),
                groups=groups,
                input_rows=random.randint(1, largest),
                input_columns=random.randint(1, largest),
                kernel_rows=random.randint(1, 4),
                kernel_columns=random.randint(1, 4),
                stride=(random.randint(1, 3), random.randint(1, 3)),
                dilation=(random.randint(1, 3), random.randint(1, 3)),
                padding=tuple(random.randint(0, 3) for _ in range(4)),
            )
        except InvalidNetwork:
            continue


def nest_of(order, pairs, slides=None):
    """A nest with these tiles of each loop, in the outer and in the inner array that it moves."""
    tiles = [[1] * len(NestLoop) for _ in Array]
    for loop, pair in zip(NestLoop, pairs, strict=True):
        for array, size in zip(arrays_moved_by(order, loop), pair, strict=True):
            tiles[array][loop] = size
    return LoopNest(order=order, tiles=tuple(map(tuple, tiles)), slides=slides)


def random_nest(random, convolution, halo=Halo.CACHED):
    """Any order, tiles and sliding loop."""
    order = random.choice(list(permutations(Array)))
    pairs = []
    for length in lengths(convolution):
        outer = random.randint(1, length)
        pairs.append((outer, random.randint(1, outer)))
    return nest_of(order, pairs, random.choice(SLIDES) if halo is Halo.CACHED else None)


def with_one_level(convolution, halo):
    """Every order of the loops, every tile of one level, and every depth of each array.

    As walks and counts have it: what a nest moves and holds, by loops that are longer than one.
    """
    sizes = lengths(convolution)
    loops = [loop for loop in NestLoop if sizes[loop] > 1]
    for tiles in product(*(range(1, size + 1) for size in sizes)):
        for order in permutations(loops):
            for levels in product(range(len(loops) + 1), repeat=3):
                yield _counted(convolution, halo, order, tiles, levels)


def _counted(convolution, halo, order, tiles, levels):
    """Elements moved and held by array, of loops in an order with each array held at its level."""
    sizes, moved, held = lengths(convolution), [], []
    for array in Array:
        around = [loop for loop in order[: levels[array]] if tiles[loop] < sizes[loop]]
        while around and around[-1] not in MOVES[array]:
            around.pop()
        extents = [tiles[loop] if loop in around else sizes[loop] for loop in NestLoop]
        rounds = prod(-(-sizes[loop] // tiles[loop]) for loop in around if loop not in MOVES[array])
        if array is Array.INPUT:
            slides = around[-1] if around and halo is Halo.CACHED else None
            once, tile = convolution.channels, extents[NestLoop.CHANNELS]
            for axis, pair in zip(axes_of(convolution), AXES, strict=True):
                largest, moved_by = input_reads(
                    axis, *((sizes[loop], extents[loop]) for loop in pair)
                )
                once *= moved_by[1 + pair.index(slides) if slides in pair else 0]
                tile *= largest
            moved.append(once * rounds)
            held.append(tile)
            continue
        held.append(prod(extents[loop] for loop in MOVES[array]))
        once = prod(sizes[loop] for loop in MOVES[array])
        if array is Array.WEIGHTS:
            moved.append(used_weights(convolution) * rounds)
        else:
            moved.append(once * (2 * rounds - 1))
    return tuple(moved), tuple(held)
