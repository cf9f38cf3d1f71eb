"""The bound of bytes that wait in slow memory, beside every schedule of tiny networks."""

from random import Random

import pytest

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from planners.memory.order import topological_order
from planners.memory.slow_bounds import least_waiting_bytes
from planners.memory.stages import StageTable
from tests.planners.traffic.any_schedule import (
    Work,
    least_of_any_schedule,
    least_with_any_buffer,
    work_of,
)


def convolved(builder, source, filters, width):
    window = op.Window(kernel=(1, width), padding=(0, width // 2) * 2)
    return builder.add(op.Convolution(filters=filters, window=window), source)


def tiny(random):
    """A tensor that waits for sums of all columns of it, or of what it was made of; then more."""
    builder = NetworkBuilder("tiny")
    width = random.choice([3, 3, 3, 4])
    kept = source = builder.input((1, 1, width))
    if random.randint(0, 2):
        kept = convolved(builder, kept, 1, random.choice([1, 1, 3]))
    window = op.Window(kernel=(1, width))
    gate = builder.add(op.Convolution(filters=1, window=window), random.choice([kept, source]))
    window = op.Window(kernel=(1, width), padding=(0, width - 1) * 2)
    gate = builder.add(op.Convolution(filters=1, window=window), gate)  # as wide again
    if random.randint(0, 1):
        last = builder.add(op.Elementwise(function="add"), kept, gate)
    else:
        last = convolved(builder, builder.add(op.Concatenation(), kept, gate), 1, 1)
    if random.randint(0, 1):
        last = convolved(builder, last, 1, random.choice([1, 3]))
    builder.output(last)
    return builder.network(), random.randint(2, width - 1)


def without_weights(work):
    """The values without weights, those of a single term as that element: so no more has to move."""
    terms = {value: [one[:1] for one in some] for value, some in work.terms.items()}
    same = {value: some[0][0] for value, some in terms.items() if len(some) == 1}

    def origin(element):
        return origin(same[element]) if element in same and element not in work.results else element

    left = {
        value: [(origin(one),) for (one,) in some]
        for value, some in terms.items()
        if value not in same or value in work.results
    }
    return Work(left, work.results)


def least_beside(network, room):
    """Bytes of any schedule beside inputs and results, each once; None where the search is long."""
    work = without_weights(work_of(network))
    try:
        found = least_of_any_schedule(work, room, most_states=4_000)
    except ValueError:
        return None
    return None if found is None else found - least_with_any_buffer(work)


def bound(network, room):
    table = StageTable(network, element_bytes=1)
    return least_waiting_bytes(topological_order(network), table, room)


@pytest.mark.slow
def test_no_schedule_of_tiny_networks_moves_less_than_the_bound():
    told = 0
    for seed in range(16):
        network, room = tiny(Random(seed))
        found, least = bound(network, room), least_beside(network, room)
        if least is not None:
            assert found <= least, seed
            told += found > 0
    assert told > 5


def test_a_tensor_that_waits_is_written_and_read_or_made_of_the_input_once_more():
    # 9 maps of 64 places wait for a mean of all of them. The input has 9 * 64 bytes, too, and comes a
    # second time, but for what stays; of 4 maps each place is cheaper written and read back.
    for filters, least in ((9, 576), (4, 512)):
        builder = NetworkBuilder("gated")
        source = builder.input((9, 8, 8))
        window = op.Window(kernel=(1, 1))
        kept = builder.add(op.Convolution(filters=filters, window=window), source)
        mean = builder.add(op.GlobalPooling(function="average"), kept)
        wide = builder.add(op.Resize(size=(8, 8), function="nearest"), mean)
        joined = builder.add(op.Concatenation(), kept, wide)
        builder.output(builder.add(op.Convolution(filters=20, window=window), joined))
        network = builder.network()
        assert bound(network, 10) == least - (10 if filters == 9 else 20)
        assert bound(network, 600) == 0
