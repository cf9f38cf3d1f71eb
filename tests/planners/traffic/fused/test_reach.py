"""Places along an axis, against lists of numbers."""

from hypothesis import given, settings
from hypothesis import strategies as st

from cnn2csdf.geometry import ReceptiveField, position_set
from planners.traffic.fused.group import shares
from tests.planners.traffic.fused.groups import reaches


@given(st.integers(1, 12).flatmap(reaches), st.integers(0, 2**12 - 1))
@settings(max_examples=120, deadline=None)
def test_the_inputs_of_outputs_are_those_in_their_windows(reach, mask):
    outputs = [one for one in range(reach.outputs) if mask >> one & 1]
    seen = {
        output * reach.stride - reach.padding + step * reach.dilation
        for output in outputs
        for step in range(reach.kernel)
    }
    expected = sum(1 << place for place in seen if 0 <= place < reach.inputs)
    assert reach.needed(sum(1 << one for one in outputs)) == expected


def test_a_stride_above_the_kernel_leaves_gaps():
    reach = ReceptiveField(inputs=7, outputs=4, stride=2)
    assert reach.needed(position_set(0, 4)) == 0b1010101


def test_kernel_positions_over_padding_only_are_not_live():
    # 3 places on an input of one, padded by one on both sides: only the middle one sees it.
    assert ReceptiveField(inputs=1, outputs=1, kernel=3, padding=1).live_kernel(1) == 0b010


@given(st.integers(1, 40), st.data())
def test_shares_are_even_and_cover_the_axis(length, data):
    parts = data.draw(st.integers(1, length))
    found = shares(length, parts)
    sizes = [one.bit_count() for one in found]
    assert sum(found) == position_set(0, length)
    assert sum(sizes) == length
    assert max(sizes) - min(sizes) <= 1
