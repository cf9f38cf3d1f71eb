"""Lower bounds on the DRAM traffic of one layer, for every schedule, loop nest or not.

Two bounds: each needed element moves once (compulsory), and the reuse that a buffer of this size allows
limits the multiplications per element read (communication).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import isqrt

from cnn2csdf.geometry import ReceptiveField
from planners.traffic.convolution import (
    ArrayBytes,
    ConvolutionLoops,
    array_bytes,
    axes_of,
    group_of,
)
from planners.traffic.footprints import all_touched, used_weights
from planners.traffic.nest import LowerBound

COMPULSORY = "compulsory"
COMMUNICATION = "communication"
SCALE = 1024  # square roots are scaled before they are rounded: an error below 0.1%


def lower_bounds(
    convolution: ConvolutionLoops, *, buffer_bytes: int, element_bytes: int | ArrayBytes
) -> tuple[LowerBound, ...]:
    """Return lower bounds on the bytes moved between the buffer and DRAM.

    They hold for all schedules that do each multiplication once, with its three operands in the
    buffer, adding into the output element itself; sums that leave the buffer are written, and
    read again later. Groups share no element, so the bounds of one group, with the entire buffer,
    add up. With elements of several sizes, the buffer holds at most as many elements as of the
    smallest size; each element that moves takes the smallest size, and larger elements take the
    rest at least once each.
    """
    group, sizes = group_of(convolution), array_bytes(element_bytes)
    elements, minimum = array_elements(group), min(sizes)
    compulsory = sum(count * size for count, size in zip(elements, sizes, strict=True))
    remainder = compulsory - minimum * sum(elements)
    communication = communication_elements(group, buffer_bytes // minimum) * minimum + remainder
    return (
        LowerBound(name=COMPULSORY, bytes=compulsory * convolution.groups),
        LowerBound(name=COMMUNICATION, bytes=communication * convolution.groups),
    )


def array_elements(group: ConvolutionLoops) -> tuple[int, int, int]:
    """Return the elements of input and weights that any multiplication reads, and of the output."""
    rows, columns = axes_of(group)
    input_elements = group.channels * all_touched(rows) * all_touched(columns)
    return input_elements, used_weights(group), group.output_elements


def communication_elements(group: ConvolutionLoops, room: int) -> int:
    """Return a lower bound on the elements one group moves through a buffer of M = `room` elements.

    1. Reads R: each output counts a free read of zero when its sum begins. The group moves
       R - outputs + writes >= R elements, as each output is written. Cut a schedule into segments of T
       reads; the last segment has t <= T.
    2. A segment uses i inputs, w weights and o outputs, held at its start or read in it:
       i + w + o <= M + T, and i + w + o <= T in the first segment, whose buffer begins empty.
    3. Class k: the input rows and columns of one residue modulo the stride, the weights that read
       them, and their multiplications. An input element has at most r_k positions in the unfolded
       input. Two of an output, a weight and an unfolded position determine a multiplication, so m_k
       multiplications of a segment need i_k inputs and w_k weights of the class with
       m_k <= sqrt(r_k i_k * w_k * o)                                   (Loomis, Whitney).
    4. Weight of multiplications: the sum of m_k / sqrt(r_k) over the classes. In a segment it is
       sum of sqrt(i_k w_k o) <= sqrt(i w o) <= F(i + w + o)            (Cauchy, Schwarz),
       where F(n), `_maximum_weight`, is the maximum of sqrt(i w o) for a sum of n.
    5. A schedule of s > 1 segments has (s - 1) T + t reads, and a weight of at most
       F(T) + (s - 2) F(M + T) + F(M + t). `_reads` is the minimum of these reads for the weight of all
       multiplications.
    This holds for each T; several are tried. T = 2 M gives about 2 m / sqrt(r M) for m multiplications
    of one class; for a matrix product r is 1, and no larger constant than 2 holds.
    Source: Irony, Toledo, Tiskin, J. Parallel Distrib. Comput. 64(9), 2004 (segments); Smith et
    al., A Tight I/O Lower Bound for Matrix Multiplication, arXiv 1702.02017 (reads alone, constant
    2); Demmel, Dinh, Communication-Optimal Convolutional Neural Nets, arXiv 1802.06905, and Chen et
    al., Communication Lower Bound in Convolution Accelerators, HPCA 2020 (reuse of windows).
    """
    filters = group.filters * group.channels
    weight = sum(
        isqrt((SCALE * filters * down * across) ** 2 // (down_reuse * across_reuse))
        for (down, down_reuse), (across, across_reuse) in product(*map(_classes, axes_of(group)))
    )
    limits = sorted(array_elements(group))
    segments = [sum(limits), *(max(1, room * part // 8) for part in range(1, 49))]
    return max(_reads(weight, limits, room=room, segment=segment) for segment in segments)


def _classes(axis: ReceptiveField) -> list[tuple[int, int]]:
    """For each residue class modulo the stride: its pairs of output and kernel, its maximum reuse.

    The reuse of an input position is the number of pairs that read the position.
    """
    reads_by_class: dict[int, dict[int, int]] = {}
    for output, tap in product(range(axis.outputs), range(axis.kernel)):
        position = axis.stride * output + axis.dilation * tap - axis.padding
        if 0 <= position < axis.inputs:
            reads_of_class = reads_by_class.setdefault(axis.dilation * tap % axis.stride, {})
            reads_of_class[position] = reads_of_class.get(position, 0) + 1
    return [(sum(count.values()), max(count.values())) for count in reads_by_class.values()]


def _reads(weight: int, limits: Sequence[int], *, room: int, segment: int) -> int:
    """Minimum reads of a schedule for multiplications of this weight; segment: reads of a segment.

    limits: elements of the three arrays, in ascending order. room: elements of the buffer.
    """
    after_first = weight - _maximum_weight(segment, limits)
    if after_first <= 0:
        return _minimum_reads(weight, limits, held=0, segment=segment)
    weight_per_segment = _maximum_weight(room + segment, limits)
    # The last segment has a weight from 1 to `weight_per_segment`; those between are complete.
    between = (after_first - 1) // weight_per_segment
    last_weight = after_first - between * weight_per_segment
    last_reads = _minimum_reads(last_weight, limits, held=room, segment=segment)
    return segment * (1 + between) + last_reads


def _minimum_reads(weight: int, limits: Sequence[int], *, held: int, segment: int) -> int:
    """Minimum reads, up to one segment, that allow multiplications of this weight.

    held: elements in the buffer before the segment.
    """
    low, high = 0, segment
    # Bisection by hand: `bisect` accepts ranges up to 2^63 only.
    while low < high:
        reads = (low + high) // 2
        if _maximum_weight(held + reads, limits) < weight:
            low = reads + 1
        else:
            high = reads
    return low


def _maximum_weight(elements: int, limits: Sequence[int]) -> int:
    """Upper bound on the scaled weight of a segment that uses this many elements, rounded up.

    The product of three numbers of a given sum, each at most its limit, is largest if they are as
    equal as the limits (in ascending order) allow.
    """
    product_of_counts, remaining = 1, elements
    for index, limit in enumerate(limits):
        count = min(limit, remaining // (len(limits) - index))
        product_of_counts *= count
        remaining -= count
    return isqrt(SCALE**2 * product_of_counts) + 1
