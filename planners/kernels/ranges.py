"""The range of inputs of each kernel of plans: within it the compiled form computes nothing too large.

Every bound is made in Python integers from all that a kernel adds, multiplies and counts. Callers
choose the compiled form only where it is at most INT64_SUM_LIMIT of csdf/kernels/compile.py; beyond,
the plain form runs on unbounded integers.

| kernel | what has to be at most INT64_SUM_LIMIT |
|---|---|
| placement.overlaps | `overlaps`: it copies sizes |
| placement.lowest_fit, fit_by_time, put_by_time | `lowest_fit` |
| placement_search.search | `placement_search` |
| placement_beam.search | `placement_beam`; sums that tell rows apart are made modulo 2^64 |
| placement_ejection.search, put, eject_above_highest | `placement_ejection` |
| placement_corners.search | `placement_corners` |
| loop_nests.minimum_traffic | `loop_nests` |
| event_times.advance, growth, trace | `event_times` |
| stage_times.advance | `stage_times`; sets of places and processes have 62 bits |
| dominance.undominated | any numbers of 64 bits: it compares them |
| convolution_direct, all; convolution_tiles.forwards_* | `windows` |
| convolution_layers.pool_*, columns, rows | `windows` |
| convolution_layers and convolution_tiles, the others | any arrays that fit into memory |

Placement: an offset is a number of units; of a conflict the rise is at most the size of the lower block
and the lift at most the size of the other; the weight of a block in a clique is at most its size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from csdf.kernels.compile import INT64_SUM_LIMIT
from planners.kernels.placement_ejection import FIXED_PRICE


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

    A block rests on a block that was placed before it, and so on down to one at its lowest offset.
    Every block of this stack adds its size, and what is lost to round up the next, at most once.
    """
    return sum(sizes) + sum(alignments) + max(lowest, default=0)


def placement_search(
    sizes: Sequence[int], alignments: Sequence[int], lowest: Sequence[int], capacity: int
) -> int:
    """Return the largest number of `placement_search.search`. capacity: the largest asked for.

    A block that is placed lies at its lowest offset, or within the capacity: no other is chosen. One
    raised above it begins a size and a rounding higher, which is looked at before it is taken back. On
    that there may be one more size: an end, a place to rest, a level of a clique, which is within the
    capacity before a weight is added. The heat is a sum of weights.
    """
    highest = max(capacity + 1, *lowest, 0)
    # A size and a rounding for the raised offset, and one more size on top of it.
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

    losses: what all cliques can lose, times `whole`. A block lies at its lowest offset, within the
    capacity, or upon the base, which is no higher than all sizes. What is raised or stacked upon it
    in a clique adds at most all sizes, and is rounded up once.
    """
    total = sum(sizes)
    return max(max(capacity + 1, *lowest, total) + total + max(alignments, default=0), losses)


def placement_ejection(
    sizes: Sequence[int], alignments: Sequence[int], capacity: int, count: int
) -> int:
    """Return the largest number of `placement_ejection.search`. capacity: of the first plan.

    Beside a neighbour within the capacity a block begins a size and a rounding higher or lower, and
    ends a size above. The prices of all conflicting blocks are below the price of one fixed block more
    than there are: others are raised once a push, and 2^35 pushes take hours. Random numbers stay
    below 2^61.
    """
    beside = capacity + 2 * max(sizes, default=0) + max(alignments, default=0)
    return max(beside, (count + 1) * FIXED_PRICE)


def placement_corners(sizes: Sequence[int], capacity: int) -> int:
    """Return the largest number of `placement_corners.search`.

    No block is placed above the capacity, and what is looked at is counted up to 2^60 in one try.
    """
    return max(capacity + max(sizes, default=0), 2**60)


def loop_nests(lengths: Sequence[int], element_bytes: Sequence[int], room: int) -> int:
    """Return the largest number of `loop_nests`. lengths: of the six loops.

    Tiles move, and hold, an element of an array at most once for each multiplication of the layer: a
    tile of the input touches no more places along an axis than it has pairs of output places and kernel
    places, and a loop goes round no more often than it is long. The output moves twice. So no sum is
    above four times the product of all lengths, in the largest elements.
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

    period: of a frame, in units of 1/`scale` of the gaps and delays. longest: what all events
    of a frame take in sequence, each the longest gap or delay before it. A chain of waits meets
    each event of a frame at most once, so the frame ends no later than that after its beginning, or
    after the end of the frame before. tokens: the largest number of a token, with the depths of FIFOs
    that it is behind.
    """
    return max(frames * (period + scale * longest), tokens)


def windows(
    steps: Sequence[int], kernel: Sequence[int], inputs: Sequence[int], outputs: Sequence[int]
) -> int:
    """Return the largest index that a window has, in the map or outside.

    steps: stride down and across, dilation down and across, padding at the top and on the left.
    kernel, inputs, outputs: rows and columns.
    """
    across = zip(steps[:2], steps[2:4], steps[4:], kernel, inputs, outputs, strict=True)
    largest = 0
    for stride, dilation, padding, taps, length, output in across:
        largest = max(largest, output * stride + taps * dilation + abs(padding) + length)
    return largest
