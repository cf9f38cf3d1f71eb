"""Windows counted by their taps: the closed form equals the count window by window."""

from collections import Counter
from random import Random

from cnn2csdf.geometry import Axis
from cnn2csdf.operators.kernel_loops import taps_of_windows


def taps_of_each_window(axis, length, outputs, ring):
    counts = Counter()
    for place in range(outputs):
        begin = place * axis.stride - axis.before
        touched = range(begin, begin + axis.extent, axis.dilation)
        inside = [one for one in touched if 0 <= one < length + min(axis.after, 0)]
        bends = bool(ring and inside and inside[0] // ring != inside[-1] // ring)
        counts[len(inside), bends] += 1
    return counts


def test_windows_counted_by_a_formula_are_those_counted_one_by_one():
    random = Random(1)
    for _ in range(4000):
        axis = Axis(
            kernel=random.randint(1, 5),
            stride=random.randint(1, 5),
            dilation=random.randint(1, 4),
            before=random.randint(-3, 7),
            after=random.randint(-3, 7),
        )
        length, outputs = random.randint(1, 29), random.randint(0, 29)
        ring = random.choice((0, 0, random.randint(1, 11)))
        expected = taps_of_each_window(axis, length, outputs, ring)
        assert taps_of_windows(axis, length, outputs, ring) == expected


def test_two_billion_windows_are_counted_at_once():
    # Kernel 3, padding 1: one window at each end has 2 taps. A ring of 2^20 places has 2^11 ends in
    # 2^31 places; the last is the end of the tensor, each other one is met by two windows.
    length = 2**31
    axis = Axis(kernel=3, stride=1, dilation=1, before=1, after=1)
    assert taps_of_windows(axis, length, length, 2**20) == {
        (2, False): 2,
        (3, True): 2 * (2**11 - 1),
        (3, False): length - 2 - 2 * (2**11 - 1),
    }
