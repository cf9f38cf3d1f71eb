"""Arena problems with a known optimum: rectangles of time and bytes cut into tiles at random.

The tiles of a rectangle fill it, so the live bytes are its height at every time, and the optimum is
the height. A guillotine tiling is cut from edge to edge; a pinwheel tiling also has rectangles in four
around a fifth, which no cut from edge to edge separates. Uniform problems have no known optimum.
"""

from __future__ import annotations

from random import Random

from planners.arena.problem import Buffer, Problem

SMALLEST_PINWHEEL = 4  # units of a side that is cut into a pinwheel


def tiling(count: int, *, length: int, height: int, seed: int, pinwheels: bool = False) -> Problem:
    """Return the tiles of a rectangle of `length` times and `height` bytes, in random order.

    At least `count` tiles, up to three more with pinwheels. The largest tile is cut next, so that tiles
    are of similar areas, along its longer relative side with a probability of two thirds.
    """
    random = Random(seed)
    tiles = [(0, length, 0, height)]
    while len(tiles) < count:
        number = max(
            random.sample(range(len(tiles)), min(len(tiles), 8)), key=lambda n: _area(tiles[n])
        )
        start, end, low, high = tiles[number]
        across, up = end - start, high - low
        if across < 2 and up < 2:
            continue
        tiles[number] = tiles[-1]
        tiles.pop()
        if pinwheels and min(across, up) >= SMALLEST_PINWHEEL and random.randrange(2):
            first, then = sorted(random.sample(range(start + 1, end), 2))
            under, over = sorted(random.sample(range(low + 1, high), 2))
            tiles += [
                (start, then, low, under),
                (then, end, low, over),
                (first, end, over, high),
                (start, first, under, high),
                (first, then, under, over),
            ]
            continue
        is_longer = across * height > up * length
        in_time = up < 2 or (across >= 2 and is_longer == (random.randrange(3) < 2))
        if in_time:
            cut = random.randrange(start + 1, end)
            tiles += [(start, cut, low, high), (cut, end, low, high)]
        else:
            cut = random.randrange(low + 1, high)
            tiles += [(start, end, low, cut), (start, end, cut, high)]
    random.shuffle(tiles)
    buffers = (
        Buffer(name=f"t{number}", size=high - low, start=start, end=end)
        for number, (start, end, low, high) in enumerate(tiles)
    )
    kind = "pinwheels" if pinwheels else "guillotine"
    return Problem(name=f"{kind}_{count}_{seed}", buffers=tuple(buffers))


def _area(tile: tuple[int, int, int, int]) -> int:
    start, end, low, high = tile
    return (end - start) * (high - low)


def uniform(count: int, *, seed: int, lifetime: int = 200) -> Problem:
    """Return buffers with start, lifetime and size drawn uniformly."""
    random = Random(seed)
    buffers = []
    for number in range(count):
        start = random.randrange(count)
        end = start + random.randrange(1, lifetime)
        size = 16 * random.randrange(1, 1024)
        buffers.append(Buffer(name=f"u{number}", size=size, start=start, end=end))
    return Problem(name=f"uniform_{count}_{seed}", buffers=tuple(buffers))
