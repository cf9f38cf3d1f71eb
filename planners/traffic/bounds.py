"""Lower bounds of the traffic of a convolution, whatever the loops of its schedule are."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import isqrt

from planners.traffic.answers import LowerBound
from planners.traffic.convolution import ArrayBytes, Convolution, array_bytes, group_of
from planners.traffic.footprints import Axis, axes_of, used_weights

COMPULSORY = "compulsory"
COMMUNICATION = "communication"
SCALE = 1024  # of square roots, so that little is lost where they are rounded


def lower_bounds(
    convolution: Convolution, *, buffer_bytes: int, element_bytes: int | ArrayBytes
) -> tuple[LowerBound, ...]:
    """Return the lower bounds on the bytes moved between a buffer and the memory outside.

    They hold for all schedules that do each multiplication once, with its three operands in the
    buffer, adding into the output element itself; sums that leave the buffer are written, and read
    to go on. Groups share nothing, so the bounds of one, in all of the buffer, add up.
    Where the arrays have elements of several sizes, the buffer holds no more elements than of the
    smallest size; each element that moves takes that much, and those of the larger arrays the rest,
    at least once each.
    """
    group, sizes = group_of(convolution), array_bytes(element_bytes)
    elements, least = array_elements(group), min(sizes)
    compulsory = sum(count * size for count, size in zip(elements, sizes, strict=True))
    rest = compulsory - least * sum(elements)
    return (
        LowerBound(
            name=COMPULSORY,
            bytes=compulsory * convolution.groups,
            source="each element that takes part moves once",
        ),
        LowerBound(
            name=COMMUNICATION,
            bytes=(communication_elements(group, buffer_bytes // least) * least + rest)
            * convolution.groups,
            source="segments and the Loomis-Whitney inequality, after Smith et al. 2019 and "
            "Chen et al. 2020",
        ),
    )


def array_elements(group: Convolution) -> tuple[int, int, int]:
    """Return the elements of input and weights that some multiplication reads, and of the output."""
    rows, columns = axes_of(group)
    inputs = group.channels * rows.all_touched * columns.all_touched
    return inputs, used_weights(group), group.output_elements


def communication_elements(group: Convolution, room: int) -> int:
    """Return a lower bound on the elements one group moves through a buffer of `room` elements.

    1. Count reads, and for each output a free read of a zero when its sum begins. Cut a schedule
       into segments of T such reads; the last has t < T.
    2. A segment uses what the buffer held before it, at most `room` elements, nothing before the
       first, and what it reads: i inputs, w weights and o outputs with i + w + o <= room + T.
    3. Input rows that differ modulo the stride are read by different kernel rows, and so for
       columns: inputs and weights fall into classes, and so do multiplications. In class k an input
       element stands at most at r_k places of the unfolded input. An output and a weight, an output
       and an unfolded place, or a weight and such a place fix the multiplication; by the inequality
       of Loomis and Whitney, i_k inputs and w_k weights of the class and o outputs allow
       m_k <= sqrt(r_k i_k w_k o) multiplications. By that of Cauchy and Schwarz the sum over the
       classes of m_k / sqrt(r_k), their weight, is at most sqrt(i w o).
    4. So the weight of all multiplications bounds the segments, and with them the reads. Reads
       without the free ones, plus writes, are no fewer: every output is written.
    This holds for each T; several are tried. T = 2 room gives about 2 m / sqrt(r room) where there is
    one class; for a matrix product r is 1, and no larger constant than 2 holds.
    Source: Irony, Toledo, Tiskin, J. Parallel Distrib. Comput. 64(9), 2004 (segments); Smith et al.,
    A Tight I/O Lower Bound for Matrix Multiplication, arXiv 1702.02017 (reads alone, constant 2);
    Demmel, Dinh, Communication-Optimal Convolutional Neural Nets, arXiv 1802.06905, and Chen et al.,
    Communication Lower Bound in Convolution Accelerators, HPCA 2020 (reuse of windows).
    """
    filters = group.filters * group.channels
    weight = sum(
        isqrt((SCALE * filters * down * across) ** 2 // (down_reuse * across_reuse))
        for (down, down_reuse), (across, across_reuse) in product(*map(_classes, axes_of(group)))
    )
    limits = sorted(array_elements(group))
    segments = [sum(limits), *(max(1, room * part // 8) for part in range(1, 49))]
    return max(_reads(weight, limits, room=room, segment=segment) for segment in segments)


def _classes(axis: Axis) -> list[tuple[int, int]]:
    """For each class of places: pairs of output and kernel places, and the most that read one."""
    counts: dict[int, dict[int, int]] = {}
    for output, kernel in product(range(axis.outputs), range(axis.kernel)):
        place = axis.stride * output + axis.dilation * kernel - axis.padding
        if 0 <= place < axis.inputs:
            of_class = counts.setdefault(axis.dilation * kernel % axis.stride, {})
            of_class[place] = of_class.get(place, 0) + 1
    return [(sum(found.values()), max(found.values())) for found in counts.values()]


def _reads(weight: int, limits: Sequence[int], *, room: int, segment: int) -> int:
    """The fewest reads, in segments of so many, that allow for multiplications of that weight."""
    left = weight - _most(segment, limits)
    if left <= 0:
        return _fewest(weight, limits, held=0, segment=segment)
    each = _most(room + segment, limits)
    whole = (left - 1) // each  # segments after the first that are certainly complete
    return segment * (1 + whole) + _fewest(left - whole * each, limits, held=room, segment=segment)


def _fewest(wanted: int, limits: Sequence[int], *, held: int, segment: int) -> int:
    """The fewest reads, up to a segment, that allow for multiplications of that weight."""
    low, high = 0, segment
    while low < high:  # by halves; `bisect` counts up to 2^63 only
        read = (low + high) // 2
        if _most(held + read, limits) < wanted:
            low = read + 1
        else:
            high = read
    return low


def _most(elements: int, limits: Sequence[int]) -> int:
    """The most that the scaled weight of a segment can be, rounded up.

    The product of three numbers with a given sum, each at most its limit (they rise), is largest
    where they are as equal as they can be.
    """
    together, left = 1, elements
    for place, limit in enumerate(limits):
        taken = min(limit, left // (len(limits) - place))
        together *= taken
        left -= taken
    return isqrt(SCALE**2 * together) + 1
