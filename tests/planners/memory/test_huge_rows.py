"""Rows and bytes beyond 64 bits are counted as small ones are."""

import pytest

from planners.memory.line_buffers import Keeping, kept_rows
from planners.plan.firing import RowNeeds, StageFirings


@pytest.mark.parametrize("rows", [1, 2**40, 2**62, 2**70])
@pytest.mark.parametrize("row_bytes", [1, 2**40, 2**70])
def test_a_line_that_holds_nothing_over_passes_each_batch(rows, row_bytes):
    # The maker fires three times, `rows` at a time; its reader takes each batch at once.
    made = tuple(rows * firings for firings in range(4))
    reading = RowNeeds(tensor="a", upto=made[1:], first=made)
    stages = [
        StageFirings(result="a", readings=(), made=made),
        StageFirings(result="b", readings=(reading,), made=made),
    ]
    keeping = {"a": Keeping.LINE, "b": Keeping.WHOLE}
    kept = kept_rows(stages, {"a": row_bytes, "b": row_bytes}, [5, 0], keeping)
    assert kept == ({"a": 0}, (5 + rows * row_bytes, rows * row_bytes))
