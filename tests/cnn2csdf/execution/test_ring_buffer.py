import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cnn2csdf.execution.streaming_executor import RingBuffer
from cnn2csdf.network import Shape
from csdf.errors import ExecutionError
from csdf.model.graph import Channel

SHAPE = Shape(dims=(2, 7, 3))  # 6 elements a row


def ring(capacity, shape=SHAPE):
    channel = Channel(
        name="c", producer="a", consumer="b", production=(1,), consumption=(1,), capacity=capacity
    )
    return RingBuffer(channel, shape)


def numbered_rows(first, upto):
    """Rows whose elements are all the row's number."""
    numbers = np.arange(first, upto, dtype=np.float32)
    return np.broadcast_to(numbers[:, None], (2, upto - first, 3))


def filled(buffer, rows):
    buffer.claim(rows)
    buffer.write(numbered_rows(buffer.written, buffer.written + rows))
    return buffer


@pytest.mark.parametrize(("capacity", "rows"), [(6, 1), (17, 2), (18, 3), (19, 3)])
def test_a_capacity_gives_whole_rows(capacity, rows):
    assert ring(capacity).capacity == rows


def test_a_capacity_of_less_than_a_row_is_refused():
    with pytest.raises(ExecutionError, match=r"'c': capacity 5 is less than one row"):
        ring(5)


def test_a_channel_without_capacity_is_refused():
    with pytest.raises(ExecutionError, match=r"'c' has no capacity"):
        ring(None)


def test_space_is_claimed_before_it_is_written():
    with pytest.raises(ExecutionError, match="claimed up to row 0"):
        ring(18).write(numbered_rows(0, 1))


def test_a_claim_beyond_the_capacity_is_refused():
    buffer = filled(ring(18), 2)
    assert not buffer.can_claim(2)
    with pytest.raises(ExecutionError, match=r"space for 6 tokens \(1 row\), 12 tokens"):
        buffer.claim(2)


def test_consumed_rows_occupy_their_space_until_they_are_released():
    buffer = filled(ring(18), 3)
    buffer.consume(2)
    assert not buffer.can_claim(1)
    buffer.release(1)
    assert buffer.can_claim(1)
    assert not buffer.can_claim(2)


def test_rows_that_are_not_written_cannot_be_consumed():
    buffer = filled(ring(18), 1)
    with pytest.raises(ExecutionError, match=r"holds 6 tokens \(1 row\), 12 tokens"):
        buffer.consume(2)


def test_rows_that_are_not_consumed_cannot_be_released():
    buffer = filled(ring(18), 2)
    buffer.consume(1)
    with pytest.raises(ExecutionError, match="up to 2 released"):
        buffer.release(2)


@pytest.mark.parametrize(("first", "upto"), [(0, 2), (1, 5), (4, 5), (3, 2)])
def test_a_read_of_rows_that_are_not_there_is_refused(first, upto):
    buffer = filled(ring(24), 4)
    buffer.consume(2)
    buffer.release(1)
    buffer.claim(1)  # claimed is not yet written
    with pytest.raises(
        ExecutionError, match=f"rows {first} to {upto} read, but it holds rows 1 to 4"
    ):
        buffer.read(first, upto)


def test_a_tensor_that_is_no_map_is_one_row():
    buffer = ring(10, Shape(dims=(5,)))
    for number in range(3):
        buffer.claim(1)
        buffer.write(np.full(5, number, np.float32))
        buffer.consume(1)
        assert buffer.read(number, number + 1).tolist() == [number] * 5
        buffer.release(1)
    assert buffer.peak == 1


steps = st.lists(
    st.tuples(st.sampled_from(["claim", "write", "consume", "release"]), st.integers(1, 3))
)


@given(capacity=st.integers(1, 5), steps=steps)
def test_every_row_between_the_marks_is_what_was_written(capacity, steps):
    buffer = ring(6 * capacity)
    peak = 0
    for step, rows in steps:
        if step == "claim" and buffer.can_claim(rows):
            buffer.claim(rows)
        if step == "write" and buffer.written + rows <= buffer.claimed:
            buffer.write(numbered_rows(buffer.written, buffer.written + rows))
        if step == "consume" and buffer.can_consume(rows):
            buffer.consume(rows)
        if step == "release" and buffer.released + rows <= buffer.consumed:
            buffer.release(rows)
        peak = max(peak, buffer.claimed - buffer.released)
        held = buffer.read(buffer.released, buffer.written)
        assert (held == numbered_rows(buffer.released, buffer.written)).all()
        assert buffer.peak == peak <= buffer.capacity
