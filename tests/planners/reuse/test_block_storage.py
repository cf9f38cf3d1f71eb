"""The smallest buffers of blocks: of one edge against trying capacities from 0 on, of blocks alike."""

from bisect import bisect_left
from itertools import accumulate
from random import Random

import pytest

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from planners.reuse import partition
from planners.reuse.application import Application, single_partition
from planners.reuse.evaluation import Evaluator
from planners.reuse.storage import BlockRates, EdgeRates, block_rates, block_storage, held_rows


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
        edge = EdgeRates(0, 1, needed, consumed, released)
        rates = BlockRates(written=(written, tuple(range(1, len(consumed) + 1))), edges=(edge,))
        least = next(c for c in range(100) if is_live(written, consumed, released, c))
        assert block_storage(rates, [5], held_rows(rates)) == (least,)


def residual_blocks(*widths):
    """Blocks of two convolutions beside a shortcut, alike but for their channels."""
    builder = NetworkBuilder("residual blocks")
    layer = builder.input((3, 12, 12))
    for number, width in enumerate(widths):
        layer = builder.add(convolution(width, 1), layer, name=f"begin{number}")
        inner = builder.add(convolution(width, 3), layer, name=f"first{number}")
        inner = builder.add(convolution(width, 3), inner, name=f"second{number}")
        layer = builder.add(op.Elementwise(function="add"), layer, inner, name=f"sum{number}")
    builder.output(layer)
    return builder.network()


def convolution(filters, side):
    window = op.Window(kernel=(side, side), padding=(side // 2,) * 4)
    return op.Convolution(filters=filters, window=window)


def model_of(network):
    application = Application(name="one", members=(single_partition(network),))
    return Evaluator(application).models[0]


def test_what_is_remembered_of_blocks_alike_is_what_each_needs_by_itself():
    model, random = model_of(residual_blocks(4, 9, 2, 4)), Random(1)
    for _ in range(60):
        rows = model.part_rows([random.choice((1, 2, 5, None)) for _ in model.table.layers])
        expected = {}
        for block in model.blocks:
            rates = block_rates(model.table, block, [rows[layer] for layer in block.layers])
            row_elements = [model.table.edges[edge].row_elements for edge in block.edges]
            storage = block_storage(rates, row_elements, held_rows(rates))
            expected |= dict(zip(block.edges, storage, strict=True))
        assert dict(enumerate(model.capacities(rows))) == expected


@pytest.mark.parametrize("widths", [(4, 9), (4, 9, 2, 7)])
def test_blocks_that_differ_in_their_channels_alone_are_worked_out_once(monkeypatch, widths):
    worked_out = []

    def noted(rates):
        worked_out.append(rates)
        return held_rows(rates)

    monkeypatch.setattr(partition, "held_rows", noted)
    model = model_of(residual_blocks(*widths))
    model.capacities(model.part_rows([1] * len(model.table.layers)))
    # A residual block, and the edges from 12 rows to 12 rows: into a 1x1 convolution, and to the end.
    assert len(worked_out) == 2
    assert len(model.blocks) > len(worked_out)
