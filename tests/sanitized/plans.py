"""Kernels of plans on random inputs with huge numbers: compiled where they fit, and plain.

Each kind of case is made from a number, and answers by whatever its kernels compute. By hand, with the
kernels of the checkout or with sanitized ones (see build.py):

    python -m tests.sanitized.plans placement 0 1000
"""

import sys
from contextlib import contextmanager
from fractions import Fraction
from itertools import islice, pairwise
from random import Random

import numpy as np

from csdf.kernels import compile as compiler
from csdf.time_limit import stop_of
from planners.arena.blocks import blocks_of
from planners.arena.orders import Greedy, PlacementSearch, standard_orders
from planners.arena.portfolio import Portfolio
from planners.arena.problem import Buffer, Problem
from planners.arena.pushing import PushingSearch
from planners.arena.widening import WideningSearch
from planners.fifo.event_graph import EventGraph
from planners.fifo.timing.cluster import Cluster, EventSequence, Wait, WordPort
from planners.kernels import convolution_layers as layers
from planners.kernels.ranges import Steps
from planners.memory.placement import ExactPlacement
from planners.primitives.library import layers as pooling
from planners.primitives.library.direct import DIRECT
from planners.primitives.library.primitive import ConvolutionSizes, compiled, map_dims
from planners.primitives.profile import CHW
from planners.traffic import one_layer
from planners.traffic.convolution import ArrayBytes, ConvolutionLoops
from planners.traffic.footprints import two_levels
from planners.traffic.nest import Halo
from tests.planners.fifo.designs import chain
from tests.planners.primitives.library.convolutions import input_dims, kernel_dims, output_dims

STEPS = 60  # of each search


def huge(random, bits=70):
    """A number of any magnitude, often just below or above a power of two."""
    size = random.randrange(bits + 1)
    return max(1, random.choice((random.getrandbits(size), (1 << size) + random.randrange(-1, 2))))


def placement(random):
    """Offsets of blocks by all searches, from one plan."""
    blocks = blocks_of(problem(random))
    if not blocks.fixed_offsets_agree:
        return []
    greedy = Greedy(blocks)
    plans = list(greedy.standard_plans())
    plans += islice(greedy.improvements(plans[0], Random(1)), 10)
    found = [plans]
    for part in Portfolio(blocks, min(plans, key=blocks.peak)).parts:
        search_input = part._search_input()
        for order in standard_orders(search_input):
            search = PlacementSearch(search_input, part.lower_bound, order)
            found.append((search.run(STEPS), search.offsets))
        beams = WideningSearch(search_input)
        for _ in range(6):
            outcome = beams.run(STEPS, wanted=part.lower_bound, peak=part.peak)
            found.append((outcome, list(beams.offsets)))
        pushing = PushingSearch(search_input, part.offsets, 1)
        for capacity in range(part.peak - 1, max(part.lower_bound, part.peak - 3) - 1, -1):
            pushing.aim(capacity)
            found.append((pushing.run(STEPS), pushing.offsets))
    return found


