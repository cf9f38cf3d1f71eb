"""Small convolutions and loop nests, at random."""

from itertools import permutations, product

from csdf.errors import InvalidNetwork
from planners.traffic.convolution import Convolution
from planners.traffic.nest import Halo, Loop, LoopNest, lengths


def published_layer(maps=64, size=56):
    """The layer of the worked example: 3 x 3, as many filters as channels, the map as it was."""
    return Convolution(
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
            return Convolution(
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


def random_nest(random, convolution, halo=None):
    """Any order, tiles (also beyond the loop) and levels."""
    order = list(Loop)
    random.shuffle(order)
    return LoopNest(
        order=tuple(order),
        tiles=tuple(random.randint(1, length + 1) for length in lengths(convolution)),
        levels=tuple(random.randint(0, len(Loop)) for _ in range(3)),
        halo=halo or random.choice(list(Halo)),
    )


def all_nests(convolution, halo):
    """Every order of the loops that are longer than one, every tile and every level."""
    sizes = lengths(convolution)
    active = [loop for loop in Loop if sizes[loop] > 1]
    rest = tuple(loop for loop in Loop if loop not in active)
    tiles = list(product(*(range(1, size + 1) for size in sizes)))
    levels = list(product(range(len(active) + 1), repeat=3))
    for order in permutations(active):
        for tile, level in product(tiles, levels):
            yield LoopNest(order=order + rest, tiles=tile, levels=level, halo=halo)
