"""No schedule moves less than the bounds say: neither loop nests nor any order at all."""

from dataclasses import replace
from heapq import heappop, heappush
from itertools import combinations, product
from random import Random

import pytest

from planners.traffic.convolution import ConvolutionLoops
from planners.traffic.layer_bounds import COMMUNICATION, COMPULSORY, lower_bounds
from planners.traffic.one_layer import minimum_traffic
from tests.planners.traffic.layers import published_layer, random_convolution


def bounds_of(layer, room):
    found = lower_bounds(layer, buffer_bytes=room, element_bytes=1)
    return {bound.name: bound.bytes for bound in found}


@pytest.mark.parametrize("seed", range(10))
def test_no_nest_moves_less_than_a_bound(seed):
    random = Random(seed)
    for _ in range(20):
        layer = random_convolution(random, largest=9)
        answer = minimum_traffic(layer, buffer_bytes=random.randint(3, 100), element_bytes=1)
        assert all(bound.bytes <= answer.total_bytes for bound in answer.bounds), layer


def least_of_any_schedule(layer, room):
    """The least traffic over all orders of multiplications, by search over states of the buffer.

    A state: which multiplications are done, what is in the buffer. Outputs are written when they
    leave; one that was begun is read to go on. Cheapest state first (Dijkstra).
    """
    sizes = (layer.filters, layer.channels, layer.output_rows, layer.output_columns)
    work = []
    for f, c, y, x, u, v in product(*map(range, (*sizes, layer.kernel_rows, layer.kernel_columns))):
        row = y * layer.stride[0] + u * layer.dilation[0] - layer.padding[0]
        column = x * layer.stride[1] + v * layer.dilation[1] - layer.padding[1]
        if 0 <= row < layer.input_rows and 0 <= column < layer.input_columns:
            work.append((("i", c, row, column), ("w", f, c, u, v), ("o", f, y, x)))
    uses = {}  # the multiplications of each element, as bits
    for number, operands in enumerate(work):
        for element in operands:
            uses[element] = uses.get(element, 0) | 1 << number
    heap, count, known = [(0, 0, 0, frozenset())], 0, set()
    while heap:
        moved, _, finished, held = heappop(heap)
        if (finished, held) in known:
            continue
        known.add((finished, held))
        if finished == (1 << len(work)) - 1:
            return moved
        for number, operands in enumerate(work):
            if finished >> number & 1:
                continue
            missing = [element for element in operands if element not in held]
            excess = max(0, len(held) + len(missing) - room)
            begun = [is_output(one) and finished & uses[one] == 0 for one in missing]
            after = finished | 1 << number
            for gone in combinations(sorted(held.difference(operands)), excess):
                kept = held.union(operands).difference(gone)
                # What has no use left goes at once; a sum that is complete has to be written.
                dead = [element for element in kept if uses[element] & ~after == 0]
                written = sum(map(is_output, (*gone, *dead)))
                count += 1
                total = moved + len(missing) - sum(begun) + written
                heappush(heap, (total, count, after, kept.difference(dead)))
    raise AssertionError("no schedule fits")


def is_output(element):
    return element[0] == "o"


@pytest.mark.parametrize("room", [3, 4])
@pytest.mark.parametrize(
    "sizes",
    [
        {"filters": 2, "channels": 2, "input_rows": 1, "input_columns": 2},  # 2 x 2 matrices
        {"filters": 3, "channels": 2, "input_rows": 1, "input_columns": 1},
        {"filters": 1, "channels": 1, "input_rows": 1, "input_columns": 5, "kernel_columns": 2},
        {"filters": 2, "channels": 1, "input_rows": 1, "input_columns": 3, "kernel_columns": 2},
    ],
    ids=str,
)
def test_no_schedule_at_all_moves_less_than_a_bound(sizes, room):
    layer = ConvolutionLoops(name="tiny", **sizes)
    least = least_of_any_schedule(layer, room)
    assert max(bounds_of(layer, room).values()) <= least
    assert least <= minimum_traffic(layer, buffer_bytes=room, element_bytes=1).total_bytes


def test_compulsory_traffic_counts_used_elements_only():
    # A stride of 2 over 5 x 5 with a 1 x 1 kernel: 9 places of each of 4 channels.
    layer = ConvolutionLoops(
        name="projection", filters=3, channels=4, input_rows=5, input_columns=5, stride=(2, 2)
    )
    assert bounds_of(layer, 10)[COMPULSORY] == 4 * 9 + 3 * 4 + 3 * 9


def test_the_bound_of_a_matrix_product_has_the_constant_two():
    # 256 x 256 x 256 with room for 1024: 2 * 256^3 / 32 = 2^20 reads, less at most what segments of
    # 2 * 1024 lose at either end.
    layer = ConvolutionLoops(
        name="product", filters=256, channels=256, input_rows=16, input_columns=16
    )
    found = bounds_of(layer, 1024)[COMMUNICATION]
    assert 2**20 - 2 * 2048 < found <= 2**20 + 2 * 2048


def test_the_bound_of_a_window_divides_by_the_root_of_its_reuse():
    # 3 x 3 with stride 1: an input place serves 9 pairs; 2 * m / sqrt(9 * S), within segments' ends.
    layer, room = published_layer(), 8192
    multiplications = 64 * 64 * 166**2
    exact = 2 * multiplications / (9 * room) ** 0.5
    assert abs(bounds_of(layer, room)[COMMUNICATION] - exact) < 2 * room


def test_the_bound_of_a_stride_weighs_classes_of_rows_on_their_own():
    # Stride 2 over 56 rows, padded by one: kernel rows 0 and 2 read odd rows, 27 + 28 pairs, two at
    # most for a row; kernel row 1 reads even rows, 28 pairs, one for a row.
    layer, room = replace(published_layer(), stride=(2, 2)), 8192
    exact = 2 * 64 * 64 * (55 / 2**0.5 + 28) ** 2 / room**0.5
    assert abs(bounds_of(layer, room)[COMMUNICATION] - exact) < 2 * room


def test_a_larger_buffer_never_raises_a_bound():
    layer = published_layer()
    found = [bounds_of(layer, 2**power)[COMMUNICATION] for power in range(4, 20)]
    assert found == sorted(found, reverse=True)