def problem(random):
    count = random.randrange(1, 12)
    bits = random.randrange(1, 71)  # of the sizes: some problems are just within 64 bits
    buffers = []
    for number in range(count):
        start = huge(random) if random.randrange(8) == 0 else random.randrange(10)
        alignment = random.choice((1, 1, 1, 2, 3, 64, huge(random, bits)))
        offset = None
        if random.randrange(10) == 0:
            offset = huge(random, bits) // alignment * alignment
        buffers.append(
            Buffer(
                name=str(number), size=huge(random, bits), start=start, alignment=alignment,
                end=start + random.choice((1, 2, 5, huge(random))), offset=offset,
            )
        )  # fmt: skip
    names = [one.name for one in buffers]
    pairs = [tuple(random.sample(names, 2)) for _ in range(count // 4)] if count > 1 else []
    pairs = list({frozenset(pair): pair for pair in pairs}.values())
    half = len(pairs) // 2 if random.randrange(2) else 0
    exceptions = {"conflicts": tuple(pairs[:half]), "may_overlap": tuple(pairs[half:])}
    return Problem(name="huge", buffers=tuple(buffers), **(exceptions if half else {}))


def overlap(random):
    """Offsets of pieces with overlaps of results over what they are made of."""
    bits = random.randrange(1, 68)
    pieces = []
    for number in range(random.randrange(1, 8)):
        begin = random.randrange(5)
        pieces.append(
            Buffer(
                name=str(number), size=huge(random, bits), start=begin,
                end=begin + random.randrange(1, 4), alignment=random.choice((1, 1, 4, 16)),
            )
        )  # fmt: skip
    leads = {
        (one.name, other.name): random.randrange(one.size + 1)
        for one, other in pairwise(pieces)
        if random.randrange(2)
    }
    search = ExactPlacement(pieces, leads)
    total = sum(piece.size + piece.alignment for piece in pieces)
    caps = (total, total // 2, max(piece.size for piece in pieces), huge(random, 80))
    return [search.within(cap, turns=1) for cap in caps]


def nests(random):
    """The least traffic of loop nests with one and two levels of tiles, in bytes of any size."""
    kernel = random.randrange(1, 4), random.randrange(1, 4)
    layer = ConvolutionLoops(
        name="huge", filters=random.randrange(1, 6), channels=random.randrange(1, 6),
        input_rows=kernel[0] + random.randrange(5), input_columns=kernel[1] + random.randrange(5),
        kernel_rows=kernel[0], kernel_columns=kernel[1],
        stride=(random.choice((1, 2, huge(random))), random.choice((1, 2, huge(random)))),
        padding=tuple(random.choice((0, 1)) for _ in range(4)),
    )  # fmt: skip
    bits = random.randrange(1, 70)
    each = ArrayBytes(*(huge(random, bits) for _ in range(3)))
    room = random.choice((sum(each), sum(each) * random.randrange(1, 60), huge(random, 80)))
    room = max(room, sum(each))
    halo = random.choice((Halo.CACHED, Halo.RELOADED))
    found = one_layer.minimum_traffic(layer, buffer_bytes=room, element_bytes=each, halo=halo)
    # Two levels also where one level reaches the lower bound.
    below = found.total_bytes + random.choice((1, huge(random, 8)))
    search = one_layer.NestSearches().of_group(layer, halo, each)
    more = search.better(room, below, two_levels, stop_of(None))
    return [found, list(more)]


def events(random):
    """Times of the events of a chain or a fork of layers, with gaps and delays of any size."""
    bits = random.randrange(1, 63)
    layers = random.randrange(2, 5)
    words = random.randrange(1, 6)
    made = chain(*(layer(random, words, bits) for _ in range(layers)))
    depths = [random.choice((None, 1, 2, words, huge(random))) for _ in made.fifos]
    part = EventGraph(made).restricted(range(layers), depths)
    found = [part.deadlock()]
    if found[0] is not None:
        return found
    for _ in range(3):
        period = Fraction(huge(random, bits + 6), random.choice((1, 1, 3, huge(random, 30))))
        cycle = part.cycle_above(period)
        found.append(cycle)
        if cycle is None:
            found.append([part.max_occupancy(number, period) for number in range(len(made.fifos))])
    found.append({one: table.tolist() for one, table in part.times(period, 2).items()})
    return found


def layer(random, words, bits):
    """A layer that reads and writes so many words, each write after a read."""
    tables = [np.array([random.getrandbits(bits) for _ in range(words)], np.int64) for _ in "gd"]
    is_even = random.randrange(2)
    return Cluster(
        sequences=(
            EventSequence(name="read", events=words, gap=huge(random, bits)),
            EventSequence(name="write", events=words, gaps=None if is_even else tables[0]),
        ),
        waits=(
            Wait(
                waiter=1, source=0, events=np.arange(words, dtype=np.int64),
                delay=huge(random, bits), delays=None if is_even else tables[1],
            ),
            Wait(waiter=0, source=1, events=np.arange(words, dtype=np.int64) - 1 - words),
        ),
        inputs=(WordPort(sequence=0, words=words, bits=8),),
        outputs=(WordPort(sequence=1, words=words, bits=8),),
    )  # fmt: skip


def windows(random):
    """Convolutions whose strides, dilations and borders lead far outside a small map."""
    sizes = convolution(random)
    maps = np.random.default_rng(random.getrandbits(32))
    source, kernel = (
        maps.integers(-4, 5, dims).astype(np.float32)
        for dims in (input_dims(sizes), kernel_dims(sizes))
    )
    found = []
    for one in DIRECT:
        if one.applies(sizes):
            here = source if one.input_layout == CHW else source.transpose(1, 2, 0)
            output = np.zeros(map_dims(output_dims(sizes), one.output_layout), np.float32)
            prepared = one.prepare(sizes, kernel)
            one.run(sizes, np.ascontiguousarray(here), prepared, np.zeros(0, np.float32), output)
            found.append(output.tolist())
    lowered = np.zeros((sizes.channels, *sizes.kernel, sizes.rows, sizes.columns), np.float32)
    compiled(layers.columns, sizes.largest)(source, sizes.steps, 0, lowered)
    rows = np.zeros((sizes.rows, sizes.columns, *sizes.kernel, sizes.channels), np.float32)
    compiled(layers.rows, sizes.largest)(source.transpose(1, 2, 0), sizes.steps, 0, rows)
    output = np.zeros((sizes.channels, sizes.rows, sizes.columns), np.float32)
    known = (
        sizes.kernel,
        sizes.steps,
        layers.MAXIMUM,
        np.float32(-100),
        np.zeros((0, 0), np.float32),
    )
    pooling.pool(CHW, known, (source,), output)
    return [*found, lowered.tolist(), rows.tolist(), output.tolist()]


def convolution(random):
    kernel = random.choice((1, 2, 3)), random.choice((1, 2, 3))
    inputs = random.randrange(1, 6), random.randrange(1, 6)
    stride = huge(random, 62), huge(random, 62)
    dilation = huge(random, 62), huge(random, 62)
    padding = tuple(random.choice((0, 1, huge(random, 66), -1)) for _ in range(2))
    outputs = random.choice((1, 1, 2, 5)), random.choice((1, 1, 2, 5))
    groups = random.choice((1, 1, 2))
    return ConvolutionSizes(
        channels=2 * groups, height=inputs[0], width=inputs[1], filters=4 * groups,
        rows=outputs[0], columns=outputs[1], kernel=kernel,
        steps=Steps(stride, dilation, padding), groups=groups,
    )  # fmt: skip


KINDS = {one.__name__: one for one in (placement, overlap, nests, events, windows)}


@contextmanager
def plain():
    """Kernels as they are written."""
    known = compiler.has_compiled
    compiler.has_compiled = lambda: False
    try:
        yield
    finally:
        compiler.has_compiled = known


def differs(kind, number):
    """Whether a case has another answer where compiled kernels run what they can."""
    found = KINDS[kind](Random(f"{kind} {number}"))
    with plain():
        return found != KINDS[kind](Random(f"{kind} {number}"))


if __name__ == "__main__":
    name, begin, end = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    different = [number for number in range(begin, end) if differs(name, number)]
    print(f"{name}: {end - begin} cases, different: {different}")
