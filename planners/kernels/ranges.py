"""Upper bounds on the numbers in each kernel of plans, so that compiled kernels never overflow.

Each bound is an upper bound on all sums, products and counters of a kernel, computed in Python
integers. Callers choose the compiled kernel only if the bound is at most INT64_SUM_LIMIT of
csdf/kernels/compile.py; otherwise the plain kernel runs on unbounded integers.

| kernel | bound, by its function here |
|---|---|
| placement.overlaps | `overlaps`: it copies sizes |
| placement.lowest_fit, fit_by_time, put_by_time | `lowest_fit` |
| placement_search.search | `placement_search` |
| placement_beam.search | `placement_beam`; hashes of rows wrap around modulo 2^64 |
| placement_ejection.search, put, eject_above_highest | `placement_ejection` |
| placement_corners.search | `placement_corners` |
| loop_nests.minimum_traffic | `loop_nests` |
| event_times.advance, measure_growth, trace | `event_times` |
| stage_times.advance | `stage_times`; sets of FIFOs and processes have 62 bits |
| dominance.undominated | any numbers of 64 bits: it compares them |
| convolution_direct, all; convolution_tiles.forwards_* | `windows` |
| convolution_layers.pool_*, columns, rows | `windows` |
| convolution_layers and convolution_tiles, the others | any arrays that fit into memory |

Placement: an offset is a number of units. The rise of a conflict is at most the size of the lower
block, and its lift at most the size of the other block; the weight of a block in a clique is at most
its size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from csdf.kernels.compile import INT64_SUM_LIMIT
from planners.kernels.placement_ejection import FIXED_PRICE


class Steps(NamedTuple):
    """Distances of windows in a map, each down and across.

    stride: between windows of neighbouring outputs. dilation: between elements of a window. padding: at
    the top and on the left.
    """

    stride: tuple[int, int]
    dilation: tuple[int, int]
    padding: tuple[int, int]


def number_type(largest: int) -> Any:
    """Return the type, as numpy takes it, for arrays whose numbers and sums are at most `largest`.

    64 bits up to INT64_SUM_LIMIT; above, Python's integers, which are slower and have no largest value.
    """
    return "int64" if largest <= INT64_SUM_LIMIT else object


def overlaps(sizes: Sequence[int]) -> int:
    """Return the largest number of `placement.overlaps`; times are numbered."""
    return max(sizes, default=0)


def lowest_fit(sizes: Sequence[int], alignments: Sequence[int], lowest: Sequence[int]) -> int:
    """Return the largest number of `placement.lowest_fit`.

    A block rests on a block that was placed earlier, and so on down to a block at its lowest offset.
    Each block of this stack adds its size and the rounding to an alignment, at most once.
    """
    return sum(sizes) + sum(alignments) + max(lowest, default=0)


def placement_search(
    sizes: Sequence[int], alignments: Sequence[int], lowest: Sequence[int], capacity: int
) -> int:
    """Return the largest number of `placement_search.search`. capacity: the maximum over all searches.

    A placed block is at its lowest offset, or within the capacity. A block raised above it begins a
    size and a rounding higher; the raised offset is compared with the highest offset before it is
    undone. A further size is added for the end of a block, for a block that rests on it, or for a level
    of a clique. The heat is a sum of weights.
    """
    highest = max(capacity + 1, *lowest, 0)
    # A size and a rounding for the raised offset, and a further size on top of it.
    raised = highest + 2 * max(sizes, default=0) + max(alignments, default=0)
    return max(raised, sum(sizes))


def placement_beam(
    sizes: Sequence[int],
    alignments: Sequence[int],
    lowest: Sequence[int],
    capacity: int,
    *,
    losses: int,
) -> int:
    """Return the largest number of `placement_beam.search`.

    losses: upper bound on the waste of a row, times `whole_area`. A block is at its lowest
    offset, within the capacity, or on the base, which is no higher than all sizes. Blocks that are
    raised or stacked on it in a clique add at most all sizes, and are rounded up once.
    """
    total = sum(sizes)
    return max(max(capacity + 1, *lowest, total) + total + max(alignments, default=0), losses)


def placement_ejection(
    sizes: Sequence[int], alignments: Sequence[int], capacity: int, count: int
) -> int:
    """Return the largest number of `placement_ejection.search`. capacity: of the first plan.

    Next to a neighbour within the capacity, a block begins a size and a rounding higher or lower, and
    ends a size above. The sum of all prices is below the price of `count` + 1 fixed blocks: the price
    of a free block rises once in a push, and 2^35 pushes take hours. Random numbers are below 2^61.
    """
    highest = capacity + 2 * max(sizes, default=0) + max(alignments, default=0)
    return max(highest, (count + 1) * FIXED_PRICE)


def placement_corners(sizes: Sequence[int], capacity: int) -> int:
    """Return the largest number of `placement_corners.search`.

    No block is placed above the capacity; columns and blocks are counted up to 2^60 in each try.
    """
    return max(capacity + max(sizes, default=0), 2**60)


def loop_nests(lengths: Sequence[int], element_bytes: Sequence[int], room: int) -> int:
    """Return the largest number of `loop_nests`. lengths: of the six loops.

    Tiles move, and hold, an element of an array at most once for each multiplication of the layer:
    along an axis a tile of the input has at most as many positions as pairs of an output position and a
    kernel position, and a loop has at most as many rounds as its length. The output moves twice. So no
    sum exceeds four times the product of all lengths, in the largest elements.
    """
    most = 4 * max(element_bytes)
    # The multiplications of the layer bound the elements that tiles move and hold.
    for length in lengths:
        most *= max(1, length)
    return max(most + 1, room)


def stage_times(stages: Sequence[int], events: int) -> int:
    """Return the largest number of `stage_times`. stages: of each process; events: with accesses.

    A time is the length of a path through the stages, each at most once, and through waits of at most
    2 cycles, one for each event.
    """
    return sum(stages) + 2 * events + 2 * len(stages) + 2


def event_times(frames: int, period: int, scale: int, longest: int, tokens: int) -> int:
    """Return the largest number of `event_times` in this many frames.

    period: of a frame, in units of 1/`scale` of the gaps and delays. longest: the time of all events of
    a frame in sequence, each with its longest gap or delay. A chain of waits has each event of a frame
    at most once, so a frame ends at most `longest` after its beginning, or after the end of the
    preceding frame. tokens: the largest number of a token, plus the depth of its FIFO.
    """
    return max(frames * (period + scale * longest), tokens)


def windows(
    steps: Steps, kernel: Sequence[int], inputs: Sequence[int], outputs: Sequence[int]
) -> int:
    """Return the largest index that a window has, in the map or outside.

    kernel, inputs, outputs: rows and columns.
    """
    return max(
        outputs[axis] * steps.stride[axis]
        + kernel[axis] * steps.dilation[axis]
        + abs(steps.padding[axis])
        + inputs[axis]
        for axis in range(2)
    )
