"""Algorithm 8 on its own."""

from hypothesis import given
from hypothesis import strategies as st

from planners.reuse.edge_buffers import largest_load, overlaps, shared_buffers

intervals = st.lists(
    st.tuples(st.integers(0, 12), st.integers(0, 6), st.integers(1, 50)), max_size=12
).map(lambda found: [(start, start + length, size) for start, length, size in found])


def shared(lifetimes):
    first, last, sizes = ([one[place] for one in lifetimes] for place in range(3))
    bits = [1 << number for number in range(len(lifetimes))]
    return shared_buffers(sizes, overlaps(first, last, bits)), sizes


def test_closed_intervals_that_touch_do_not_share():
    found, _ = shared([(0, 1, 10), (1, 2, 10)])
    assert [buffer.edges for buffer in found] == [(0,), (1,)]


def test_an_edge_goes_where_the_buffer_grows_least_and_to_the_first_of_equal_ones():
    # At step 5 all three are free; 20 grows by nothing in the second, and 30 as well in the first.
    found, _ = shared([(0, 1, 30), (0, 1, 40), (5, 6, 20), (5, 6, 35)])
    assert [(buffer.size, buffer.edges) for buffer in found] == [(30, (0, 2)), (40, (1, 3))]


def test_a_buffer_grows_before_a_new_one_is_opened():
    found, _ = shared([(0, 1, 10), (2, 3, 90)])
    assert [(buffer.size, buffer.edges) for buffer in found] == [(90, (0, 1))]


@given(intervals)
def test_two_edges_of_one_buffer_have_no_step_in_common(lifetimes):
    found, _ = shared(lifetimes)
    for buffer in found:
        for step in range(20):
            assert sum(lifetimes[e][0] <= step <= lifetimes[e][1] for e in buffer.edges) <= 1


@given(intervals)
def test_every_edge_is_in_one_buffer_that_is_as_large_as_its_largest_edge(lifetimes):
    found, sizes = shared(lifetimes)
    assert sorted(edge for buffer in found for edge in buffer.edges) == list(range(len(sizes)))
    assert all(buffer.size == max(sizes[edge] for edge in buffer.edges) for buffer in found)


@given(intervals)
def test_shared_buffers_are_never_below_the_largest_load(lifetimes):
    found, sizes = shared(lifetimes)
    load = max(
        (sum(size for start, end, size in lifetimes if start <= step <= end) for step in range(20)),
        default=0,
    )
    assert largest_load(lifetimes) == load
    assert load <= sum(buffer.size for buffer in found) <= sum(sizes)
