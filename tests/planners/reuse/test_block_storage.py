"""The smallest buffer of one edge, against trying capacities from 0 on."""

from bisect import bisect_left
from itertools import accumulate
from random import Random

from planners.reuse.partition.block_rates import BlockRates, EdgeRates
from planners.reuse.partition.block_storage import block_storage
from planners.reuse.partition.partition_rows import Reading


def drawn(random):
    """Running totals of the rows written, taken and given back; what is taken is there in the end."""
    written = tuple(accumulate(random.randint(1, 3) for _ in range(random.randint(1, 8))))
    phases = random.randint(1, 8)
    consumed = tuple(sorted(random.randint(0, written[-1]) for _ in range(phases)))
    released = tuple(
        accumulate(
            (random.randint(0, one) for one in consumed), lambda before, now: max(before, now)
        )
    )
    return written, consumed, released


def is_live(written, consumed, released, capacity):
    """Whether producer and consumer end their phases; room is claimed when a firing starts."""
    produced = taken = 0
    while produced < len(written) or taken < len(consumed):
        there = written[produced - 1] if produced else 0
        gone = released[taken - 1] if taken else 0
        if taken < len(consumed) and consumed[taken] <= there:
            taken += 1
        elif produced < len(written) and written[produced] - gone <= capacity:
            produced += 1
        else:
            return False
    return True


def test_the_buffer_of_one_edge_is_the_smallest_that_does_not_deadlock():
    random = Random(3)
    for _ in range(300):
        written, consumed, released = drawn(random)
        needed = tuple(bisect_left(written, one) + 1 if one else 0 for one in consumed)
        # The last phase of the consumer takes all, as that of a layer does.
        consumed, needed = (*consumed, written[-1]), (*needed, len(written))
        released = (*released, written[-1])
        edge = EdgeRates(
            producer=0, consumer=1, row_elements=5, needed=needed, reading=Reading(consumed, released)
        )  # fmt: skip
        rates = BlockRates(written=(written, tuple(range(1, len(consumed) + 1))), edges=(edge,))
        found = block_storage(rates)
        least = next(c for c in range(100) if is_live(written, consumed, released, c))
        assert found.capacities == (least,)
        assert found.size == found.lower_bound == 5 * least
